"""Loads and stores: one element, a vector of neighbours, or lane by lane."""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.emit.loops.elements import hint_of, source, stored_value
from portakern.ir.core import Op
from portakern.ir.tile import Load, Store, buffer_type, tile_type

from .access import BoundsCheck, checks, offset_text, size_text, step_along
from .expressions import ATOM, CHOICE, PREFIX, SUM, TypedExpr
from .values import CLoopValueText


class CLoopMemoryText(CLoopValueText):
    """Prints accesses to the kernel's arrays, those that may be outside with the bounds they must keep."""

    def load(self, op: Load) -> TypedExpr:
        dtype = tile_type(op).dtype
        have = buffer_type(op.buffer)
        buffer = self.buffers[op.buffer]
        bounds = checks(self.kernel, op)
        pad = self.words.constant(0 if op.pad is None else op.pad, dtype)
        lanes = self.lanes_of(op)
        picked = [self.picked(g) for g in op.gathers]
        inside = " && ".join(c.text(self.coordinate, picked) for c in bounds)
        if lanes == 1:
            text = self.words.element(have.dtype, buffer, offset_text(op, self.coordinate, picked))
            if bounds:
                text = f"{inside} ? {text} : {pad}"
                return TypedExpr(text, SUM + 5, dtype)
            return TypedExpr(text, ATOM, dtype)
        assert self.vector is not None
        step = step_along(op, self.vector[0])
        apart_picked = any(self.lanes_of(g) > 1 for g in op.gathers)
        if step is None or apart_picked or any(c.index.gather < 0 for c in bounds):
            return self.load_lanes(op, lanes, bounds, pad, picked)
        address = f"{buffer} + {offset_text(op, self.coordinate, picked)}"
        apart = None if step == 1 else size_text(step)
        text = self.words.load(have.dtype, lanes, address, self.left, apart)
        if not bounds:
            return TypedExpr(text, ATOM, dtype, lanes)
        nothing = TypedExpr(pad, PREFIX, dtype).wide(lanes, self.words)
        return TypedExpr(f"{inside} ? {text} : {nothing.text}", CHOICE, dtype, lanes)

    def picked(self, tile: Op) -> str:
        """The coordinate that a gathered tile gives here, as wide as offsets are; of a vector's lanes, an array of them."""
        v = self.value(tile)
        text = v.at(PREFIX)
        if v.lanes > 1:
            array = self.fresh(f"{hint_of(source(tile))}_lanes")
            self.say(f"{self.words.held(v.dtype)} {array}[{v.lanes}];")
            self.say(self.words.write_local(v.lanes, array, v.text) + ";")
            return array
        if not text.isidentifier():
            text = self.fresh(hint_of(source(tile)))
            self.say(f"const {self.words.held(v.dtype)} {text} = {v.text};")
        return self.offset(text, v.dtype)

    def offset(self, text: str, dtype: str) -> str:
        narrow = DTYPES[dtype].bits < 64 and self.index != self.words.held("i32")
        return f"({self.index}){text}" if narrow else text

    def load_lanes(self, op: Load, lanes: int, bounds: list[BoundsCheck], pad: str, picked: list[str]) -> TypedExpr:
        """Lane by lane, where neighbours do not lie in even steps or may be outside the array."""
        assert self.vector is not None
        axis = self.vector[0]
        have, dtype = buffer_type(op.buffer), tile_type(op).dtype
        buffer = self.buffers[op.buffer]
        array, each, lane = self.fresh(f"{buffer}_lanes"), self.fresh(f"{self.coords[axis]}i"), self.fresh("i")

        def name(a: str) -> str:
            return each if a == axis else self.coords[a]

        at = [self.offset(f"{p}[{lane}]", tile_type(g).dtype) if self.lanes_of(g) > 1 else p
              for p, g in zip(picked, op.gathers, strict=True)]  # fmt: skip
        value = self.words.element(have.dtype, buffer, offset_text(op, name, at))
        if have.dtype == "bool":
            value = f"-{value}"
        if bounds:
            value = f"{' && '.join(c.text(name, at) for c in bounds)} ? {value} : {pad}"
        count = self.words.count(self.left, lanes, self.index) if self.left else str(lanes)
        self.say(f"{self.words.held(dtype)} {array}[{lanes}] = {{0}};")
        with self.braces(f"for (int {lane} = 0; {lane} < {count}; ++{lane})"):
            self.say(f"const {self.index} {each} = {self.coords[axis]} + {lane};")
            self.say(f"{array}[{lane}] = {value};")
        return TypedExpr(self.words.read_local(lanes, array), ATOM, dtype, lanes)

    def store(self, op: Store) -> None:
        have = buffer_type(op.buffer)
        buffer, dtype = self.buffers[op.buffer], have.dtype
        v = self.value(stored_value(op))
        bounds = checks(self.kernel, op)
        lanes = self.lanes_of(op.value)
        step = step_along(op, self.vector[0]) if self.vector and lanes > 1 else None
        if lanes > 1 and (step is None or bounds or op.mode != "set"):
            return self.store_lanes(op, v.wide(lanes, self.words), lanes, bounds)
        if lanes == 1:
            offset = offset_text(op, self.coordinate)
            line = self.write_one(op, dtype, buffer, offset, v.text)
            if bounds:
                with self.braces(f"if ({' && '.join(c.text(self.coordinate) for c in bounds)})"):
                    self.say(line)
                return None
            self.say(line)
            return None
        address = f"{buffer} + {offset_text(op, self.coordinate)}"
        apart = None if step == 1 else size_text(step)  # type: ignore[arg-type]
        v = TypedExpr(v.text, v.level, dtype, v.lanes).wide(lanes, self.words)
        self.say(self.words.store(dtype, lanes, address, v.text, self.left, apart) + ";")
        return None

    def write_one(self, op: Store, dtype: str, buffer: str, offset: str, value: str) -> str:
        if op.mode == "set":
            return self.words.write_element(dtype, buffer, offset, value) + ";"
        return f"{self.words.atomic(op.mode, dtype)}({buffer} + {offset}, {value});"

    def store_lanes(self, op: Store, v: TypedExpr, lanes: int, bounds: list[BoundsCheck]) -> None:
        assert self.vector is not None
        axis = self.vector[0]
        buffer, dtype = self.buffers[op.buffer], buffer_type(op.buffer).dtype
        array, each, lane = self.fresh(f"{buffer}_lanes"), self.fresh(f"{self.coords[axis]}i"), self.fresh("i")
        self.say(f"{self.words.held(dtype)} {array}[{lanes}];")
        self.say(self.words.write_local(lanes, array, v.text) + ";")

        def name(a: str) -> str:
            return each if a == axis else self.coords[a]

        value = f"({array}[{lane}] != 0)" if dtype == "bool" else f"{array}[{lane}]"
        line = self.write_one(op, dtype, buffer, offset_text(op, name), value)
        count = self.words.count(self.left, lanes, self.index) if self.left else str(lanes)
        with self.braces(f"for (int {lane} = 0; {lane} < {count}; ++{lane})"):
            self.say(f"const {self.index} {each} = {self.coords[axis]} + {lane};")
            self.say(f"if ({' && '.join(c.text(name) for c in bounds)})" if bounds else line)
            if bounds:
                self.say("    " + line)
