"""Loops that compute only what somebody reads.

A rewrite that takes a result out of a loop leaves it behind there: the loop would store it for nobody, and its dims would be
axes of a kernel to which nothing else of the step belongs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portakern.ir.core import Block, Op, Result, Yield, yielded
from portakern.ir.rewrite import live
from portakern.ir.tensor import Recur, TensorProgram
from portakern.lower.uses import needed


def asked_only(program: TensorProgram) -> TensorProgram:
    """``program``, itself where its loops give nothing else already."""
    body = _block(program.body)
    return program if body is program.body else replace(program, body=body)


def _block(block: Block) -> Block:
    ops = live(block.ops)
    asked: dict[Op, set[int]] = {}
    for op in ops:
        if isinstance(op, Result) and isinstance(op.source, Recur):
            asked.setdefault(op.source, set()).add(op.index)
    new: dict[Op, Op] = {}
    places: dict[Op, Mapping[int, int]] = {}
    for op in ops:
        if isinstance(op, Result) and op.source in places:
            source = new[op.source]
            new[op] = op if source is op.source else Result(source, places[op.source][op.index])
            continue
        made = op.remap(lambda o: new.get(o, o))
        if isinstance(made, Recur):
            made, places[op] = _loop(made, asked[op])
        new[op] = made
    return replace(block, ops=tuple(new[op] for op in ops)) if any(new[op] is not op for op in ops) else block


def _loop(op: Recur, asked: set[int]) -> tuple[Recur, Mapping[int, int]]:
    """``op`` without what is not needed for the results in ``asked``, and which of its results those are."""
    step, (carries, elements, captured) = _block(op.step), op.given
    made, kept = yielded(step), asked
    while (more := kept | _read(carries, [made[i] for i in kept])) != kept:
        kept = more
    results = [made[i] for i in sorted(kept)]
    used = set(needed(results))
    xs = [(a, x) for a, x in zip(elements, op.xs, strict=True) if a in used]
    same = [(a, x) for a, x in zip(captured, op.captured, strict=True) if a in used]
    places = {i: place for place, i in enumerate(sorted(kept))}
    if step is op.step and (len(results), len(xs), len(same)) == (len(made), len(elements), len(captured)):
        return op, places
    args = (*(c for i, c in enumerate(carries) if i in kept), *(a for a, _ in (*xs, *same)))
    init = tuple(x for i, x in enumerate(op.init) if i in kept)
    ops = live([*(o for o in step.ops if not isinstance(o, Yield)), Yield(tuple(results))])
    return replace(op, init=init, xs=tuple(x for _, x in xs), captured=tuple(x for _, x in same), step=Block(args, ops)), places


def _read(carries: tuple[Op, ...], results: list[Op]) -> set[int]:
    """The carries that ``results`` are computed from."""
    read = set(needed(results))
    return {i for i, c in enumerate(carries) if c in read}
