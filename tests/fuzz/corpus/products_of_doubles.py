"""refused by HIP: matrix products of doubles, which AMD's matrix cores have, and lanes where there are none."""
# case: {"dims": {"M": 37, "N": 33, "D": 19}, "dtype": "f64", "stages": ["integers", "nonfinite"]}
# case: {"dims": {"M": 70, "N": 130, "D": 24}, "dtype": "f64", "stages": ["integers"], "schedule": 3}
# case: {"dims": {"M": 37, "N": 33, "D": 19}, "dtype": "f64", "open": ["M", "D"], "stages": ["integers"], "schedule": 11}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "D"], k: pk.Tensor["N", "D"], v: pk.Tensor["N", "D"]):
    p = pk.softmax(pk.matmul(q, k.T) * 0.25)
    return p @ v, q.T @ q
