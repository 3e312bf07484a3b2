"""A product's own sum in parts, each of which was scaled and rounded to the same infinity with either sign; its parts are of
the groups that are summed after it."""
# case: {"dims": {"K": 48, "B": 13}, "dtype": "bf16", "stages": ["nonfinite"], "chosen": {"hip:gfx1201": ["k=64,b2=64,b=1,d2=16,stages=2,warps=8,split_k=2", "k_out_b2_out=16,stages=1,warps=8"], "triton:sm_90": ["k=16,b2=16,b=1,d2=16,stages=1,warps=4,split_k=2", "k_out_b2_out=16,stages=1,warps=4"], "numba:cpu": ["k=16,b2=16,b=1,d2=16,stages=1,warps=4,split_k=2", "k_out_b2_out=16,stages=1,warps=4"]}}

import portakern as pk


@pk.operator
def op(z: pk.Tensor["K", "B", 32, pk.bf16], w: pk.Tensor["B", "B", 32, pk.bf16], scale: pk.Tensor["B", "B", pk.f32]):
    d = pk.einsum("mgk,ngk->gmn", z, w, dtype=pk.f32)
    return pk.sum(d * pk.transpose(scale)[:, None, :], axis=0)
