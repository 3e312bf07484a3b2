"""Sum of two arrays, the second of which may be repeated, with negative results set to zero."""

from typing import Literal

import portakern as pk

SHAPES = {"none": ("M", "N"), "row": ("N",), "column": ("M", 1), "scalar": (1, 1)}


@pk.operator(
    shapes=lambda broadcast: {"b": SHAPES[broadcast]},
    cases={
        "typical": dict(M=1024, N=1024),
        "row": dict(M=512, N=1000, broadcast="row"),
        "column": dict(M=300, N=512, broadcast="column"),
        "unaligned": dict(M=33, N=257, broadcast="scalar"),
        "ragged": dict(M=127, N=1001),
        "tiny": dict(M=3, N=5),
        "one": dict(M=1, N=1),
        "zero": dict(M=0, N=64, broadcast="row"),
        "long": dict(M=2, N=70001),
    },
    torch="torch.relu(a + b)",
)
def add_relu(
    a: pk.Tensor["M", "N"],
    b: pk.Tensor["M", "N"],
    broadcast: Literal["none", "row", "column", "scalar"] = "none",
):
    """max(a + b, 0), where b is as large as a, one row, one column, or one number."""
    return pk.relu(a + b)
