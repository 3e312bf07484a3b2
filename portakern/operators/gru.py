"""A layer of gated recurrent units (Cho et al. 2014), as PyTorch and cuDNN have it: the reset gate scales a product."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(T=128, B=8, I=256, H=256),
        "ragged": dict(T=5, B=3, I=19, H=37),
        "tiny": dict(T=2, B=1, I=2, H=3),
        "one": dict(T=1, B=2, I=5, H=8),
        "zero": dict(T=0, B=2, I=8, H=16),
        "long": dict(T=100, B=1, I=3, H=5),
        "unaligned": dict(T=4, B=7, I=33, H=65),
        "reverse": dict(T=6, B=4, I=16, H=24, reverse=True),
    },
    inputs={
        "w_ih": pk.Normal(scale=0.05), "w_hh": pk.Normal(scale=0.05), "b_ih": pk.Normal(scale=0.1),
        "b_hh": pk.Normal(scale=0.1), "h0": pk.Normal(scale=0.3),
    },
    torch="[(y.flip(0) if reverse else y, h[0]) for y, h in [torch.gru(x.flip(0) if reverse else x, h0[None], "
          "(w_ih, w_hh, b_ih, b_hh), True, 1, 0.0, False, False, False)]][0]",
    dtypes=("f32", "bf16", "f16"),
)
def gru(x: pk.Tensor["T", "B", "I"], h0: pk.Tensor["B", "H"], w_ih: pk.Tensor["3*H", "I"], w_hh: pk.Tensor["3*H", "H"],
        b_ih: pk.Tensor["3*H"], b_hh: pk.Tensor["3*H"], reverse: bool = False):  # fmt: skip
    """The states of every step, and the last one.  Gates lie in PyTorch's order (reset, update, new) and are in f32; states
    have the dtype of ``x``."""
    def step(h, x_t):
        of_x = pk.split(pk.matmul(x_t, w_ih.T, dtype=pk.f32) + b_ih, 3, axis=-1)
        of_h = pk.split(pk.matmul(h, w_hh.T, dtype=pk.f32) + b_hh, 3, axis=-1)
        reset, update = (pk.sigmoid(a + b) for a, b in zip(of_x[:2], of_h[:2], strict=True))
        new = pk.tanh(of_x[2] + reset * of_h[2])
        h = pk.cast(new + update * (h - new), x.dtype)
        return h, h

    last, states = pk.scan(step, h0, x, reverse=reverse)
    return states, last
