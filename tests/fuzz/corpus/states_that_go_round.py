"""Numba: "a loop that exchanges carried tiles has no rule here": states of a row that change places."""
# case: {"dims": {"B": 3, "S": 5, "D": 6}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["B", "S", "D"]):
    def step(s, v):
        a, b, c, d = s
        return (b, a, d * 0.5, pk.roll(c, 1, 1)), a + pk.sum(b, axis=1, keepdims=True) + c * v

    z = pk.zeros((x.shape[0], x.shape[2]))
    return pk.scan(step, (x[:, 0], x[:, 1], z, z + 1.0), x, axis=1)[1]
