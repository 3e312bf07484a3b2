"""Rows of a table, one for each number."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(V=8192, D=1024, B=(4, 256)),
        "ragged": dict(V=37, D=1001, B=(3, 5)),
        "tiny": dict(V=3, D=5, B=(2,)),
        "one": dict(V=1, D=7, B=(1, 1)),
        "zero": dict(V=5, D=64, B=(0,)),
        "long": dict(V=11, D=70000, B=(3,)),
        "unaligned": dict(V=130, D=770, B=(33,)),
        "outside": dict(V=20, D=96, B=(41,), inputs={"ids": pk.Integers(-5, "V+5")}),
    },
    inputs={"ids": pk.Integers(0, "V")},
    torch="F.embedding(ids, table)",
)
def embedding(table: pk.Tensor["V", "D"], ids: pk.Tensor["*B", pk.i64]):
    """table[ids]; zeros for a number outside of [0, V), which is an error in PyTorch."""
    return pk.take(table, ids)
