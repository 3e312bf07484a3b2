"""defect on Pallas: the last key of a walk is a scalar of the program and a number, of which one was taken off."""
# case: {"dims": {"D": 17, "E": 65, "F": 64}, "dtype": "f32", "stages": ["integers"], "schedule": 164}
# case: {"dims": {"D": 17, "E": 65, "F": 300}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator(inputs={"lengths": pk.Integers(0, "F")})
def op(q: pk.Tensor["D", "E"], k: pk.Tensor["F", "E"], v: pk.Tensor["F", "E"], lengths: pk.Tensor[pk.i32]):
    s = pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32)
    at = pk.iota(s.shape, -1)
    last = pk.maximum(lengths, 0)
    p = pk.softmax(pk.where((at <= last) & (at >= last - 5), s * 0.125, -float("inf")))
    return pk.cast(p, v.dtype) @ v
