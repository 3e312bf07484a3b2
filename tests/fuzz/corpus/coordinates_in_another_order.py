"""C++, HIP: masks and places of windows are made of coordinates in one order, and used in another."""
# case: {"dims": {"M": 63, "N": 13, "K": 7, "B": 32, "D": 1}, "dtype": "f64", "open": ["B"], "stages": ["integers", "large"], "schedule": 243, "forms": true}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", 3], w: pk.Tensor[5, 1, 3], y: pk.Tensor[33, "2*K", "B", "D"]):
    a = pk.conv(x, w, stride=2, padding=((4, 5),), groups=x.shape[-1])
    b = pk.max_pool(y, (2, 1), indices=True)[1]
    return a, b
