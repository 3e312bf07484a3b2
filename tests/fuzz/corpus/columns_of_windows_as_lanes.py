"""schedule on Pallas: windows whose taps become lanes take more VMEM than the compiler's default, which was kept."""
# case: {"dims": {"M": 17, "N": 192}, "dtype": "bf16", "open": ["M"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(w: pk.Tensor[3, "M", "N"]):
    return pk.unfold(w, 3, stride=2)
