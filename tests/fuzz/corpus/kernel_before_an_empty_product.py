"""Pallas: a kernel whose results only an empty product reads returned them as the operator's, where it had nothing to do."""
# case: {"dims": {"M": 0, "N": 17, "K": 0}, "dtype": "f32", "open": ["M"], "stages": ["small"]}
# case: {"dims": {"M": 5, "N": 17, "K": 0}, "dtype": "f32", "open": ["M"], "stages": ["small"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"], r: pk.Tensor["M", "K"], tau: pk.Scalar[pk.f32]):
    e = pk.exp(x * tau - pk.max(x * tau, axis=1, keepdims=True))
    return r + (e / pk.sum(e, axis=1, keepdims=True)) @ w
