"""``x % 0.7`` was x - floor(x / 0.7) * 0.7 on OpenCL, SYCL and Triton, wrong for large x."""

import portakern as pk

# case: {"dims": {"M": 3, "N": 37}, "dtype": "f32"}


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    return x % 0.7
