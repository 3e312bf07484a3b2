"""pallas: "failed to legalize operation 'math.powf'": the scalar core raises no number to a power, vectors of one element do."""
# case: {"dims": {"M": 5, "N": 77}, "dtype": "bf16"}
# case: {"dims": {"M": 3, "N": 7}, "dtype": "f32", "open": ["M"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], a: pk.Scalar[pk.f32], b: pk.Scalar[pk.f32]):
    return x * pk.pow(pk.abs(a) + 0.5, b), x / (1.5 - pk.pow(0.9, pk.abs(a))), x + pk.pow(pk.abs(b), 2.5)
