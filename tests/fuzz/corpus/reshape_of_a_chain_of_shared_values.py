"""A reshape went back through a chain whose every step uses the one before twice, once for each of 2^30 ways."""
# case: {"dims": {}, "dtype": "f32", "stages": ["integers"]}
import portakern as pk


@pk.operator
def op(x: pk.Tensor[72]):
    y = x
    for _ in range(30):
        y = pk.where(y > 0.0, y * 0.5, y + 0.25) * (y - 0.25)
    return pk.reshape(y, (8, 9)) + 1.0, pk.sum(pk.reshape(y, (8, 9)), axis=1)
