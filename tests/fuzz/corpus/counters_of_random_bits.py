"""HIP: bits that a shift had brought from a defined dword into one never written were taken for undefined ones (a false alarm)."""
# case: {"dims": {"M": 64}, "dtype": "f32", "chosen": {"hip:gfx1201": ["i=2,m=16,stages=1,warps=1"], "hip:gfx942": ["i=2,m=16,stages=1,warps=1"]}, "stages": ["tiny"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M"]):
    c = pk.broadcast_to(x, (3, x.shape[0]))
    return pk.where(pk.bernoulli(12345, (c.shape[0], c.shape[1]), 0.25), c, 1.0)
