"""Pallas's plain interpreter without the copies of what a kernel only reads.

It walks the grid in a loop that carries every array, and after each step puts all blocks back, those of inputs too.  XLA makes
two copies of a whole input in every step of that (an image of 19 MB in rows: 7168 steps, 27 s).  A block that a kernel gives
back as it was read changes nothing, so it is not put back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """While kernels are traced for that interpreter, blocks that are unchanged are not put back."""
    try:
        from jax._src.pallas import hlo_interpreter as module

        take, put = module._dynamic_slice, module._dynamic_update_slice
    except (ImportError, AttributeError):  # another jax, which may do it in another way
        yield
        return
    taken: dict[int, tuple[Any, Any]] = {}  # blocks, which are kept so that no other one has their number

    def taking(start: Any, shape: Any, value: Any, squeezed: Any) -> Any:
        block = take(start, shape, value, squeezed)
        taken[id(block)] = value, block
        return block

    def putting(start: Any, shape: Any, value: Any, update: Any, squeezed: Any) -> Any:
        return value if taken.get(id(update), (None,))[0] is value else put(start, shape, value, update, squeezed)

    module._dynamic_slice, module._dynamic_update_slice = taking, putting
    try:
        yield
    finally:
        module._dynamic_slice, module._dynamic_update_slice = take, put
