"""Operations that PyTorch does not do in float64, or not of float64 and narrower floats together, done by others of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def grouped_mm(a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Rows of ``a`` [P, K], of which group g ends at ``offs[g]``, each times its group's matrix of ``b`` [G, K, N]; the same of
    columns, and of contracted elements, which give a matrix for each group."""
    import torch

    if offs is None:
        return a @ b
    ends = offs.tolist()
    spans = [slice(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=True)]
    if a.ndim == b.ndim == 2:
        return torch.stack([a[:, s] @ b[s] for s in spans])
    made = a.new_zeros(a.shape[-2], b.shape[-1])
    for n, s in enumerate(spans):
        if b.ndim == 3:
            made[s] = a[s] @ b[n]
        else:
            made[:, s] = a[n] @ b[:, s]
    return made


def in_parts() -> Any:
    """A context in which PyTorch does these."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    instead: Mapping[str, Callable[..., Any]] = {"aten._grouped_mm.default": grouped_mm}

    class InParts(TorchDispatchMode):
        supports_higher_order_operators = True  # torch.cond, whose branches PyTorch then runs itself

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not hasattr(func, "_schema"):
                return func(*args, **(kwargs or {}))
            wanted = instead.get(str(func)) if args and getattr(args[0], "dtype", None) == torch.float64 else None
            args, kwargs = (args, kwargs or {}) if func._schema.is_mutable else in_one_dtype((args, kwargs or {}))
            return (wanted or func)(*args, **kwargs)

    return InParts()


def in_one_dtype(given: Any) -> Any:
    """Arguments with all floats in float64 if some are: what a function holds in its closure, or an object in its attributes,
    is in float32 still when all else is widened."""
    import torch
    from torch.utils import _pytree

    flat, form = _pytree.tree_flatten(given)
    narrow = [isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64 for x in flat]
    if not any(narrow) or not any(isinstance(x, torch.Tensor) and x.dtype == torch.float64 for x in flat):
        return given
    return _pytree.tree_unflatten([x.double() if n else x for x, n in zip(flat, narrow, strict=True)], form)
