"""compile on Triton (interpreted): counters of loops that count one by one, which are numbers of Python there."""
# case: {"dims": {"M": 40, "N": 20}, "dtype": "f32", "stages": ["integers"], "chosen": {"triton:sm_90": ["n=32,m=1,stages=1,warps=1"]}}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    k = pk.arange(x.shape[0])
    w = pk.cast(k, pk.f32)
    return pk.sum(x * w[:, None], axis=0), pk.max(pk.where(k[:, None] % 3 == 0, x, -2.0), axis=0), pk.sum(pk.cast(k, pk.i64)[:, None] * pk.cast(x > 0, pk.i64), axis=0), pk.argmin(x, axis=0)
