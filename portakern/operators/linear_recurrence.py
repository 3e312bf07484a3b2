"""Linear recurrences, as state-space models and gated linear attention have them."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(B=2, T=256, D=256),
        "ragged": dict(B=3, T=37, D=101),
        "tiny": dict(B=2, T=3, D=5),
        "one": dict(B=4, T=1, D=7),
        "zero": dict(B=2, T=0, D=64),
        "long": dict(B=3, T=5001, D=1),
        "unaligned": dict(B=5, T=130, D=1),
        "reverse": dict(B=3, T=130, D=33, reverse=True),
        "row_reverse": dict(B=5, T=300, D=1, reverse=True),
    },
    inputs={"a": pk.Uniform(-1.0, 1.0)},
    dtypes=("f32", "bf16", "f16"),
)
def linear_recurrence(a: pk.Tensor["B", "T", "D"], b: pk.Tensor["B", "T", "D"], reverse: bool = False):
    """h[t] = a[t] * h[t - 1] + b[t] from h = 0, for every batch and channel, in f32; with ``reverse`` from the last t down.

    Two steps, h -> a1 h + b1 and then h -> a2 h + b2, are one such step, so that the steps are scanned (Blelloch 1990, 1.4.1).
    """
    def after(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    steps = pk.cast(a, pk.f32), pk.cast(b, pk.f32)
    return pk.cast(pk.associative_scan(after, steps, axis=1, reverse=reverse)[1], a.dtype)
