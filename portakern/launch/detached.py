"""Tensors that need gradients: a kernel that is called as it is gives results that are cut off from them, which is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import UsageError
from portakern.ir.tensor import TensorProgram, tensor_type

TRACED = "a built kernel cannot be traced: call built.as_torch_op(), made before compiling, which torch.compile takes whole"


def not_traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Tells torch.compile why it may not trace ``function``, in place of what it stumbles over inside.

    The two names are those that ``torch.compiler.disable(reason=...)`` sets; torch itself is not imported for it.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = TRACED  # type: ignore[attr-defined]
    return function


def needs_gradient(x: Any) -> bool:
    return bool(getattr(x, "requires_grad", False)) and sys.modules["torch"].is_grad_enabled()


def refuse_detaching(program: TensorProgram, given: Mapping[Any, Any]) -> None:
    """Raises :class:`UsageError` where a result of floats would be cut off from an input that needs a gradient."""
    if not any(DTYPES[tensor_type(r).dtype].is_float for r in program.results):
        return  # what has no gradient misses none
    for name, x in given.items():
        if needs_gradient(x):
            which = name if isinstance(name, str) else f"input {name}"
            raise UsageError(
                f"{which} of {program.name} needs a gradient, and the result of a bare kernel would be cut off from it",
                hint="call built.as_torch_op(), whose backward is the operator's gradient (pk.grad), or put the call into a "
                     "torch.autograd.Function with a backward of yours; without gradients call it under torch.no_grad(), or "
                     "on x.detach()", kind="detached")  # fmt: skip


def detaching_refused(program: TensorProgram, given: Mapping[str, Any], call: Callable[[Sequence[Any]], Any]
                      ) -> Callable[[Sequence[Any]], Any]:  # fmt: skip
    """``call``, which looks whether gradients are switched on where one of its inputs needs one: nothing else pays for that."""
    if not any(getattr(x, "requires_grad", False) for x in given.values()):
        return call
    refuse_detaching(program, given)
    names = list(given)

    def looking(inputs: Sequence[Any]) -> Any:
        refuse_detaching(program, dict(zip(names, inputs, strict=True)))
        return call(inputs)

    return looking
