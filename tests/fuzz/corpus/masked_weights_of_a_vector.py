"""incorrect on all languages: a vector weighted by a masked softmax, whose rows and columns became one axis in its sum."""
# case: {"dims": {"K": 2, "B": 33, "D": 1}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(v: pk.Tensor["K", "B", "D"], s: pk.Tensor["K", "B", "B"]):
    rows, columns = pk.arange(s.shape[-2])[:, None], pk.arange(s.shape[-1])[None, :]
    return pk.softmax(pk.where(rows >= columns, s * 0.125, -1e4)) @ v
