"""Loops over kernels as JAX has them (``jax.lax.scan``): a function of one turn, which takes carries and the elements of
sequences at hand, and gives new carries and what is stacked.  So a kernel sees one element of a sequence as an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program, Repeat
from portakern.ir.size import Sym, names_of
from portakern.ir.tile import BufferType, Kernel, Load, Store


@dataclass(frozen=True)
class Scan:
    """What the function of one turn takes and gives beside carries: (array, what its element is called) pairs."""

    taken: tuple[tuple[str, str], ...]
    shown: tuple[tuple[str, str], ...]
    reverse: bool


def in_turns(program: Program) -> tuple[Program, Mapping[str, Scan]]:
    """``program`` with kernels that are repeated on elements of sequences, and what each loop takes and shows, by its step."""
    scans: dict[str, Scan] = {}
    for r in sorted(program.repeats, key=lambda r: r.first - r.last):  # the outer ones first
        program, scans[r.step] = _of_elements(program, r)
    return program, scans


def _of_elements(program: Program, r: Repeat) -> tuple[Program, Scan]:
    arrays = {a.name: a for a in program.arrays}
    inside = program.kernels[r.first : r.last]
    places = {_name(op): op.indices[0] for k in inside for op in _accesses(k) if _in_turn(op, r)}
    written = {a.name for k in inside for a in k.written}  # type: ignore[attr-defined]
    called = {n: _fresh(f"{n}_{r.step}", arrays) for n in places}
    for old, new in called.items():
        of = arrays[old].type
        assert isinstance(of, BufferType)
        arrays[new] = Array(new, BufferType(of.shape[1:], of.dtype), "temporary", loc=arrays[old].loc)
    kernels = [_on_elements(k, called) if r.first <= n < r.last else k for n, k in enumerate(program.kernels)]
    taken = tuple((old, new) for old, new in called.items() if old not in written)
    shown = tuple((old, new) for old, new in called.items() if old in written)
    reverse = any(index.offset != Sym.named(r.step) for index in places.values())
    return replace(program, arrays=tuple(arrays.values()), kernels=tuple(kernels)), Scan(taken, shown, reverse)


def _accesses(kernel: Kernel) -> Iterator[Load | Store]:
    return (op for op in kernel.body.walk() if isinstance(op, Load | Store))


def _name(op: Load | Store) -> str:
    assert isinstance(op.buffer, Arg)
    return op.buffer.name


def _in_turn(op: Load | Store, r: Repeat) -> bool:
    return bool(op.indices) and r.step in names_of(op.indices[0].offset)


def _fresh(wanted: str, taken: Mapping[str, object]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted


def _on_elements(kernel: Kernel, called: Mapping[str, str]) -> Kernel:
    """``kernel`` with arrays in ``called`` seen without their first dim."""
    new: dict[Op, Op] = {}
    for arg in kernel.args:
        if arg.name in called:
            assert isinstance(arg.of, BufferType)
            new[arg] = Arg(called[arg.name], BufferType(arg.of.shape[1:], arg.of.dtype))
    if not new:
        return kernel
    env: dict[Op, Op] = dict(new)

    def block(old: Block) -> Block:
        ops: list[Op] = []
        for op in old.ops:
            if isinstance(op, Load | Store) and op.buffer in new:
                moved: Op = _at_element(op, env)
            else:
                moved = op.remap(lambda o: env.get(o, o), block)
            env[op] = moved
            ops.append(moved)
        return Block(old.args, tuple(ops))

    body = block(kernel.body)
    return replace(kernel, body=Block(tuple(new.get(a, a) for a in kernel.body.args), body.ops))


def _at_element(op: Load | Store, env: Mapping[Op, Op]) -> Op:
    rest = {"buffer": env[op.buffer], "indices": op.indices[1:]}
    if isinstance(op, Store):
        return replace(op, value=env.get(op.value, op.value), **rest)
    return replace(op, gathers=tuple(env.get(g, g) for g in op.gathers), **rest)
