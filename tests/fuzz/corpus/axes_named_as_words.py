"""defect on C++, Pallas: windows along a dim called r have positions along an axis called or, and kernels read back as Python."""
# case: {"dims": {"M": 28, "N": 7, "K": 2}, "dtype": "bf16", "stages": ["integers"], "forms": true}
# case: {"dims": {"M": 4, "N": 5, "K": 2}, "dtype": "f32", "stages": ["integers"], "forms": true}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K"]):
    a = pk.pad(x, [(0, 0), (0, 0), (1, 1)], mode="reflect")
    return pk.unfold(a, 3)
