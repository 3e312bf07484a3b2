"""form on every target: a constant that was used in a step of a loop and outside of it was one operation in two blocks."""
# case: {"dims": {"B": 3}, "dtype": "f32", "stages": ["small"], "forms": true}

import portakern as pk


@pk.operator
def op(a: pk.Tensor["B", 9, 9], b: pk.Tensor["B", 9, 2]):
    return pk.solve_triangular(pk.where(pk.iota(a.shape, -1) == pk.iota(a.shape, -2), pk.abs(a) + 1.0, a * 0.2), b)
