"""Splits a tensor program into stages, each of which becomes one kernel.

What shares a loop nest shares a stage: elementwise work joins the reduction or contraction it feeds from (as its
epilogue) or feeds (as its prologue, computed again where it is cheap); reductions of the same axes join each other.
What must cross from one stage to the next is stored to a temporary, at the end of the elementwise chain that only that
reduction or contraction feeds, so that it is as small and as finished as can be.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import tee

from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.rewrite import canonicalise
from portakern.ir.tensor import (
    AssociativeScan,
    Contract,
    Convert,
    Cumulate,
    Expand,
    Fold,
    KeySort,
    Map,
    Reshape,
    SegmentContract,
    SegmentFold,
    TensorProgram,
    Transpose,
    tensor_type,
)  # fmt: skip
from portakern.lower.classes import AxisClass, axis_classes, is_thin, unshare, unshared
from portakern.lower.cuts import ANCHORS, Flow, last_anchors, levels, program_of
from portakern.lower.domain import real
from portakern.lower.masked_weights import without_masked_weights
from portakern.lower.online import Attention, factors, match_attention
from portakern.lower.pairs import pairs_of
from portakern.lower.partial_sums import product_summed
from portakern.lower.placing import Placed
from portakern.lower.recomputed import computed_several_times, inner_products, products_of_chain, recomputed, reduced_axes
from portakern.lower.uses import needed

Names = Mapping[str, tuple[str, ...]]


PRODUCTS = ("contraction", "pair", "grouped", "chain")


@dataclass
class Stage:
    """A tensor program that becomes one kernel, by the family ``family``.

    ``attention`` is the pattern found, in operations of ``program``, when the family is attention.  Each use of an argument
    in ``apart`` is a load of its own.  ``placed`` says which outputs are pieces of arrays.
    """

    program: TensorProgram
    family: str
    attention: Attention | None = None
    apart: tuple[Arg, ...] = ()
    placed: Mapping[str, Placed] = field(default_factory=dict)


@dataclass(eq=False)
class Group:
    """Reductions and contractions that will share a kernel."""

    kind: str
    anchors: list[Op]
    parallel: frozenset[AxisClass]
    reduced: frozenset[AxisClass]
    needs: set[Group] = field(default_factory=set)  # groups it loads results of, directly or not
    stores: dict[Op, None] = field(default_factory=dict)


def stages(program: TensorProgram, names: Names, fresh: Iterable[str], attention: bool = True, shares: bool = True,
           pieces: Mapping[str, Placed] | None = None, picks: bool = True) -> list[Stage]:  # fmt: skip
    """The stages of ``program`` in order.  Arrays between them are named by ``fresh`` and appear as outputs of one and
    arguments of the next.  Without ``attention`` every product is a stage of its own, also where a softmax or another product
    is made of it, or one meets another; where ``shares``, arrays may lie in larger ones.  ``pieces``: which outputs are pieces
    of arrays; ``picks``: whether loads may take single elements."""
    names_of_temporaries = iter(fresh)
    shared, program = program, unshared(program, names)
    if attention and computed_several_times(program, axis_classes(program, names), Flow(program).users):
        # So are weights that are made of them, and quotients take long.
        program = unshared(canonicalise(shared, factors), names)
        program = unshared(without_masked_weights(program, axis_classes(program, names)), names)
    out: list[Stage] = []
    placed = dict(pieces or {})
    for part in levels(program, names, names_of_temporaries, placed, shares, picks, attention):
        out += _stages_of(part, names, names_of_temporaries, placed, attention)
    apart = [one for s in out for one in _written_apart(s, placed, names_of_temporaries)]
    return [replace(s, placed={o: placed[o] for o in s.program.outputs if o in placed}) for s in apart]


def _written_apart(stage: Stage, placed: Mapping[str, Placed], fresh: Iterator[str]) -> list[Stage]:
    """``stage``, and a copy of each piece that it makes of an array it reads other pieces of: no kernel does both."""
    read = {a.name for a in stage.program.args}
    moved = {o: next(fresh) for o in stage.program.outputs if o in placed and placed[o].array in read}
    if not moved:
        return [stage]
    outputs = tuple(moved.get(o, o) for o in stage.program.outputs)
    types = {o: op.type for o, op in zip(stage.program.outputs, stage.program.results, strict=True)}
    copies = []
    for output, name in moved.items():
        piece = Arg(name, types[output])
        copies.append(Stage(TensorProgram(stage.program.name, Block((piece,), (Yield((piece,)),)), (output,)), "elementwise"))
    return [replace(stage, program=replace(stage.program, outputs=outputs)), *copies]


def _stages_of(program: TensorProgram, names: Names, fresh: Iterator[str], placed: Mapping[str, Placed], attention: bool
               ) -> list[Stage]:  # fmt: skip
    """Those of one level.  What ties the axes of reductions may lie in stages before theirs: then they part again."""
    apart: dict[Op, int] = {}
    while True:
        fresh, mine = tee(fresh)
        splitter = _Splitter(program, names, mine, placed, apart, attention)
        found = splitter.run()
        if splitter.apart == apart:
            return found
        apart = splitter.apart


# ---- grouping ------------------------------------------------------------------------------------------------------------


class _Splitter:
    """``apart`` numbers reductions that may share a group only with those of the same number; :meth:`run` adds to it.  Outputs
    in ``placed`` are pieces of arrays, which nothing else loads them from.  Products in ``recomputed`` have no group: whoever
    uses them computes them, as it does elementwise work."""

    def __init__(self, program: TensorProgram, names: Names, fresh: Iterable[str], placed: Container[str],
                 apart: Mapping[Op, int], attention: bool) -> None:  # fmt: skip
        self.program = program
        self.placed = placed
        self.apart = dict(apart)
        self.fresh = iter(fresh)
        self.classes = axis_classes(program, names)
        self.flow = Flow(program)
        self.users = self.flow.users
        self.attention = attention
        self.recomputed = recomputed(program, self.classes, self.users) if attention else set()
        self.group_of: dict[Op, Group] = {}
        self.groups: list[Group] = []
        self.below: dict[Op, set[Group]] = {}  # groups a value is computed from
        self.patterns: dict[Op, Attention] = {}

    def run(self) -> list[Stage]:
        if self.attention:
            self._find_attention()
        self._find_sums_of_products()
        if self.attention:
            self._find_pairs()
        for op in self.program.body.ops:
            if isinstance(op, ANCHORS) and op not in self.group_of and op not in self.recomputed:
                self._place(op)
            self.below[op] = self._below(op)
        for group in self.groups:  # an attention group is placed before all of its anchors were seen
            group.needs |= set().union(*(self.below.get(o, set()) for a in group.anchors for o in a.operands)) - {group}
        crossing = self._crossing()
        placed = [(op, name, self._home(op)) for op, name in zip(self.program.results, self.program.outputs, strict=True)]
        return self._build(crossing, placed)

    def _below(self, op: Op) -> set[Group]:
        found: set[Group] = set()
        for o in op.operands:
            found |= self.below.get(o, set())
        if op in self.group_of:
            found = found | {self.group_of[op]} | self.group_of[op].needs
        return found

    def _find_attention(self) -> None:
        for op in self.program.body.ops:
            found = match_attention(op, self.users) if isinstance(op, Contract) else None
            if found is None or found.weights.softmax.m in self.group_of:
                continue
            soft = found.weights.softmax
            scores = self._scores(soft.s, soft.m)
            walked = self.classes.of_operand(soft.m, 0)[soft.axis]
            if scores is None or not (scores in self.recomputed or self._private(found, scores, walked)):
                continue
            if not found.rows(scores, self.classes):
                continue  # every row has keys of its own: of values alone that many share is no tile
            anchors = [soft.m, *found.sums, op] if scores in self.recomputed else [scores, soft.m, *found.sums, op]
            group = Group("attention", anchors, frozenset(self.classes.of(op)), frozenset({walked}))
            self.groups.append(group)
            for a in anchors:
                self.group_of[a] = group
            # What attention gives is stored, and so is what it takes, which each block would compute for all of its keys.
            self.recomputed -= {op, *inner_products(op, self.recomputed), *inner_products(scores, self.recomputed)} - {scores}
            self.patterns[op] = found

    def _find_sums_of_products(self) -> None:
        for op in self.program.body.ops:
            product = product_summed(op, self.users)
            if product is None or product in self.group_of or product in self.recomputed:
                continue
            reduced = [self.classes.of_operand(product, 0)[i] for i in product.lhs_axes]
            reduced += [self.classes.of_operand(op, 0)[i] for i in op.axes]  # type: ignore[attr-defined]
            group = Group("contraction", [product, op], frozenset(self.classes.of(op)), frozenset(reduced))
            self.groups.append(group)
            self.group_of |= {product: group, op: group}

    def _find_pairs(self) -> None:
        for pair in pairs_of(self.program):
            axes = [(self.classes.of(op), [self.classes.of_operand(op, 0)[i] for i in op.lhs_axes]) for op in pair]
            if axes[0] != axes[1] or any(op in self.group_of or op in self.recomputed for op in pair):
                continue
            if any(inner_products(op, self.recomputed) for op in pair):
                continue
            group = Group("pair", [*pair], frozenset(axes[0][0]), frozenset(axes[0][1]))
            self.groups.append(group)
            self.group_of |= dict.fromkeys(pair, group)

    def _private(self, found: Attention, scores: Contract, walked: AxisClass) -> bool:
        """Whether what is computed from the scores along the walked axis is used by the pattern alone: it is never whole."""
        ends = {found.weights.softmax.m, found.out, *found.sums}
        inside = {op for op in needed(ends) if not isinstance(op, (Arg, *ANCHORS)) and walked in self.classes.of(op)}
        frontier: list[Op] = [scores]
        seen: set[Op] = set()
        while frontier:
            op = frontier.pop()
            if op in seen:
                continue
            seen.add(op)
            users = [u for u in self.users.get(op, []) if u not in ends]
            if op in self.program.results or not inside.issuperset(users):
                return False
            frontier += users
        return True

    def _scores(self, s: Op, m: Fold) -> Contract | None:
        """The contraction inside the scores, when they are its only use and it is shaped like them."""
        want = set(self.classes.of_operand(m, 0))
        seen: set[Op] = set()
        frontier = [s]
        found: list[Contract] = []
        while frontier:
            op = frontier.pop()
            if op in seen or isinstance(op, Arg):
                continue
            seen.add(op)
            if isinstance(op, Contract):
                found.append(op)
            elif isinstance(op, Map | Convert | Expand | Reshape | Transpose):
                frontier.extend(op.operands)
        inside = [c for c in found if set(self.classes.of(c)) == want and c not in self.group_of
                  and len(c.lhs_axes) == 1]
        return inside[0] if len(inside) == 1 else None

    def _place(self, op: Op) -> None:
        if isinstance(op, Contract):
            parallel = frozenset(self.classes.of(op))
            reduced = frozenset(self.classes.of_operand(op, 0)[i] for i in op.lhs_axes)
            kind = "contraction"
            if inner := inner_products(op, self.recomputed):
                parallel = frozenset(real(self.classes.of(inner[0]))) - reduced
                kind = f"chain of {tensor_type(op.lhs).dtype}"
        elif isinstance(op, SegmentContract):
            parallel = frozenset(self.classes.of(op))
            reduced = frozenset(self.classes.of_operand(op, 1)[:2])
            kind = "grouped"
        elif isinstance(op, Cumulate | AssociativeScan):
            parallel = frozenset(self.classes.of(op))
            reduced = frozenset({self.classes.of(op)[op.axis]})
            kind = "scan" if isinstance(op, Cumulate) else "associative"
            kind = f"{kind} backwards" if op.reverse else kind
        elif isinstance(op, KeySort):
            parallel = frozenset(self.classes.of(op))
            reduced = frozenset({self.classes.of_operand(op, 0)[op.axis]})
            kind = f"sort {op.run}"
        else:
            operand = self.classes.of_operand(op, 0)
            parallel = frozenset(c for c in self.classes.of(op) if c.extent != 1)
            reduced = frozenset(operand[i] for i in _reduced(op))
            kind = "segments" if isinstance(op, SegmentFold) else "rows"
            kind = "chain of rows" if inner_products(op, self.recomputed) else kind
        needs = set().union(*(self.below.get(o, set()) for o in op.operands))
        group = self._join(op, kind, parallel, reduced, needs) or self._features_summed(op, parallel, reduced, needs)
        if group is None:
            group = Group(kind, [], parallel, reduced)
            self.groups.append(group)
        group.needs |= needs - {group}
        group.anchors.append(op)
        self.group_of[op] = group

    def _join(self, op: Op, kind: str, parallel: frozenset[AxisClass], reduced: frozenset[AxisClass],
              needs: set[Group]) -> Group | None:  # fmt: skip
        """A group of reductions (or scans) over the same axes that can take one more without waiting for itself."""
        for g in self.groups if kind not in ("contraction", "pair", "grouped", "attention") else ():
            same = g.kind == kind and g.parallel == parallel and g.reduced == reduced
            same = same and {self.apart.get(a, 0) for a in g.anchors} == {self.apart.get(op, 0)}
            same = same and {_offsets(a) for a in g.anchors} == {_offsets(op)}
            once = kind == "segments" or (kind.startswith("chain") and isinstance(op, Contract))
            same = same and not (once and g in needs)  # whose walk is one
            if same and not any(g in h.needs for h in needs - {g}):
                return g
        return None

    def _features_summed(self, op: Op, parallel: frozenset[AxisClass], reduced: frozenset[AxisClass], needs: set[Group]
                         ) -> Group | None:  # fmt: skip
        """The attention whose result's features ``op`` reduces, all of which a block has: sum(do * o) in a backward."""
        for g in self.groups if isinstance(op, Fold) else ():
            rows = {c for c in g.parallel - reduced if c.extent != 1}
            if g.kind == "attention" and g in needs and len(reduced) == 1 and reduced <= self._features(g) and rows == parallel:
                return None if any(g in h.needs for h in needs - {g}) else g
        return None

    # ---- what crosses, and where outputs are stored

    def _finished(self, anchor: Op) -> Op:
        """The last value of the elementwise chain that only ``anchor``, its own group and those before it feed.  A product's
        takes in what it meets (a bias, a residual, a gate): cheaper than to compute it in every block that loads the result."""
        group = self.group_of[anchor]
        is_product = group.kind.split()[0] in PRODUCTS and isinstance(anchor, Contract | SegmentContract)

        def joins(_: Op, other: Op) -> bool:
            below = self.below.get(other, set())
            if other in self.recomputed or inner_products(other, self.recomputed):
                return False
            if below <= {group, *group.needs}:
                return bool(below) or is_product or not tensor_type(other).shape
            if not is_product or any(self._waits(g, group) for g in below):
                return False
            group.needs |= below - {group}
            return True

        return self.flow.end_of_chain(anchor, joins)

    def _waits(self, group: Group, other: Group) -> bool:
        """Whether ``group`` needs something of ``other``, directly or not."""
        seen: set[Group] = set()
        frontier = [group]
        while frontier:
            g = frontier.pop()
            if other in g.needs:
                return True
            frontier += g.needs - seen
            seen |= g.needs
        return False

    def _crossing(self) -> dict[Op, Group]:
        """Values another group may load, by the group that stores them."""
        return {self._finished(a): self.group_of[a] for a in self.group_of}

    def _home(self, op: Op) -> Group | None:
        """The group that can store an output: the last one it is computed from, if the output has its shape."""
        if isinstance(op, Arg):
            return None
        below = self.below.get(op, set())
        mine = [c for c in self.classes.of(op) if c.extent != 1]
        for g in reversed(self.groups):
            if g not in below or any(g in h.needs for h in below - {g}):
                continue
            need = {c for c in g.parallel if c.extent != 1}
            if g.kind == "rows":
                fits = need <= set(mine) <= need | g.reduced
            elif g.kind.startswith("chain"):
                fits = need <= set(mine) <= need | self._features_of_chain(g)
            elif g.kind == "attention":
                fits = set(mine) == need or set(mine) == need - self._features(g)
            else:
                fits = set(mine) == need and (g.kind != "segments" or g.reduced.isdisjoint(self.classes.of(op)))
            if fits and len(set(mine)) == len(mine):
                g.needs |= below - {g}
                return g
        return None

    def _features(self, g: Group) -> set[AxisClass]:
        """The axes of an attention's result that its statistics lack."""
        statistic = next(a for a in g.anchors if isinstance(a, Fold))
        return set(g.parallel) - set(self.classes.of(statistic))

    def _features_of_chain(self, g: Group) -> set[AxisClass]:
        return set().union(*(self.classes.of(a) for a in g.anchors if isinstance(a, Contract))) - g.parallel - g.reduced

    # ---- building

    def _build(self, crossing: dict[Op, Group], placed: list[tuple[Op, str, Group | None]]) -> list[Stage]:
        names: dict[Op, str] = {}
        loose: dict[tuple[AxisClass, ...], list[tuple[Op, str]]] = {}
        stores: dict[Group, dict[Op, list[str]]] = {g: {} for g in self.groups}
        for op, name, home in placed:
            if home is None:
                loose.setdefault(self._axes_of_output(op, name), []).append((op, name))
            else:
                stores[home].setdefault(op, []).append(name)
                if name not in self.placed:
                    names.setdefault(op, name)
        wanted = self._wanted(crossing, stores, [op for batch in loose.values() for op, _ in batch])
        for op in wanted:
            if op not in names:
                names[op] = next(self.fresh)
                stores[crossing[op]].setdefault(op, []).append(names[op])
        out: list[Stage] = []
        for g in self._ordered():
            if stores[g]:
                out += self._stage(g, stores[g], {o: names[o] for o in wanted if crossing[o] is not g})
        for batch in loose.values():
            known = {o: names[o] for o in wanted}
            out += [Stage(part, "elementwise") for tied in self._tied(batch, known) for part in self._one_view_each(tied)]
        return out

    def _tied(self, batch: list[tuple[Op, str]], known: dict[Op, str]) -> list[TensorProgram]:
        """The programs of the outputs in ``batch``: one, or several where only stages before them tie their axes."""
        body = program_of(self.program, [o for o, _ in batch], [n for _, n in batch], known)
        classes, give = axis_classes(body, {}), body.body.ops[-1]
        together: dict[frozenset[AxisClass], list[tuple[Op, str]]] = {}
        for number, (output, result) in enumerate(zip(batch, body.results, strict=True)):
            axes = classes.of_operand(give, number) if isinstance(result, Arg) else classes.of(result)
            together.setdefault(frozenset(real(axes)), []).append(output)
        if len(together) == 1:
            return [body]
        return [program_of(self.program, [o for o, _ in x], [n for _, n in x], known) for x in together.values()]

    def _axes_of_output(self, op: Op, name: str) -> tuple[AxisClass, ...]:
        """The axes that a kernel which stores ``op`` runs along: outputs that share all of them share a kernel."""
        give = self.program.body.ops[-1]
        axes = self.classes.of_operand(give, self.program.outputs.index(name)) if isinstance(op, Arg) else self.classes.of(op)
        return tuple(c for c in axes if c.extent != 1)

    def _wanted(self, crossing: dict[Op, Group], stores: dict[Group, dict[Op, list[str]]],
                loose: list[Op]) -> dict[Op, None]:
        """The crossing values that some stage loads, found by walking up from what each stage must store."""
        wanted: dict[Op, None] = {}

        def walk(op: Op, home: Group | None, seen: set[Op]) -> None:
            if op in seen or isinstance(op, Arg):
                return
            seen.add(op)
            if op in crossing and crossing[op] is not home:
                wanted.setdefault(op)
                return
            for o in op.operands:
                walk(o, home, seen)

        for op in loose:
            walk(op, None, set())
        for g in reversed(self._ordered()):
            for op in [*stores[g], *(o for o in wanted if crossing[o] is g)]:
                walk(op, g, set())
        return wanted

    def _ordered(self) -> list[Group]:
        done: list[Group] = []
        left = list(self.groups)
        while left:
            ready = next((g for g in left if all(n in done for n in g.needs)), left[0])
            done.append(ready)
            left.remove(ready)
        return done

    def _one_view_each(self, body: TensorProgram) -> list[TensorProgram]:
        """``body``, after copies of arguments in the shapes it reshapes them to, where it uses them in other shapes too: a
        kernel sees each array in one."""
        views: dict[Arg, list[Op]] = {}
        for op in body.body.ops:
            for o in op.operands:
                if isinstance(o, Arg):
                    views.setdefault(o, []).append(op if isinstance(op, Reshape) and not is_thin(op) else o)
        copied: dict[Op, str] = {}
        for seen in views.values():
            first = next((v for v in seen if isinstance(v, Arg)), seen[0])
            for view in seen:
                if tensor_type(view).shape != tensor_type(first).shape and view not in copied:
                    copied[view] = next(self.fresh)
        copies = [program_of(body, [view], [name]) for view, name in copied.items()]
        return [*copies, program_of(body, body.results, body.outputs, copied)] if copies else [body]

    def _part(self, g: Group, body: TensorProgram) -> None:
        """Puts reductions apart whose axes only stages before this one tie: in ``body`` nothing says that they are the same."""
        classes = axis_classes(body, {})
        inside = [op for op in body.body.ops if isinstance(op, ANCHORS)]
        over = [(frozenset(classes.of_operand(op, 0)[a] for a in _reduced(op)), frozenset(real(classes.of(op))))
                for op in inside]  # fmt: skip
        if g.kind.startswith("chain"):  # what they are made of runs along all of their axes
            inner, inside = products_of_chain(body)
            over = [(frozenset(reduced_axes(op, classes)), frozenset(real(classes.of(inner_products(op, {*inner})[0]))))
                    for op in inside]  # fmt: skip
        if len(set(over)) > 1:
            known = list(dict.fromkeys(over))
            numbers = [known.index(x) for x in over] if len(inside) == len(g.anchors) else range(len(g.anchors))
            self.apart |= {op: max(self.apart.values(), default=0) + 1 + n for op, n in zip(g.anchors, numbers, strict=True)}

    def _stage(self, g: Group, stores: dict[Op, list[str]], arrays: dict[Op, str]) -> list[Stage]:
        pairs = [(op, name) for op, names in stores.items() for name in names]
        body = program_of(self.program, [o for o, _ in pairs], [n for _, n in pairs], arrays)
        *copies, body = self._one_view_each(body)
        before = [Stage(part, "elementwise") for part in copies]
        if g.kind.startswith("chain"):
            self._part(g, body)
            apart = chain_roles_meet(body)
            body = _own_operands(body) if apart else body
            return [*before, Stage(body, "chain", None, body.args if apart else ())]
        if g.kind != "attention":
            if g.kind not in ("contraction", "pair"):  # whose sums over batches run along axes that the product alone has
                self._part(g, body)
            return [*before, Stage(body, g.kind.split()[0])]
        apart = _roles_meet(body, _pattern(body))
        body = _own_operands(body) if apart else body
        return [*before, Stage(body, "attention", _pattern(body), body.args if apart else ())]


def _offsets(op: Op) -> Op | None:
    """What marks the segments that a reduction walks."""
    return op.offsets if isinstance(op, SegmentFold) else None


def _reduced(op: Op) -> tuple[int, ...]:
    """The dims of its first operand that a reduction, scan or product runs over."""
    match op:
        case Contract():
            return op.lhs_axes
        case SegmentContract():
            return (1,)
        case Fold():
            return op.axes
        case _:
            return (op.axis,)  # type: ignore[attr-defined]


def _pattern(body: TensorProgram) -> Attention:
    users = Flow(body).users
    return next(f for op in body.body.ops if isinstance(op, Contract) and (f := match_attention(op, users)))


def _roles_meet(body: TensorProgram, found: Attention) -> bool:
    """Whether the features of the scores run along the axis of the features of the result: keys that are the values do."""
    classes = axis_classes(body, {})
    scores = next(op for op in body.body.ops if isinstance(op, Contract) and op is not found.out)
    return classes.of_operand(scores, 0)[scores.lhs_axes[0]] in classes.of(found.out)


def chain_roles_meet(body: TensorProgram) -> bool:
    """Whether an axis that an inner product sums is one of the features of a result: keys that are their own values."""
    classes = axis_classes(body, {})
    inner, outer = products_of_chain(body)
    summed = set().union(*(reduced_axes(op, classes) for op in inner))
    made = {c for op in outer if isinstance(op, Contract) for c in real(classes.of(op))}
    return not summed.isdisjoint(made)


def _own_operands(body: TensorProgram) -> TensorProgram:
    """``body`` with copies of elementwise values for each product that uses them."""
    anchored = last_anchors(body)
    products = {op for op in body.body.ops if isinstance(op, Contract)}
    return unshare(body, {op for op in body.body.ops if op not in anchored}, products)
