"""compile on triton:h200: the compiler of Triton 3.6 fails on some products of f64."""
# case: {"dims": {"M": 1, "N": 1}, "dtype": "f16", "stages": ["integers"]}
# case: {"dims": {"M": 33, "N": 20}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["2*M", "M"], y: pk.Tensor["N", "M"]):
    return pk.einsum("mn,kn->mk", x, pk.cast(y, pk.f64))
