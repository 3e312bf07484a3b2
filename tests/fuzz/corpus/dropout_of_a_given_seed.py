"""Random bits of a seed that is known.

On TPUs (Pallas) its rounds' keys are constants, whose sums were folded beyond the 32 bits that they have.
"""
# case: {"dims": {"M": 9, "N": 5}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    return pk.dropout(x, 7, 0.5)
