"""Schedules: how a loop nest is cut up for a target.  A schedule never changes what is computed beyond rounding.

Lowering describes each kernel's :class:`Nest` (its axes and their roles) and the backend answers with the schedules it
allows, its default first.  The roles are the vocabulary between the two:

=============  ==================================================================================================
family         roles of its axes
=============  ==================================================================================================
elementwise    ``parallel``, slowest first; the last one is contiguous in the output
transpose      ``parallel``; exactly two of them, ``source`` and ``target``, are contiguous in an input and the output
rows           ``parallel`` and ``reduced``; the last reduced axis is tiled (it is contiguous where any is), further
               reduced axes are walked one coordinate at a time; two ``parallel`` axes are tiled where none of these is
held           ``parallel`` and one or two ``held``, the slowest first, which tiles cover: a loop of steps carries what lies
               along them.  Beside two of these nothing else is tiled, beside one a ``parallel`` axis, which is the last one
               where it is contiguous
segments       ``parallel``, one ``segment`` (tile 1) and one ``walked``, from where a segment begins to where it ends; it is
               tiled where it is contiguous, else walked one coordinate at a time with ``parallel`` ones side by side
scan           ``parallel`` and one ``scanned``, which is tiled where it is contiguous, else mostly walked one by one
associative    as scan, by a function of the operator's; a language that has no such scan of a tile walks the line one by one
sort           ``parallel`` and one ``sorted``, which is covered by its tile (of a longer one runs are sorted, as long as
               :class:`portakern.backend.Language` says); with it ``first``, covered by a tile of at least 2, where only the
               first elements of a line are asked for
contraction    ``batch`` (tile 1), ``m``, ``n``, ``k``; further contracted axes, ``reduced``, are walked one by one
grouped        ``m``, ``n``, ``k`` as in contractions; ``group`` (tile 1), of which a block walks those that its rows are of
attention      ``batch`` (tile 1), ``m`` (query rows), ``n`` (walked: keys), ``k`` (contracted by the scores; whole),
               ``d`` (features of the result; whole)
chain          as attention, with a ``k`` for each inner product and a ``d`` for each of the results (none where rows are
               reduced), ``kd`` where both use one tile of an array; ``reduced`` are further axes that are walked (tile 1)
=============  ==================================================================================================

:data:`ROLES` says how many axes have each role; a nest that breaks it is not made.  So a backend may take the ``source`` of
every transpose, and need not ask whether there is one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from portakern.errors import IRError, ScheduleError
from portakern.ir.core import codec
from portakern.ir.size import Size

Value = str | int | bool

LOWERED_OPTIONS = {
    "split_k": "products, rows, scans, attention: parts of the axis that is contracted, reduced or walked, for blocks of "
               "their own, which a second kernel joins",
    "slide": "rows over windows that overlap: neighbouring results that one walk makes, reading what they share once",
}
"""Options that lowering itself understands, so that every language has them."""
LOWERED_FAMILIES = {"split_k": ("contraction", "rows", "scan", "attention"), "slide": ("rows",)}


LEAST_COLUMNS = 16
"""Columns of each of several products that a block has at least."""

ONE, SOME, ANY = (1, 1), (1, None), (0, None)
ROLES: Mapping[str, Mapping[str, tuple[int, int | None]]] = {
    "elementwise": {"parallel": SOME},
    "transpose": {"parallel": ANY, "source": ONE, "target": ONE},
    "rows": {"parallel": ANY, "reduced": SOME},
    "held": {"parallel": ANY, "held": (1, 2)},
    "segments": {"parallel": ANY, "segment": ONE, "walked": ONE},
    "scan": {"parallel": ANY, "scanned": ONE},
    "associative": {"parallel": ANY, "scanned": ONE},
    "sort": {"parallel": ANY, "sorted": ONE, "first": (0, 1)},
    "contraction": {"batch": ANY, "m": ONE, "n": ONE, "k": ONE, "reduced": ANY},
    "grouped": {"m": ONE, "n": ONE, "k": ONE, "group": ONE},
    "attention": {"batch": ANY, "m": ONE, "n": ONE, "k": ONE, "d": ONE},
    "chain": {"batch": ANY, "m": ONE, "reduced": ANY, "n": ONE, "k": ANY, "kd": ANY, "d": ANY},
}
"""The fewest and the most axes (``None``: any number) of each role in a nest of each family."""


@dataclass(frozen=True)
class NestAxis:
    """``contiguous``: neighbouring coordinates are neighbours in memory, in the main input and output.  ``window``:
    ``positions`` of windows that are taken of an array, or ``taps``, the way inside them.  ``picks``: indices run along it, by
    which elements of another array are picked.  ``slides``: windows at its positions overlap, and ``slide`` of them (a
    divisor of the extent) may be walked at once.  ``own``: taps of windows that do not overlap.  ``stacked``: lines along the
    contiguous axis lie below each other along this one, in every array that has both."""

    name: str
    role: str
    extent: Size
    contiguous: bool = False
    window: str = ""
    picks: bool = False
    slides: bool = False
    own: bool = False
    stacked: bool = False


@dataclass(frozen=True)
class Nest:
    """What a backend must know to choose tiles: family, axes, the widest dtype loaded and stored and the compute dtype.

    ``live`` is how many full-size tiles are alive at once (for register budgets); ``dots`` the operand dtype of the
    contractions ('' where there are none), in attention of the one with the values; ``scores`` that of the one that gives
    attention's scores; ``passes`` how often the reduced axes are walked when they do not fit (in attention 2 where results are
    reduced along their features); ``stored`` the widest dtype of the results; ``work`` how many operations are done with an
    element; ``precision`` how products may be rounded; ``turned``: neighbours in memory of a product's left operand are rows;
    ``across``: those of its right operand are columns; ``products`` how many products with one operand in common a walk makes;
    ``mapped`` the axis along which results that are computed of products are summed, so that no product itself is in parts;
    ``uneven``: walks along attention's keys end where numbers in arrays say, such as the lengths of sequences; ``bounded``: not
    all rows see all keys; ``joins`` how many parts of walks along keys the nest joins; ``steps`` how many of a loop follow each
    other in which a block keeps its tiles; ``again``: what is reduced along rows is used along them once more, so that rows
    that a block holds as a whole are read once.
    """

    family: str
    axes: tuple[NestAxis, ...]
    io_dtype: str
    compute_dtype: str
    live: int = 2
    dots: str = ""
    passes: int = 1
    scores: str = ""
    stored: str = ""
    work: int = 0
    precision: str = "ieee"
    turned: bool = False
    across: bool = False
    products: int = 1
    mapped: str = ""
    uneven: bool = False
    bounded: bool = False
    joins: int = 0
    steps: Size = 1
    again: bool = True

    def __post_init__(self) -> None:
        """Raises :class:`IRError` where the axes do not have the roles of the family."""
        roles = ROLES.get(self.family)
        if roles is None:
            raise IRError(f"no family {self.family!r}", hint=f"families are {', '.join(ROLES)}")
        for role in dict.fromkeys(a.role for a in self.axes):
            if role not in roles:
                raise IRError(f"a nest of {self.family} has no axis with the role {role!r}", f"roles are {', '.join(roles)}")
        for role, (least, most) in roles.items():
            if not least <= len(self.role(role)) <= (len(self.axes) if most is None else most):
                raise IRError(f"a nest of {self.family} has {'one axis' if most == 1 else 'axes'} with the role {role!r}, "
                              f"this one has {len(self.role(role))}")
        if len({a.name for a in self.axes}) != len(self.axes):
            raise IRError(f"two axes of a nest of {self.family} have one name: {', '.join(a.name for a in self.axes)}")

    def role(self, role: str) -> tuple[NestAxis, ...]:
        return tuple(a for a in self.axes if a.role == role)

    @property
    def of_windows(self) -> bool:
        """Whether all that is reduced are taps of windows."""
        reduced = self.role("reduced")
        return bool(reduced) and all(a.window == "taps" for a in reduced)

    @property
    def along_lines(self) -> NestAxis | None:
        """Where windows are taken along lines of memory, so that nothing lies side by side but their own elements: their
        positions there; ``None`` elsewhere."""
        if not self.of_windows or any(a.contiguous for a in self.axes):
            return None
        return next((a for a in reversed(self.role("parallel")) if a.window == "positions"), None)

    def line_tiles(self, line: NestAxis, room: int) -> dict[str, int]:
        """Tiles of ``room`` elements of windows along ``line``.  Where windows overlap, their taps are walked.  Those that do
        not are taken whole: threads of which each walks a window of its own would read a window's length apart.  Of short
        lines several are taken, as memory has them below each other."""
        taps, parallel = self.role("reduced")[-1], self.role("parallel")
        if taps.own and isinstance(taps.extent, int) and taps.extent < room:
            whole = _covering(taps, room)
            return {taps.name: whole, line.name: _covering(line, room // whole)}
        at, tile = parallel.index(line), _covering(line, room)
        below = (parallel[:at] or parallel[at + 1 :])[-1:]
        return {line.name: tile, **{a.name: _covering(a, room // tile) for a in below}}

    def beside(self, columns: NestAxis) -> NestAxis | None:
        """The parallel axis to be tiled with ``columns`` where windows are reduced: the last one that does not slide, if any
        other is not."""
        others = [a for a in self.role("parallel") if a != columns]
        return next((a for a in reversed(others) if not a.slides and a.window), others[-1] if others else None)

    def slide(self, most: int) -> int:
        """How many neighbouring windows may be walked at once, of up to ``most``: a divisor of their number."""
        extents = [a.extent for a in self.axes if a.slides]
        return max(n for n in range(1, most + 1) if all(isinstance(e, int) and e % n == 0 for e in extents)) if extents else 1

    @property
    def groups(self) -> tuple[NestAxis, ...]:
        """Of a product, the axes of groups of the summed axis, which are walked one by one and are no taps of windows."""
        return tuple(a for a in self.role("reduced") if a.window != "taps") if self.family == "contraction" else ()

    def divided(self, tiles: Mapping[str, int]) -> NestAxis | None:
        """The axis of which blocks may have a part each, whose sums another kernel joins; ``None`` where there is none.  Of a
        product the contracted one, or that of the groups which one step covers; of attention the keys; of rows the reduced or
        scanned one with most tiles, the outermost of several, where no extent is open."""
        if self.family == "attention":
            return self.role("n")[0]
        if self.family == "contraction":
            (k,) = self.role("k")
            whole = isinstance(k.extent, int) and tiles.get(k.name, 1) >= k.extent
            groups = [a for a in self.role("reduced") if a.name == self.mapped] or (self.groups if whole else ())
            return groups[0] if groups else k
        walked = self.role("scanned" if self.family == "scan" else "reduced")
        if not walked or not all(isinstance(a.extent, int) for a in walked):
            return None
        return max(walked, key=lambda a: -(-a.extent // tiles.get(a.name, 1)))  # type: ignore[operator]

    def shares(self, columns: int) -> bool:
        """Whether a block's ``columns`` can be shared out to the products of this nest, as matrix units take them."""
        return self.products == 1 or columns % (LEAST_COLUMNS * self.products) == 0

    def step(self, tile: int, least: int) -> int:
        """``tile`` along the summed axis of a product, a power of two, or less where that axis is in groups (of weights with a
        scale each) of which ``tile`` is no divisor, and as small as ``least``: what lies beyond a group are zeros."""
        (k,) = self.role("k")
        while self.groups and tile > least and isinstance(k.extent, int) and k.extent % tile:
            tile //= 2
        return tile

    def as_family(self, family: str, **roles: str) -> Nest:
        """This nest as one of another family, its roles called as ``roles`` says: a scan cut up as rows, say."""
        return replace(self, family=family, axes=tuple(replace(a, role=roles.get(a.role, a.role)) for a in self.axes))


@dataclass(frozen=True)
class Schedule:
    """Tile per axis name, pipeline stages, cooperating warps (wavefronts, sub-groups) and options of the backend."""

    tiles: tuple[tuple[str, int], ...]
    stages: int = 1
    warps: int = 4
    options: tuple[tuple[str, Value], ...] = ()

    def tile(self, axis: str) -> int:
        for name, size in self.tiles:
            if name == axis:
                return size
        raise ScheduleError(f"the schedule gives no tile for the axis {axis}", hint=f"it gives {self}")

    def covers(self, axes: Iterable[NestAxis]) -> bool:
        """Whether a tile has all along each of ``axes``."""
        return all(isinstance(a.extent, int) and self.tile(a.name) >= a.extent for a in axes)

    def option(self, name: str, default: Value) -> Value:
        return dict(self.options).get(name, default)

    def __str__(self) -> str:
        parts = [*self.tiles, ("stages", self.stages), ("warps", self.warps), *self.options]
        return ",".join(f"{k}={v}" for k, v in parts)

    @staticmethod
    def parse(text: str) -> Schedule:
        pairs = [p.split("=", 1) for p in text.split(",") if p]
        values = {k: literal(v) for k, v in pairs}
        names = [k for k, _ in pairs if k not in ("stages", "warps")]
        # Tiles come first and are integers; after stages and warps follow the options.
        cut = [k for k, _ in pairs].index("stages") if "stages" in values else len(pairs)
        tiles = tuple((k, int(values[k])) for k, _ in pairs[:cut])
        options = tuple((k, values[k]) for k in names if k not in dict(tiles))
        return Schedule(tiles, int(values.get("stages", 1)), int(values.get("warps", 4)), options)


codec("Schedule", str, Schedule.parse)


def _covering(axis: NestAxis, most: int) -> int:
    """The power of two that covers ``axis``, up to ``most``, which is one."""
    return min(most, 1 << (axis.extent - 1).bit_length()) if isinstance(axis.extent, int) and axis.extent > 0 else most


def literal(text: str) -> Value:
    """An option's value from its text: an integer, true or false, else the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = ast.literal_eval(text)
        return value if isinstance(value, int) else text
    except (ValueError, SyntaxError):
        return text


def _meant(name: str, nest: Nest, asked: Iterable[str]) -> set[str]:
    """The axes that ``name`` stands for.  An axis may be called as another one's role is: tiles that are all asked for by names
    of axes are meant by name (so a schedule that was printed is read back), else roles come first.  Batch axes have tiles of 1,
    so one called ``m`` is meant only where no other axis is."""
    names = {a.name: a.role for a in nest.axes}
    roles, tiled = set(names.values()), {a for a, role in names.items() if role != "batch"}
    tiles = {x for x in asked if x in names or x in roles}
    named, by_role = {name} & set(names), {a for a, role in names.items() if role == name}
    if tiles <= tiled or tiles >= set(names):
        return named
    return by_role or named


def override(default: Schedule, nest: Nest, asked: Mapping[str, Value], options: Iterable[str]) -> Schedule:
    """``default`` with what the user asked for: tiles by axis name or role, ``stages``, ``warps`` and options.

    Raises :class:`ScheduleError` for a name that is none of these, or a tile that is not a positive integer.
    """
    result = default
    allowed = set(options)
    for name, value in asked.items():
        hit = _meant(name, nest, asked) if name not in allowed else set()  # an option wins over a role of the same name
        counts = bool(hit) or name in ("stages", "warps")
        if counts and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ScheduleError(f"{name}={value} in the schedule: a positive integer is needed")
        if hit:
            result = replace(result, tiles=tuple((a, int(value) if a in hit else t) for a, t in result.tiles))
        elif name in ("stages", "warps"):
            result = replace(result, **{name: int(value)})  # type: ignore[arg-type]
        elif name in allowed:
            result = replace(result, options=tuple(sorted({**dict(result.options), name: value}.items())))
        else:
            known = [*dict.fromkeys(x for a in nest.axes for x in (a.name, a.role)), "stages", "warps", *sorted(allowed)]
            raise ScheduleError(f"the schedule of this {nest.family} kernel has no {name!r}",
                                hint=f"it has {', '.join(known)}")
    return result
