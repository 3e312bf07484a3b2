"""timeout: Triton's names and Pallas's coordinates went every way through such a chain, of which there are 2^n."""
# case: {"dims": {"N": 70}, "dtype": "f32", "stages": ["integers"], "forms": true}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["N"]):
    i = pk.arange(x.shape[0])
    j = pk.arange(x.shape[0], pk.f32) * 0.25
    y = x
    for n in range(30):
        i = pk.where(i > n, i // 2 + 3, i + n)
        j = j * pk.exp(-j * j)
        y = pk.where(y > 0.0, y * 0.5, y + j) * (y - 0.25)
    return i, j, y, pk.take(x, pk.clip(i, 0, x.shape[0] - 1))
