"""What is around an export: global variables that the followed code changes, PyTorch's log and its checks of numbers."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from portakern.errors import SpecError
from portakern.spec.location import line_at


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without PyTorch's warnings, its log and what it prints of graphs that it gives up; all of it comes if ``TORCH_LOGS`` asks
    for logs."""
    if os.environ.get("TORCH_LOGS"):
        yield
        return
    loggers = [x for name, x in logging.root.manager.loggerDict.items()
               if name.partition(".")[0] == "torch" and isinstance(x, logging.Logger) and not x.disabled]  # fmt: skip
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.disabled = True
        try:
            yield
        finally:
            for logger in loggers:
                logger.disabled = False


@contextlib.contextmanager
def unchanged_globals(given: Any, module: Any) -> Iterator[None]:
    """Global variables of the code that is followed are afterwards as they were.

    A dict is taken for a cache.  Raises :class:`SpecError` for others that change: kernels would not change them."""
    before: dict[Any, Any] = {(id(names), name): (names, name, code, value, copy.copy(value))
              for code, names in _codes(given, module) for name in code.co_names
              if isinstance(value := names.get(name), list | dict | set | int | float)}  # fmt: skip
    changed: list[Any] = []
    try:
        yield
    finally:
        changed = [kept for kept in before.values() if _has_changed(*kept[:2], *kept[3:])]
        for names, name, _, value, content in changed:
            names[name] = value
            if isinstance(value, list):
                value[:] = content
            elif isinstance(value, dict | set):
                value.clear()
                value.update(content)
    for _, name, code, value, _ in changed:
        if not isinstance(value, dict):
            raise SpecError(f"it changes the global variable {name}, which kernels would leave as it is",
                            hint=f"make {name} an input and return its new value, or keep it in a buffer of the module",
                            where=str(line_at(code.co_filename, code.co_firstlineno)))  # fmt: skip


def _codes(given: Any, module: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """The code of all forwards, and the global variables that it sees."""
    for function in (given, *(type(part).forward for part in module.modules())):
        function = inspect.unwrap(getattr(function, "func", function))
        if hasattr(function, "__code__") and not (function.__module__ or "").startswith("torch."):
            yield function.__code__, function.__globals__


def _has_changed(names: Mapping[str, Any], name: str, value: Any, content: Any) -> bool:
    if names.get(name) is not value:
        return True
    if isinstance(value, list):
        return len(value) != len(content) or any(a is not b for a, b in zip(value, content, strict=True))
    return isinstance(value, dict | set) and (len(value) != len(content) or any(k not in content for k in value))


@contextlib.contextmanager
def converted_in_place() -> Iterator[None]:
    """``layer.to(dtype)`` inside a forward: what it changes is a value of the graph, and what it leaves alone stays.

    PyTorch swaps the memory of the weights, which the tensors of an export do not have."""
    import torch

    own = torch.nn.Module._apply

    def applied(module: Any, fn: Any, recurse: bool = True) -> Any:
        for part in module.modules() if recurse else (module,):
            for held in (part._parameters, part._buffers):
                for name, x in held.items():
                    if x is not None and (new := fn(x)) is not x:
                        held[name] = new
        return module

    torch.nn.Module._apply = applied  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module._apply = own  # type: ignore[method-assign]


@contextlib.contextmanager
def unchecked_numbers() -> Iterator[None]:
    """Without PyTorch's own checks of numbers inside arrays, on which Python would branch: of distributions' arguments, and
    that a variance is not negative."""
    import torch
    from torch.distributions import Distribution

    validated, loss = Distribution._validate_args, torch.nn.functional.gaussian_nll_loss
    Distribution.set_default_validate_args(False)
    torch.nn.functional.gaussian_nll_loss = _gaussian_nll_loss
    try:
        yield
    finally:
        torch.nn.functional.gaussian_nll_loss = loss
        Distribution.set_default_validate_args(validated)


def _gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
                       ) -> Any:  # fmt: skip
    import torch

    var = torch.as_tensor(var, dtype=input.dtype, device=input.device)
    if var.shape != input.shape and input.shape[:-1] == var.shape:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return {"mean": torch.mean, "sum": torch.sum, "none": lambda x: x}[reduction](loss)
