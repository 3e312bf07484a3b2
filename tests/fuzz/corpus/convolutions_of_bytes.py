"""Sums of products of bytes do not fit into bytes, in which the oracle had them."""
# case: {"dims": {"B": 2, "H": 5, "W": 6, "O": 3}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["B", "H", "W", 16, pk.i8], w: pk.Tensor[3, 3, 16, "O", pk.i8], scale: pk.Tensor["O"]):
    return pk.cast(pk.relu(pk.conv(x, w, padding=1, dtype=pk.i32)), pk.f32) * scale
