"""A correct mixture of experts was called wrong on every language (C++, numba, HIP, CUDA C++): rows put at places that the
largest of products decides had no bound of their own."""
# case: {"dims": {"P": 7, "K": 8, "E": 3, "N": 5}, "dtype": "f32", "stages": ["nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["P", "K"], router: pk.Tensor["K", "E"], w: pk.Tensor["E", "K", "N"]):
    expert = pk.argmax(pk.matmul(x, router, dtype=pk.f32), axis=-1)
    order = pk.argsort(expert, axis=0)
    ends = pk.cumsum(pk.cast(pk.bincount(expert, w.shape[0]), pk.i32), axis=0)
    y = pk.grouped_matmul(pk.take(x, order, axis=0), w, pk.concat([pk.zeros([1], pk.i32), ends], 0))
    return pk.index_put(pk.zeros(y.shape, y.dtype), (order,), y)
