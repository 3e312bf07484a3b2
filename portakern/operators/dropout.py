"""Elements dropped by chance (Srivastava et al. 2014)."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(M=64, N=256),
        "ragged": dict(M=7, N=101, chance=0.1),
        "tiny": dict(M=3, N=5),
        "one": dict(M=1, N=1),
        "zero": dict(M=0, N=16),
        "long": dict(M=1, N=6000),
        "unaligned": dict(M=33, N=65, chance=0.9),
    },
    inputs={"seed": pk.Integers(-(2**31), 2**31)},
)
def dropout(x: pk.Tensor["M", "N"], seed: pk.Scalar[pk.i32], chance: float = 0.5):
    """x / (1 - chance), with zeros in place of elements, each with ``chance``: the same ones for the same seed on every device.

    PyTorch draws other bits, and has no counterpart that computes the same.
    """
    return pk.dropout(x, seed, chance)
