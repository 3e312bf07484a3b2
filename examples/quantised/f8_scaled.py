"""Products of 8-bit floats with a scale for each row of a and each row of b, or one for all of them (torch._scaled_mm).

`fast` lets the matrix unit cut sums to what it keeps, about 14 bits on Hopper.  Without it 8-bit floats are multiplied in f16
there, which is exact and half as fast.
"""

import portakern as pk

CASES = {
    "typical": dict(M=256, N=256, K=256),
    "ragged": dict(M=77, N=49, K=205),
    "tiny": dict(M=2, N=3, K=4),
    "one": dict(M=1, N=1, K=1),
    "zero": dict(M=0, N=16, K=16),
    "long": dict(M=3, N=16, K=5000),
    "unaligned": dict(M=65, N=130, K=63, fast=True),
    "fast": dict(M=64, N=128, K=256, fast=True),
}
SCALES = {"scale_a": pk.Uniform(0.01, 1.0), "scale_b": pk.Uniform(0.01, 1.0)}


@pk.operator(
    dtypes=("f8e4m3", "f8e5m2"), cases=CASES, inputs=SCALES,
    torch="torch._scaled_mm(a, b.T, scale_a=scale_a[:, None], scale_b=scale_b[None], use_fast_accum=fast, "
    "out_dtype=torch.bfloat16)",
)  # fmt: skip
def rows(a: pk.Tensor["M", "K"], b: pk.Tensor["N", "K"], scale_a: pk.Tensor["M", pk.f32], scale_b: pk.Tensor["N", pk.f32],
         fast: bool = False):
    """a @ b.T with a scale for each row of a and of b: the sums are scaled."""
    sums = pk.matmul(a, pk.transpose(b), pk.f32, precision="fp8_fast" if fast else "ieee")
    return pk.cast(sums * scale_a[:, None] * scale_b, pk.bf16)


@pk.operator(
    dtypes=("f8e4m3", "f8e5m2"), cases=CASES, inputs=SCALES,
    torch="torch._scaled_mm(a, b.T, scale_a=scale_a, scale_b=scale_b, use_fast_accum=fast, out_dtype=torch.bfloat16)",
)  # fmt: skip
def tensors(a: pk.Tensor["M", "K"], b: pk.Tensor["N", "K"], scale_a: pk.Tensor[pk.f32], scale_b: pk.Tensor[pk.f32],
            fast: bool = False):
    """a @ b.T with one scale for all of a, and one for all of b."""
    sums = pk.matmul(a, pk.transpose(b), pk.f32, precision="fp8_fast" if fast else "ieee")
    return pk.cast(sums * (scale_a * scale_b), pk.bf16)
