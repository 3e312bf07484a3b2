"""Cross entropy of class labels, the mean over rows."""

import math

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=512, N=4096),
        "ragged": dict(M=37, N=1001),
        "tiny": dict(M=3, N=5),
        "one": dict(M=1, N=1),
        "zero": dict(M=0, N=128),
        "long": dict(M=3, N=70000),
        "unaligned": dict(M=130, N=257, ignore_index=7, inputs={"labels": pk.Labels("N", ignored=7)}),
        "ignored": dict(M=9, N=33, inputs={"labels": pk.Integers(-100, -99)}),
        "outside": dict(M=6, N=20, inputs={"labels": pk.Integers(10, "2*N")}),
    },
    dtypes=("f32", "bf16", "f16"),
    inputs={"labels": pk.Labels("N", ignored=-100)},
    torch="F.cross_entropy(logits, labels, ignore_index=ignore_index)",
)
def cross_entropy(logits: pk.Tensor["M", "N"], labels: pk.Tensor["M", pk.i64], ignore_index: int = -100):
    """The mean of -log(softmax(logits)[label]) over the rows whose label is not ``ignore_index``, in f32.

    NaN where every row is ignored or there is none, as in PyTorch.  A label outside [0, N) that is not ``ignore_index``
    (an error in PyTorch) makes the result NaN.
    """
    x = pk.cast(logits, pk.f32)
    top = pk.max(x, axis=-1)
    total = pk.sum(pk.exp(x - top[:, None]), axis=-1)
    picked = pk.take_along(x, labels[:, None], axis=-1, fill=math.nan)[:, 0]
    counted = labels != ignore_index
    losses = pk.where(counted, pk.log(total) - (picked - top), 0.0)
    return pk.cast(pk.sum(losses) / pk.sum(pk.cast(counted, pk.f32)), logits.dtype)
