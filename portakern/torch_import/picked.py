"""Elements picked by a mask, up to where something reduces them: all lines, and which are picked.

``x[mask]`` has as many lines as hold in the mask, which is no size of a kernel; ``x[mask].mean()`` is one number for any mask.
So what is done to single elements, and along other dims, is done to all lines, and a reduction along the first dim leaves out
those that are not picked.  A picked array may not leave the graph, nor be used where its lines' places among each other matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from portakern.dtypes import DTYPES
from portakern.ir.core import Op
from portakern.ir.size import Size, product
from portakern.spec import elementwise as ew
from portakern.spec import views
from portakern.spec.traced import Traced, broadcast_shapes
from portakern.torch_import.aten.indexing import only_mask, put_where
from portakern.torch_import.aten.reductions import fold
from portakern.torch_import.aten.without import base_of
from portakern.torch_import.rules import Call, Rule, axes_of, is_float, rule_for, spread, truth, value, wide
from portakern.torch_import.types import NotImported

PICKS = ("aten.index", "aten.masked_select")


@dataclass(frozen=True)
class Picked:
    """``lines`` (N, ...) of which those are meant where ``mask`` (N) holds."""

    lines: Traced
    mask: Traced

    @property
    def number(self) -> Traced:
        """How many are picked, an i64."""
        return fold("sum", ew.cast(self.mask, "i64"))

    def without(self, fill: Any) -> Traced:
        """The lines with ``fill`` in place of those that are not picked."""
        among = views.reshape(self.mask, (*self.mask.shape, *[1] * (self.lines.ndim - 1)))
        return ew.where(among, self.lines, value(fill, self.lines.type.dtype))


def picks(name: str, args: Sequence[Any]) -> bool:
    """Whether an operation picks elements by a mask."""
    base = base_of(name)
    if base == "aten.masked_select":
        return True
    return base == "aten.index" and any(isinstance(i, Traced) and i.type.dtype == "bool" for i in args[1])


def picked(name: str, x: Traced, by: Any) -> Picked:
    """The lines of ``x`` and which are picked.  Raises :class:`NotImported` for masks of other dims than the first ones."""
    if base_of(name) == "aten.masked_select":
        shape = broadcast_shapes([x.shape, by.shape])
        x, mask = spread(x, shape), spread(by, shape)
    else:
        first, *rest = by
        if not isinstance(first, Traced) or first.type.dtype != "bool" or any(i is not None for i in rest):
            raise NotImported("elements picked by a mask among other indices, whose number follows from the numbers inside it")
        mask = first
    lines = product(mask.shape)
    return Picked(views.reshape(x, (lines, *x.shape[mask.ndim :])), views.reshape(mask, (lines,)))


def has_picked(given: Any) -> bool:
    return any(True for _ in _among(given))


def _among(given: Any) -> Iterator[Picked]:
    if isinstance(given, Picked):
        yield given
    elif isinstance(given, list | tuple):
        for v in given:
            yield from _among(v)


def on_picked(node: Any, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of ``node``: picked lines, or an array where they are reduced.

    Raises :class:`NotImported` for what it matters to how many lines are picked before one.
    """
    among = [*_among(args), *_among(list(kwargs.values()))]
    mask = among[0].mask
    if not all(_same(p.mask.op, mask.op) for p in among[1:]):
        raise NotImported("elements picked by two masks together, whose numbers follow from the numbers inside them")
    base = call.base.removeprefix("aten.")
    if base in PUTS and (put := _put_back(base, call, args, kwargs, mask)) is not None:
        return put
    rule = rule_for(call.name)
    if rule is None:
        raise NotImported(f"{base} of elements picked by a mask, which has no rule")
    if _along(call.name, args, kwargs, among[0].lines.ndim):
        return _reduced(base, call, args, kwargs)
    kept = _first_stays(node) if base in VIEWS else base in BY_LINES and BY_LINES[base](args, call, mask)
    if not (_by_elements(node, call, args, mask) or kept):
        raise NotImported(f"{base} of elements picked by a mask, whose number follows from the numbers inside it")
    made = rule(call, *_unpicked(args), **{k: _unpicked(v) for k, v in kwargs.items()})
    return tuple(m if m is None else Picked(m, mask) for m in made) if isinstance(made, tuple) else Picked(made, mask)


PUTS = ("index_put", "_unsafe_index_put", "_index_put_impl", "masked_scatter")


def _put_back(base: str, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any], mask: Traced) -> Traced | None:
    """An array with picked lines in the places where they were picked from; ``None`` where they would go elsewhere."""
    x, by, lines = args[:3]
    by = [by] if base == "masked_scatter" else by
    if not isinstance(x, Traced) or not isinstance(lines, Picked) or only_mask(by) != 0:
        return None
    to = spread(by[0], x.shape) if base == "masked_scatter" else by[0]
    if not _same(views.reshape(to, (product(to.shape),)).op, mask.op):
        return None
    shape = (*mask.shape, *x.shape[to.ndim :])
    accumulate = (args[3] if len(args) > 3 else kwargs.get("accumulate", False)) if base != "masked_scatter" else False
    return put_where(x, 0, to, spread(value(lines.lines, call.dtype), shape), accumulate)


def _unpicked(given: Any) -> Any:
    if isinstance(given, Picked):
        return given.lines
    return type(given)(map(_unpicked, given)) if isinstance(given, list | tuple) else given


def _same(a: Any, b: Any) -> bool:
    """Whether two operations compute the same."""
    if isinstance(a, Op) and isinstance(b, Op) and a is not b:
        return type(a) is type(b) and all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "loc")
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a is b or a == b)


# ---- what is done to all lines ----------------------------------------------------------------------------------------------


def _by_elements(node: Any, call: Call, args: Sequence[Any], mask: Traced) -> bool:
    """Whether it is a function of single elements, and the lines are those of its result."""
    import torch

    if torch.Tag.pointwise not in getattr(node.target, "tags", ()) and call.base not in ("aten._to_copy", "aten.clone"):
        return False
    others = [a for a in args if isinstance(a, Traced)]
    ndim = len(call.shape)
    return all(p.lines.ndim == ndim for p in _among(args)) and all(a.ndim < ndim or a.shape[0] == 1 for a in others)


VIEWS = ("view", "reshape", "_unsafe_view", "alias", "detach", "lift_fresh_copy")


def _first_stays(node: Any) -> bool:
    """Whether a view has as many lines as are picked: by PyTorch's sizes, since here that is the number of all lines, which
    another dim may have."""
    before, after = (n.meta["val"].shape for n in (node.args[0], node))
    return bool(after) and not isinstance(after[0], int) and str(after[0]) == str(before[0])


def _beyond(number: int) -> Callable[[Sequence[Any], Call, Traced], bool]:
    """Whether the dims that argument ``number`` names are others than the first."""

    def holds(args: Sequence[Any], call: Call, mask: Traced) -> bool:
        if len(args) <= number or args[number] is None or not isinstance(args[0], Picked):
            return False
        dims = args[number] if isinstance(args[number], list | tuple) else [args[number]]
        return bool(dims) and all(d % args[0].lines.ndim for d in dims)

    return holds


def _unsqueezed(args: Sequence[Any], call: Call, mask: Traced) -> bool:
    return args[1] % (args[0].lines.ndim + 1) != 0


def _gathered(args: Sequence[Any], call: Call, mask: Traced) -> bool:
    return isinstance(args[0], Picked) and isinstance(args[2], Picked) and _beyond(1)(args, call, mask)


def _normalised(args: Sequence[Any], call: Call, mask: Traced) -> bool:
    return _left(0)(args, call, mask) and len(args[1]) < args[0].lines.ndim


def _joined(args: Sequence[Any], call: Call, mask: Traced) -> bool:
    return all(isinstance(p, Picked) for p in args[0]) and len(args) > 1 and args[1] % args[0][0].lines.ndim != 0


def _left(number: int) -> Callable[[Sequence[Any], Call, Traced], bool]:
    """Whether argument ``number`` alone is picked: the rows of a product, the indices of a table."""
    return lambda args, call, mask: all(isinstance(a, Picked) == (n == number) for n, a in enumerate(args)
                                        if isinstance(a, Picked | Traced))  # fmt: skip


BY_LINES: Mapping[str, Callable[[Sequence[Any], Call, Traced], bool]] = {
    **dict.fromkeys(("_softmax", "_log_softmax", "squeeze", "select", "slice", "cumsum", "flip", "sum", "mean", "amax", "amin",
                     "any", "all", "prod", "var", "max", "min", "argmax", "argmin", "sort", "logsumexp"), _beyond(1)),
    **dict.fromkeys(("topk", "linalg_vector_norm"), _beyond(2)), "native_layer_norm": _normalised,
    "unsqueeze": _unsqueezed, "gather": _gathered, "cat": _joined, "mm": _left(0), "addmm": _left(1), "embedding": _left(1),
}  # fmt: skip
"""Operations that keep lines apart from each other, each with a test of its arguments."""


# ---- what reduces them ------------------------------------------------------------------------------------------------------

FILLS = {"sum": 0, "nansum": 0, "prod": 1, "any": 0, "all": 1, "linalg_vector_norm": 0}
EXTREMES = {"amax": -1, "amin": 1, "max": -1, "min": 1}
REDUCES = (*FILLS, *EXTREMES, "mean", "var")


def _along(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], ndim: int) -> bool:
    """Whether it is a reduction along the first dim too."""
    base = base_of(name).removeprefix("aten.")
    if base not in REDUCES or (base in ("max", "min") and len(args) > 1):
        return False
    if base == "linalg_vector_norm" and len(args) > 1 and args[1] < 0:  # zeros would be the least
        return False
    return 0 in axes_of(_dims(base, args, kwargs), ndim)


def _dims(base: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    number = 2 if base == "linalg_vector_norm" else 1
    return args[number] if len(args) > number else kwargs.get("dim")


def _reduced(base: str, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    given: Picked = args[0]
    dims, own = _dims(base, args, kwargs), wide(given.lines.type.dtype)
    if base == "mean":
        given = replace(given, lines=value(given.lines, wide(call.dtype)))
        return _mean(given, dims, args[2] if len(args) > 2 else kwargs.get("keepdim", False))
    if base == "var":
        return _variance(replace(given, lines=ew.cast(given.lines, own)), call, dims, args, kwargs)
    if base in ("any", "all"):
        given = replace(given, lines=truth(given.lines))
    fill = FILLS[base] if base in FILLS else _end(given.lines.type.dtype, EXTREMES[base])
    rule: Rule | None = rule_for(call.name)
    assert rule is not None
    return rule(call, given.without(fill), *args[1:], **kwargs)


def _end(dtype: str, side: int) -> float | int:
    """The largest number of ``dtype`` (``side`` 1) or the least, which no other is beyond."""
    kind = DTYPES[dtype]
    if is_float(dtype):
        return side * float("inf")
    if dtype == "bool":
        return int(side > 0)
    signed = kind.kind == "int"
    return (1 << kind.bits - signed) - 1 if side > 0 else -(1 << kind.bits - 1) if signed else 0


def _terms(given: Picked, dims: Any) -> Traced:
    """How many elements are reduced, in the dtype of the lines."""
    others: Size = product(tuple(given.lines.shape[a] for a in axes_of(dims, given.lines.ndim) if a))
    return ew.cast(ew.multiply(given.number, value(others, "i64")), given.lines.type.dtype)


def _mean(given: Picked, dims: Any, keepdim: bool) -> Traced:
    return ew.divide(fold("sum", given.without(0), dims, keepdim), _terms(given, dims))


def _variance(given: Picked, call: Call, dims: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    """Of ``aten.var.correction`` and ``aten.var.dim``."""
    by_dim = call.name.endswith(".dim")
    less = (args[2] if len(args) > 2 else True) if by_dim else kwargs.get("correction")
    keepdim = kwargs.get("keepdim", args[3] if len(args) > 3 else False)
    apart = ew.subtract(given.lines, _mean(given, dims, True))
    total = fold("sum", replace(given, lines=ew.multiply(apart, apart)).without(0), dims, keepdim)
    left = ew.subtract(_terms(given, dims), float(1 if less is None else less))
    return ew.divide(total, ew.maximum(left, 0.0))
