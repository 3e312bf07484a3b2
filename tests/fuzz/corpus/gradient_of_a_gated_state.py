"""A sum of products was made of a product with a sum, by which infinite gates gave NaN."""
# case: {"dims": {"H": 2, "T": 3, "K": 64, "V": 40}, "dtype": "f32", "stages": ["integers", "nonfinite", "large"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["H", "T", "K"], k: pk.Tensor["H", "T", "K"], v: pk.Tensor["H", "T", "V"], b: pk.Tensor["H", "T"]):
    def step(s, xs):
        q_t, k_t, v_t, b_t = xs
        s = s + ((v_t - pk.sum(s * k_t[:, None, :], axis=2)) * b_t[:, None])[:, :, None] * k_t[:, None, :]
        return s, pk.sum(s * q_t[:, None, :], axis=2)

    return pk.scan(step, pk.zeros((q.shape[0], v.shape[2], q.shape[2])), (q, k, v, b), axis=1)[1]


op = pk.grad(op)
