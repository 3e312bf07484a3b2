"""compile on cuda:sm_90a: what copies operands at picked coordinates was not included where no coordinate has parts."""
# case: {"dims": {"M": 1, "N": 1, "K": 1, "B": 1}, "dtype": "f32", "open": ["M"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(y: pk.Tensor["M", "N", "K"], w: pk.Tensor["K", "B"], u: pk.Tensor["B", "B"]):
    return pk.scan(lambda h, x: (pk.tanh(x @ w + h @ u), h), pk.zeros((y.shape[1], w.shape[1]), y.dtype), y[:1])[0]
