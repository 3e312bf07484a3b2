"""pallas: wrong from the second step on: what a step reads beside an element of its carry was put together before the loop."""
# case: {"dims": {"T": 5, "B": 3, "N": 11}, "dtype": "f32"}
# case: {"dims": {"T": 4, "B": 2, "N": 150}, "dtype": "bf16", "open": ["B"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["T", "B", "N"], start: pk.Tensor["B", "N"]):
    def step(a, x_t):
        before = pk.pad(a[:, :-1], ((0, 0), (1, 0)), value=-1e3)
        m = pk.maximum(a, before)
        return m + pk.log(pk.exp(a - m) + pk.exp(before - m)) + x_t, None

    return pk.scan(step, start, x)[0]
