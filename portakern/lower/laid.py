"""Weights of convolutions as products walk them: taps first, then channels, then what comes out of them.

PyTorch has what comes out first and the taps last, so that a row of a product's tile lies spread over as many lines of memory
as it has elements.  Weights stay as they are from call to call, so they are laid out once, by kernels of their own, which are
then part of what is done when weights are new (:mod:`portakern.lower.hoisting`).  AlexNet's second convolution of 1024 images
on an H200: 34.1 ms as PyTorch has its weights, 27 TFLOP/s; of 256 images, as an operator that has them like this, 71.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.program import Array, Program, moved
from portakern.ir.tensor import Convolve, TensorProgram, Transpose, tensor_type
from portakern.lower.uses import users_of


@dataclass(frozen=True)
class LaidOut:
    """``program`` takes the arrays ``laid`` in place of weights; ``layout``, which takes the weights by their own names, gives
    them.  ``weights`` are those, by what is in place of them, each with the order of its dims."""

    program: TensorProgram
    layout: TensorProgram
    weights: Mapping[str, tuple[Arg, tuple[int, ...]]]

    def names(self, names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Names of dims by array, for those in place of weights too."""
        found = dict(names)
        for laid, (weight, order) in self.weights.items():
            if weight.name in names:
                found[laid] = tuple(names[weight.name][d] for d in order)
        return found


def laid_out(program: TensorProgram, weights: Collection[str]) -> LaidOut | None:
    """``program`` with the weights of its convolutions in their places; ``None`` where there are none to lay out."""
    users = users_of(program) if weights else {}
    found = {arg: move for arg in program.args if arg.name in weights and (move := _move(users, arg)) is not None}
    if not found:
        return None
    taken = {a.name for a in program.args} | set(program.outputs)
    laid: dict[Op, Arg] = {}
    for arg, move in found.items():
        name = f"{arg.name}_laid"
        while name in taken:
            name += "_"
        taken.add(name)
        laid[move] = Arg(name, move.type, loc=move.loc)
    args = tuple(laid[found[a]] if a in found else a for a in program.args)
    changed = replace(program, body=Block(args, _without(program, laid)))
    moves = tuple(found.values())
    layout = TensorProgram(f"{program.name}_layout", Block(tuple(found), (*moves, Yield(moves))),
                           tuple(laid[m].name for m in moves))  # fmt: skip
    return LaidOut(changed, layout, {laid[m].name: (a, m.order) for a, m in found.items()})


def _move(users: Mapping[Op, Sequence[Op]], arg: Arg) -> Transpose | None:
    """How ``arg`` is turned on its only way into convolutions of windows.  Where each channel is convolved by itself, its taps
    stay together: a block that has one channel reads them at once."""
    (move, *others) = users.get(arg, [arg])
    if others or not isinstance(move, Transpose) or not all(isinstance(n, int) for n in tensor_type(arg).shape):
        return None
    into, window = users.get(move, ()), tensor_type(move).shape[:-2]
    fits = into and all(isinstance(c, Convolve) and c.w is move and c.x is not move for c in into)
    channels = tensor_type(move).shape[-2]
    return move if fits and channels != 1 and any(n != 1 for n in window) else None


def _without(program: TensorProgram, laid: Mapping[Op, Op]) -> tuple[Op, ...]:
    new: dict[Op, Op] = dict(laid)
    for op in program.body.ops:
        if op not in new:
            new[op] = op.remap(lambda o: new.get(o, o))
    return tuple(new[op] for op in program.body.ops if op not in laid)


def with_layouts(program: Program, layout: Program, laid: LaidOut) -> Program:
    """``program``, lowered from that of ``laid``, behind the kernels of ``layout``, lowered from its layout; it takes weights
    as they are."""
    weights = {a.name: a for a in layout.by_role("input")}

    def given(array: Array) -> Array:
        return weights[laid.weights[array.name][0].name] if array.name in laid.weights else array

    inside = [replace(a, role="temporary", init=None) for a in program.arrays if a.name in laid.weights]
    arrays = (*map(given, program.arrays), *inside, *layout.by_role("temporary"))
    count = len(layout.kernels)
    computed = (*layout.computed, *(replace(c, first=c.first + count, last=c.last + count) for c in program.computed))
    repeats = moved(program.repeats, lambda first: first + count, lambda last: last + count + 1)
    return replace(program, arrays=arrays, kernels=(*layout.kernels, *program.kernels), repeats=repeats, computed=computed)
