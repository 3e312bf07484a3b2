"""SYCL: magnitudes of single numbers in a loop over small triangles: Intel's compiler for CPUs crashed over them."""
# case: {"dims": {"B": 1, "D": 33}, "dtype": "f32", "open": ["B"], "stages": ["small"], "chosen": {"sycl:cpu": ["l=62,s=24,stages=1,warps=1", "i=1,j=2,k=32,stages=1,warps=1"]}}

import portakern as pk


@pk.operator
def op(a: pk.Tensor["B", 2, 2, pk.f32], b: pk.Tensor["B", 2, "D", pk.f32]):
    m = pk.where(pk.iota(a.shape, -1) == pk.iota(a.shape, -2), pk.abs(a) + 1.0, a * 0.2)
    return pk.solve_triangular(m, b, lower=False)
