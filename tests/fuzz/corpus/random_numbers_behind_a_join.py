"""Random numbers times an array that a reshape had joined: the dims of every word of Philox were split anew for each of its many
uses, and lowering did not end.  C++, HIP, and any other language."""
# case: {"dims": {"M": 7, "N": 13}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", 5, "N"]):
    a = pk.reshape(pk.cumsum(x, axis=0), (x.shape[0] * 5, x.shape[2]))
    return a * pk.uniform(0, (a.shape[0], a.shape[1]), -2.0, 3.0)
