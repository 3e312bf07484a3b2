"""defect on Pallas: no indices at all in scalar memory."""
# case: {"dims": {"N": 257, "K": 1, "D": 0, "E": 12}, "dtype": "f32", "open": ["D", "N"], "stages": ["integers", "tiny"]}

import portakern as pk


@pk.operator(inputs={"columns": pk.Integers(0, "N"), "offsets": pk.Integers(0, 40)})
def op(y: pk.Tensor["N", "K"], columns: pk.Tensor["D", pk.i32], values: pk.Tensor["D"], offsets: pk.Tensor["E + 1", pk.i32]):
    return pk.segment_sum(values[:, None] * pk.take(y, columns), offsets)
