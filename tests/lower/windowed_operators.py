"""Operators with windows and pieces, and sizes to try them at: ragged, and no channel count that a tile likes."""

import portakern as pk

T = pk.Tensor


@pk.operator
def conv2d(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "O"]):
    return pk.conv(x, w, padding=1)


@pk.operator
def strided_bias_relu(x: T["N", "H", "W", "C"], w: T[3, 2, "C", "O"], b: T["O"]):
    return pk.maximum(pk.conv(x, w, stride=(2, 3), padding=((0, 1), (1, 0))) + b, 0.0)


@pk.operator
def transposed(x: T["N", "H", "W", "C"], w: T[4, 3, "C", "O"], b: T["O"]):
    return pk.tanh(pk.conv(x, w, stride=2, padding=1, transposed=True) + b)


@pk.operator
def depthwise(x: T["N", "H", "W", "C"], w: T[3, 3, 1, "C"]):
    return pk.conv(x, w, padding=1, groups=x.shape[-1])


@pk.operator
def grouped(x: T["N", "H", "W", 6], w: T[3, 3, 3, "O"]):
    return pk.conv(x, w, padding=(1, 0), groups=2)


@pk.operator
def channels_first(x: T["N", "C", "H", "W"], w: T["O", "C", 3, 3]):
    y = pk.conv(pk.permute(x, (0, 2, 3, 1)), pk.permute(w, (2, 3, 1, 0)), padding=1)
    return pk.permute(y, (0, 3, 1, 2))


@pk.operator
def dilated_line(x: T["N", "L", "C"], w: T[5, "C", "O"]):
    return pk.conv(x, w, dilation=2, padding=4)


@pk.operator
def volume(x: T["N", "D", "H", "W", "C"], w: T[2, 3, 3, "C", "O"]):
    return pk.conv(x, w, padding=1, stride=(1, 2, 1))


@pk.operator
def pointwise_of_every_other(x: T["N", "H", "W", "C"], w: T[1, 1, "C", "O"]):
    return pk.conv(x, w, stride=2)


@pk.operator
def residual(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "C"]):
    return pk.maximum(x + pk.conv(pk.maximum(x, 0.0), w, padding=1), 0.0)


@pk.operator
def pooled(x: T["N", "H", "W", "C"]):
    return pk.max_pool(x, 3, 2, 1), pk.avg_pool(x, 2)


@pk.operator
def conv_then_pool(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "O"]):
    return pk.max_pool(pk.maximum(pk.conv(x, w), 0.0), 2)


@pk.operator
def joined(x: T["M", "N"], y: T["M", "K"], b: T["M"]):
    return pk.concat([x, pk.exp(y), x * 2.0], 1) * b[:, None]


@pk.operator
def joined_products(x: T["M", "K"], v: T["K", "N"], w: T["K", "N"]):
    return pk.softmax(pk.concat([x @ v, x @ w], 1))


@pk.operator
def framed(x: T["M", "N"]):
    return pk.pad(x, [(1, 2), (3, 0)], 1.5), pk.sum(pk.pad(x, [(0, 0), (2, 2)]), axis=1)


@pk.operator
def stacked(x: T["M", "N"], y: T["M", "N"]):
    return pk.transpose(pk.stack([x, pk.exp(y)], 1), (1, 0, 2)), pk.concat([pk.concat([x, y]), x])[1:]


@pk.operator
def places_of_largest(x: T["N", "H", "W", "C"]):
    return pk.max_pool(x, 3, 2, 1, indices=True)


@pk.operator
def averages(x: T["N", "H", "W", "C"]):
    return pk.avg_pool(x, 3, 2, 1, ceil=True, count_pads=False), pk.adaptive_max_pool(x, (4, 3))


@pk.operator
def stencil(x: T["M", "N"], w: T[5]):
    return pk.sum(pk.windows(x, 5, 1) * w, axis=-1)


@pk.operator
def mirrored(x: T["M", "N"]):
    return pk.pad(x, [(2, 1), (1, 3)], mode="reflect"), pk.roll(x, (2, -3), (0, 1)) + x


@pk.operator
def updated(x: T["M", "N"], y: T[2, 3]):
    return pk.update(x * 2.0, y, (1, 4)), pk.interleave([x, pk.exp(x)], 1)


@pk.operator
def normed(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "O"], g: T["O"]):
    y = pk.conv(x, w, padding=1)
    centred = y - pk.mean(y, axis=(0, 1, 2), keepdims=True)
    return centred * pk.rsqrt(pk.mean(pk.square(centred), axis=(0, 1, 2), keepdims=True) + 1e-5) * g


@pk.operator
def down_and_up(x: T["N", "H", "W", "C"], w: T[2, 2, "C", "C"], v: T[3, 3, "2*C", "O"]):
    up = pk.conv(pk.max_pool(x, 2), w, stride=2, transposed=True)
    return pk.conv(pk.concat([x, up], -1), v, padding=1)


IMAGE = {"N": 2, "H": 9, "W": 7, "C": 6}
MATRIX = {"M": 5, "N": 19}
CASES = [
    (conv2d, {**IMAGE, "O": 10}),
    (strided_bias_relu, {**IMAGE, "O": 10}),
    (transposed, {**IMAGE, "O": 10}),
    (depthwise, IMAGE),
    (grouped, {"N": 2, "H": 9, "W": 7, "O": 10}),
    (channels_first, {**IMAGE, "O": 10}),
    (dilated_line, {"N": 2, "L": 19, "C": 6, "O": 10}),
    (volume, {"N": 1, "D": 4, "H": 6, "W": 5, "C": 3, "O": 5}),
    (pointwise_of_every_other, {**IMAGE, "O": 10}),
    (residual, IMAGE),
    (pooled, IMAGE),
    (conv_then_pool, {**IMAGE, "O": 10}),
    (joined, {**MATRIX, "K": 7}),
    (joined_products, {**MATRIX, "K": 7}),
    (framed, MATRIX),
    (stacked, MATRIX),
    (places_of_largest, IMAGE),
    (averages, IMAGE),
    (stencil, MATRIX),
    (mirrored, MATRIX),
    (updated, MATRIX),
    (normed, {**IMAGE, "O": 5}),
    (down_and_up, {**IMAGE, "H": 8, "W": 6, "O": 5}),
]
