"""Images resized by linear interpolation along both directions."""

import portakern as pk


def neighbours(size, count: int):
    """Of ``count`` positions spread evenly over ``size`` elements: the elements on both sides and the second one's weight.

    Position o lies at (o + 1/2) * size / count - 1/2, whose whole part and remainder integers say exactly.
    """
    doubled = (2 * pk.arange(count) + 1) * pk.size(size) - count
    first = doubled // (2 * count)
    weight = pk.cast(doubled - first * (2 * count), pk.f32) * (0.5 / count)
    last = pk.size(size) - 1
    return (pk.clip(first, 0, last), pk.clip(first + 1, 0, last)), weight


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=1, C=64, H=10, W=10, height=20, width=20),
        "ragged": dict(N=2, C=3, H=9, W=7, height=13, width=5),
        "tiny": dict(N=1, C=2, H=3, W=2, height=4, width=4),
        "one": dict(N=1, C=1, H=1, W=1, height=2, width=1),
        "zero": dict(N=0, C=3, H=8, W=8),
        "long": dict(N=1, C=700, H=2, W=3, height=3, width=2),
        "unaligned": dict(N=3, C=37, H=5, W=9, height=11, width=7),
    },
    torch="F.interpolate(x, (height, width), mode='bilinear')",
)
def interpolate(x: pk.Tensor["N", "C", "H", "W"], height: int = 16, width: int = 16):
    """Every channel at ``height`` x ``width`` positions, each weighed between its four neighbours, in f32.

    Positions are those of PyTorch's ``align_corners=False``: pixels are areas, and what lies outside is the outermost one.
    """
    rows, down = neighbours(x.shape[2], height)
    columns, right = neighbours(x.shape[3], width)
    lines = [
        [pk.cast(pk.take(pk.take(x, row, axis=2), column, axis=3), pk.f32) for column in columns]
        for row in rows
    ]  # fmt: skip
    top, bottom = (a * (1 - right) + b * right for a, b in lines)
    return pk.cast(top * (1 - down[:, None]) + bottom * down[:, None], x.dtype)
