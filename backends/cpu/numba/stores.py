"""Stores: an element of a buffer, under the conditions that keep it inside; 16-bit floats as their bits."""

from __future__ import annotations

from portakern.emit.loops.elements import stored_value
from portakern.emit.python_like import Expr
from portakern.ir.core import Op
from portakern.ir.tile import Broadcast, Load, Mask, Permute, Store, buffer_type

from . import words
from .values import NumbaValueText


class StoreText(NumbaValueText):
    """Prints what writes a kernel's buffers."""

    def _store(self, op: Store) -> None:
        target, value = self._place(op), self._as_stored(op)
        line = {"set": f"{target} = {value}", "add": f"{target} += {value}",
                "max": f"{target} = max({target}, {value})"}[op.mode]  # fmt: skip
        checks = self._checks(op)
        if checks is None:
            self.out.line(line)
            return
        with self.out.block(f"if {checks}:"):
            self.out.line(line)

    def _as_stored(self, op: Store) -> Expr:
        """What is written to memory: bits straight from memory where nothing was computed, else converted."""
        dtype = buffer_type(op.buffer).dtype
        if dtype not in words.HALF_FLOATS:
            return self._value(op.value)
        bits = self._bits(op.value)
        return bits if bits is not None else words.to_memory(self._value(stored_value(op)), dtype)

    def _bits(self, value: Op) -> Expr | None:
        """The element of memory that ``value`` is loaded from, unless it has been read already."""
        while isinstance(value, Permute | Broadcast | Mask):
            value = value.x
        if not isinstance(value, Load) or value in self.arrays or self._checks(value) is not None:
            return None
        return None if self._value(value).text.isidentifier() else self._place(value)
