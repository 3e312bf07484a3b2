"""An open dim that is only part of a size: Triton, numba and Pallas read open dims off sizes that are one, and refused it."""
# case: {"dims": {"M": 3, "N": 5}, "dtype": "f32", "open": ["M", "N"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["2*M", "M + 3*N + 1"]):
    return x * x
