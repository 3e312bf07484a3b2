"""Which modules of a model run on our kernels."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from portakern.backend import Target
from portakern.errors import MissingRuleError, PortakernError, RuntimeFault, UsageError
from portakern.registry import registry
from portakern.spec.cost import cost
from portakern.study.built import Built
from portakern.study.work import Problem, works
from portakern.torch_import import from_torch
from portakern.torch_import.trees import leaves
from portakern.torch_swap.recording import Call, recorded
from portakern.torch_swap.stand_in import Kernels, StandIn
from portakern.torch_swap.verified import times_as_fast, verify

Where = str | type | Callable[[str, Any], bool] | Sequence[Any] | None


@dataclass(frozen=True)
class Decision:
    """What became of a module.

    Args:
        name: its path in the model; empty for the model itself.
        kind: its class.
        kernels: how many take its place; 0 where it is kept.
        max_error_ratio: their largest error as a share of its bound.
        speed: how many times as fast they are on the example, where that was measured.
        kept: why the module is kept.
    """

    name: str
    kind: str
    kernels: int = 0
    max_error_ratio: float | None = None
    speed: float | None = None
    kept: str = ""

    def __str__(self) -> str:
        return f"{self.name or '(the model)'} ({self.kind}): {self.kept or self._replaced()}"

    def _replaced(self) -> str:
        fast = f", {self.speed:.2f} times as fast" if self.speed is not None else ""
        return f"replaced by {self.kernels} kernels, error/bound {self.max_error_ratio:.3f}{fast}"


@dataclass
class Swapped:
    """A model of which some modules run on kernels; ``print`` says which, and why the others do not."""

    model: Any
    decisions: tuple[Decision, ...]
    stand_ins: tuple[StandIn, ...] = field(repr=False)

    @property
    def replaced(self) -> tuple[str, ...]:
        return tuple(d.name for d in self.decisions if d.kernels)

    @property
    def fell_back(self) -> dict[str, Mapping[str, int]]:
        """Calls of replaced modules that PyTorch did all the same: how many, by module and reason."""
        return {s.name: dict(s.fell_back) for s in self.stand_ins if s.fell_back}

    def restore(self) -> None:
        """Gives every module its own ``forward`` back."""
        for stand_in in self.stand_ins:
            stand_in.restore()

    def refresh(self) -> None:
        """Weights were written where nobody counts it (see :meth:`portakern.study.built.Built.refresh`)."""
        for stand_in in self.stand_ins:
            for kernels in stand_in.kernels.values():
                kernels.built.refresh()

    def __str__(self) -> str:
        return "\n".join(map(str, self.decisions)) or "nothing was tried"


def swap(model: Any, target: str | Target, example_inputs: Any, where: Where = None, gain: float | None = None) -> Swapped:
    """Make modules of ``model`` run on kernels for ``target``, in place.

    Modules are tried from the outside in; inside a replaced module none is tried.  Kernels are compared with the module in
    float64 before they replace it.  Parameters, names and ``state_dict`` stay the module's.  Kernels read the parameters at
    each call; what depends only on parameters is computed again after they changed.  In training mode, if gradients are
    needed, under autocast, and for shapes that no example has, a replaced module runs in PyTorch as before.
    ``fell_back`` counts this, and the first time is logged.

    Args:
        model: a ``torch.nn.Module``.
        target: a ``language:device`` that can run here.
        example_inputs: a tensor or a tuple that the model is called with; a list of them for several shapes.
        where: which modules to try: a class, a pattern of names (``"layers.*.mlp"``), a function of name and module, or a
            sequence of these.  By default all.
        gain: how many times as fast as the module the kernels must be on the first example.  By default 1 without
            ``where``, and any speed with it.

    Raises:
        UsageError: the model, the target or ``where`` makes no sense.
        RuntimeFault: ``target`` cannot be run here.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"{type(model).__name__} is no torch.nn.Module", hint="pk.from_torch takes functions too")
    chosen = registry().target(str(target))
    _must_run(chosen)
    examples = example_inputs if isinstance(example_inputs, list) else [example_inputs]
    calls = recorded(model, [x if isinstance(x, tuple) else (x,) for x in examples])
    wanted = _wanted(where)
    least = 1.0 if gain is None and where is None else gain
    tried = list(_tried(model, "", lambda name, module: _replaced(name, module, calls, chosen, least), wanted))
    if where is not None and not tried:
        raise UsageError(f"no module of the model is {where!r}",
                         hint=f"its modules are {', '.join(n for n, _ in list(model.named_modules())[1:9])}, ..")
    stand_ins = tuple(s for _, s in tried if s is not None)
    for stand_in in stand_ins:
        stand_in.install()
    return Swapped(model, tuple(d for d, _ in tried), stand_ins)


Outcome = tuple[Decision, StandIn | None]


def _tried(module: Any, name: str, replace: Callable[[str, Any], Outcome], wanted: Callable[[str, Any], bool],
           seen: set[Any] | None = None) -> Iterator[Outcome]:  # fmt: skip
    seen = set() if seen is None else seen
    if module in seen:
        return
    seen.add(module)
    if wanted(name, module):
        decision, stand_in = replace(name, module)
        if stand_in is not None or decision.kept:
            yield decision, stand_in
        if stand_in is not None:
            return
    for inner, child in module.named_children():
        yield from _tried(child, f"{name}.{inner}" if name else inner, replace, wanted, seen)


def _replaced(name: str, module: Any, calls: Mapping[str, Sequence[Call]], target: Target, least: float | None) -> Outcome:
    """The module's stand-in, not yet installed, or why there is none."""
    kind = type(module).__name__
    if name not in calls:  # a list of modules is never called itself
        return Decision(name, kind, kept="" if any(module.children()) else "the examples do not call it"), None
    stand_in = StandIn(module, name)
    ratios = []
    try:
        for call in calls[name]:
            stand_in.kernels[call.signature], ratio = _kernels(module, call, target)
            ratios.append(ratio)
    except PortakernError as error:
        return Decision(name, kind, kept=_why(error)), None
    first = calls[name][0]
    kernels = stand_in.kernels[first.signature]
    speed = None
    if least is not None:
        given = leaves((first.args, dict(first.kwargs)))
        speed = times_as_fast(lambda: module(*first.args, **first.kwargs), lambda: kernels(given))
        if speed < least:
            return Decision(name, kind, kept=f"kernels are {speed:.2f} times as fast, and {least:g} is asked"), None
    return Decision(name, kind, len(kernels.built.program.kernels), max(ratios), speed), stand_in


def _kernels(module: Any, call: Call, target: Target) -> tuple[Kernels, float]:
    op = from_torch(module, call.args, kwargs=call.kwargs)
    if op.updates:
        raise PortakernError("swap", f"it writes to {', '.join(op.updates.values())}")
    if op.random:
        raise PortakernError("swap", "it draws random numbers, which stay PyTorch's")
    if cost(op.program()).flops == 0:
        raise PortakernError("swap", "it computes nothing")
    (work,) = works(Problem(op, op.typical.dims, {}, op.typical.inputs), [target], op.dtypes)
    kernels = Kernels.of(op, Built(replace(work, weights=op.weights), op.bound), module, call)
    return kernels, verify(op, work, kernels, call)


def _why(error: PortakernError) -> str:
    missing = error.missing[:3] if isinstance(error, MissingRuleError) else ()
    return "; ".join(missing) or error.message.splitlines()[0]


def _must_run(target: Target) -> None:
    runtime = registry().language(target.language).runtime
    if runtime is None or not (found := runtime.available(target)):
        why = found.detail if runtime is not None else f"{target.language} has no runtime"
        raise RuntimeFault(f"{target} cannot be run here: {why}", hint="portakern doctor says what can", kind="no-silicon")


def _wanted(where: Where) -> Callable[[str, Any], bool]:
    if where is None:
        return lambda name, module: True
    if isinstance(where, list | tuple):
        each = [_wanted(w) for w in where]
        return lambda name, module: any(w(name, module) for w in each)
    if isinstance(where, str):
        return lambda name, module: fnmatch.fnmatchcase(name, where)
    if isinstance(where, type):
        return lambda name, module: isinstance(module, where)
    if callable(where):
        return where
    raise UsageError(f"where={where!r}", hint="a class, a pattern of names, a function of name and module, or several")
