"""Arrays that kernels store piece by piece: each piece becomes an array of its own, and the host puts them in place.

A Pallas kernel owns its outputs, so none can be written by two kernels or in part.  XLA joins the pieces in one pass over the
result; where a piece is an input as it is, around which something is padded for a kernel to read, no kernel copies it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program, moved
from portakern.ir.size import Size, product
from portakern.ir.tile import BufferType, Index, Kernel, Load, Store, buffer_type

Place = tuple[Size, int, Size]
"""Of a piece along one dim: its first element, the step between its elements, how many there are."""


@dataclass(frozen=True)
class Piece:
    """The elements at ``places`` of an array, which are all of the array ``name``, or those at ``part`` of it where it has the
    shape ``seen``; ``copied``: of an array that is there for others as well."""

    name: str
    places: tuple[Place, ...]
    copied: bool = False
    part: tuple[Place, ...] = ()
    seen: tuple[Size, ...] = ()


@dataclass(frozen=True)
class Assembly:
    """An array made of pieces; its ``init`` is what lies around them."""

    array: Array
    pieces: tuple[Piece, ...]


def in_pieces(program: Program) -> tuple[Program, tuple[Assembly, ...]]:
    """``program`` with an array of its own for every piece, and how the arrays are put together that were made of them."""
    found: list[Assembly] = []
    renamed: dict[Op, tuple[Array, Store]] = {}  # stores: the piece, and the store that makes it
    copied: set[Op] = set()
    taken = {a.name for a in program.arrays} | set(program.sizes)
    made: dict[str, list[tuple[Kernel, Store]]] = {}
    for k in program.kernels:
        for op in _stores(k):
            made.setdefault(_name(op), []).append((k, op))
    for array in program.by_role("output", "temporary"):
        stores = made.get(array.name, [])
        places = [_placed(k, op, array) for k, op in stores]
        if not stores or None in places or (len(stores) == 1 and places[0] == _whole(array)):
            continue
        pieces: list[Piece] = []
        for number, ((kernel, op), place) in enumerate(zip(stores, places, strict=True)):
            assert place is not None
            source = _copied(kernel, op, place) if array.role == "temporary" else None
            if source is not None and source.name in _changing(program, kernel):
                source = None
            if source is not None:
                copied.add(op)
            else:
                name = _fresh(f"{array.name}_part{number if len(stores) > 1 else ''}", taken)
                renamed[op] = _own_array(kernel, op, array, name, place)
                source = Piece(name, place)
            pieces.append(source)
        found.append(Assembly(array, tuple(pieces)))
    if not found:
        return program, ()
    arrays = (*program.arrays, *(a for a, _ in renamed.values()))
    kernels = [_rewritten(k, {op: s for op, (_, s) in renamed.items()}, copied) for k in program.kernels]
    stores = [any(_stores(k)) for k in kernels]
    repeats = moved(program.repeats, lambda n: sum(stores[:n]), lambda n: sum(stores[: n + 1]))
    kept = tuple(k for k, stored in zip(kernels, stores, strict=True) if stored)
    return replace(program, arrays=arrays, kernels=kept, repeats=repeats), tuple(found)


def _changing(program: Program, kernel: Kernel) -> set[str]:
    """The arrays that are there before a loop that ``kernel`` is in, and others in every turn of it: nothing is put together of
    them before the loop."""
    at = next(n for n, k in enumerate(program.kernels) if k is kernel)
    around = [r for r in program.repeats if r.first <= at < r.last]
    swapped = {name for r in around for pair in r.swaps for name in pair}
    return swapped | {name for r in around for name in _stored(program.kernels[r.first : r.last])
                      if name in _stored(program.kernels[: r.first])}  # fmt: skip


def _stored(kernels: Sequence[Kernel]) -> set[str]:
    return {_name(op) for k in kernels for op in _stores(k)}


def _stores(kernel: Kernel) -> Iterator[Store]:
    return (op for op in kernel.body.walk() if isinstance(op, Store))


def _name(access: Load | Store) -> str:
    assert isinstance(access.buffer, Arg)
    return access.buffer.name


def _fresh(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def _shape(array: Array) -> tuple[Size, ...]:
    return array.type.shape if isinstance(array.type, BufferType) else ()


def _whole(array: Array) -> tuple[Place, ...]:
    return tuple((0, 1, n) for n in _shape(array))


def _placed(kernel: Kernel, op: Store, array: Array) -> tuple[Place, ...] | None:
    """Where in ``array`` a store writes; ``None`` where that is no regular piece."""
    if op.mode != "set":
        return None
    seen = [_along(kernel, index) for index in op.indices]
    if any(s is None for s in seen):
        return None
    return _in_shape([s for s in seen if s is not None], buffer_type(op.buffer).shape, _shape(array))


def _along(kernel: Kernel, index: Index) -> Place | None:
    if not index.terms:
        return (index.offset, 1, 1) if index.gather < 0 else None
    (term, *more) = index.terms
    if more or index.gather >= 0 or (term.div, term.mod) != (1, 0) or not isinstance(term.scale, int):
        return None
    extent = kernel.axis[term.axis].extent
    if term.scale < 0:  # backwards: the view of the store turns it around
        return index.offset + term.scale * (extent - 1), -term.scale, extent
    return (index.offset, term.scale, extent) if term.scale > 0 else None


def _in_shape(places: Sequence[Place], seen: Sequence[Size], shape: Sequence[Size]) -> tuple[Place, ...] | None:
    """``places`` in the view ``seen`` of an array, as places in its ``shape``: of a dim that joins several whole lines are
    stored, and those that share one are a place in it together."""
    found: list[Place] = []
    rest, left = list(zip(places, seen, strict=True)), list(shape)
    while rest:
        place, size = rest[0]
        if size == 1 and (not left or left[0] != 1):
            rest.pop(0)  # the view has a dim of 1 that the array lacks
        elif (dims := _making_up(size, left)) is not None:
            long = [n for n in dims if n != 1]
            if len(long) > 1:
                if (parts := _apart(place, dims)) is None:
                    return None
                found += parts
            else:
                found += [place if n == size else (0, 1, n) for n in dims]
            rest, left = rest[1:], left[len(dims) :]
        elif left and (parts := _making_up(left[0], [n for _, n in rest])) is not None:
            shared = _shared(rest[: len(parts)])
            if shared is None:
                return None
            found.append(shared)
            rest, left = rest[len(parts) :], left[1:]
        elif left and _is_longer(size, left[0]) and place == (0, 1, size):  # whole lines, and what they begin with
            inner = size // left[0]  # type: ignore[operator]
            rest[:1] = [((0, 1, left[0]), left[0]), ((0, 1, inner), inner)]
        else:
            return None
    found += [(0, 1, n) for n in left]
    return tuple(found) if all(n == 1 for n in left) else None


def _is_longer(size: Size, line: Size) -> bool:
    return isinstance(size, int) and isinstance(line, int) and 0 < line < size and size % line == 0


def _apart(place: Place, dims: Sequence[Size]) -> list[Place] | None:
    """A place in a dim that joins ``dims`` as places in them: all of it, or elements in a row that end where lines do."""
    start, step, count = place
    size = product(tuple(dims))
    if place == (0, 1, size):
        return [(0, 1, n) for n in dims]
    if len(dims) < 2:
        return [place]
    line = product(tuple(dims[1:]))
    if step != 1 or not (isinstance(start, int) and isinstance(count, int) and isinstance(line, int)) or line == 0:
        return None
    if start % line == 0 and count % line == 0:
        return [(start // line, 1, count // line), *((0, 1, n) for n in dims[1:])]
    inside = _apart((start % line, 1, count), dims[1:]) if start % line + count <= line else None
    return [(start // line, 1, 1), *inside] if inside is not None else None


def _making_up(size: Size, dims: Sequence[Size]) -> Sequence[Size] | None:
    """The first of ``dims``, at least one, whose product is ``size``."""
    have: Size = 1
    for count, n in enumerate(dims, 1):
        have = have * n
        if have == size:
            return dims[:count]
    return None


def _shared(parts: Sequence[tuple[Place, Size]]) -> Place | None:
    """The place in one dim of what is at a place along each of its ``parts``; ``None`` where its elements lie unevenly."""
    whole, (start, step, count) = parts[-1][1], parts[-1][0]
    for (first, every, n), size in reversed(parts[:-1]):
        if not isinstance(whole, int):
            return None
        start += first * whole
        if n != 1 and count == 1:
            step, count = every * whole, n
        elif n != 1 and (start - first * whole, step, count) == (0, 1, whole) and every == 1:
            count = n * whole
        elif n != 1:
            return None
        whole = whole * size
    return start, step, count


def _copied(kernel: Kernel, op: Store, places: tuple[Place, ...]) -> Piece | None:
    """What a store copies to ``places``, element by element, if it does nothing else: an array, or a part of one."""
    load = op.value
    if not isinstance(load, Load) or load.gathers:
        return None
    read = [t.axis for x in load.indices for t in x.terms]
    written = [t.axis for x in op.indices for t in x.terms]
    if read != written or any(_is_backwards(x) for x in (*load.indices, *op.indices)):
        return None
    of = buffer_type(load.buffer)
    if of.strides is not None:
        return None
    part = [_along(kernel, index) for index in load.indices]
    found = [p for p in part if p is not None and p[1] > 0 and _inside(p)]
    if len(found) != len(of.shape):
        return None
    whole = all(p == (0, 1, n) for p, n in zip(found, of.shape, strict=True))
    return Piece(_name(load), places, True) if whole else Piece(_name(load), places, True, tuple(found), of.shape)


def _is_backwards(index: Index) -> bool:
    return any(isinstance(t.scale, int) and t.scale < 0 for t in index.terms)


def _inside(place: Place) -> bool:
    return isinstance(place[0], int) and place[0] >= 0


def _own_array(kernel: Kernel, op: Store, array: Array, name: str, places: Sequence[Place]) -> tuple[Array, Store]:
    """The array of a piece, and the store that fills it."""
    whole = Array(name, BufferType(tuple(n for _, _, n in places), array.dtype), "temporary", loc=array.loc)
    seen, indices = [], []
    for index in op.indices:
        axis = index.terms[0].axis if index.terms else ""
        extent = kernel.axis[axis].extent if axis else 1
        seen.append(extent)
        backwards = Index((replace(index.terms[0], scale=-1),), extent - 1) if _is_backwards(index) else None
        indices.append(backwards or (Index.of(axis) if axis else Index()))
    buffer = Arg(name, BufferType(tuple(seen), array.dtype))
    return whole, replace(op, buffer=buffer, indices=tuple(indices))


def _rewritten(kernel: Kernel, stores: Mapping[Op, Store], copied: set[Op]) -> Kernel:
    """``kernel`` with the stores in ``stores`` replaced, and those in ``copied`` left out."""
    if not any(op in stores or op in copied for op in _stores(kernel)):
        return kernel
    made: list[Arg] = []
    kept: set[Op] = set()

    def block(old: Block) -> Block:
        ops: list[Op] = []
        for op in old.ops:
            if op in copied:
                continue
            if isinstance(op, Store) and op in stores:
                new: Op = replace(stores[op], value=env.get(op.value, op.value))
                assert isinstance(stores[op].buffer, Arg)
                made.append(stores[op].buffer)  # type: ignore[arg-type]
            else:
                new = op.remap(lambda o: env.get(o, o), block)
            env[op] = new
            kept.update(new.operands)
            ops.append(new)
        return Block(old.args, tuple(ops))

    env: dict[Op, Op] = {}
    body = block(kernel.body)
    args = tuple(a for a in body.args if a in kept)
    return replace(kernel, body=Block((*args, *made), body.ops))
