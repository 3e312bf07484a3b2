"""Maximum and sum of exponentials over two axes that do not merge, of which one is open: a walk of two loops that every thread
does alone was joined after every step of the outer one."""
# case: {"dims": {"M": 5, "N": 6, "K": 33}, "dtype": "f32", "open": ["K"], "schedule": 92}
# case: {"dims": {"M": 5, "N": 6, "K": 33}, "dtype": "bf16", "open": ["K"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K"], y: pk.Tensor["K", "M"]):
    a = x * y.T[:, None, :]
    m = pk.max(a, axis=(0, 2), keepdims=True)
    e = pk.exp(a - m)
    return pk.sum(e, axis=(0, 2)), pk.max(e, axis=(0, 2))
