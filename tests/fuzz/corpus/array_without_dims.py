"""An array without dims was given by value, as a run-time number is: on a device the host had to wait for it."""
# case: {"dims": {"M": 3, "N": 5}, "dtype": "f32"}
# case: {"dims": {"M": 3, "N": 5}, "dtype": "bf16", "open": ["M"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], scale: pk.Tensor[()], shift: pk.Scalar[pk.f32]):
    return pk.cast(x * scale + shift, x.dtype), pk.sum(x, axis=None) * scale, scale + scale
