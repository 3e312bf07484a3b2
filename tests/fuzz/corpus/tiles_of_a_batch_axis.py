"""An axis named as a role that it does not have: schedules gave it the tiles of that role, and operands three dims."""
# case: {"dims": {"M": 33, "N": 20, "K": 1}, "dtype": "f32", "schedule": 207}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K"], y: pk.Tensor["M", "N", "K"]):
    return pk.matmul(x, pk.swapaxes(y, -1, -2), dtype=pk.f32)
