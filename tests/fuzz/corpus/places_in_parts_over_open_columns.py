"""compile on Triton: the place of the largest in parts, where the numbers of programs are 64 bits wide along an open axis."""
# case: {"dims": {"M": 300, "N": 5}, "dtype": "f32", "open": ["N"], "stages": ["integers"], "schedule": 176}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], seed: pk.Scalar[pk.i64]):
    a = pk.cast(pk.cast(pk.random_bits(seed, (x.shape[0], x.shape[1])), pk.i64) & 255, pk.i32)
    b = pk.argmax(a, axis=0)
    return a, b, -x
