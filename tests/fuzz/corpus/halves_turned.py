"""Triton's interpreter: a comparison of scalars that met one of blocks in a mask had the dtype of what it compares."""
# case: {"dims": {"M": 48, "N": 63}, "dtype": "f32", "open": ["M", "N"], "stages": ["constant"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "2*N"]):
    a = x[..., : x.shape[-1] // 2]
    b = x[..., x.shape[-1] // 2 :]
    return pk.transpose(pk.sigmoid(a) * b, (1, 0))
