"""Running sums of rows."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=512, N=1024),
        "ragged": dict(M=37, N=1001),
        "tiny": dict(M=3, N=5),
        "one": dict(M=4, N=1),
        "zero": dict(M=0, N=128),
        "long": dict(M=2, N=70000),
        "unaligned": dict(M=130, N=257),
        "exclusive": dict(M=33, N=300, exclusive=True),
        "reverse": dict(M=17, N=500, reverse=True),
        "both": dict(M=9, N=130, exclusive=True, reverse=True),
    },
    dtypes=("f32", "bf16", "f16"),
    torch="x.cumsum(-1) if not (exclusive or reverse) else "
    "(x.flip(-1).cumsum(-1).flip(-1) if reverse else x.cumsum(-1)) - (x if exclusive else 0)",
)
def cumsum(x: pk.Tensor["M", "N"], exclusive: bool = False, reverse: bool = False):
    """The sum of each element of a row and those before it, in f32.

    ``exclusive`` leaves the element itself out; ``reverse`` sums it and those after it.
    """
    sums = pk.cumsum(pk.cast(x, pk.f32), axis=-1, reverse=reverse, exclusive=exclusive)
    return pk.cast(sums, x.dtype)
