"""The product of a sparse matrix and a dense one."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=1024, K=1024, N=128, P=16384),
        "ragged": dict(M=37, K=29, N=19, P=211),
        "tiny": dict(M=2, K=3, N=2, P=3),
        "one": dict(M=1, K=1, N=1, P=1),
        "zero": dict(M=3, K=5, N=8, P=0),
        "long": dict(M=3, K=1000, N=5, P=2003),
        "vector": dict(M=101, K=97, N=1, P=1009),
        "unaligned": dict(M=17, K=13, N=67, P=131),
    },
    inputs={"offsets": pk.Offsets("P"), "columns": pk.Integers(0, "K")},
    torch="torch.sparse_csr_tensor(offsets, columns, values, (offsets.shape[0] - 1, b.shape[0])) @ b",
)
def spmm(values: pk.Tensor["P"], columns: pk.Tensor["P", pk.i32], offsets: pk.Tensor["M+1", pk.i32], b: pk.Tensor["K", "N"]):
    """A @ b, summed in f32, of a matrix A [M, K] in compressed rows (CSR): row i of it has values[p] in column columns[p] for p
    from offsets[i] to below offsets[i + 1], and zeros elsewhere."""
    terms = pk.cast(values, pk.f32)[:, None] * pk.cast(pk.take(b, columns, axis=0), pk.f32)
    return pk.cast(pk.segment_sum(terms, offsets), b.dtype)
