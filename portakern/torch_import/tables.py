"""Tables that PyTorch fills once, at the import: what follows from no input and goes through rounded floats to whole numbers.

An example is the bucket of a relative position: the logarithm of integers, scaled and cut to an integer.  Next to a boundary
the last bit of a float decides, and other logarithms round otherwise.  So PyTorch itself computes such a sub-graph, in the
module's dtypes, and its result is a constant.  Floats that cannot have been rounded (a triangle of ones that is compared with
0) stay what they are: a kernel computes them faster than it reads them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from portakern.torch_import.aten.without import base_of
from portakern.torch_import.constants import LARGEST

STEPS = frozenset(f"aten.{name}" for name in (
    "floor", "ceil", "round", "trunc", "frac", "sign", "sgn", "remainder", "fmod", "floor_divide", "heaviside",
    "nextafter"))  # fmt: skip
"""Functions that give floats and jump, besides ``aten.div`` with a mode of rounding."""

EXACT = frozenset(f"aten.{name}" for name in (
    "full", "zeros", "ones", "fill", "arange", "scalar_tensor", "eye", "lift_fresh_copy", "lift_fresh", "_to_copy", "clone",
    "alias", "detach", "copy", "add", "sub", "rsub", "mul", "neg", "abs", "maximum", "minimum", "clamp", "clamp_min",
    "clamp_max", "where", "masked_fill", "tril", "triu", "cat", "stack", "view", "reshape", "_unsafe_view", "expand", "permute",
    "transpose", "t", "squeeze", "unsqueeze", "slice", "select", "flip", "roll", "repeat", "diagonal", "split",
    "split_with_sizes", "unbind", "index", "index_select", "gather", "embedding", "slice_scatter", "select_scatter",
    "diagonal_scatter", "constant_pad_nd", "relu", "cumsum"))  # fmt: skip
"""Operations that give whole numbers of whole numbers without rounding, while they are small."""

VIEWS = frozenset(f"aten.{name}" for name in (
    "view", "reshape", "_unsafe_view", "expand", "permute", "transpose", "t", "squeeze", "unsqueeze", "alias",
    "clone"))  # fmt: skip
"""Operations that give what they read: that is kept, once for all of its views."""

UNREAD = frozenset(f"aten.{name}" for name in (
    "full_like", "zeros_like", "ones_like", "empty_like", "new_full", "new_zeros", "new_ones", "new_empty", "empty",
    "empty_strided", "empty_permuted", "new_empty_strided"))  # fmt: skip
"""Operations that read no numbers."""


LINES = ("aten.linspace", "aten.logspace", "aten.arange")
"""What gives whole numbers of steps between them that may be none."""


class From(IntEnum):
    """What the value of a node follows from: nothing, open sizes alone, or arrays that are given."""

    NOTHING = 0
    SIZES = 1
    ARRAYS = 2


@dataclass(frozen=True)
class Tables:
    """The nodes of a graph that PyTorch computes.

    Args:
        values: their tensors, by node.
        skipped: nodes that nothing else reads.
        unsettled: nodes that jump with rounded floats of open sizes, or of more elements than are kept: kernels may decide
            otherwise than PyTorch next to a boundary.
        value: gives the tensor of a node that follows from nothing, ``None`` for others.
    """

    values: Mapping[Any, Any] = field(default_factory=dict)
    skipped: frozenset[Any] = frozenset()
    unsettled: tuple[Any, ...] = ()
    value: Callable[[Any], Any] = lambda node: None


def tables_of(graph: Any, held: Mapping[Any, Any]) -> Tables:
    """The tables of a graph, whose placeholders ``held`` are constants with these tensors."""
    return _Search(graph, held).tables()


class _Search:
    def __init__(self, graph: Any, held: Mapping[Any, Any]) -> None:
        self.nodes = [n for n in graph.nodes if n.op in ("placeholder", "call_function")]
        self.place = {n: i for i, n in enumerate(self.nodes)}
        self.held = held
        self.values: dict[Any, Any] = dict(held)
        self.origin: dict[Any, From] = dict.fromkeys(held, From.NOTHING)
        self.exact: dict[Any, bool] = {}
        self.jumps: set[Any] = set()  # constant nodes that jump with rounded floats, and what follows from such alone
        for node in self.nodes:
            self.origin.setdefault(node, _origin(node, self.origin))
            if self.origin[node] != From.ARRAYS and self._jumps(node):
                self.jumps.add(node)

    def tables(self) -> Tables:
        """From the last node to the first: a table is as late as it can be without growing."""
        values: dict[Any, Any] = {}
        skipped: set[Any] = set()
        for node in reversed(self.nodes):
            if self.origin[node] != From.NOTHING or node in self.held:
                continue
            if all(u in skipped or u in values for u in node.users):
                skipped.add(node)
            elif self._is_table(node):
                values[node] = self.value(node)
        return Tables(values, frozenset(skipped), tuple(self._unsettled(values, skipped)), self.if_constant)

    def _unsettled(self, values: Mapping[Any, Any], skipped: set[Any]) -> Iterator[Any]:
        """The first jumps of which no table was made."""
        for node in self.nodes:
            first = node in self.jumps and not any(n in self.jumps for n in node.all_input_nodes)
            if first and node not in values and node not in skipped:
                yield node

    def _is_table(self, node: Any) -> bool:
        if not _is_array(node) or not self._fits(node) or base_of(str(node.target)) in VIEWS:
            return False
        if node in self.jumps:
            before = [_size(n) for n in node.all_input_nodes if n in self.jumps]
            return not before or _size(node) <= max(before)
        return self._is_border(node) and not self.is_exact(node)

    def _is_border(self, node: Any) -> bool:
        """Whether a jump of given arrays reads it or a view of it, as it reads the borders of buckets."""
        return any(_is_jump(u) or (base_of(str(u.target)) in VIEWS and self._is_border(u)) for u in node.users)

    def _jumps(self, node: Any) -> bool:
        """Whether whole numbers follow from rounded floats here, or did before and are only worked with."""
        if not _is_array(node) or base_of(str(node.target)) in UNREAD or node.op != "call_function":
            return False
        if not _is_float(node):
            if base_of(str(node.target)) in LINES and not _has_whole_steps(node):
                return True
            return any(n in self.jumps or not self.is_exact(n) for n in node.all_input_nodes)
        return _is_jump(node) and any(not self.is_exact(n) for n in node.all_input_nodes)

    # ---- which floats were not rounded

    def is_exact(self, node: Any) -> bool:
        """Whether the numbers of a constant node are the same however they are computed."""
        if node not in self.exact:
            self.exact[node] = self._is_exact(node)
        return self.exact[node]

    def _is_exact(self, node: Any) -> bool:
        from torch import SymInt

        if node.target is operator.getitem:
            return self.is_exact(node.args[0])
        if isinstance(node.meta.get("val"), int | SymInt):
            return True
        name = base_of(str(node.target))
        if name in UNREAD or (_is_array(node) and not _is_float(node)):
            return True
        if node.op == "call_function" and (name not in EXACT or not all(self.is_exact(n) for n in node.all_input_nodes)):
            return False
        if not _is_array(node):
            return True
        if self.origin[node] == From.SIZES:
            return all(_is_whole(x) for x in node.args if isinstance(x, float))
        return self._fits(node) and _are_small_and_whole(self.value(node))

    # ---- values

    def if_constant(self, node: Any) -> Any:
        """The value of a constant array that is not too large; ``None`` for other nodes."""
        constant = self.origin.get(node) == From.NOTHING and _is_array(node) and self._fits(node)
        return self.value(node) if constant else None

    def value(self, node: Any) -> Any:
        """What PyTorch computes for a constant node."""
        from torch import no_grad
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), no_grad():
            for n in sorted(self._needed(node), key=self.place.__getitem__):
                args, kwargs = (_filled(x, self.values) for x in (n.args, n.kwargs))
                self.values[n] = n.target(*args, **kwargs)
        return self.values[node]

    def _needed(self, node: Any) -> set[Any]:
        """``node`` and what it follows from, as far as that is not computed."""
        found: set[Any] = set()
        waiting = [node]
        while waiting:
            n = waiting.pop()
            if n not in self.values and n not in found:
                found.add(n)
                waiting += n.all_input_nodes
        return found

    def _fits(self, node: Any) -> bool:
        return all(_size(n) <= LARGEST for n in self._needed(node))


def _filled(given: Any, values: Mapping[Any, Any]) -> Any:
    from torch.fx.node import map_arg

    return map_arg(given, lambda n: values[n])


# ---- nodes ----------------------------------------------------------------------------------------------------------


def _origin(node: Any, known: Mapping[Any, From]) -> From:
    import torch

    if node.op != "call_function" or (node.target is not operator.getitem and _is_random(node.target)):
        return From.ARRAYS
    fakes = node.meta.get("val")
    if isinstance(fakes, torch.SymInt | torch.SymFloat | torch.SymBool):
        return From.SIZES
    before = max((known.get(n, From.ARRAYS) for n in node.all_input_nodes), default=From.NOTHING)
    each = fakes if isinstance(fakes, list | tuple) else (fakes,)
    if any(not isinstance(s, int) for f in each for s in getattr(f, "shape", ())):
        return max(before, From.SIZES)
    return before


def _is_random(target: Any) -> bool:
    from torch import Tag

    return Tag.nondeterministic_seeded in getattr(target, "tags", ()) or not hasattr(target, "_schema")


def _is_jump(node: Any) -> bool:
    """Whether a small change of floats may change a result by much."""
    name = base_of(str(node.target))
    if _is_array(node) and not _is_float(node):
        return name not in UNREAD
    return name in STEPS or bool(node.kwargs.get("rounding_mode"))


def _is_array(node: Any) -> bool:
    return hasattr(node.meta.get("val"), "dtype")


def _is_float(node: Any) -> bool:
    of = node.meta["val"].dtype
    return of.is_floating_point or of.is_complex


def _size(node: Any) -> int:
    fakes = node.meta.get("val")
    shapes = [getattr(f, "shape", ()) for f in (fakes if isinstance(fakes, list | tuple) else (fakes,))]
    return max((math.prod(s) for s in shapes), default=1)


def _has_whole_steps(node: Any) -> bool:
    return base_of(str(node.target)) == "aten.arange" and all(_is_whole(x) for x in node.args if isinstance(x, float))


def _is_whole(x: float) -> bool:
    return math.isinf(x) or x == math.floor(x)


def _are_small_and_whole(x: Any) -> bool:
    """Whether all numbers are infinite, or whole and of no more bits than the dtype has."""
    import torch

    if x.dtype.is_complex:
        return False
    finite = x[~torch.isinf(x)].double()
    return bool(((finite == finite.floor()) & (finite.abs() <= 1 / torch.finfo(x.dtype).eps)).all())

