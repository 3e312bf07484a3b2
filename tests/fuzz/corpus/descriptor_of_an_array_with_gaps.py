"""runtime on triton on an H200: an array with gaps went to the device as one without, and a descriptor of it has 16-byte rows."""
# case: {"dims": {"M": 257, "N": 2, "K": 7}, "dtype": "bf16", "stages": ["nonfinite"], "schedule": 408, "layout": 408}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"], v: pk.Tensor["N", "K"]):
    return pk.silu(pk.matmul(x, w, dtype=pk.f32)) * (x @ v)
