"""Sums of neighbouring rows that belong together."""

import portakern as pk


def ascending(segments: int):
    """Parameters and inputs of a case of so many segments."""
    return dict(segments=segments, inputs={"ids": pk.Integers(0, segments, ascending=True)})


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(M=512, D=64, **ascending(64)),
        "ragged": dict(M=37, D=19, **ascending(5)),
        "tiny": dict(M=3, D=2, **ascending(2)),
        "one": dict(M=1, D=1, **ascending(1)),
        "zero": dict(M=0, D=8, **ascending(3)),
        "long": dict(M=3000, D=3, **ascending(7)),
        "unaligned": dict(M=65, D=33, **ascending(13)),
    },
    inputs={"ids": pk.Integers(0, 64, ascending=True)},
    torch="torch.zeros(segments, x.shape[1]).to(x).index_add(0, ids, x)",
)
def segment_sum(x: pk.Tensor["M", "D"], ids: pk.Tensor["M", pk.i64], segments: int = 64):
    """The sum, in f32, of the rows of x of each of ``segments`` segments; ``ids`` says, in ascending order, to which one each
    row belongs.  Zeros for a segment of no row; a row of a segment outside is left out."""
    place = pk.broadcast_to(ids[:, None], x.shape)
    return pk.scatter(pk.zeros((segments, x.shape[1]), x.dtype), place, x, axis=0)
