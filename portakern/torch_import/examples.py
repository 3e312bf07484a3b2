"""Example inputs, held against what is called: whether they fit its parameters, and are arrays and plain values."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import GeneratorType
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import UsageError
from portakern.torch_import.trees import leaves

_SHORT = {d.long_name: d.name for d in DTYPES.values()}


def check_examples(name: str, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises :class:`UsageError` for what ``module``, called ``name``, cannot be called with."""
    if not _has_other_parameters(module):
        _check_fit(name, module.forward, args, kwargs)
    for x in leaves((args, dict(kwargs))):
        refused = _refused(x)
        if refused:
            raise UsageError(f"an example input of {name} is {refused[0]}; given: {listed(args, kwargs)}", hint=refused[1])


def is_traced(x: Any) -> bool:
    """Whether ``torch.export`` follows an input.  Others (a dtype, a function, options) are fixed by the import."""
    import torch

    return x is None or isinstance(x, torch.Tensor | int | float | str)


def called_as(name: str, forward: Any) -> str:
    """``name(x, mask=None)``."""
    signature = inspect.signature(forward)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)}"


def listed(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Inputs in short: ``f32[3, 4], 2.0, mask=bool[3]``."""
    return ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in kwargs.items())]) or "nothing"


def shown(x: Any) -> str:
    import torch

    if isinstance(x, torch.Tensor):
        dtype = str(x.dtype).removeprefix("torch.")
        return f"{_SHORT.get(dtype, dtype)}{'[nested]' if x.is_nested else list(x.shape)}"
    if isinstance(x, dict):
        return f"{{{', '.join(f'{k!r}: {shown(v)}' for k, v in x.items())}}}"[:200]
    if type(x) in (list, tuple):
        opening, closing = "[]" if isinstance(x, list) else "()"
        return f"{opening}{', '.join(map(shown, x))}{closing}"[:200]
    if x is None or isinstance(x, bool | int | float | complex | str):
        return repr(x)[:60]
    return f"a {type(x).__name__}"


def _has_other_parameters(module: Any) -> bool:
    """Whether hooks may change what ``forward`` is called with."""
    return bool(getattr(module, "_forward_pre_hooks", None))


def _check_fit(name: str, forward: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"the example inputs do not fit {called_as(name, forward)}: {error}; given: {listed(args, kwargs)}",
                         hint=_advice(name, signature, args)) from None  # fmt: skip


def _advice(name: str, signature: inspect.Signature, args: tuple[Any, ...]) -> str:
    parameters = signature.parameters
    if len(args) == 1 and isinstance(args[0], Mapping) and set(args[0]) <= set(parameters):
        return f"inputs by name are kwargs: pk.from_torch({name}, (), kwargs={{...}})"
    needed = [p.name for p in parameters.values()
              if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    named = [p.name for p in parameters.values() if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    shown_args = f"({', '.join(needed)}{',' if len(needed) == 1 else ''})"
    shown_kwargs = f", kwargs={{{', '.join(f'{n!r}: {n}' for n in named)}}}" if named else ""
    return f"pk.from_torch({name}, {shown_args}{shown_kwargs})"


def _refused(x: Any) -> tuple[str, str] | None:
    """What an input is that cannot be one, and what to give in its place."""
    import numpy as np
    import torch

    if isinstance(x, np.ndarray | np.generic):
        return "an array of numpy", "give a tensor: torch.from_numpy(array)"
    if isinstance(x, torch.nn.Module):
        return f"a module ({type(x).__name__})", "make it a part of the module that is imported, or call it inside a function"
    if isinstance(x, GeneratorType):
        return "a generator", "give a list"
    if not isinstance(x, torch.Tensor):
        if hasattr(x, "__array__") or hasattr(x, "__dlpack__"):
            return f"an array of another library ({type(x).__name__})", "give a tensor: torch.from_dlpack(array)"
        return None
    if x.is_nested:
        return "a nested tensor", "give a padded one and a mask: torch.nested.to_padded_tensor(x, 0.0)"
    if x.layout != torch.strided:
        return f"a tensor of layout {str(x.layout).removeprefix('torch.')}", "give a dense one: x.to_dense()"
    if x.is_quantized:
        return f"a quantised tensor ({str(x.dtype).removeprefix('torch.')})", "give its integers and scales as tensors"
    if x.is_meta:
        return "a tensor of the device meta, which has no numbers", "give one with numbers: torch.randn(x.shape)"
    return None
