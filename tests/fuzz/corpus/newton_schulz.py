"""A step of Muon: products of an array with itself, of what they give with itself, and of that with the array."""
# case: {"dims": {"M": 33, "N": 70}, "dtype": "f32"}
# case: {"dims": {"M": 64, "N": 64}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    a = x @ x.T
    return 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x
