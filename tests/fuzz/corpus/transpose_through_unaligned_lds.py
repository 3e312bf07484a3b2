"""HIP: lanes read patches two bytes off a dword out of LDS, which the simulator refused and hardware takes."""
# case: {"dims": {"M": 33, "N": 3, "K": 64, "B": 65}, "dtype": "bf16", "stages": ["nonfinite"], "chosen": {"hip:gfx942": ["m=4,d2=16,kn=1,stages=1,warps=2", "n_b=64,k=64,stages=1,warps=4", "j=64,k=8,stages=1,warps=1"]}}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "2*K"], y: pk.Tensor["N", "B", "K"]):
    c = pk.transpose(pk.min_pool(x, 3), (1, 2, 0))
    return y - 0.1, pk.transpose(pk.flip(c, axis=2), (1, 0, 2))
