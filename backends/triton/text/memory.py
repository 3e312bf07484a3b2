"""Loads and stores: blocks of a tensor descriptor, or pointers with masks.

A masked access is written only where :meth:`Kernel.may_overrun` says that a tile may reach past its buffer.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.emit.python_like import Expr, call, infix, product, size_expr
from portakern.errors import ScheduleError
from portakern.ir.core import Arg, Op
from portakern.ir.tile import Dims, Index, Load, Store, Term, buffer_type, tile_type

from ..prepare.descriptors import DescribedBlock
from . import operations
from .values import TileValue, TritonValueText

KEEP = ("none", "loads", "stores", "both")
"""Values of the schedule's option ``keep``."""


class TritonMemoryText(TritonValueText):
    """Prints how values come from memory and go there."""

    def _store(self, op: Store) -> None:
        dims = tile_type(op.value).dims
        if op in self.blocks:
            self._store_block(op, self.blocks[op])
            return
        value = self._get(op.value)
        mask = self._mask_text(op, dims)
        keywords = {"mask": mask} if mask else {}
        if op.mode == "set":
            keywords |= self._kept("stores")
            pointer = self._pointer(op, dims)
            text = call("tl.store", pointer, value.expr, **keywords).text
            if (len(text) > self.out.width - 8 and value.expr.rank < 14) or len(value.expr.text) > 48:
                assert isinstance(op.buffer, Arg)
                name = self.names.fresh(op.buffer.name)
                self.out.line(f"{name} = {value.expr}")
                text = call("tl.store", pointer, name, **keywords).text
            self.out.line(text)
        else:
            self.out.line(call(f"tl.atomic_{op.mode}", self._pointer(op, dims), self._full(op.value), **keywords,
                               sem='"relaxed"').text)  # fmt: skip

    def _store_block(self, op: Store, block: DescribedBlock) -> None:
        value = self._full(op.value)
        if not block.flat:
            value = Expr(f"{value.at(14)}.reshape({self._shape(block)})")
        if len(value.text) > 48:
            name = self.names.fresh(block.buffer.name)
            self.out.line(f"{name} = {value}")
            value = Expr(name)
        self.out.line(f"{self.descriptors[block.buffer][0]}.store([{self._corner(op, block)}], {value})")

    def _load_block(self, op: Load, block: DescribedBlock) -> TileValue:
        axes = tuple(a for a in block.axes if a)
        text = f"{self.descriptors[block.buffer][0]}.load([{self._corner(op, block)}])"
        if not block.flat:
            shape = ", ".join(self._tile(self.kernel.axis[a]) for a in axes)
            text += f".reshape({shape})"
        return TileValue(Expr(text if axes == tile_type(op).axes else f"{text}.T"), tile_type(op).axes)

    def _corner(self, op: Load | Store, block: DescribedBlock) -> str:
        """The first coordinates of a block; the copy engine counts in 32 bits."""
        parts = []
        for axis, index in zip(block.axes, op.indices, strict=True):
            wide = self._pid_is_wide() or any(self.axes[a].wide for a in index.axes) or not isinstance(index.offset, int)
            where = Expr(self.axes[axis].start) if axis else self._index(index, ())
            parts.append(f"tl.cast({where.text}, tl.int32)" if wide and where.text != "0" else where.text)
        return ", ".join(parts)

    def _shape(self, block: DescribedBlock) -> str:
        return ", ".join(self._tile(self.kernel.axis[a]) if a else "1" for a in block.axes)

    def _load(self, op: Load) -> TileValue:
        if op in self.blocks:
            return self._load_block(op, self.blocks[op])
        mask = self._mask_text(op, op.dims)
        pointer = self._pointer(op, op.dims)
        have = tile_type(op).axes
        keywords = {"mask": mask} if mask else {}
        if not mask or op.pad is None:
            return TileValue(call("tl.load", pointer, **keywords, **self._kept("loads")), have)
        pad = operations.constant(op.pad, buffer_type(op.buffer).dtype)
        if self._loses_sign(op):
            self.out.comment("Chosen afterwards: ptxas 12 may forget the sign of a 16-bit constant.")
            loaded = call("tl.load", pointer, **keywords, other="0.0", **self._kept("loads"))
            return TileValue(call("tl.where", mask, loaded, pad), have)
        return TileValue(call("tl.load", pointer, **keywords, other=pad.text, **self._kept("loads")), have)

    def _loses_sign(self, op: Load) -> bool:
        """Whether ``other`` may come to be a constant to ptxas whose sign it forgets: a negative one of 16 bits.

        Where all of a register's elements lie beyond a known extent, the load goes and its ``other`` is left, as a constant
        operand of packed operations.  ptxas 12.8 and 12.9 take ``0x7c00`` for ``0xfc00`` there (sm_80, sm_90a; 13.4 does
        not): rows that end in infinity.  A choice is folded before, by LLVM.
        """
        t = buffer_type(op.buffer)
        narrow = DTYPES[t.dtype].is_float and DTYPES[t.dtype].bits == 16
        return narrow and op.pad is not None and op.pad < 0 and all(isinstance(n, int) for n in t.shape)

    def _kept(self, what: str) -> dict[str, str]:
        """The hint that lines stay in the last-level cache as long as it lasts, where the schedule asks for it."""
        asked = self.kernel.schedule.option("keep", "none")
        if asked not in KEEP:
            raise ScheduleError(f"keep is one of {', '.join(KEEP)}, not {asked}")
        return {"eviction_policy": '"evict_last"'} if asked in (what, "both") else {}

    def _pointer(self, op: Load | Store, dims: Dims) -> Expr:
        """Base plus the offset along each buffer dim, scalar offsets first so that the base stays uniform."""
        assert isinstance(op.buffer, Arg)
        parts: list[tuple[bool, Expr]] = []
        gathers = op.gathers if isinstance(op, Load) else ()
        for position, index in enumerate(op.indices):
            coordinate = self._index(index, dims, gathers, buffer_type(op.buffer).wide)
            stride = self._stride(op, position)
            if coordinate.text == "0":
                continue
            moves = any(a in index.axes for a, _ in dims) or index.gather >= 0
            offset = coordinate if stride.text == "1" else product([coordinate, *self._factors(op, position)])
            parts.append((moves, offset))
        result = Expr(self.parameter[op.buffer])
        for _, part in sorted(parts, key=lambda p: p[0]):
            result = infix("+", result, part)
        return result

    def _stride(self, op: Load | Store, position: int) -> Expr:
        return size_expr(buffer_type(op.buffer).element_strides[position], self.sizes)

    def _factors(self, op: Load | Store, position: int) -> list[Expr]:
        """The stride of a buffer dim: the extents of the axes behind it where it is their product, else a number."""
        t = buffer_type(op.buffer)
        if t.strides is None:
            names: list[Expr] = []
            for size, index in zip(t.shape[position + 1 :], op.indices[position + 1 :], strict=True):
                axis = index.plain
                if size == 1:
                    continue
                if axis is None or self.kernel.axis[axis].extent != size:
                    break
                names.append(self._extent(self.kernel.axis[axis]))
            else:
                return names
        return [self._stride(op, position)]

    def _index(self, index: Index, dims: Dims, gathers: tuple[Op, ...] = (), wide: bool = False) -> Expr:
        """The coordinate along one buffer dim, shaped for a tile of ``dims``; with what is gathered in 64 bits, if ``wide``."""
        parts = [self._term(t, dims) for t in index.terms]
        parts = [p for p in parts if p.text != "0"]
        if index.gather >= 0:
            tile = gathers[index.gather]
            x = self._picked(tile)
            narrow = wide and DTYPES[tile_type(tile).dtype].bits < 64
            parts.append(self._fit(tile, Expr(f"{x.at(14)}.to(tl.int64)") if narrow else x, dims))
        offset = index.offset
        if isinstance(offset, int) and offset < 0 and parts:
            return infix("-", _sum(parts), Expr(str(-offset)))
        if offset != 0:
            parts.append(size_expr(offset, self.sizes))
        return _sum(parts)

    def _term(self, term: Term, dims: Dims) -> Expr:
        a = self.axes[term.axis]
        expr = self._along(Expr(a.name), term.axis, dims) if a.axis.tile > 1 else Expr(a.name)
        if a.name == "0":
            return expr
        if term.div != 1:
            expr = infix("//", expr, Expr(str(term.div)))
        if term.mod:
            expr = infix("%", expr, Expr(str(term.mod)))
        return expr if term.scale == 1 else infix("*", expr, size_expr(term.scale, self.sizes))

    def _picked(self, tile: Op) -> Expr:
        """The coordinates in a gathered tile, as a tensor of its dims."""
        return self._full(tile) if tile_type(tile).dims else self._tensor(tile).expr

    def _fit(self, tile: Op, x: Expr, dims: Dims) -> Expr:
        """``x``, which has the dims of ``tile``, shaped for a tile of ``dims``."""
        have = tile_type(tile)
        return self._broadcast(TileValue(x, have.axes), have.dims, dims).expr

    def _exists(self, tile: Op, size: Expr, dims: Dims) -> Expr:
        """Whether what ``tile`` picks along a dim of ``size`` is there."""
        x = self._picked(tile)
        return self._fit(tile, infix("&", infix(">=", x, Expr("0")), infix("<", x, size)), dims)

    def _mask_text(self, op: Load | Store, dims: Dims) -> str:
        parts: list[Expr] = []
        over = set(self.kernel.may_overrun(op))
        shape = buffer_type(op.buffer).shape
        gathers = op.gathers if isinstance(op, Load) else ()
        for index, size in zip(op.indices, shape, strict=True):
            plain = index.plain
            # A store must leave what lies past the axis alone even where the buffer goes on there.
            ragged = [a for a in index.axes if self.kernel.axis[a].ragged and self.kernel.axis[a].tile > 1]
            masked = ragged if isinstance(op, Store) else [a for a in ragged if a == plain and a in over]
            exact = plain is not None and self.kernel.axis[plain].extent == size
            for axis in masked:
                parts.append(self._along(self._inside(self.axes[axis]), axis, dims))
            if index.gather >= 0 and not index.terms and index.offset == 0:
                parts.append(self._exists(gathers[index.gather], size_expr(size, self.sizes), dims))
            elif not exact and (over & set(index.axes) or index.gather >= 0):
                if isinstance(op, Load):
                    parts = parts[: len(parts) - len(masked)]
                where = self._index(index, dims, gathers)
                if self._may_be_negative(index):
                    parts.append(infix(">=", where, Expr("0")))
                parts.append(infix("<", where, size_expr(size, self.sizes)))
        unique = list(dict.fromkeys(parts))
        result = unique[0] if unique else None
        for part in unique[1:]:
            assert result is not None
            result = infix("&", result, part)
        return result.text if result else ""

    def _may_be_negative(self, index: Index) -> bool:
        negative = [t for t in index.terms if not isinstance(t.scale, int) or t.scale < 0]
        return bool(negative) or index.gather >= 0 or not isinstance(index.offset, int) or index.offset < 0


def _sum(parts: list[Expr]) -> Expr:
    result = parts[0] if parts else Expr("0")
    for part in parts[1:]:
        result = infix("+", result, part)
    return result
