"""A whole SwiGLU layer's gate in one kernel: two products that share their left operand.

portakern check examples/swiglu.py:swiglu --targets numba:cpu
"""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=256, N=192, K=256),
        "ragged": dict(M=77, N=65, K=33),
        "tiny": dict(M=2, N=3, K=4),
        "one": dict(M=1, N=1, K=1),
        "zero": dict(M=0, N=8, K=8),
        "long": dict(M=3, N=16, K=5000),
    },
    inputs={"gate": pk.Normal(scale=0.05), "up": pk.Normal(scale=0.05)},
)
def swiglu(x: pk.Tensor["M", "K"], gate: pk.Tensor["K", "N"], up: pk.Tensor["K", "N"]):
    """silu(x @ gate) * (x @ up)."""
    return pk.cast(pk.silu(pk.matmul(x, gate, dtype=pk.f32)) * pk.matmul(x, up, dtype=pk.f32), x.dtype)
