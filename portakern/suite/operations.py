"""What a model does, as a list of operations, told by running it on fake tensors."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SEARCH_S = 60.0
"""How long to look at a model."""

LOOP, BODY = 12, 64
"""How often operations have to come in a row to be a loop, and how many they may be."""

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""Layers of PyTorch that walk along time by themselves."""


def operations_of(made: Callable[[], tuple[Any, tuple[Any, ...]]]) -> tuple[str, ...] | None:
    """The operations of the model on the inputs that ``made`` gives, loops as one; ``None`` where it does not run."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    from portakern.torch_import.rewritten import rewritten

    seen: list[str] = []
    until = time.monotonic() + SEARCH_S

    class NumbersOfOne(TorchDispatchMode):
        """What asks for the number in an array, as input makers and a few models do, gets 1: fake arrays have none."""

        def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            if str(function) == "aten._local_scalar_dense.default":
                kind = args[0].dtype
                return complex(1) if kind.is_complex else 1.0 if kind.is_floating_point else kind == torch.bool or 1
            return function(*args, **(kwargs or {}))

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            if time.monotonic() > until:
                raise TimeoutError("it takes too long to look at")
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    class OneStep(TorchFunctionMode):
        def __torch_function__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(function, "__name__", "") in RECURRENT and len(args) == 9:
                seen.append(function.__name__)
                return _of_one_step(function, *args)
            return function(*args, **(kwargs or {}))

    with _quiet(), contextlib.suppress(Exception):  # what the task's own code raises at these sizes
        with rewritten(), FakeTensorMode(allow_non_fake_inputs=True), NumbersOfOne():
            model, inputs = made()
            with Recorder(), OneStep():
                model(*inputs)
        return loops_as_one(seen)
    return None


def runs(made: Callable[[], tuple[Any, tuple[Any, ...]]]) -> bool:
    """Whether the model runs on the inputs that ``made`` gives."""
    import torch

    with _quiet(), contextlib.suppress(Exception), torch.no_grad():  # what the task's own code raises at these sizes
        model, inputs = made()
        model(*inputs)
        return True
    return False


def _of_one_step(layer: Callable[..., Any], lines: Any, *args: Any) -> Any:
    """A recurrent layer's results from one step of ``lines``: their shapes are those of all steps.

    Looking at every step takes long, and PyTorch ends the process where something is raised within one."""
    time_dim = 1 if args[-1] else 0  # batch_first
    shown, *last = layer(lines.narrow(time_dim, 0, 1), *args)
    shape = list(shown.shape)
    shape[time_dim] = lines.shape[time_dim]
    return (shown.new_empty(shape), *last)


def loops_as_one(names: Sequence[str]) -> tuple[str, ...]:
    """``names`` with what comes ``LOOP`` times or more in a row once."""
    found: list[str] = []
    at = 0
    while at < len(names):
        body, times = next(((b, n) for b in range(1, BODY + 1) if (n := _times(names, at, b)) >= LOOP), (1, 1))
        found += ["loop"] * (times > 1) + list(names[at : at + body])
        at += body * times
    return tuple(found)


def _times(names: Sequence[str], at: int, body: int) -> int:
    """How often the ``body`` operations at ``at`` come in a row."""
    first, times = names[at : at + body], 1
    while len(first) == body and names[at + times * body : at + (times + 1) * body] == first:
        times += 1
    return times


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch logs of sizes that do not go together."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
