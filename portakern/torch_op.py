"""A built operator as an operator of ``torch.library``: eager code and ``torch.compile`` call it alike.

The operator is defined once per process in the namespace ``portakern`` (or the one asked for).  Its kernel is the build's own
call, on whatever device the tensors are; its fake kernel solves the open dims from the shapes at hand, which may be symbolic.
Its gradient is that of :mod:`portakern.torch_autograd`.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portakern.backend import Source
from portakern.dtypes import DTYPES
from portakern.errors import ToolMissing, UsageError
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.ir.tile import BufferType
from portakern.spec.bind import solve_dims
from portakern.torch_autograd import Autograd, tags

NAMESPACE = "portakern"

_lock = threading.Lock()
_known: dict[str, tuple[str, Any]] = {}  # qualified name -> (identity of the build, its overload)
_libraries: list[Any] = []  # torch undoes what a Library defined when that object goes


@dataclass(frozen=True)
class TorchKernel:
    """What becomes an operator: a build's source and program, and two of its functions.

    Args:
        call: runs it on its inputs in order.
        named: its inputs by name, their number and dtypes checked; raises what a call with wrong ones raises.
        backward: builds its backward for inputs and saved outputs by name (see :meth:`portakern.study.built.Built.backward`).
    """

    source: Source
    program: TensorProgram
    call: Callable[..., Any]
    named: Callable[[Sequence[Any]], dict[str, Any]]
    backward: Callable[[tuple[str, ...], tuple[str, ...]], TorchKernel]


def torch_op(kernel: TorchKernel, name: str | None = None) -> Any:
    """The ``OpOverload`` of a build; see :meth:`portakern.study.built.Built.as_torch_op`."""
    try:
        import torch
    except ImportError:
        raise ToolMissing("torch is not installed", hint="pip install 'portakern[torch]'") from None
    identity = _identity(kernel)
    qualified = _qualified(name, kernel.source, identity)
    with _lock:
        if qualified not in _known:
            _known[qualified] = (identity, _defined(kernel, qualified, torch))
        known, overload = _known[qualified]
    if known != identity:
        raise UsageError(f"the name {qualified} belongs to another build already", hint="choose another name, or none")
    return overload


def _identity(kernel: TorchKernel) -> str:
    """What the operator does, the same in every process: text, launches, and the arrays whose shapes it follows."""
    source, inputs = kernel.source, [(a.name, tensor_type(a)) for a in kernel.program.args]
    text = repr((source.digest, source.arrays, source.sizes, inputs))
    return hashlib.sha256(text.encode()).hexdigest()


def _qualified(name: str | None, source: Source, identity: str) -> str:
    if name is None:
        plain = re.sub(r"\W+", "_", f"{source.operator}_{source.target}")
        return f"{NAMESPACE}::{plain}_{identity[:12]}"
    namespace, _, own = name.rpartition("::")
    if not own.isidentifier() or (namespace and not namespace.isidentifier()):
        raise UsageError(f"{name!r} cannot be the name of an operator", hint="write name or namespace::name")
    return f"{namespace or NAMESPACE}::{own}"


def _defined(kernel: TorchKernel, qualified: str, torch: Any) -> Any:
    """Defines the operator with its kernel, its fake kernel and its gradient."""
    namespace, _, own = qualified.partition("::")
    if hasattr(getattr(torch.ops, namespace), own):
        raise UsageError(f"torch has an operator named {qualified} already", hint="choose another name, or none")
    _refuse_dtypes(kernel, torch)
    library = torch.library.Library(namespace, "FRAGMENT")
    _libraries.append(library)
    library.define(own + schema(kernel), tags=tags(torch))
    library.impl(own, kernel.call, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, _fake(kernel, torch), lib=library)
    autograd = Autograd(kernel.program, lambda wrt, save: torch_op(kernel.backward(wrt, save)))
    torch.library.register_autograd(qualified, autograd.backward, setup_context=autograd.keep, lib=library)
    overload = getattr(getattr(torch.ops, namespace), own).default
    return overload


def schema(kernel: TorchKernel) -> str:
    """``(Tensor x, float alpha) -> Tensor``, in the operator's order."""
    inputs = {a.name: a for a in kernel.source.by_role("input", "scalar")}
    args = ", ".join(f"{_argument(inputs[a.name])} {a.name}" for a in kernel.program.args)
    count = len(kernel.source.by_role("output"))
    return f"({args}) -> " + ("Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})")


def _argument(array: Array) -> str:
    if array.role == "input":
        return "Tensor"
    if array.dtype == "bool":
        return "bool"
    return "float" if array.dtype.startswith(("f", "bf")) else "SymInt"


def _refuse_dtypes(kernel: TorchKernel, torch: Any) -> None:
    for array in kernel.source.by_role("input", "output"):
        if not hasattr(torch, DTYPES[array.dtype].long_name):
            raise UsageError(f"{array.name} is {array.dtype}, which torch {torch.__version__} does not have")


def _fake(kernel: TorchKernel, torch: Any) -> Any:
    """The outputs without their numbers, for sizes that may be symbolic; wrong inputs raise what a call raises."""
    outputs = kernel.source.by_role("output")

    def fake(*inputs: Any) -> Any:
        given = kernel.named([x if isinstance(x, torch.Tensor) else 0 for x in inputs])  # symbolic numbers are no ints
        shapes = {n: tuple(getattr(x, "shape", ())) for n, x in given.items()}
        try:
            sizes = solve_dims(kernel.program, shapes)
        except UsageError:
            solve_dims(kernel.program, {n: tuple(map(int, shape)) for n, shape in shapes.items()})  # says numbers
            raise
        like = next((x for x in inputs if isinstance(x, torch.Tensor)), None)
        device = "cpu" if like is None else like.device
        made = [torch.empty(_shape(a, sizes), dtype=getattr(torch, DTYPES[a.dtype].long_name), device=device) for a in outputs]
        return made[0] if len(made) == 1 else tuple(made)

    return fake


def _shape(array: Array, sizes: Mapping[str, Any]) -> Sequence[Any]:
    return [evaluate(n, sizes) for n in array.type.shape] if isinstance(array.type, BufferType) else []
