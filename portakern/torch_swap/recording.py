"""What the modules of a model are called with."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from portakern.torch_import.capture import in_mode
from portakern.torch_import.trees import flattened, mapped

Signature = tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """One call of a module: its arguments, and what calls like it have in common."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    signature: Signature


def recorded(model: Any, examples: Iterable[tuple[Any, ...]]) -> dict[str, list[Call]]:
    """The calls of each module by its name, one of each signature, while ``model`` infers on ``examples``."""
    import torch

    found: dict[str, dict[Signature, Call]] = {}

    def before(name: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            signed = signature(args, kwargs)
            if signed not in found.setdefault(name, {}):
                # Copies, since a later module may write to what it is given.
                args, kwargs = mapped(_copied, (args, kwargs))
                found[name][signed] = Call(args, kwargs, signed)

        return hook

    hooks = [m.register_forward_pre_hook(before(n), with_kwargs=True) for n, m in model.named_modules()]
    try:
        with in_mode(model, train=False), torch.no_grad():
            for args in examples:
                model(*mapped(lambda x: x, args))  # objects that it may write to are copies
    finally:
        for hook in hooks:
            hook.remove()
    return {name: list(calls.values()) for name, calls in found.items()}


def _copied(x: Any) -> Any:
    """An argument as it is now: objects too, as an empty cache that is filled later."""
    import torch

    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    with contextlib.suppress(Exception):  # whatever an object's own copying raises
        return x if isinstance(x, torch.nn.Module) else copy.deepcopy(x)
    return x


def signature(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Signature:
    """Shapes, dtypes and devices of the arrays among the arguments; the other arguments themselves."""
    import torch

    given, form = flattened((args, dict(kwargs)))
    return (*((tuple(x.shape), x.dtype, x.device) if isinstance(x, torch.Tensor) else repr(x) for x in given), str(form))
