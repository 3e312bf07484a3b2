"""wrong value on opencl:cpu: a reduction of a carried value read it when the same loop had overwritten it."""
# case: {"dims": {"T": 3, "N": 13, "M": 7}, "dtype": "f32", "stages": ["small"]}

import portakern as pk


def step(state, xs):
    a, b = state
    x_t, y_t = xs
    return (pk.tanh(a + x_t * pk.mean(b)), pk.tanh(b - y_t * pk.max(a))), pk.sum(a) + pk.sum(b)


@pk.operator
def op(x: pk.Tensor["T", "N"], y: pk.Tensor["T", "M"]):
    begin = pk.zeros(x.shape[1:], x.dtype), pk.zeros(y.shape[1:], y.dtype) + 0.5
    (a, b), shown = pk.scan(step, begin, (x, y))
    return a, b, shown
