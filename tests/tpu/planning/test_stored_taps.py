"""Taps that lie along a tile are loaded one by one, and what the tile has beyond them is what the load said."""

from __future__ import annotations

import pytest

from portakern.backends.tpu.planning.stored_taps import with_taps_one_by_one
from portakern.ir.core import Arg, Block
from portakern.ir.schedule import Schedule
from portakern.ir.tile import Axis, Broadcast, BufferType, Const, Index, Kernel, Load, Select, Store, Term

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("pad", "selected"), [(None, 2), (0.0, 3)])
def test_each_tap_is_put_where_it_is(pad: float | None, selected: int) -> None:
    axes = (Axis("o", "grid", 7, 1), Axis("k", "grid", 3, 8), Axis("c", "grid", 5, 8))
    x, y = Arg("x", BufferType((9, 5), "f32")), Arg("y", BufferType((7, 3, 5), "f32"))
    load = Load(x, (Index((Term("o"), Term("k"))), Index.of("c")), (("k", 8), ("c", 8)), pad)
    store = Store(load, y, tuple(map(Index.of, ("o", "k", "c"))))
    kernel = Kernel("windows", Block((x, y), (load, store)), "elementwise", axes, Schedule((("o", 1), ("k", 8), ("c", 8))))
    made = with_taps_one_by_one(kernel).body.ops
    rows = [op for op in made if isinstance(op, Load)]
    assert [str(op.indices[0]) for op in rows] == ["o", "o + 1", "o + 2"] and all(op.dims == (("c", 8),) for op in rows)
    assert sum(isinstance(op, Select) for op in made) == selected
    begins = [op for op in made if isinstance(op, Broadcast) and isinstance(op.x, Const)]
    assert [op.x.value for op in begins] == ([] if pad is None else [pad])  # type: ignore[attr-defined]
