"""Putting numbers in place of open dims, and back: the dims that arrays at hand stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from portakern.errors import UsageError
from portakern.ir.core import Arg, Block, Op
from portakern.ir.reading import readings
from portakern.ir.size import Size, Sym, evaluate, names_of, substitute
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type, verify_tensor_program


def bind(program: TensorProgram, dims: Mapping[str, int]) -> TensorProgram:
    """``program`` with sizes in place of the open ``dims``; dims left out stay open.

    Every operation is built, and so checked, anew.  Raises :class:`UsageError` for a dim the program does not have, a
    negative size (also one that follows, as ``K - 3`` for ``K=1``) or one that is not an integer.
    """
    for name, size in dims.items():
        check_size(name, size)
        if name not in program.dims:
            raise UsageError(f"{program.name} has no dim {name!r}", _known(program))
    if not dims:
        return program
    for arg in program.args:
        _check_there(arg.name, arg, substituted(arg, {}, dims), dims)
    bound = replace(program, body=_block(program.body, {}, dims))
    for op, given in zip(program.body.ops, bound.body.ops, strict=True):
        if isinstance(op.type, TensorType):
            _check_there(f"what {op.mnemonic()} makes", op, given, dims)
    verify_tensor_program(bound)
    return bound


def _block(block: Block, outer: Mapping[Any, Any], dims: Mapping[str, int]) -> Block:
    """``block`` on what ``outer`` has in place of operations and blocks; one that several operations share they share again."""
    new = dict(outer)
    for op in (*block.args, *block.ops):
        for region in op.regions:
            if region not in new:
                new[region] = _block(region, new, dims)
        new[op] = substituted(op, new, dims)
    return Block(tuple(new[a] for a in block.args), tuple(new[o] for o in block.ops))


def check_size(name: str, size: Any) -> None:
    """Raises :class:`UsageError` unless ``size`` can be the size of a dim."""
    if isinstance(size, bool) or not isinstance(size, int):
        raise UsageError(f"{name}={size!r}: the size of a dim is an integer")
    if size < 0:
        raise UsageError(f"{name}={size}: the size of a dim is not negative")
    if size >= 2**63:
        raise UsageError(f"{name}={size}: the size of a dim is below 2**63")


def _check_there(what: str, op: Op, bound: Op, dims: Mapping[str, int]) -> None:
    for want, size in zip(tensor_type(op).shape, tensor_type(bound).shape, strict=True):
        if isinstance(size, int) and size < 0:
            given = ", ".join(f"{n}={dims[n]}" for n in sorted(names_of(want) & dims.keys()))
            raise UsageError(f"{what} has {want} elements along a dim, which is {size} for {given}",
                             hint=f"give sizes for which {want} is not negative", where=str(op.loc or ""))


def _known(program: TensorProgram) -> str:
    return f"its dims are {', '.join(program.dims)}" if program.dims else "it has no open dims"


def substituted(op: Op, new: Mapping[Any, Any], dims: Mapping[str, Size]) -> Op:
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
    for arg in program.args:
        declared, given = tensor_type(arg).shape, shapes[arg.name]
        if len(declared) != len(given):
            raise UsageError(f"{arg.name} has {len(given)} dims, {program.name} takes [{', '.join(map(str, declared))}]")
    told = readings({arg.name: tensor_type(arg).shape for arg in program.args})
    found: dict[str, int] = {}
    for name, reading in told.items():
        found[name] = reading.value(shapes[reading.array][reading.dim], found)
    for arg in program.args:
        for place, (want, have) in enumerate(zip(tensor_type(arg).shape, shapes[arg.name], strict=True)):
            _check_size(program, arg, place, want, have, {n: (found[n], told[n].array) for n in names_of(want) & set(found)})
    return found


def _check_size(program: TensorProgram, arg: Arg, place: int, want: Size, have: int,
                found: Mapping[str, tuple[int, str]]) -> None:  # fmt: skip
    """Whether dim ``place`` of ``arg`` is as declared where dims have been ``found`` (value and the array that tells it)."""
    untold = sorted(names_of(want) - set(found))
    if untold:
        raise UsageError(f"the shapes of arrays do not tell {' and '.join(untold)}: {program.name} wants {want} elements in "
                         f"dim {place} of {arg.name}",
                         hint=f"build for a given {untold[0]}, or declare an array with it as a dim",
                         where=str(arg.loc or ""))  # fmt: skip
    values = {n: value for n, (value, _) in found.items()}
    if evaluate(want, values) != have or any(value < 0 for value in values.values()):
        other = ", ".join(f"{n} is {value} in {array}" for n, (value, array) in sorted(found.items()))
        raise UsageError(
            f"{arg.name} has {have} elements in dim {place}, where {program.name} wants {want}{f' ({other})' if other else ''}"
        )
