"""every target: the gradient was refused, "the step gives a carry of f32 where it takes f16", "shapes [M, 32*N] and [M, 64*N]"

What an operator's outputs are was asked of it in bf16, which does not go with an input of f16; what is packed was not unpacked.
"""
# case: {"dims": {"M": 5, "N": 3, "K": 7}, "dtype": "f16"}
# case: {"dims": {"M": 5, "N": 3, "K": 7}, "dtype": "f32"}

import portakern as pk


@pk.operator(dtypes=("f16", "f32"))
def op(x: pk.Tensor["M", "N", "K"], z: pk.Tensor["K", pk.f16], u: pk.Tensor["M", "2*K", pk.i4]):
    last, shown = pk.scan(lambda h, x_t: (h * 0.5 + pk.tanh(x_t) * pk.cast(z, x.dtype),) * 2, pk.zeros(x.shape[1:], x.dtype), x)
    return last, shown, pk.sum(x, axis=1) @ pk.cast(u, x.dtype)[:, : z.shape[0]].T


op = pk.grad(op)
