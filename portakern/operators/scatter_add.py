"""Rows added to the rows of a table that numbers name."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(V=128, D=64, M=256),
        "ragged": dict(V=37, D=19, M=13),
        "tiny": dict(V=3, D=2, M=4),
        "one": dict(V=1, D=1, M=1),
        "zero": dict(V=5, D=8, M=0),
        "long": dict(V=7, D=3, M=3000),
        "unaligned": dict(V=65, D=33, M=17),
        "outside": dict(V=20, D=6, M=41, inputs={"ids": pk.Integers(-5, "V+5")}),
    },
    inputs={"ids": pk.Integers(0, "V")},
    torch="table.index_add(0, ids, rows)",
)
def scatter_add(table: pk.Tensor["V", "D"], ids: pk.Tensor["M", pk.i64], rows: pk.Tensor["M", "D"]):
    """``table`` with each of ``rows`` added to the row that ``ids`` names, in f32 and in the same order in every run.

    A row for a number outside of [0, V), which is an error in PyTorch, is left out.
    """
    return pk.scatter(table, pk.broadcast_to(ids[:, None], rows.shape), rows, axis=0)
