"""Two rows of sums that begin with zeros: SYCL's CPU compiler read the zeros again where products had been added."""
# case: {"dims": {"M": 2, "N": 13, "K": 100}, "dtype": "f32", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"]):
    return (1.0 - x) @ (pk.sigmoid(w))
