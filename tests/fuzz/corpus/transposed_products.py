"""Stored the other way, a product took more shared memory than a block has: gfx942 did not compile, sm_90a did not launch."""
# case: {"dims": {"M": 70, "N": 40, "K": 33}, "dtype": "bf16", "stages": ["integers", "nonfinite"]}
# case: {"dims": {"M": 128, "N": 256, "K": 64}, "dtype": "f16", "stages": ["integers"]}
# case: {"dims": {"M": 70, "N": 40, "K": 33}, "dtype": "f32", "open": ["M", "N"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "K"], y: pk.Tensor["K", "N"], b: pk.Tensor["N"]):
    turned = pk.transpose(pk.gelu(x @ y + b), (1, 0))
    both = pk.matmul(y.T, x.T, dtype=pk.f32)
    return turned, both, x @ y
