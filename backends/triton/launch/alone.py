"""What a host function launched, done again without the host function: on other inputs, in the same memory.

While a host function runs, every launch and every torch operator is noted.  What may stand around launches is done again with
them: contents that hang on no input, moves (copies, casts, concatenations) of what does, and light maths, such as the sum of
what each program left.  All else is work that kernels did not do: it is not done again, and what it made stays poisoned.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..compile.faces import launch_of

SHARE = 1 / 8
"""Light maths may read and write so many elements in all, for each of the operator's inputs and outputs."""

_ALLOCATIONS = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"}
_CONSTANTS = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}
_OVERWRITES = {"copy_", "fill_", "zero_"}
_MOVES = {"copy_", "copy", "clone", "_to_copy", "cat", "stack", "constant_pad_nd", "repeat", "flip", "roll", "im2col",
          "slice_scatter", "select_scatter", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
          "replication_pad2d"}  # fmt: skip
_BY_CONSTANTS = {"index": 1, "index_select": 2, "gather": 2, "where": 0, "masked_fill": 1, "masked_fill_": 1}
"""These move where the argument of this number hangs on no input: indices, a mask."""
_HEAVY = ("mm", "mv", "dot", "conv", "attention", "softmax", "norm", "rnn", "lstm", "gru")
_POISONED = 16 << 20
"""Bytes of poison that are drawn; more repeat them."""


@dataclass(frozen=True)
class Launch:
    """A kernel with its arguments; the grid is the one that was launched.  ``tuned`` is whether it was with a configuration."""

    function: Any
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    tuned: bool = False

    @property
    def digest(self) -> str:
        return launch_of(self.function, self.args, self.named, self.named["grid"], self.tuned)

    def again(self) -> None:
        hooks = list(self.function.pre_run_hooks)
        self.function.pre_run_hooks[:] = []  # they are host code
        try:
            launchers()[type(self.function)](self.function, *self.args, **self.named)
        finally:
            self.function.pre_run_hooks[:] = hooks


@dataclass(frozen=True)
class CompiledLaunch(Launch):
    """The same of a kernel that host code had compiled first (``kernel.warmup(..)[grid](..)``), on a device."""

    @property
    def digest(self) -> str:
        raise NotImplementedError("compiled kernels are launched on devices, where nothing else is interpreted")

    def again(self) -> None:
        compiled_launcher()(self.function, self.named["grid"])(*self.args)


@dataclass(frozen=True)
class Constant:
    """Contents that hang on no input."""

    tensor: Any
    value: Any

    def again(self) -> None:
        self.tensor.copy_(self.value)


@dataclass(frozen=True)
class Again:
    """A torch operator that is done again; ``made`` are the tensors that it gave and did not write in place."""

    function: Any
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    made: tuple[Any, ...]

    def again(self) -> None:
        found = self.function(*self.args, **self.named)
        for x, now in zip(self.made, _tensors(found), strict=True) if self.made else ():
            x.copy_(now)


@functools.cache
def launchers() -> dict[type, Callable[..., Any]]:
    """What launches, by the kind of kernel; first called before there is a stranger's text that could replace it."""
    compiled_launcher()
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    return {kind: kind.run for kind in (JITFunction, InterpretedFunction)}


@functools.cache
def compiled_launcher() -> Callable[..., Callable[..., Any]]:
    """What launches compiled kernels, given a grid; first called when :func:`launchers` is."""
    from triton.compiler.compiler import CompiledKernel

    return CompiledKernel.__getitem__


@dataclass
class Noted:
    """What one run of a host function did, in order, and the ``temporaries`` that it made; ``work`` is in words."""

    room: float
    steps: list[Launch | Constant | Again] = field(default_factory=list)
    temporaries: list[Any] = field(default_factory=list)
    work: dict[str, int] = field(default_factory=dict)
    varying: set[int] = field(default_factory=set)
    kept: list[Any] = field(default_factory=list)
    launching: bool = False
    tuning: bool = False

    def poison(self) -> None:
        for x in self.temporaries:
            _poison(x)

    def again(self, launches: bool = True) -> None:
        """What was noted, once more, with the launches or all but them."""
        for step in self.steps:
            if launches or not isinstance(step, Launch):
                step.again()

    @property
    def words(self) -> str:
        """What the host function did beside launching that is not done again."""
        count = sum(isinstance(s, Launch) for s in self.steps)
        did = f"its host function launches {count or 'no'} Triton kernel{'s' if count != 1 else ''}"
        work = ", ".join(f"{name} on {n} elements" for name, n in list(self.work.items())[:4])
        return did + (f" and computes with torch itself ({work})" if work else "")

    # ---- while the host function runs

    def launched(self, launch: Launch) -> None:
        tensors = list(_tensors((launch.args, launch.named)))
        self.kept += tensors
        self.varying.update(map(_storage, tensors))
        self.steps.append(launch)

    def computed(self, function: Any, args: Sequence[Any], named: Mapping[str, Any], result: Any) -> None:
        name = function.overloadpacket.__name__
        given, written = list(_tensors((args, named))), _written(function, args, named)
        known = set(map(_storage, given))
        made = [x for x in _tensors(result) if _storage(x) not in known]
        self.kept += [*given, *made]
        read = [x for x in given if not (name in _OVERWRITES and any(x is w for w in written))]
        fresh = name in _ALLOCATIONS or name in _CONSTANTS
        varies = not fresh and any(_storage(x) in self.varying for x in read)
        self.temporaries += made
        self.varying.update(_storage(x) for x in (*made, *written) if varies)
        if name in _ALLOCATIONS:
            return
        if not varies and name in ("fill_", "zero_"):
            self.steps.append(Again(function, tuple(args), dict(named), ()))
        elif not varies:
            self.steps += [Constant(x, x.clone()) for x in (*made, *written)]
        elif made or written:
            self._changed(name, Again(function, tuple(args), dict(named), tuple(made)), [*read, *made, *written])
        elif not function.is_view and result is not None and not list(_tensors(result)):
            self._work(name, sum(x.numel() for x in read))  # a number of an input: it stays what it was

    def _changed(self, name: str, step: Again, touched: Sequence[Any]) -> None:
        count = sum(x.numel() for x in touched)
        if self._moves(name, step.args):
            self.steps.append(step)
        elif count <= self.room and not any(word in name for word in _HEAVY):
            self.room -= count
            self.steps.append(step)
        else:
            self._work(name, count)

    def _moves(self, name: str, args: Sequence[Any]) -> bool:
        place = _BY_CONSTANTS.get(name)
        if place is None or place >= len(args):
            return name in _MOVES or name.endswith("_copy")
        return not any(_storage(x) in self.varying for x in _tensors(args[place]))

    def _work(self, name: str, count: int) -> None:
        self.work[name] = self.work.get(name, 0) + count


@contextmanager
def noting(arguments: Sequence[Any]) -> Iterator[Noted]:
    """What the host function on ``arguments``, its inputs and outputs, does in this thread is noted."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    tensors = list(_tensors(arguments))
    found = Noted(SHARE * sum(x.numel() for x in tensors), varying=set(map(_storage, tensors)))

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if not found.launching:
                found.computed(func, args, kwargs or {}, result)
            return result

    with _launches_noted(found), torch.no_grad(), Watch():
        yield found


@contextmanager
def _launches_noted(found: Noted) -> Iterator[None]:
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.autotuner import Autotuner

    mine = threading.get_ident()

    def noted(launch: Callable[..., Any]) -> Callable[..., Any]:
        def run(function: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
            if warmup or found.launching or threading.get_ident() != mine:
                return launch(function, *args, grid=grid, warmup=warmup, **named)
            taken: list[Any] = [grid]

            def evaluated(meta: Any) -> Any:
                taken[0] = grid(meta)
                return taken[0]

            found.launching = True
            try:
                result = launch(function, *args, grid=evaluated if callable(grid) else grid, warmup=False, **named)
            finally:
                found.launching = False
            named = {**named, "grid": tuple(taken[0]), "warmup": False}
            found.launched(Launch(function, tuple(args), named, found.tuning))
            return result

        return run

    def of_compiled(kernel: Any, grid: Any) -> Callable[..., Any]:
        launch = compiled_launcher()(kernel, grid)

        def run(*args: Any, **stream: Any) -> None:
            launch(*args, **stream)
            if not found.launching and threading.get_ident() == mine:
                found.launched(CompiledLaunch(kernel, args, {"grid": tuple(grid)}))

        return run

    def unnoted(bench: Callable[..., Any]) -> Callable[..., Any]:
        """What tuning launches is tried, and launched again when it has chosen."""
        def run(*args: Any, **named: Any) -> Any:
            before, found.launching = found.launching, True
            try:
                return bench(*args, **named)
            finally:
                found.launching = before

        return run

    def tuned(run: Callable[..., Any]) -> Callable[..., Any]:
        def run_tuned(*args: Any, **named: Any) -> Any:
            before, found.tuning = found.tuning, True
            try:
                return run(*args, **named)
            finally:
                found.tuning = before

        return run_tuned

    with ExitStack() as stack:
        for kind, launch in launchers().items():
            stack.enter_context(_replaced(kind, "run", noted(launch)))
        stack.enter_context(_replaced(CompiledKernel, "__getitem__", of_compiled))
        stack.enter_context(_replaced(Autotuner, "_bench", unnoted(Autotuner._bench)))
        stack.enter_context(_replaced(Autotuner, "run", tuned(Autotuner.run)))
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


# ---- tensors -----------------------------------------------------------------------------------------------------------------


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in arguments or results, those of tensor descriptors, too."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for x in value:
            yield from _tensors(x)
    elif isinstance(base := getattr(value, "base", None), torch.Tensor):
        yield base


def _written(function: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The arguments that an operator writes in place."""
    found: list[Any] = []
    for number, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += _tensors(args[number] if number < len(args) else named.get(argument.name))
    return found


def _storage(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _poison(tensor: Any) -> None:
    """Bytes that nobody foresees in floats, zeros in integers, which may be places."""
    import torch

    storage = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    if not tensor.is_floating_point():
        storage.zero_()
        return
    some = torch.frombuffer(bytearray(os.urandom(max(1, min(storage.numel(), _POISONED)))), dtype=torch.uint8).to(tensor.device)
    for begin in range(0, storage.numel(), len(some)):
        part = storage[begin : begin + len(some)]
        part.copy_(some[: len(part)])
