"""gap on cuda:sm_90a: a step that captures views of one array, of which only the last was known inside."""
# case: {"dims": {"M": 15, "N": 127, "K": 15}, "dtype": "f16", "stages": ["sparse", "integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["K", pk.f16]):
    return pk.scan(lambda h_, x_: (h_ * 0.5 + pk.tanh(x_)[..., None] * y, pk.sum((h_ * 0.5 + pk.tanh(x_)[..., None] * y) * y, axis=-1)), pk.zeros((*x[0].shape, y.shape[0]), x.dtype), x[:4])[0]
