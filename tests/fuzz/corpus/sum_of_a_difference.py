"""OpenCL and SYCL lost the brackets of x + (y - z): what is small beside y was rounded away."""
# case: {"dims": {"M": 5, "N": 37}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
    big = y * 1e8
    return x + (big - big), x + (big + x), x * 1e-30 * (big * 1e30), x * (big / y), x - (big - big)
