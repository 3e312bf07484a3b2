"""Matrix product with transposed operands and leading batch dims."""

import portakern as pk


def shapes(transpose_a: bool, transpose_b: bool):
    """How the operands lie in memory."""
    return {
        "a": ("*B", "K", "M") if transpose_a else ("*B", "M", "K"),
        "b": ("*B", "N", "K") if transpose_b else ("*B", "K", "N"),
    }


@pk.operator(
    shapes=shapes,
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(M=512, N=512, K=512),
        "batched": dict(B=(2, 3), M=64, N=96, K=128),
        "transposed": dict(M=200, N=136, K=264, transpose_a=True, transpose_b=True),
        "ragged": dict(M=129, N=65, K=77, transpose_b=True),
        "tiny": dict(M=2, N=3, K=4),
        "one": dict(M=1, N=1, K=1),
        "vector": dict(M=1, N=500, K=256),
        "no_sum": dict(M=3, N=4, K=0),
        "zero": dict(M=0, N=16, K=16),
        "long": dict(M=8, N=8, K=20000),
        "unaligned": dict(M=255, N=127, K=63, transpose_a=True),
    },
    torch="(a.mT if transpose_a else a) @ (b.mT if transpose_b else b)",
)
def matmul(
    a: pk.Tensor["*B", "M", "K"],
    b: pk.Tensor["*B", "K", "N"],
    transpose_a: bool = False,
    transpose_b: bool = False,
):
    """The product of matrices, summed in f32."""
    a = pk.swapaxes(a, -1, -2) if transpose_a else a
    b = pk.swapaxes(b, -1, -2) if transpose_b else b
    return a @ b
