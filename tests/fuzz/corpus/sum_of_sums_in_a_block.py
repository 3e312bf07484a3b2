"""ir on opencl:cpu and sycl:cpu: two reductions one after the other in one block, along axes of one element."""
# case: {"dims": {"M": 5, "N": 3, "K": 1, "B": 1, "D": 1}, "dtype": "f32", "stages": ["small", "integers"], "same": true}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N", "K", "B"], k: pk.Tensor["M", "N", "K", "B"], v: pk.Tensor["M", "N", "K", "D"]):
    s = pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32)
    e = pk.exp(s - pk.max(s, axis=-1, keepdims=True))
    total = pk.sum(e, axis=-1, keepdims=True)
    return total, pk.cast(e / total, v.dtype) @ v
