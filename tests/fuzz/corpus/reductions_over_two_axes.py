"""A sum over two axes that do not merge: in CUDA C++ and HIP every thread walked the inner loop alone and began with what the
outer one had carried, which was then counted once for each thread."""
# case: {"dims": {"M": 40, "N": 16}, "dtype": "f16", "open": ["N"], "stages": ["integers"]}
# case: {"dims": {"M": 40, "N": 16}, "dtype": "f16", "open": ["N"], "stages": ["tiny", "integers"], "schedule": 92}
# case: {"dims": {"M": 7, "N": 4099}, "dtype": "f32", "open": ["N"], "schedule": 92}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M"], y: pk.Tensor["N"]):
    return pk.sum(x[:, None] * y[None, :], axis=None, keepdims=True)
