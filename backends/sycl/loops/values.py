"""Values at the current element (or vector of elements): as expressions, under a name, in arrays of local memory."""

from __future__ import annotations

import re

from portakern.emit.loops.elements import hint_of, source
from portakern.emit.loops.plan import LocalStore, Storage
from portakern.ir.core import Arg, Op
from portakern.ir.tile import Cast, Const, Coord, Extent, Load, Start, tile_type

from .access import size_text
from .expressions import ATOM, PREFIX, SUM, TypedExpr, write
from .scope import CLoopScope
from .spelling import REGISTER

_LONG = 72  # an expression longer than this gets a name of its own


class CLoopValueText(CLoopScope):
    """Prints single values; every line it says is a definition or an element of an array."""

    def define(self, op: Op, text: TypedExpr, inline: bool = False) -> None:
        literal = re.fullmatch(r"-?\d[\d.e-]*[fLu]*", text.text)
        if literal or (inline and len(text.text) <= _LONG and not any(name in text.text for name in self.overwritten)):
            self.names[op] = text
            return
        hint = hint_of(op)
        name = self.fresh(f"{hint}v" if isinstance(op, Load) else hint)
        self.say(f"const {self.words.held(text.dtype, text.lanes)} {name} = {text.text};")
        self.names[op] = TypedExpr(name, ATOM, text.dtype, text.lanes)

    def value(self, op: Op) -> TypedExpr:
        """The expression of a value at the current element."""
        op = source(op)
        if op in self.names:
            return self.names[op]
        if op in self.storage:
            return self.read(self.storage[op], tile_type(op).dtype)
        dtype = tile_type(op).dtype
        match op:
            case Const(v):
                text = self.words.constant(v, dtype)
                return TypedExpr(text, PREFIX if text.startswith("-") else ATOM, dtype)
            case Extent(size):
                text = size_text(size)
                cast = f"({self.words.held(dtype)})({text})"
                if isinstance(size, int) and size >= 0:
                    return TypedExpr(self.words.constant(size, dtype), ATOM, dtype)
                return TypedExpr(cast, PREFIX, dtype)
            case Start(axis):
                return self.integer(self.firsts[axis], dtype)
            case Coord(axis):
                base = self.integer(self.coords[axis], dtype)
                lanes = self.lanes_of(op)
                if lanes == 1:
                    return base
                steps = self.words.lanes(lanes)
                if REGISTER[dtype] != "i32":
                    steps = self.words.convert(dtype, lanes, steps)
                return TypedExpr(f"{base.text} + {steps}", SUM, dtype, lanes)
            case Arg() if op in self.buffers:
                return TypedExpr(self.buffers[op], ATOM, dtype)
        op.fail(f"{op.mnemonic()} is not known where it is used", hint="this is a fault of the emitter")

    def integer(self, text: str, dtype: str) -> TypedExpr:
        if self.words.held(dtype) == self.index or text.isdigit():
            return TypedExpr(text, ATOM, dtype)
        return TypedExpr(f"({self.words.held(dtype)}){text}", PREFIX, dtype)

    def place(self, s: Storage) -> tuple[str, int]:
        """Offset of the current element in an array, and how far apart lanes lie (0: not along the vector)."""
        parts: list[str] = []
        stride, step = 1, 0
        for (axis, _), size in reversed(list(zip(s.dims, s.shape, strict=True))):
            first, coord = self.firsts[axis], self.coords[axis]
            local = coord if first == "0" else f"{coord} - {first}"
            if stride != 1 and first != "0":
                local = f"({local})"
            if first != coord and s.lane_axis != axis:
                parts.append(local if stride == 1 else f"{local} * {stride}")
            if self.vector and self.vector[0] == axis:
                step = stride
            stride *= size
        return " + ".join(reversed(parts)) or "0", step

    def read(self, s: Storage, dtype: str) -> TypedExpr:
        offset, step = self.place(s)
        name = self.arrays[s]
        if step == 0:
            text = f"{name}[{offset}]"
            return TypedExpr(f"({text} != 0)" if dtype == "bool" else text, ATOM, dtype)
        lanes = self.vector[1] if self.vector else 1
        if step == 1:
            text = self.words.read_local(lanes, f"{name} + {offset}")
        else:
            text = self.words.vector(s.dtype, lanes, [f"{name}[{offset} + {i * step}]" for i in range(lanes)])
        return TypedExpr(f"({text} != 0)" if dtype == "bool" else text, ATOM, dtype, lanes)

    def store_local(self, store: LocalStore) -> None:
        s, v = store.storage, self.value(store.value)
        offset, step = self.place(s)
        name = self.arrays[s]
        if s.dtype == "bf16":
            self.store_narrow(store, name, offset, step)
            return
        if s.dtype != REGISTER[v.dtype]:
            v = write(Cast(Const(0, v.dtype), s.dtype), [v], self.words)
        if step == 0:
            self.say(f"{name}[{offset}] = {v.text};")
        else:
            lanes = self.vector[1] if self.vector else 1
            if v.lanes > 1 and v.dtype == "bool":
                v = TypedExpr(f"-{v.at(ATOM)}", PREFIX, "i32", v.lanes)
            v = TypedExpr(v.text, v.level, s.dtype, v.lanes).wide(lanes, self.words)
            if step == 1:
                self.say(self.words.write_local(lanes, f"{name} + {offset}", v.text) + ";")
            else:
                self.scatter(name, offset, step, lanes, v)

    def store_narrow(self, store: LocalStore, name: str, offset: str, step: int) -> None:
        """bf16 to an array of its own bits: what was loaded is exact, what was computed is rounded."""
        lanes = self.vector[1] if self.vector and step else 1
        v = self.value(store.value).wide(lanes, self.words)
        exact = isinstance(source(store.value), Load | Cast)
        bits = self.words.half_bits(lanes, v.text, exact=exact)
        if step == 0:
            self.say(f"{name}[{offset}] = {bits};")
        elif step == 1:
            self.say(self.words.write_local(lanes, f"{name} + {offset}", bits) + ";")
        else:
            whole = self.fresh("v")
            self.say(f"const {self.words.half_type(lanes)} {whole} = {bits};")
            for i in range(lanes):
                self.say(f"{name}[{offset} + {i * step}] = {whole}.s{i:x};")

    def scatter(self, name: str, offset: str, step: int, lanes: int, v: TypedExpr) -> None:
        whole = self.fresh("v")
        self.say(f"const {self.words.held(v.dtype, lanes)} {whole} = {v.text};")
        for i in range(lanes):
            self.say(f"{name}[{offset} + {i * step}] = {whole}.s{i:x};")
