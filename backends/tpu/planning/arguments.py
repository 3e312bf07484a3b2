"""Arrays as a text in Pallas has them: none is called as what the text says itself, and none is strided."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Collection, Mapping
from dataclasses import replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program
from portakern.ir.tile import BufferType, Kernel


def in_plain_arrays(program: Program, reserved: Collection[str]) -> Program:
    """``program`` with other names for arrays that are called as one of ``reserved`` or a word of Python, and without strides:
    jax's arrays have none, and index maps count elements of dims."""
    taken = {*program.sizes, *(a.name for a in program.arrays), *reserved}
    names = {a.name: _own(a.name, taken) for a in program.arrays if a.name in reserved or _of_python(a.name)}
    if not names and all(_plain(a) is a for a in program.arrays):
        return program
    arrays = tuple(replace(_plain(a), name=names.get(a.name, a.name)) for a in program.arrays)
    repeats = tuple(replace(r, swaps=tuple((names.get(a, a), names.get(b, b)) for a, b in r.swaps)) for r in program.repeats)
    return replace(program, arrays=arrays, repeats=repeats, kernels=tuple(_kernel(k, names) for k in program.kernels))


def _of_python(name: str) -> bool:
    return keyword.iskeyword(name) or hasattr(builtins, name)


def _own(name: str, taken: Collection[str]) -> str:
    return name if name not in taken and not _of_python(name) else _own(f"{name}_", taken)


def _plain(array: Array) -> Array:
    strided = isinstance(array.type, BufferType) and array.type.strides is not None
    return replace(array, type=replace(array.type, strides=None)) if strided else array


def _kernel(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    env: dict[Op, Op] = {}

    def block(old: Block, arguments: bool = False) -> Block:
        if arguments:
            env.update((a, _argument(a, names)) for a in old.args)
        ops = []
        for op in old.ops:
            env[op] = op.remap(lambda o: env.get(o, o), block)
            ops.append(env[op])
        return Block(tuple(env.get(a, a) for a in old.args), tuple(ops))

    return replace(kernel, body=block(kernel.body, arguments=True))


def _argument(arg: Op, names: Mapping[str, str]) -> Op:
    assert isinstance(arg, Arg)
    of = replace(arg.of, strides=None) if isinstance(arg.of, BufferType) else arg.of
    return Arg(names.get(arg.name, arg.name), of)
