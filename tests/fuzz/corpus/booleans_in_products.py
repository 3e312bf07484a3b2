"""crash on triton with Triton 3.6: a tensor descriptor of booleans, which its compiler has no element type for."""
# case: {"dims": {"M": 15}, "dtype": "f32", "stages": ["integers"], "schedule": 65}
# case: {"dims": {"M": 32}, "dtype": "f32", "chosen": {"triton:sm_90": ["i=16,m2=16,m=16,stages=2,warps=4,descriptors=1,pack=n"]}, "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "M"], y: pk.Tensor["M", "M", pk.boolean]):
    return pk.flip(x, axis=1) @ pk.where(y, x, 0.0)
