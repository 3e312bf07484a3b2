"""compile on OpenCL and SYCL: a loop was put around loops that walk its axis themselves."""
# case: {"dims": {"M": 384, "N": 8, "K": 1}, "dtype": "f32", "open": ["K"], "stages": ["integers", "nonfinite"], "layout": 62}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K"]):
    d = x - pk.mean(x, axis=2, keepdims=True)
    return d, d / (pk.std(x, axis=None, keepdims=True) + 0.1)
