"""Export of functions and programs to MLIR's generic form, in an unregistered dialect ``pk``.

What it prints is read by ``mlir-opt --allow-unregistered-dialect``.  Arrays become ``tensor`` and ``memref`` types with
``?`` for open dims (whose expressions stay in string attributes), tiles ``!pk.tile<"m:64, k:32, bf16">``.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from portakern.dtypes import DTYPES
from portakern.ir.core import NONE, Block, Function, ManyType, Op, Result, Type, element_codec
from portakern.ir.program import Nested, Program, nested
from portakern.ir.tensor import TensorType
from portakern.ir.tile import BufferType, TileType

_ELEMENTS = {
    "bool": "i1", "f8e4m3": "f8E4M3FN", "f8e5m2": "f8E5M2", "f8e4m3fnuz": "f8E4M3FNUZ", "f8e5m2fnuz": "f8E5M2FNUZ",
}  # fmt: skip


def element_type(dtype: str) -> str:
    kind = DTYPES[dtype]
    return _ELEMENTS.get(dtype) or (f"ui{kind.bits}" if kind.kind == "uint" else dtype)


def type_text(of: Type) -> str:
    """``of`` as an MLIR type."""
    if isinstance(of, TileType):
        return f'!pk.tile<"{", ".join([*(f"{a}:{n}" for a, n in of.dims), of.dtype])}">'
    if isinstance(of, TensorType | BufferType):
        dims = "".join(f"{s if isinstance(s, int) else '?'}x" for s in of.shape)
        return f"{'memref' if isinstance(of, BufferType) else 'tensor'}<{dims}{element_type(of.dtype)}>"
    return f'!pk.type<"{of}">'


def attribute_text(kind: str, value: Any) -> str:
    """An attribute of annotation ``kind`` as an MLIR attribute."""
    if isinstance(value, tuple):
        return f"[{', '.join(attribute_text(kind, v) for v in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        finite = value - value == 0
        return f"{value!r} : f64" if finite and "." in repr(value) else f"0x{struct.pack('>d', value).hex().upper()} : f64"
    coder = element_codec(kind) if kind else None
    return json.dumps(coder[0](value) if coder and not isinstance(value, str) else str(value))


class _Printer:
    def __init__(self, locations: bool) -> None:
        self.names: dict[Op, str] = {}
        self.count = 0
        self.locations = locations

    def name(self, op: Op) -> str:
        if isinstance(op, Result):
            return f"{self.name(op.source)}#{op.index}"
        if op not in self.names:
            self.names[op] = f"%{self.count}"
            self.count += 1
        return self.names[op]

    def region(self, block: Block, pad: str) -> str:
        if not block.ops and not block.args:
            return "{\n" + pad + "}"
        head = f"{pad}^bb0({', '.join(f'{self.name(a)}: {type_text(a.type)}' for a in block.args)}):\n" if block.args else ""
        body = "".join(self.line(op, pad + "  ") for op in block.ops if not isinstance(op, Result))
        return "{\n" + head + body + pad + "}"

    def line(self, op: Op, pad: str) -> str:
        types = op.type.types if isinstance(op.type, ManyType) else () if op.type == NONE else (op.type,)
        head = f"{self.name(op)}{f':{len(types)}' if isinstance(op.type, ManyType) else ''} = " if types else ""
        operands = ", ".join(map(self.name, op.operands))
        regions = f" ({', '.join(self.region(r, pad) for r in op.regions)})" if op.regions else ""
        attributes = self.attributes(op)
        takes = ", ".join(type_text(o.type) for o in op.operands)
        gives = type_text(types[0]) if len(types) == 1 else f"({', '.join(map(type_text, types))})"
        where = f" loc({json.dumps(op.loc.file)}:{op.loc.line}:1)" if self.locations and op.loc else ""
        return f'{pad}{head}"pk.{op.mnemonic()}"({operands}){regions}{attributes} : ({takes}) -> {gives}{where}\n'

    def attributes(self, op: Op) -> str:
        given = {n: getattr(op, n) for n, role in op.roles.items() if role == "attribute"}
        named = [f"{n} = {attribute_text(op.kinds[n], v)}" for n, v in given.items() if v is not None]
        groups = [getattr(op, n) for n, role in op.roles.items() if role in ("operand", "optional", "operands")]
        if any(g is None or isinstance(g, tuple) for g in groups):
            sizes = ", ".join(str(len(g) if isinstance(g, tuple) else int(g is not None)) for g in groups)
            named.append(f"operandSegmentSizes = array<i32: {sizes}>")
        return f" {{{', '.join(named)}}}" if named else ""


def to_mlir(function: Function, locations: bool = True, pad: str = "") -> str:
    """``function`` (a tensor program or a kernel) as one operation with a region."""
    printer = _Printer(locations)
    named = [f"sym_name = {json.dumps(function.name)}"]
    named += [f"{n} = {attribute_text(kind, getattr(function, n))}" for n, kind in function.kinds.items()]
    return f'{pad}"pk.{function.keyword()}"() ({printer.region(function.body, pad)}) {{{", ".join(named)}}} : () -> ()\n'


def program_to_mlir(program: Program, locations: bool = True) -> str:
    """``program`` as a module that holds its kernels in launch order and says what its arrays are."""
    arrays = ", ".join(
        json.dumps(f"{a.role} {a.name}: {a.type}{'' if a.init is None else f' = {a.init}'}") for a in program.arrays
    )
    def written(item: int | Nested, pad: str) -> str:
        if isinstance(item, int):
            return to_mlir(program.kernels[item], locations, pad)
        r, inside = item.repeat, "".join(written(i, pad + "  ") for i in item.inside)
        swaps = ", ".join(json.dumps(f"{a}, {b}") for a, b in r.swaps)
        says = f"count = {json.dumps(str(r.count))}, step = {json.dumps(r.step)}, swaps = [{swaps}]"
        return f'{pad}"pk.repeat"() ({{\n{inside}{pad}}}) {{{says}}} : () -> ()\n'

    kernels = "".join(written(i, "  ") for i in nested(len(program.kernels), program.repeats))
    return f"module @{json.dumps(program.name)} attributes {{pk.arrays = [{arrays}]}} {{\n{kernels}}}\n"
