"""A layer of long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000)."""

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
        "w_ih": pk.Normal(scale=0.05), "w_hh": pk.Normal(scale=0.05), "bias": pk.Normal(scale=0.1), "h0": pk.Normal(scale=0.3),
        "c0": pk.Normal(scale=0.3),
    },
    torch="[(y.flip(0) if reverse else y, h[0], c[0]) for y, h, c in [torch.lstm(x.flip(0) if reverse else x, "
          "(h0[None], c0[None]), (w_ih, w_hh, bias, torch.zeros_like(bias)), True, 1, 0.0, False, False, False)]][0]",
    dtypes=("f32", "bf16", "f16"),
)
def lstm(x: pk.Tensor["T", "B", "I"], h0: pk.Tensor["B", "H"], c0: pk.Tensor["B", "H"], w_ih: pk.Tensor["4*H", "I"],
         w_hh: pk.Tensor["4*H", "H"], bias: pk.Tensor["4*H"], reverse: bool = False):  # fmt: skip
    """The states of every step, and the last hidden and cell state.  Gates lie in PyTorch's order (input, forget, cell,
    output), and ``bias`` is the sum of its two; gates are in f32, states have the dtype of ``x``."""
    def step(state, x_t):
        h, c = state
        gates = pk.matmul(x_t, w_ih.T, dtype=pk.f32) + pk.matmul(h, w_hh.T, dtype=pk.f32) + bias
        i, f, g, o = pk.split(gates, 4, axis=-1)
        c_new = pk.sigmoid(f) * c + pk.sigmoid(i) * pk.tanh(g)
        h_new = pk.cast(pk.sigmoid(o) * pk.tanh(c_new), x.dtype)
        return (h_new, pk.cast(c_new, x.dtype)), h_new

    (h, c), states = pk.scan(step, (h0, c0), x, reverse=reverse)
    return states, h, c
