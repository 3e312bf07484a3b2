"""What has no rule, and why: what is said of it when a module uses it."""

from __future__ import annotations

from collections.abc import Iterable

_SIZES = "the size of its result follows from the numbers inside an array"
_GRADIENT = "gradients come with pk.grad; PyTorch's decompositions have no other form of it"

WITHOUT: dict[str, str] = {
    "aten.nonzero": _SIZES,
    "aten._local_scalar_dense": "Python would decide on a number inside an array",
    "aten.native_group_norm_backward": _GRADIENT,
    "aten.native_layer_norm_backward": _GRADIENT,
    "aten.resize_": "its result holds whatever lay behind the array; a functional graph has none",
    "aten.sym_is_contiguous": "it asks how an array lies, and arrays of a tensor program lie nowhere",
    "aten.sym_size": "it is a size and no array: read where the graph has it",
    "aten.sym_numel": "it is a size and no array: read where the graph has it",
    "aten.sym_stride": "it is a size and no array: read where the graph has it",
    "aten.sym_storage_offset": "it is a size and no array: read where the graph has it",
}

MASKED = ("what has another size for other numbers is no array of a kernel: keep the whole array and a mask "
          "(torch.where(mask, x, 0), divided by mask.sum() for a mean), or ask for a fixed count (torch.topk)")  # fmt: skip

WAYS_OUT: dict[str, str] = {
    "aten.bincount": "count into a fixed number of places: x.new_zeros(n).index_add(0, x, torch.ones_like(x)), or torch.histc",
    "aten.repeat_interleave": "say how long it is: x.repeat_interleave(counts, dim, output_size=n)",
    **dict.fromkeys(("aten._unique", "aten._unique2", "aten.unique_dim", "aten.unique_consecutive"),
                    "torch.sort, and a comparison with the element before, mark the first of each"),
    "aten.nonzero": "torch.nonzero_static(x, size=n) has a fixed size",
}
"""What to do instead of an operation whose result has as many elements as numbers say."""


def way_out(names: Iterable[str]) -> str:
    """What to do instead of these operations, of which one alone may be known, and in general."""
    known = (WAYS_OUT[base_of(n)] for n in names if base_of(n) in WAYS_OUT)
    return "; ".join([*dict.fromkeys(known), MASKED])


KEPT = ("aten.scaled_dot_product_attention", "aten._scaled_dot_product_flash_attention_for_cpu", "aten.lstm", "aten.gru",
        "aten.rnn_tanh", "aten.rnn_relu", "aten.multilabel_margin_loss_forward")  # fmt: skip
"""What PyTorch would decompose, and is kept whole: it has a rule of its own.  (The decomposition of the margin loss is not what
PyTorch computes: it counts the places behind the last label, too.)"""

LINES = ("aten.linspace", "aten.logspace")
"""What PyTorch would decompose to operations that round otherwise: a table made of it would be another one."""


def why_not(name: str) -> str:
    """Why ``aten.nonzero.default`` has no rule."""
    return WITHOUT.get(base_of(name), "it has no rule")


def base_of(name: str) -> str:
    """``aten.nonzero`` of ``aten.nonzero.default``."""
    return ".".join(name.split(".")[:2])
