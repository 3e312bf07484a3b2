"""The gradient of a built operator in PyTorch's autograd: its backward, built for the same target.

Which inputs need gradients is known when it is called; their backward is built when one first goes backward, or when a compiler
traces it.  It is an operator of torch itself, so that it is traced, and differentiated, as any other.  What it reads of the
outputs is saved with the inputs and not computed again.  An operator that has no gradient raises why when one is computed, in
compiled code too, whose backward is traced before anyone asks for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError
from portakern.gradients.program import backward_program, float_outputs, read
from portakern.ir.tensor import TensorProgram, tensor_type

Names = tuple[str, ...]


class NoGradient(PortakernError, RuntimeError):
    """Going backward through an operator that has no gradient."""

    def __init__(self, reason: str) -> None:
        hint = "call it under torch.no_grad(), on x.detach(), or from a torch.autograd.Function with a backward of yours"
        PortakernError.__init__(self, "no-gradient", reason, hint)


@dataclass(frozen=True)
class Backward:
    """The gradients of the inputs ``wrt``: the outputs that are saved for it, or the reason why there are none."""

    wrt: Names
    saved: Names = ()
    refusal: str = ""


class Autograd:
    """What ``torch.library.register_autograd`` is given for ``program``; ``operator(wrt, saved)`` builds a backward."""

    def __init__(self, program: TensorProgram, operator: Callable[[Names, Names], Any]) -> None:
        self.program, self.operator = program, operator
        self.names = tuple(a.name for a in program.args)
        self.floats = {a.name for a in program.args if DTYPES[tensor_type(a).dtype].is_float and a.name not in program.scalars}
        self._known: dict[Names, Backward] = {}
        self._lock = threading.Lock()

    def keep(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        """Saves what the backward reads."""
        outputs = dict(zip(self.program.outputs, output if isinstance(output, tuple | list) else (output,), strict=True))
        needed = zip(self.names, ctx.needs_input_grad, strict=False)  # torch adds one of its own
        ctx.plan = self._backward(tuple(n for n, needs in needed if needs and n in self.floats))
        given = dict(zip(self.names, inputs, strict=True))
        ctx.numbers = {n: x for n, x in given.items() if n in self.program.scalars}
        arrays = {n: x for n, x in given.items() if n not in ctx.numbers}
        ctx.save_for_backward(*arrays.values(), *(outputs[n] for n in ctx.plan.saved))

    def backward(self, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        plan: Backward = ctx.plan
        numbers: Mapping[str, Any] = ctx.numbers
        arrays = dict(zip([n for n in self.names if n not in numbers], ctx.saved_tensors, strict=False))
        if plan.refusal:
            of = next(g for g in gradients if g is not None)
            made: Sequence[Any] = [_raising(of, arrays[n], plan.refusal) for n in plan.wrt]
        else:
            ours = dict(zip(self.program.outputs, gradients, strict=True))
            given = [ours[n].contiguous() for n in float_outputs(self.program)]
            made = self.operator(plan.wrt, plan.saved)(*ctx.saved_tensors, *given, *numbers.values()) if plan.wrt else ()
        by_name = dict(zip(plan.wrt, made if isinstance(made, tuple | list) else (made,), strict=True))
        return tuple(by_name.get(n) for n in self.names)

    def _backward(self, wrt: Names) -> Backward:
        with self._lock:
            if wrt not in self._known:
                self._known[wrt] = _planned(self.program, wrt)
            return self._known[wrt]


def _planned(program: TensorProgram, wrt: Names) -> Backward:
    outputs = tuple(float_outputs(program))
    if not wrt or not outputs:
        return Backward(())
    try:
        reads = read(backward_program(program, wrt, outputs))
    except PortakernError as error:
        return Backward(wrt, refusal=f"{program.name} has no gradient: {error}")
    return Backward(wrt, tuple(n for n in outputs if n in reads))


def tags(torch: Any) -> tuple[Any, ...]:
    """Compiled code hands over tensors with the strides that tracing saw, as those of another layout want another kernel."""
    wanted = ("pt2_compliant_tag", "needs_exact_strides")
    return tuple(getattr(torch.Tag, name) for name in wanted if hasattr(torch.Tag, name))


# ---- gradients that do not exist ------------------------------------------------------------------------------------------

_libraries: list[Any] = []  # torch undoes what a Library defined when that object goes


def _raising(of: Any, like: Any, reason: str) -> Any:
    """A tensor as a tracer sees it, whose numbers raise why there are none; its operator is defined when first asked for.  It
    takes the gradient ``of`` a result, since what needs none is computed on the way forward."""
    import torch

    if not hasattr(torch.ops.portakern, "no_gradient"):
        library = torch.library.Library("portakern", "FRAGMENT")
        _libraries.append(library)
        library.define("no_gradient(Tensor of, Tensor like, str reason) -> Tensor", tags=tags(torch))

        def refuse(of: Any, like: Any, reason: str) -> Any:
            raise NoGradient(reason)

        library.impl("no_gradient", refuse, "CompositeExplicitAutograd")
        torch.library.register_fake("portakern::no_gradient", lambda of, like, reason: torch.empty_like(like), lib=library)
    return torch.ops.portakern.no_gradient.default(of, like, reason)
