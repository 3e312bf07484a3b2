"""Concatenations that grow, as those of a dense block."""

import portakern as pk

T = pk.Tensor


def grown(x, layers, axis=1):
    """``x`` and what each layer makes of all that there is before it: its bias and maximum are its product's prologue."""
    for w, b in layers:
        x = pk.concat([x, pk.maximum(x + b, 0.0) @ w], axis=axis)
        yield x


@pk.operator
def dense(x: T["M", 6], w0: T[6, 4], w1: T[10, 4], w2: T[14, 4], b0: T[6], b1: T[10], b2: T[14]):
    """The last array is the output, and every earlier one lies in it."""
    *_, whole = grown(x, [(w0, b0), (w1, b1), (w2, b2)])
    return whole


@pk.operator
def dense_sums(x: T["M", 6], w0: T[6, 4], w1: T[10, 4], w2: T[14, 4], b0: T[6], b1: T[10], b2: T[14]):
    """The last array lies between kernels."""
    *_, whole = grown(x, [(w0, b0), (w1, b1), (w2, b2)])
    return pk.sum(pk.exp(-whole), axis=1)


@pk.operator
def dense_shown(x: T["M", 6], w0: T[6, 4], w1: T[10, 4], b0: T[6], b1: T[10]):
    """An array and a piece that are outputs too."""
    one, two = grown(x, [(w0, b0), (w1, b1)])
    return two, one, pk.maximum(x + b0, 0.0) @ w0


@pk.operator
def other_axis(x: T["M", 8], w0: T["K", "M"], w1: T["K", "M + K"]):
    """Pieces along the first axis, the newest in front."""
    one = pk.concat([w0 @ pk.tanh(x), x], axis=0)
    two = pk.concat([w1 @ pk.tanh(one), one], axis=0)
    return two * 2.0


CASES = [(dense, {"M": 13}), (dense_sums, {"M": 1}), (dense_sums, {"M": 37}), (dense_shown, {"M": 17}),
         (other_axis, {"M": 7, "K": 5}), (dense, {})]  # fmt: skip
