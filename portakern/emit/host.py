"""Names in host functions that are Python: arrays and open dims keep theirs unless the text means something else by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from portakern.emit.python_like import PythonNames
from portakern.ir.program import Program
from portakern.ir.size import Size, Sym, substitute
from portakern.ir.tile import BufferType


def host_names(program: Program, reserved: Collection[str]) -> dict[str, str]:
    """What every open dim and array of ``program`` is called where ``reserved`` names are taken."""
    names = PythonNames(reserved)
    return {x: names.fresh(x) for x in dict.fromkeys([*program.sizes, *(a.name for a in program.arrays)])}


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
