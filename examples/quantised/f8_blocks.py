"""Products of 8-bit floats with a scale for 1 x 128 elements of a and for 128 x 128 of b, as DeepSeek-V3 is trained.

The products of each 128 along k are a sum of their own, which is scaled and added: one kernel walks the blocks.
"""

import portakern as pk

BLOCK = 128


@pk.operator(
    dtypes=("f8e4m3", "f8e5m2"),
    cases={
        "typical": dict(M=256, P=2, G=4),
        "ragged": dict(M=77, P=1, G=3),
        "tiny": dict(M=2, P=1, G=1),
        "one": dict(M=1, P=1, G=2),
        "zero": dict(M=0, P=1, G=1),
        "long": dict(M=3, P=1, G=17),
        "fast": dict(M=64, P=2, G=2, fast=True),
    },
    inputs={"scale_a": pk.Uniform(0.01, 1.0), "scale_b": pk.Uniform(0.01, 1.0)},
    torch="((a.float().unflatten(1, (-1, 128)) * scale_a[..., None]).flatten(1) @ (b.float().unflatten(1, (-1, 128))"
    ".unflatten(0, (-1, 128)) * scale_b[:, None, :, None]).flatten(2).flatten(0, 1).T).bfloat16()",
)
def blocks(a: pk.Tensor["M", "128*G"], b: pk.Tensor["128*P", "128*G"], scale_a: pk.Tensor["M", "G", pk.f32],
           scale_b: pk.Tensor["P", "G", pk.f32], fast: bool = False):
    """a @ b.T with a scale for 1 x 128 elements of a and for 128 x 128 of b."""
    m, g = scale_a.shape
    p = scale_b.shape[0]
    a, b = pk.reshape(a, (m, g, BLOCK)), pk.reshape(b, (p, BLOCK, g, BLOCK))
    sums = pk.einsum("mgk,pngk->gmpn", a, b, dtype=pk.f32, precision="fp8_fast" if fast else "ieee")
    scaled = sums * pk.transpose(scale_a)[:, :, None, None] * pk.transpose(scale_b)[:, None, :, None]
    return pk.cast(pk.reshape(pk.sum(scaled, axis=0), (m, BLOCK * p)), pk.bf16)
