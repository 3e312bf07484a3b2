"""Splits a tensor program into stages, each of which becomes one kernel.

What shares a loop nest shares a stage: elementwise work joins the reduction or contraction it feeds from (as its
epilogue) or feeds (as its prologue, computed again where it is cheap); reductions of the same axes join each other.
What must cross from one stage to the next is stored to a temporary, at the end of the elementwise chain that only that
reduction or contraction feeds, so that it is as small and as finished as can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.rewrite import live
from portakern.ir.size import Size
from portakern.ir.tensor import (
    ArgFold,
    Contract,
    Convert,
    Cumulate,
    Expand,
    Flip,
    Fold,
    Map,
    Reshape,
    Slice,
    TensorProgram,
    tensor_type,
)  # fmt: skip
from portakern.lower.classes import AxisClass, axis_classes, matched_dims, repeats, unshare_coordinates
from portakern.lower.online import Attention, match_attention, through_casts

Names = Mapping[str, tuple[str, ...]]


@dataclass
class Stage:
    """A tensor program that becomes one kernel, by the family ``family``.

    ``attention`` is the pattern found, in operations of ``program``, when the family is attention.
    """

    program: TensorProgram
    family: str
    attention: Attention | None = None


@dataclass(eq=False)
class Group:
    """Reductions and contractions that will share a kernel."""

    kind: str
    anchors: list[Op]
    parallel: frozenset[AxisClass]
    reduced: frozenset[AxisClass]
    needs: set[Group] = field(default_factory=set)  # groups it loads results of, directly or not
    stores: dict[Op, None] = field(default_factory=dict)


def stages(program: TensorProgram, names: Names, fresh: Iterable[str]) -> list[Stage]:
    """The stages of ``program`` in order.  Arrays between them are named by ``fresh`` and appear as outputs of one and
    arguments of the next."""
    names_of_temporaries = iter(fresh)
    program = unshare_coordinates(program)
    out: list[Stage] = []
    for part in _cut(program, names, names_of_temporaries):
        out += _Splitter(part, names, names_of_temporaries).run()
    return out


# ---- cuts that no fusion crosses -------------------------------------------------------------------------------------


def _cut(program: TensorProgram, names: Names, fresh: Iterable[str]) -> list[TensorProgram]:
    """Parts of ``program`` between which whole arrays must exist: under views that are no index map of a computed value,
    and where a value meets itself along two axes (``y @ y.T``)."""
    anchored = _anchored(program)
    classes = axis_classes(program, names)
    for op in program.body.ops:
        if isinstance(op, Yield):
            continue
        operands = [o for o in op.operands if not isinstance(o, Arg) and tensor_type(o).shape]
        must = False
        if isinstance(op, Slice | Flip):
            must = any(o in anchored for o in operands)
        elif isinstance(op, Reshape):
            shape = tensor_type(op.x).shape
            must = len(matched_dims(shape, op.shape)) != sum(s != 1 for s in shape)
        elif isinstance(op, Contract | Map):
            must = bool(repeats(classes, op))
        if must and operands:
            first = program_of(program, operands, [next(iter(fresh)) for _ in operands])
            replaced = dict(zip(operands, first.outputs, strict=True))
            rest = program_of(program, program.results, program.outputs, replaced)
            return [*_cut(first, names, fresh), *_cut(rest, names, fresh)]
    return [program]


def _anchored(program: TensorProgram) -> set[Op]:
    """Values that depend on a reduction or contraction."""
    found: set[Op] = set()
    for op in program.body.ops:
        if isinstance(op, Fold | Contract | ArgFold | Cumulate) or any(o in found for o in op.operands):
            found.add(op)
    return found


def program_of(program: TensorProgram, results: Iterable[Op], outputs: Iterable[str],
               arrays: Mapping[Op, str] | None = None) -> TensorProgram:
    """The part of ``program`` that computes ``results``, in which the values in ``arrays`` are arguments by that name."""
    arrays = arrays or {}
    args: dict[str, Arg] = {}
    done: dict[Op, Op] = {}
    ops: list[Op] = []

    def visit(op: Op) -> Op:
        if op in done:
            return done[op]
        if isinstance(op, Arg) or op in arrays:
            name = op.name if isinstance(op, Arg) else arrays[op]
            new: Op = args.setdefault(name, op if isinstance(op, Arg) else Arg(name, op.type))
        else:
            new = op.remap(visit)
            if new is op:
                new = replace(op)  # a value of its own: programs share no operations
            ops.append(new)
        done[op] = new
        return new

    values = tuple(visit(r) for r in results)
    order = [a for a in program.args if a.name in args]
    rest = [a for a in args.values() if a not in order]
    body = Block((*order, *rest), (*live([*ops, Yield(values)]),))
    return TensorProgram(program.name, body, tuple(outputs))


# ---- grouping ------------------------------------------------------------------------------------------------------------


class _Splitter:
    def __init__(self, program: TensorProgram, names: Names, fresh: Iterable[str]) -> None:
        self.program = program
        self.fresh = iter(fresh)
        self.classes = axis_classes(program, names)
        self.users: dict[Op, list[Op]] = {}
        for op in program.body.ops:
            for o in dict.fromkeys(op.operands):
                self.users.setdefault(o, []).append(op)
        self.group_of: dict[Op, Group] = {}
        self.groups: list[Group] = []
        self.below: dict[Op, set[Group]] = {}  # groups a value is computed from
        self.patterns: dict[Op, Attention] = {}

    def run(self) -> list[Stage]:
        self._find_attention()
        for op in self.program.body.ops:
            if isinstance(op, Fold | Contract | ArgFold | Cumulate) and op not in self.group_of:
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
            if found is None or found.weights.softmax.m in self.group_of or not self._private(found):
                continue
            soft = found.weights.softmax
            row = soft.axis
            scores = self._scores(soft.s, soft.m)
            reduced = frozenset({self.classes.of_operand(soft.m, 0)[row]})
            anchors = [*([scores] if scores else []), soft.m, *found.sums, op]
            group = Group("attention", anchors, frozenset(self.classes.of(op)), reduced)
            self.groups.append(group)
            for a in anchors:
                self.group_of[a] = group
            self.patterns[op] = found

    def _private(self, found: Attention) -> bool:
        """Whether scores and weights are used by the pattern alone, so that they need never be stored whole."""
        soft = found.weights.softmax
        inside = {soft.m, soft.e, found.out, *found.sums}
        frontier = [soft.s, soft.e, (found.out.lhs, found.out.rhs)[found.weights_side]]
        while frontier:
            op = frontier.pop()
            if op in self.program.results:
                return False
            for user in self.users.get(op, []):
                weights = isinstance(user, Map) and user.fn in ("div", "mul", "sub") and through_casts(op) in (soft.e, soft.s)
                if isinstance(user, Convert) or weights:
                    frontier.append(user) if user not in inside else None
                elif user not in inside:
                    return False
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
            elif isinstance(op, Map | Convert | Expand | Reshape):
                frontier.extend(op.operands)
        inside = [c for c in found if set(self.classes.of(c)) == want and c not in self.group_of
                  and len(c.lhs_axes) == 1]
        return inside[0] if len(inside) == 1 else None

    def _place(self, op: Op) -> None:
        if isinstance(op, Contract):
            parallel = frozenset(self.classes.of(op))
            reduced = frozenset(self.classes.of_operand(op, 0)[i] for i in op.lhs_axes)
            kind = "contraction"
        elif isinstance(op, Cumulate):
            parallel = frozenset(self.classes.of(op))
            reduced = frozenset({self.classes.of(op)[op.axis]})
            kind = "scan backwards" if op.reverse else "scan"
        else:
            axes = op.axes if isinstance(op, Fold) else (op.axis,)  # type: ignore[attr-defined]
            operand = self.classes.of_operand(op, 0)
            parallel = frozenset(c for c in self.classes.of(op) if c.extent != 1)
            reduced = frozenset(operand[i] for i in axes)
            kind = "rows"
        needs = set().union(*(self.below.get(o, set()) for o in op.operands))
        group = self._join(kind, parallel, reduced, needs)
        if group is None:
            group = Group(kind, [], parallel, reduced)
            self.groups.append(group)
        group.needs |= needs - {group}
        group.anchors.append(op)
        self.group_of[op] = group

    def _join(self, kind: str, parallel: frozenset[AxisClass], reduced: frozenset[AxisClass],
              needs: set[Group]) -> Group | None:
        """A group of reductions (or scans) over the same axes that can take one more without waiting for itself."""
        for g in self.groups if kind not in ("contraction", "attention") else ():
            same = g.kind == kind and g.parallel == parallel and g.reduced == reduced
            if same and not any(g in h.needs for h in needs - {g}):
                return g
        return None

    # ---- what crosses, and where outputs are stored

    def _finished(self, anchor: Op) -> Op:
        """The last value of the elementwise chain that only ``anchor`` and its own group feed."""
        op, group = anchor, self.group_of[anchor]
        inside = {group, *group.needs} if group.kind == "rows" else set()
        outputs = set(self.program.results)
        while op not in outputs:
            users = self.users.get(op, [])
            if len(users) != 1 or not isinstance(users[0], Map | Convert):
                break
            others = [o for o in users[0].operands if o is not op]
            if any(not self.below[o] <= inside if self.below.get(o) else tensor_type(o).shape for o in others):
                break
            op = users[0]
        return op

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
            elif g.kind == "attention":
                fits = set(mine) == need or set(mine) == need - self._features(g)
            else:
                fits = set(mine) == need
            if fits and len(set(mine)) == len(mine):
                g.needs |= below - {g}
                return g
        return None

    def _features(self, g: Group) -> set[AxisClass]:
        """The axes of an attention's result that its statistics lack."""
        statistic = next(a for a in g.anchors if isinstance(a, Fold))
        return set(g.parallel) - set(self.classes.of(statistic))

    # ---- building

    def _build(self, crossing: dict[Op, Group], placed: list[tuple[Op, str, Group | None]]) -> list[Stage]:
        names: dict[Op, str] = {}
        loose: dict[tuple[Size, ...], list[tuple[Op, str]]] = {}
        stores: dict[Group, dict[Op, list[str]]] = {g: {} for g in self.groups}
        for op, name, home in placed:
            if home is None:
                loose.setdefault(tensor_type(op).shape, []).append((op, name))
            else:
                stores[home].setdefault(op, []).append(name)
                names.setdefault(op, name)
        wanted = self._wanted(crossing, stores, [op for batch in loose.values() for op, _ in batch])
        for op in wanted:
            if op not in names:
                names[op] = next(self.fresh)
                stores[crossing[op]].setdefault(op, []).append(names[op])
        out: list[Stage] = []
        for g in self._ordered():
            if stores[g]:
                out.append(self._stage(g, stores[g], {o: names[o] for o in wanted if crossing[o] is not g}))
        for batch in loose.values():
            known = {o: names[o] for o in wanted}
            body = program_of(self.program, [o for o, _ in batch], [n for _, n in batch], known)
            out.append(Stage(body, "elementwise"))
        return out

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

    def _stage(self, g: Group, stores: dict[Op, list[str]], arrays: dict[Op, str]) -> Stage:
        pairs = [(op, name) for op, names in stores.items() for name in names]
        body = program_of(self.program, [o for o, _ in pairs], [n for _, n in pairs], arrays)
        if g.kind != "attention":
            return Stage(body, g.kind.split()[0])
        users: dict[Op, list[Op]] = {}
        for op in body.body.ops:
            for o in dict.fromkeys(op.operands):
                users.setdefault(o, []).append(op)
        found = next((f for op in body.body.ops if isinstance(op, Contract) and (f := match_attention(op, users))), None)
        return Stage(body, "attention" if found else "rows", found)
