"""Elementwise regions as maps: one expression, its parameters, and the values inside that deserve a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from portakern.dtypes import dtype as dtype_of
from portakern.emit.clike import plan as p
from portakern.emit.clike.expressions import LOGICAL, SELECT, constant
from portakern.emit.clike.layouts import Place, dims_of, floating
from portakern.emit.clike.names import CNames
from portakern.emit.clike.naming import local_wishes, note, wishes
from portakern.emit.clike.state import State
from portakern.emit.clike.terms import ZERO, Name, PlanTerm, SizeTerm, add, apply, call, divide
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Yield, yielded

LONG = 70
"""An expression longer than this many characters gets a name of its own inside a map."""

_WITHIN_32_BITS = ("i8", "i16", "i32", "u8", "u16", "u32")


@dataclass
class Expansion:
    """One map under construction: what it reads and the names inside it."""

    place: Place | None
    names: CNames
    params: list[tuple[str, str]] = field(default_factory=list)
    args: list[PlanTerm] = field(default_factory=list)
    by_arg: dict[PlanTerm, str] = field(default_factory=dict)
    locals: list[tuple[str, str, PlanTerm]] = field(default_factory=list)
    done: dict[Op, PlanTerm] = field(default_factory=dict)
    captured: bool = False
    members: frozenset[Op] = frozenset()


class Maps(State):
    """Plans regions."""

    def spread(self, op: Op, place: Place, name: str = "", define: bool = True) -> str:
        """A tile of what is computed anew at each use: a constant everywhere, or coordinates."""
        name = name or self.names.fresh(self.hints.get(op, "constant" if isinstance(op, t.Broadcast) else "index"))
        if isinstance(op, t.Broadcast) and not dims_of(op.x):
            value = self.value(op.x, None)
            self.add(p.Fill(name, t.tile_type(op).dtype, place, value, define))
        else:
            self._map(op, name, place, frozenset(), define)
        return name

    def scalar(self, op: Op) -> PlanTerm:
        return self.term(op, Expansion(None, self.names))

    def region(self, root: Op) -> None:
        place = self.layouts.place(root)
        members = frozenset(self.regions.members(root))
        dtype = t.tile_type(root).dtype
        if place is None:
            name, define = self.name(root, *wishes(root, self.variable))
            expansion = Expansion(None, self.names, members=members)
            term = self.term(root, expansion)
            for kind, local, inner in expansion.locals:
                self.add(p.Scalar(local, kind, inner))
            self.add(p.Scalar(name, dtype, term, define, root not in self.mutable, note(root, members)))
            return
        name, define = self.name(root, *wishes(root, self.variable))
        self._map(root, name, place, members, define, note(root, members))

    def _map(self, root: Op, name: str, place: Place, members: frozenset[Op], define: bool,
             note: str = "") -> None:
        # Inside, every name of the kernel may be captured: a parameter hides none but its own argument, or a pointer.
        expansion = Expansion(place, CNames(self.names.taken), members=members)
        term = self.term(root, expansion)
        self.inner |= expansion.names.taken
        self.add(p.Map(name, t.tile_type(root).dtype, place, tuple(expansion.params), tuple(expansion.args),
                       tuple(expansion.locals), term, expansion.captured, define, note, define and self._once(root)))

    def function_of_two(self, block: Block, members: Sequence[str], sides: tuple[str, str], names: CNames
                        ) -> tuple[tuple[tuple[str, str, PlanTerm], ...], tuple[PlanTerm, ...]]:  # fmt: skip
        """What ``block`` names inside and what it yields: its arguments are the ``members`` of one of ``sides``, then those of
        the other."""
        e = Expansion(None, names, members=frozenset(block.ops))
        for n, arg in enumerate(block.args):
            side, member = divmod(n, len(members))
            e.done[arg] = Name(f"{sides[side]}.{members[member]}")
        for inner in block.ops:
            if isinstance(inner, Yield):
                continue
            uses = sum(list(user.operands).count(inner) for user in block.ops)
            term = self._formula(inner, e)
            if uses > 1 and not floating(inner):
                name = names.fresh(*local_wishes(inner, self.variable))
                e.locals.append((t.tile_type(inner).dtype, name, term))
                term = Name(name)
            e.done[inner] = term
        self.inner |= names.taken
        return tuple(e.locals), tuple(e.done[v] for v in yielded(block))

    def _once(self, root: Op) -> bool:
        users = self.regions.uses.get(root, ())
        here = [u for u in users if isinstance(u, t.Store | t.Reduce | t.Scan)
                and self.regions.block[u] is self.regions.block.get(root)]  # fmt: skip
        return len(users) == len(here) == 1

    def term(self, op: Op, e: Expansion) -> PlanTerm:
        """The expression of ``op`` inside the map ``e``."""
        if op in e.done:
            return e.done[op]
        if not (op in e.members or floating(op)):
            return self._input(op, e)
        term = self._formula(op, e)
        uses = sum(u in e.members for u in self.regions.uses.get(op, ())) if op in e.members else 1
        named = op in e.members and not isinstance(op, t.Broadcast)
        if named and (uses > 1 or (uses == 1 and len(str(term)) > LONG)):
            name = e.names.fresh(*local_wishes(op, self.variable))
            e.locals.append((t.tile_type(op).dtype, name, term))
            term = Name(name)
        e.done[op] = term
        return term

    def _input(self, op: Op, e: Expansion) -> PlanTerm:
        if e.place is None or not dims_of(op):
            e.captured = True
            return Name(self.variable[op])
        place = e.place
        if len(dims_of(op)) == 1 and place.side == "tile" and not (place.layout.rows == 1 and not place.layout.axes[0]):
            place = e.place.vector(dims_of(op)[0][0])
        arg = self.at(op, place)
        e.done[op] = self._given(Name(arg), t.tile_type(op).dtype, lambda: self._parameter(arg, e), e)
        return e.done[op]

    def _given(self, arg: PlanTerm, dtype: str, name: Callable[[], str], e: Expansion) -> Name:
        """The parameter that stands for an element of the tile ``arg``."""
        if arg not in e.by_arg:
            e.by_arg[arg] = name()
            e.params.append((dtype, e.by_arg[arg]))
            e.args.append(arg)
        return Name(e.by_arg[arg])

    def _parameter(self, arg: str, e: Expansion) -> str:
        """The name of an element of the tile ``arg``: the buffer's where it was loaded from one, else the tile's own."""
        short = arg.removesuffix("_tile")
        used = e.by_arg.values()
        if short != arg and short in self.pointers and short not in used:
            return short
        return arg if arg not in used else e.names.fresh(arg + "_")

    def _formula(self, op: Op, e: Expansion) -> PlanTerm:
        d = self.dialect
        match op:
            case t.Const(value=value, dtype=dtype):
                return self.constant(value, dtype)
            case t.Extent(size=size, dtype=dtype):
                e.captured = e.captured or not isinstance(size, int)
                return constant(size, dtype) if isinstance(size, int) else self._integer(SizeTerm(size), dtype)
            case t.Start(axis=axis, dtype=dtype):
                return self._start(axis, dtype, e)
            case t.Coord(axis=axis, dtype=dtype):
                start = self._start(axis, dtype, e)
                if not op.dims:
                    return start
                index = self._local_index(axis, e)
                return add(start, call("cast", "int64_t", index) if dtype == "i64" else index)
            case t.Broadcast(x=x):
                return self.term(x, e)
            case t.Unary(fn=fn, x=x):
                inner = self.term(x, e)
                if fn == "neg" and t.tile_type(op).dtype == "i32" and d.minus:
                    return apply(d.minus, constant(0, "i32"), inner, fn="minus")
                if fn == "reciprocal":
                    return divide(constant(1, t.tile_type(op).dtype), inner)
                return apply(self._table(op, fn, d.unary)[fn], inner, fn=fn)
            case t.Binary(fn=fn, lhs=a, rhs=b):
                if fn == "add" and t.tile_type(op).dtype in ("i32", "i64"):
                    return add(self.term(a, e), self.term(b, e))
                if fn == "sub" and t.tile_type(op).dtype in ("i32", "u32") and d.minus and not _is_literal(b):
                    return apply(d.minus, self.term(a, e), self.term(b, e), fn="minus")
                computed = not (_is_literal(a) or _is_literal(b))
                if fn == "mul" and t.tile_type(op).dtype in _WITHIN_32_BITS and d.times and computed:
                    return apply(d.times, self.term(a, e), self.term(b, e), fn="times")
                return apply(self._table(op, fn, d.binary)[fn], self.term(a, e), self.term(b, e), fn=fn)
            case t.Compare(fn=fn, lhs=a, rhs=b):
                return apply(d.compare[fn], self.term(a, e), self.term(b, e), fn=fn)
            case t.Fma(x=x, y=y, z=z):
                return call("fma", "pk::fma", self.term(x, e), self.term(y, e), self.term(z, e))
            case t.Select(condition=c, yes=y, no=n):
                return apply(SELECT, self.term(c, e), self.term(y, e), self.term(n, e), fn="select")
            case t.Cast(x=t.Extent(size=int() as size), dtype=dtype):
                return self.constant(size, dtype)
            case t.Cast(x=x, dtype=dtype):
                return self.cast(self.term(x, e), t.tile_type(x).dtype, dtype)
            case t.Bitcast(x=x, dtype=dtype):
                return call("bitcast", f"pk::bitcast<{d.type(dtype)}>", self.term(x, e))
            case t.Mask(x=x, axis=axis, value=value):
                e.captured = True
                inside = apply("10|{0} < {1}", self._local_index(axis, e), self.addresses.left(axis), fn="lt")
                return apply(SELECT, inside, self.term(x, e), self.constant(value, t.tile_type(op).dtype), fn="select")
        op.fail("is not elementwise")

    def _table(self, op: Op, fn: str, usual: Mapping[str, str]) -> Mapping[str, str]:
        """The templates of functions of ``op``'s dtype: of bools they are C's logic, of integers its operators on bits."""
        return LOGICAL if t.tile_type(op).dtype == "bool" and fn in LOGICAL else usual

    def cast(self, inner: PlanTerm, source: str, target: str) -> PlanTerm:
        """``inner`` as another dtype; C++ conversions are the IR's (nearest even, truncation), save to bool."""
        if target == "bool":
            zero = constant(0, source if source in ("f64", "f32", "i32", "i64") else "f32")
            return apply("9|{0} != {1}", inner, zero, fn="ne")
        return call("cast", self.dialect.type(target), inner)

    def constant(self, value: float | int | bool, dtype: str) -> PlanTerm:
        """A literal; types of which C++ has none are converted from f32, which holds all their values."""
        if dtype in ("f64", "f32", "bool") or dtype_of(dtype).is_int:
            return constant(value, dtype)
        return call("cast", self.dialect.type(dtype), constant(value, "f32"))

    def _integer(self, x: PlanTerm, dtype: str) -> PlanTerm:
        return x if dtype == "i64" else call("cast", self.dialect.type(dtype), x)

    def _start(self, axis: str, dtype: str, e: Expansion) -> PlanTerm:
        start = self.addresses.start[axis]
        if start == ZERO:
            return constant(0, dtype)
        e.captured = True
        return self._integer(start, dtype)

    def _local_index(self, axis: str, e: Expansion) -> Name:
        """The parameter that holds the local row or column number along ``axis``."""
        assert e.place is not None
        layout = e.place.layout
        side = e.place.side if e.place.side != "tile" else "row" if layout.axes[0] == axis else "col"
        arg = apply(self.dialect.word(f"{side}_index", "{0}"), Name(layout.name), fn="index")
        return self._given(arg, "i32", lambda: e.names.fresh(side, f"{side}_in_tile"), e)


def _is_literal(x: Op) -> bool:
    while isinstance(x, t.Broadcast):
        x = x.x
    return isinstance(x, t.Const) or (isinstance(x, t.Extent) and isinstance(x.size, int))
