"""Operators of tiles in Triton's interpreter without its way through types, where both tiles are of one plain dtype.

From ``a + b`` to numpy's sum the interpreter casts, broadcasts and wraps each operand anew, which takes a hundred times
as long as the sum of a tile.  Here such operands go to numpy at once.  All others (bf16, mixed dtypes, numbers that do not
fit) go the usual way.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS = {"int32": np.int32, "int64": np.int64, "fp32": np.float32, "fp64": np.float64}
"""Dtypes whose arithmetic is numpy's own."""

RANGES = {name: (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for name, kind in NUMBERS.items() if name.startswith("int")}

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
COMPARISONS = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
WHOLE = slice(None)
BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


class Tiles:
    """Makes tensors of the interpreter from arrays; what all tensors of a dtype and shape share is made once."""

    def __init__(self, interpreter: Any) -> None:
        import triton.language as tl

        self.handle, self.builder, self.tl = interpreter.TensorHandle, interpreter.interpreter_builder, tl
        self._parts: dict[tuple[str, tuple[int, ...] | None], dict[str, Any]] = {}
        self.ranges: dict[tuple[int, int], Any] = {}
        self._policies = _policies(interpreter.InterpreterBuilder.create_masked_load)

    def load(self, pointers: Any, mask: Any, default: Any) -> Any:
        """The builder's own load, around which others note what is read."""
        return self.builder.create_masked_load(pointers, mask, default, *self._policies, False)

    def made(self, data: np.ndarray, kind: Any, block: bool) -> Any:
        """A tensor of ``data``; a scalar has one element and is no block."""
        key = kind.name, data.shape if block else None
        handle = object.__new__(self.handle)  # whose check of sizes these arrays pass
        handle.data, handle.dtype, handle.attr = data, kind, {}
        parts = self._parts.get(key)
        if parts is None:
            tensor = self.tl.tensor(handle, self.tl.block_type(kind, list(data.shape)) if block else kind)
            self._parts[key] = {name: value for name, value in vars(tensor).items() if name != "handle"}
            return tensor
        tensor = object.__new__(self.tl.tensor)
        tensor.__dict__.update(parts, handle=handle)
        return tensor

    def operand(self, other: Any, kind: Any) -> np.ndarray | np.generic | None:
        """The numbers of ``other`` if they are of ``kind`` or become so without a change."""
        if isinstance(other, self.tl.tensor):
            return other.handle.data if other.dtype.name == kind.name else None
        if isinstance(other, self.tl.constexpr):
            other = other.value
        number: Any = NUMBERS.get(kind.name)
        limits = RANGES.get(kind.name)
        if number is None or type(other) not in (int, float):
            return None
        if limits is not None and (type(other) is float or not limits[0] <= other <= limits[1]):
            return None
        return number(other)


def _policies(load: Callable[..., Any]) -> tuple[None, ...]:
    """What a load is not told of caches: two words before Triton 3.9, one since; they stand between default and
    ``is_volatile``."""
    names = list(inspect.signature(load).parameters)
    return (None,) * (names.index("is_volatile") - names.index("other") - 1)


def quicken(tiles: Tiles, tensor: Any, scope: Any) -> None:
    """Gives the class ``tensor`` quick operators within ``scope``, in which its usual ones are patched already."""
    if getattr(tensor.__add__, "quick", False):  # functions that a kernel calls patch again
        return
    for name, operation in ARITHMETIC.items():
        _set(tensor, scope, f"__{name}__", _binary(tiles, operation, NUMBERS, None))
        _set(tensor, scope, f"__r{name}__", _binary(tiles, lambda a, b, op=operation: op(b, a), NUMBERS, None))
    for name, operation in COMPARISONS.items():
        _set(tensor, scope, f"__{name}__", _binary(tiles, operation, NUMBERS, tiles.tl.int1))
    for name, operation in BITS.items():
        _set(tensor, scope, f"__{name}__", _binary(tiles, operation, ("int1", "int32", "int64"), None))
    _set(tensor, scope, "__add__", _offset(tiles))
    _set(tensor, scope, "__getitem__", _index(tiles))


def quicken_language(tiles: Tiles, language: Any, scope: Any) -> None:
    """Gives the module ``language`` quick functions, as :func:`quicken` does for a class."""
    if getattr(language.load, "quick", False):
        return
    _set(language, scope, "load", _load(tiles))
    _set(language, scope, "where", _where(tiles))
    _set(language, scope, "arange", _range(tiles))
    _set(language, scope, "trans", _transposed(tiles))
    _set(language, scope, "dot", _product(tiles))


def _set(holder: Any, scope: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> None:
    function = make(getattr(holder, name))
    function.quick = True
    scope.set_attr(holder, name, function)


def _binary(tiles: Tiles, operation: Callable[[Any, Any], Any], kinds: Any, result: Any) -> Callable[[Any], Any]:
    def make(usual: Any) -> Any:
        def quick(self: Any, other: Any, **keywords: Any) -> Any:
            kind = self.dtype
            data = tiles.operand(other, kind) if kind.name in kinds and self.handle.data.ndim else None
            if data is None:
                return usual(self, other, **keywords)
            block = self.type.is_block() or (isinstance(data, np.ndarray) and other.type.is_block())
            return tiles.made(operation(self.handle.data, data), result or kind, block)

        return quick

    return make


def _offset(tiles: Tiles) -> Callable[[Any], Any]:
    """Pointers plus offsets."""

    def make(usual: Any) -> Any:
        def quick(self: Any, other: Any, **keywords: Any) -> Any:
            plain = self.dtype.is_ptr() and isinstance(other, tiles.tl.tensor) and other.dtype.name in ("int32", "int64")
            if not plain or not self.handle.data.ndim:
                return usual(self, other, **keywords)
            size = max(1, self.handle.get_element_ty().primitive_bitwidth // 8)
            data = self.handle.data + size * other.handle.data.astype(np.uint64)
            return tiles.made(data, self.dtype, self.type.is_block() or other.type.is_block())

        return quick

    return make


def _index(tiles: Tiles) -> Callable[[Any], Any]:
    """``x[:, None]``"""

    def make(usual: Any) -> Any:
        def quick(self: Any, slices: Any, **keywords: Any) -> Any:
            at = slices if isinstance(slices, tuple) else (slices,)
            kept = sum(isinstance(s, slice) and s == WHOLE for s in at)
            if not self.type.is_block() or kept > self.handle.data.ndim or kept + sum(s is None for s in at) != len(at):
                return usual(self, slices, **keywords)
            return tiles.made(self.handle.data[at], self.dtype, True)

        return quick

    return make


def _load(tiles: Tiles) -> Callable[[Any], Any]:
    """Loads of a tile whose mask and default have its shape or are spread over it."""

    def make(usual: Any) -> Any:
        def quick(pointer: Any, mask: Any = None, other: Any = None, **keywords: Any) -> Any:
            element = getattr(pointer.dtype, "element_ty", None)
            if element is None or element.name not in NUMBERS or not pointer.type.is_block() or "boundary_check" in keywords:
                return usual(pointer, mask=mask, other=other, **keywords)
            at = _mask(tiles, mask, pointer.handle.data.shape)
            filled = tiles.operand(0 if other is None else other, element)
            if at is None or filled is None or filled.ndim:
                return usual(pointer, mask=mask, other=other, **keywords)
            default = tiles.handle(np.full(at.shape, filled, NUMBERS[element.name]), element)
            loaded = tiles.load(pointer.handle, tiles.handle(at, tiles.tl.int1), default)
            return tiles.made(loaded.data, element, True)

        return quick

    return make


def _mask(tiles: Tiles, mask: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """The elements of ``mask`` for a tile of ``shape``; ``None`` if it is no mask of such a tile."""
    if mask is None:
        return np.ones(shape, bool)
    if not isinstance(mask, tiles.tl.tensor) or mask.dtype.name != "int1":
        return None
    data = mask.handle.data
    if data.shape == shape:
        return np.ascontiguousarray(data)
    small = data.ndim == len(shape) and all(n in (1, m) for n, m in zip(data.shape, shape, strict=True))
    return np.ascontiguousarray(np.broadcast_to(data, shape)) if small else None


def _where(tiles: Tiles) -> Callable[[Any], Any]:
    def make(usual: Any) -> Any:
        def quick(condition: Any, x: Any, y: Any, **keywords: Any) -> Any:
            both = [v for v in (x, y) if isinstance(v, tiles.tl.tensor)]
            plain = both and both[0].dtype.name in NUMBERS and getattr(condition, "dtype", None) == tiles.tl.int1
            yes, no = (tiles.operand(v, both[0].dtype) for v in (x, y)) if plain else (None, None)
            if yes is None or no is None:
                return usual(condition, x, y, **keywords)
            block = any(v.type.is_block() for v in (condition, *both))
            return tiles.made(np.where(condition.handle.data, yes, no), both[0].dtype, block)

        return quick

    return make


def _range(tiles: Tiles) -> Callable[[Any], Any]:
    """Ranges, each made once: nothing writes to a tile."""

    def make(usual: Any) -> Any:
        def quick(start: Any, end: Any, **keywords: Any) -> Any:
            if type(start) is not int or type(end) is not int:
                return usual(start, end, **keywords)
            if (start, end) not in tiles.ranges:
                made = usual(start, end, **keywords)
                made.handle.data.flags.writeable = False
                tiles.ranges[start, end] = made
            return tiles.ranges[start, end]

        return quick

    return make


def _transposed(tiles: Tiles) -> Callable[[Any], Any]:
    def make(usual: Any) -> Any:
        def quick(input: Any, *dims: Any, **keywords: Any) -> Any:
            if dims or keywords or input.handle.data.ndim != 2:
                return usual(input, *dims, **keywords)
            return tiles.made(input.handle.data.T, input.dtype, True)

        return quick

    return make


SIDE = 16
"""Rows, columns and depth that the interpreter, as most devices do, wants of a product at least."""


def _product(tiles: Tiles) -> Callable[[Any], Any]:
    """Products of f32 in f32 onto f32."""

    def make(usual: Any) -> Any:
        def quick(input: Any, other: Any, acc: Any = None, **keywords: Any) -> Any:
            three = (input, other, acc)
            floats = all(getattr(t, "dtype", None) == tiles.tl.float32 for t in three)
            if not floats or keywords != {"input_precision": "ieee"}:
                return usual(input, other, acc, **keywords)
            a, b, c = (t.handle.data for t in three)
            if a.ndim != 2 or b.ndim != 2 or min(*a.shape, *b.shape) < SIDE or c.shape != (len(a), b.shape[1]):
                return usual(input, other, acc, **keywords)
            return tiles.made(np.matmul(a, b) + c, tiles.tl.float32, True)

        return quick

    return make
