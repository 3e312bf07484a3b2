"""A sum over a batch and an axis of both operands, one of which lies the other way round: as in sum_over_two_axes, tiny."""
# case: {"dims": {"B": 3, "M": 7, "K": 5, "N": 9}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(a: pk.Tensor["B", "M", "K"], b: pk.Tensor["B", "N", "M"]):
    return pk.einsum("bmk,bnm->kn", a, b)
