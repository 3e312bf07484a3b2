"""Rotary position embedding (Su et al. 2021)."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(B=1, S=64, H=4, D=64),
        "ragged": dict(B=2, S=37, H=3, D=20),
        "tiny": dict(B=1, S=3, H=1, D=2, pairs=True),
        "one": dict(B=1, S=1, H=1, D=1),
        "zero": dict(B=0, S=8, H=2, D=8),
        "long": dict(B=1, S=2000, H=1, D=4),
        "unaligned": dict(B=1, S=33, H=2, D=33, pairs=True),
    },
    inputs={"cos": pk.Uniform(-1.0, 1.0), "sin": pk.Uniform(-1.0, 1.0)},
    torch="torch.cat([x[..., :x.shape[-1] // 2] * cos[:, None] - x[..., x.shape[-1] // 2:] * sin[:, None], "
    "x[..., x.shape[-1] // 2:] * cos[:, None] + x[..., :x.shape[-1] // 2] * sin[:, None]], -1).to(x.dtype) if not pairs else "
    "torch.stack([x[..., ::2] * cos[:, None] - x[..., 1::2] * sin[:, None], "
    "x[..., 1::2] * cos[:, None] + x[..., ::2] * sin[:, None]], -1).flatten(-2).to(x.dtype)",
)
def rope(
    x: pk.Tensor["B", "S", "H", "2*D"], cos: pk.Tensor["S", "D", pk.f32], sin: pk.Tensor["S", "D", pk.f32], pairs: bool = False
):
    """Elements of queries or keys, two by two, turned by the angles of their position, in f32.

    An element of the first half goes with that of the second (as in Llama) or, with ``pairs``, each even one with the next
    (as in GPT-J).  ``cos`` and ``sin`` are those of the angles at every position.
    """
    half = cos.shape[-1]
    a, b = (x[..., ::2], x[..., 1::2]) if pairs else (x[..., :half], x[..., half:])
    a, b = pk.cast(a, pk.f32), pk.cast(b, pk.f32)
    c, s = cos[:, None], sin[:, None]
    turned = [a * c - b * s, b * c + a * s]
    return pk.cast(pk.interleave(turned) if pairs else pk.concat(turned, -1), x.dtype)
