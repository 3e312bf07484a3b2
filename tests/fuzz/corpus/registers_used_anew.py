"""On CDNA clang left out wait states between a loop's last product and what overwrites its registers behind the loop."""
# case: {"dims": {"M": 33, "K": 70}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "K"]):
    return x @ x.T
