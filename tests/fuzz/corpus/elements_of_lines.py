"""Several elements of each line, through views and of a computed array, with indices along memory and across it."""
# case: {"dims": {"A": 3, "V": 11, "D": 37, "K": 5}, "dtype": "f32", "stages": ["integers"]}
# case: {"dims": {"A": 2, "V": 3, "D": 1, "K": 40}, "dtype": "bf16", "stages": ["integers"], "open": ["A", "K"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["A", "V", "D"], i: pk.Tensor["A", "K", "D", pk.i32], j: pk.Tensor["K", pk.i64]):
    middle = pk.take_along(x, i, axis=1, fill=7)
    turned = pk.take(pk.swapaxes(pk.flip(x, 1), 0, 2), j, axis=1)
    weights = pk.softmax(x, axis=1)[:, :, 0]
    return middle + pk.swapaxes(turned, 0, 2), pk.take(weights, j, axis=1, fill=-1)
