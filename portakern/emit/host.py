"""Names in host functions that are Python: arrays and open dims keep theirs unless the text means something else by them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from portakern.emit.python_like import PythonNames, PythonWriter, size_expr
from portakern.ir.program import Nested, Program, nested
from portakern.ir.size import Size, Sym, substitute
from portakern.ir.tile import BufferType


def host_names(program: Program, reserved: Collection[str]) -> dict[str, str]:
    """What every open dim and array of ``program`` is called where ``reserved`` names are taken."""
    names = PythonNames(reserved)
    steps = [r.step for r in program.repeats]
    return {x: names.fresh(x) for x in dict.fromkeys([*program.sizes, *steps, *(a.name for a in program.arrays)])}


def write_launches(out: PythonWriter, program: Program, names: Mapping[str, str], launch: Callable[[int], None]) -> None:
    """What ``launch`` writes for the number of every kernel, in loops where they are repeated."""

    def write(plan: Sequence[int | Nested]) -> None:
        for item in plan:
            if isinstance(item, int):
                launch(item)
                continue
            r = item.repeat
            with out.block(f"for {names[r.step]} in range({size_expr(r.count, names).text}):"):
                write(item.inside)
                if r.swaps:
                    now = ", ".join(names[n] for pair in r.swaps for n in pair)
                    out.line(f"{now} = {', '.join(names[n] for a, b in r.swaps for n in (b, a))}")

    write(nested(len(program.kernels), program.repeats))


def called(program: Program, names: Mapping[str, str]) -> Program:
    """``program`` with the arrays and open dims of its signature called as ``names`` says; its kernels stay as they are."""
    if all(old == new for old, new in names.items()):
        return program
    sizes: dict[str, Size] = {old: Sym.named(new) for old, new in names.items()}
    arrays = [replace(a, name=names[a.name], type=_of_sizes(a.type, sizes) if isinstance(a.type, BufferType) else a.type)
              for a in program.arrays]  # fmt: skip
    return replace(program, arrays=tuple(arrays))


def _of_sizes(t: BufferType, sizes: Mapping[str, Size]) -> BufferType:
    strides = None if t.strides is None else tuple(substitute(s, sizes) for s in t.strides)
    return replace(t, shape=tuple(substitute(s, sizes) for s in t.shape), strides=strides)
