"""Unsigned integers of 32 bits: CUDA C++ began their maxima at 2 ** 31 and their minima below it, C++ had no beginning for them,
C++, CUDA C++ and HIP compared and divided them by signed literals, and OpenCL and SYCL had none."""
# case: {"dims": {"M": 3, "N": 5}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", pk.u32]):
    return pk.max(x, axis=-1), pk.min(x, axis=0), pk.argmax(x, axis=-1), x // 3 + x % 7, pk.sort(pk.maximum(x, 5))
