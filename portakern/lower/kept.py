"""Arrays that grow stay whole while a program is simplified (see :mod:`growing`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.rewrite import live
from portakern.ir.tensor import Assemble, Concat, TensorProgram
from portakern.lower.cuts import program_of
from portakern.lower.growing import inside_others


def may_grow(program: TensorProgram) -> bool:
    """Whether one value is a piece of several concatenations, or a concatenation of another."""
    pieces = [p for op in program.body.ops if isinstance(op, Concat) for p in dict.fromkeys(op.parts)]
    return len(set(pieces)) < len(pieces) or any(isinstance(p, Concat) for p in pieces)


def kept_whole(program: TensorProgram, rewrite: Callable[[TensorProgram], TensorProgram]) -> TensorProgram:
    """``program`` after ``rewrite``, which sees arguments in the place of arrays that grow: what is done to them is not done to
    each of their pieces, since those are pieces of others too."""
    inside = inside_others(program)
    growing = {op for op in inside if isinstance(op, Assemble)} | {i.whole for i in inside.values()}
    if not growing:
        return rewrite(program)
    taken = {a.name for a in program.args} | set(program.outputs)
    names: dict[Op, str] = {}
    for op in program.body.ops:
        if op in growing:
            name = f"whole{len(names)}"
            while name in taken:
                name += "_"
            names[op] = name
    results = [*(replace(op) if op in growing else op for op in program.results), *(replace(op) for op in names)]
    opened = program_of(program, results, [*program.outputs, *names.values()], names)
    made = rewrite(opened)
    count = len(program.outputs)
    return _closed(program, made.results[:count], dict(zip(names.values(), made.results[count:], strict=True)))


def _closed(program: TensorProgram, results: tuple[Op, ...], values: Mapping[str, Op]) -> TensorProgram:
    """The program of ``results``, in which ``values`` stand for the arguments of their names."""
    done: dict[Op, Op] = {}
    ops: list[Op] = []
    waiting = list(reversed(results))
    while waiting:
        op = waiting[-1]
        below = (values[op.name],) if isinstance(op, Arg) and op.name in values else op.operands
        if op in done:
            waiting.pop()
        elif missing := [o for o in below if o not in done]:
            waiting += reversed(missing)
        elif isinstance(op, Arg):
            done[op] = done[values[op.name]] if op.name in values else op
        else:
            done[op] = op.remap(done.__getitem__)
            ops.append(done[op])
    body = Block(program.args, live([*ops, Yield(tuple(done[r] for r in results))]))
    return replace(program, body=body)
