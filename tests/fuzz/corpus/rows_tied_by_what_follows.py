"""Reductions whose axes only what follows ties: one kernel reduced parts of both, over each other's axes."""
# case: {"dims": {"M": 1, "N": 700}, "dtype": "f32", "schedule": 20}
# case: {"dims": {"M": 5, "N": 130}, "dtype": "f32", "schedule": 16}
# case: {"dims": {"M": 5, "N": 130}, "dtype": "bf16", "schedule": 23}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
    return pk.sum(x, axis=-1, keepdims=True) * y + pk.max(y, axis=-1, keepdims=True) * x
