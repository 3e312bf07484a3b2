"""As with pads of pads; Pallas, whose host puts pieces together, took the inner array for one that no kernel needs."""
# case: {"dims": {"M": 1, "N": 1}, "dtype": "f32", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["2*M", "M", "N"]):
    a = pk.pad(x, [(1, 0), (0, 0), (0, 0)], -2.0)
    return pk.unfold(a, 3, padding=1)
