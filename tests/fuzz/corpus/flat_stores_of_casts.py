"""Small arrays are stored as one line of elements: Pallas left out the cast to i32 there, and wrapped no narrow integers."""
# case: {"dims": {"M": 37}, "dtype": "f32"}
# case: {"dims": {"M": 37}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", 3]):
    whole = pk.cast(pk.clip(x, -90.0, 90.0), pk.i32)
    return whole, pk.cast(pk.clip(x * 3.0, -90.0, 90.0), pk.i8), x > 1.0, pk.cast(x * 2.0, pk.bf16), pk.cast(whole + 1, pk.i8)
