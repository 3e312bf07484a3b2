"""OpenCL and SYCL: the default tiles of a product of doubles with open dims took more local memory than a work-group has."""
# case: {"dims": {"M": 1, "N": 1}, "dtype": "f64", "open": ["M", "N"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", 2], y: pk.Tensor["M", "2*N"]):
    return pk.einsum("mn,mk->nk", x, y)
