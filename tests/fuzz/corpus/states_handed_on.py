"""OpenCL and SYCL, wrong without a word: a state that becomes another one as it was was overwritten first; numba refused tiles of them."""
# case: {"dims": {"B": 7, "S": 9}, "dtype": "f32"}
# case: {"dims": {"B": 19, "S": 5}, "dtype": "f32", "open": ["B"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["B", "S"]):
    def delayed(s, v):
        a, b, c = s
        return (v * 0.5 + c, a, b), a + b * 2.0 + c

    def turned(s, v):
        a, b = s
        return (b, a), a * v + b

    z = pk.zeros((x.shape[0],))
    return pk.scan(delayed, (z, z + 1.0, z), x, axis=1)[1], pk.scan(turned, (x[:, 0], z), x, axis=1)[1]
