"""No language had a rule for a product of tiles of three dims: the last axes of what both operands make came of the same one."""
# case: {"dims": {"S": 5, "I": 9, "J": 11, "C": 6, "D": 8, "Z": 7}, "dtype": "f32"}
# case: {"dims": {"S": 3, "I": 17, "J": 5, "C": 4, "D": 4, "Z": 33}, "dtype": "bf16", "open": ["I"]}

import portakern as pk


@pk.operator
def op(a: pk.Tensor["S", "I", "C"], b: pk.Tensor["S", "J", "D"], w: pk.Tensor["C", "D", "Z"]):
    return pk.einsum("ijcd,cdz->ijz", pk.einsum("sic,sjd->ijcd", a, b) / 5.0, w)
