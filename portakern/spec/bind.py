"""Putting numbers in place of open dims, and back: the dims that arrays at hand stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from portakern.errors import UsageError
from portakern.ir.core import Arg, Block, Op
from portakern.ir.size import Size, Sym, evaluate, names_of, substitute
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type, verify_tensor_program


def bind(program: TensorProgram, dims: Mapping[str, int]) -> TensorProgram:
    """``program`` with sizes in place of the open ``dims``; dims left out stay open.

    Every operation is built, and so checked, anew.  Raises :class:`UsageError` for a dim the program does not have, a
    negative size or one that is not an integer.
    """
    for name, size in dims.items():
        check_size(name, size)
        if name not in program.dims:
            raise UsageError(f"{program.name} has no dim {name!r}", _known(program))
    if not dims:
        return program
    new: dict[Op, Op] = {}
    for op in (*program.body.args, *program.body.ops):
        new[op] = _substituted(op, new, dims)
    body = Block(tuple(new[a] for a in program.body.args), tuple(new[o] for o in program.body.ops))
    bound = replace(program, body=body)
    verify_tensor_program(bound)
    return bound


def check_size(name: str, size: Any) -> None:
    """Raises :class:`UsageError` unless ``size`` can be the size of a dim."""
    if isinstance(size, bool) or not isinstance(size, int):
        raise UsageError(f"{name}={size!r}: the size of a dim is an integer")
    if size < 0:
        raise UsageError(f"{name}={size}: the size of a dim is not negative")
    if size >= 2**63:
        raise UsageError(f"{name}={size}: the size of a dim is below 2**63")


def _known(program: TensorProgram) -> str:
    return f"its dims are {', '.join(program.dims)}" if program.dims else "it has no open dims"


def _substituted(op: Op, new: Mapping[Op, Op], dims: Mapping[str, int]) -> Op:
    """``op`` on new operands and sizes, both at once: with only one of them its type would not hold together."""
    changed: dict[str, Any] = {}
    for name, role in op.roles.items():
        old = getattr(op, name)
        if role == "attribute":
            value = _in(old, dims)
            if value != old:
                changed[name] = value
        elif role == "operands":
            changed[name] = tuple(new[o] for o in old)
        elif old is not None:
            changed[name] = new[old]
    return replace(op, **changed) if changed else op


def _in(value: Any, dims: Mapping[str, Size]) -> Any:
    """An attribute with sizes in place of open dims, wherever it holds any."""
    match value:
        case Sym():
            return substitute(value, dims)
        case tuple():
            return tuple(_in(v, dims) for v in value)
        case TensorType():
            return TensorType(_in(value.shape, dims), value.dtype)
    return value


def solve_dims(program: TensorProgram, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The open dims of ``program`` for inputs of ``shapes``.

    Raises :class:`UsageError` where a shape does not fit what the operator declares, naming the input and the dim.
    """
    found: dict[str, int] = {}
    source: dict[str, str] = {}
    pending: list[tuple[Arg, int, Size, int]] = []
    for arg in program.args:
        declared, given = tensor_type(arg).shape, shapes[arg.name]
        if len(declared) != len(given):
            raise UsageError(f"{arg.name} has {len(given)} dims, {program.name} takes [{', '.join(map(str, declared))}]")
        for place, (want, have) in enumerate(zip(declared, given, strict=True)):
            name = str(want)
            if want == Sym.named(name) and name not in found:
                found[name], source[name] = have, arg.name
            pending.append((arg, place, want, have))
    for arg, place, want, have in pending:
        if evaluate(want, found) != have:
            other = ", ".join(f"{n} is {found[n]} in {source[n]}" for n in sorted(names_of(want)))
            raise UsageError(
                f"{arg.name} has {have} elements in dim {place}, where {program.name} wants {want}"
                f"{f' ({other})' if other else ''}"
            )
    return found
