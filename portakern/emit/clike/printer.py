"""Prints a plan as a kernel in the tile vocabulary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from portakern.emit.clike import plan as p
from portakern.emit.clike.dialect import Dialect
from portakern.emit.clike.layouts import Layout, Place
from portakern.emit.clike.terms import PlanTerm, number

WIDTH = 118


class Printer:
    """The text of one kernel.  Each statement has a method ``on_<Class>`` that gives its lines; platforms override those
    whose form differs, and :meth:`opening` and :meth:`shared` for how kernels and shared memory are declared.

    ``words`` collects the words of the vocabulary as they are printed: the headers that a text includes follow from them.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.words: set[str] = set()
        self.following: p.Statement | None = None  # the statement after the one being printed

    # ---- kernels

    def kernel(self, k: p.KernelPlan) -> list[str]:
        """Lines of the whole kernel."""
        self.plan, self.names = k, k.free_names()
        lines = [*self.opening(k)]
        body = [*self.usings(k), *self.shared(k)]
        if body:
            body.append("")
        body += self.statements(k.body)
        return [*lines, *indented(body), "}"]

    def opening(self, k: p.KernelPlan) -> list[str]:
        params = ", ".join(self.param(q) for q in k.params)
        facts: dict[str, object] = {"name": k.name, "threads": k.threads, "warps": k.warps}
        facts |= {"bounds": self.bounds(k), "attributes": self.attributes(k)}
        head = self.dialect.kernel.format(params=params, **facts) + " {"
        if len(head) <= WIDTH:
            return [head]
        # The parameters on lines of their own, as many as fit.
        before, after = self.dialect.kernel.format(params="\0", **facts).split("\0")
        lines, line = [before.rstrip()], ""
        for n, q in enumerate(k.params):
            part = self.param(q) + (", " if n + 1 < len(k.params) else f"{after} {{")
            if line and len(line) + len(part) > WIDTH - 8:
                lines, line = [*lines, "        " + line.rstrip()], ""
            line += part
        return [*lines, "        " + line]

    def bounds(self, k: p.KernelPlan) -> str:
        """What the compiler is told of a launch: the threads of a block, and what else the platform says."""
        return str(k.threads)

    def attributes(self, k: p.KernelPlan) -> str:
        """What else stands before the name of a kernel, with a space behind it."""
        return ""

    def param(self, q: p.KernelParam) -> str:
        kind = self.dialect.type(q.dtype)
        if q.role == "array":
            form = self.dialect.pointer if q.written else self.dialect.const_pointer
            return form.format(type=kind, name=q.name)
        return f"{kind} {q.name}"

    def usings(self, k: p.KernelPlan) -> list[str]:
        return [self.using(x) for x in k.layouts]

    def using(self, x: Layout) -> str:
        return f"using {x.name} = {self.layout(x)};  // {_axes(x)}"

    def layout(self, x: Layout) -> str:
        form = self.dialect.accumulator if x.kind == "accumulator" else self.dialect.rows
        element = self.dialect.type(x.element) if x.element else ""
        return form.format(rows=x.rows, cols=x.cols, warps=self.plan.warps, threads=self.plan.threads, element=element)

    def shared_type(self, s: p.Shared) -> str:
        return self.dialect.shared.format(element=self.dialect.type(s.dtype), rows=s.rows, cols=s.cols, role=s.role,
                                          transposed=str(s.transposed).lower())

    def shared(self, k: p.KernelPlan) -> list[str]:
        """Declarations of the shared operands."""
        return [self.dialect.declare_shared.format(type=self.shared_type(s), name=s.name, slots=s.slots)
                for s in k.shared]

    def place(self, place: Place) -> str:
        form = {"tile": "{layout}", "row": self.dialect.row_of, "col": self.dialect.col_of}[place.side]
        return form.format(layout=place.layout.name)

    # ---- words of the vocabulary

    def word(self, name: str, template: str = "", *args: object) -> str:
        """A call of a word: ``pk::name<template>(args)``."""
        self.words |= {name, *p.calls(args)}
        return self.dialect.word(name, template, *args)

    def named(self, name: str, template: str = "") -> str:
        """A word that is no call, as a type: ``pk::name<template>``."""
        self.words.add(name)
        return f"pk::{name}{f'<{template}>' if template else ''}"

    # ---- statements

    def statements(self, statements: Sequence[p.Statement]) -> list[str]:
        lines: list[str] = []
        for n, s in enumerate(statements):
            self.following = statements[n + 1] if n + 1 < len(statements) else None
            self.words |= p.calls(s)
            made = getattr(self, f"on_{type(s).__name__}")(s)
            note = "" if isinstance(s, p.Block) else getattr(s, "note", "")
            if note and len(made) == 1 and len(made[0]) + len(note) < WIDTH - 8:
                made = [f"{made[0]}  // {note}"]
            elif note:
                made = [f"// {note}", *made]
            lines += made
        return lines

    def define(self, name: str, new: bool, call: object, kind: str = "auto") -> list[str]:
        return [f"{kind + ' ' if new else ''}{name} = {call};"]

    def on_Scalar(self, s: p.Scalar) -> list[str]:
        kind = self.dialect.type(s.dtype)
        return self.define(s.name, s.define, s.value, f"const {kind}" if s.constant else kind)

    def on_Fill(self, s: p.Fill) -> list[str]:
        template = f"{self.dialect.type(s.dtype)}, {self.place(s.place)}"
        return self.define(s.name, s.define, self.word("fill", template, s.value))

    def on_LoadTile(self, s: p.LoadTile) -> list[str]:
        return self.define(s.name, s.define, self.loaded(s))

    def loaded(self, s: p.LoadTile) -> str:
        word = "gather" if s.picks else "load"
        return self.word(word, self.place(s.place), *self.address(s.access, pad=True), *s.picks)

    def address(self, a: p.Access, pad: bool = False) -> list[PlanTerm]:
        return [a.origin, *a.strides, *a.left, *([a.pad] if pad and a.left and a.pad is not None else [])]

    def on_StoreTile(self, s: p.StoreTile) -> list[str]:
        word = "store" if s.mode == "set" else f"store_{s.mode}"
        return [self.word(word, "", s.value, *self.address(s.access), *s.picks) + ";"]

    def on_Reduce(self, s: p.Reduce) -> list[str]:
        call = self.word("reduce_own" if s.own else f"reduce_{s.gone}", self.dialect.reductions[s.fn], s.value)
        if s.into is not None and s.into != s.made and not self._same(s.into, s.made):
            call = self.word("relayout", self.place(s.into), call)
        if s.into is None:
            return self.define(s.name, s.define, call, f"const {self.dialect.type(s.dtype)}")
        return self.define(s.name, s.define, call)

    def on_Combine(self, s: p.Combine) -> list[str]:
        kinds: dict[str, list[str]] = {}
        for dtype, name in s.fields:
            kinds.setdefault(self.dialect.type(dtype), []).append(name)
        members = " ".join(f"{kind} {', '.join(names)};" for kind, names in kinds.items())
        locals_ = [f"const {self.dialect.type(dtype)} {name} = {text};" for dtype, name, text in s.locals]
        order = [n for names in kinds.values() for n in names]
        made = {name: result for (_, name), result in zip(s.fields, s.results, strict=True)}
        body = [*locals_, *wrapped(f"return {s.part}{{{', '.join(str(made[n]) for n in order)}}};")]
        call = self.word("combine", self.place(s.place), f"{s.part}{{{', '.join(order)}}}", "\0")
        before, after = call.split("\0")
        head = f"const {s.part} {s.name} = {before}[]({s.part} {s.sides[0]}, {s.part} {s.sides[1]}) {{"
        return [f"struct {s.part} {{ {members} }};", head, *indented(body), f"}}{after};"]

    def on_Scan(self, s: p.Scan) -> list[str]:
        template = self.dialect.reductions[s.fn]
        if s.reverse or s.exclusive:
            template += f", {str(s.exclusive).lower()}" + (", true" if s.reverse else "")
        return self.define(s.name, s.define, self.word("scan_cols", template, s.value, *([s.carry] if s.carry else [])))

    def on_ScanBy(self, s: p.ScanBy) -> list[str]:
        members = "; ".join(f"{self.dialect.type(dtype)} {', '.join(name for _, name in same)}"
                            for dtype, same in groupby(s.members, lambda m: m[0]))
        locals_ = [f"const {self.dialect.type(dtype)} {name} = {text};" for dtype, name, text in s.locals]
        body = [*locals_, *wrapped(f"return {s.part}{{{', '.join(map(str, s.results))}}};")]
        join = f"static {self.dialect.member} {s.part} join({s.part} {s.sides[0]}, {s.part} {s.sides[1]}) {{"
        call = self.word("scan_by", f"{s.part}, {self.place(s.place)}", *s.values)
        struct = [f"{members};", join, *indented(body), "}"]
        return [f"struct {s.part} {{", *indented(struct), "};", f"const auto {s.name} = {call};"]

    def on_Order(self, s: p.Order) -> list[str]:
        template = f"{self.place(s.place)}{f', {s.count}' if s.count else ''}"
        return self.define(s.name, True, self.word("sorted_order", template, s.keys))

    def on_InOrder(self, s: p.InOrder) -> list[str]:
        return self.define(s.name, True, self.word("in_order", "", s.value, s.order))

    def on_Member(self, s: p.Member) -> list[str]:
        source = f"{s.source}.{'last' if s.last else 'tile'}"
        if s.place is None:
            element = f"{source}.{self.dialect.single}.{s.member}"
            return self.define(s.name, True, element, f"const {self.dialect.type(s.dtype)}")
        pick = f"[]({s.part} part) {{ return part.{s.member}; }}"
        return self.define(s.name, True, self.word("map", self.place(s.place), pick, source))

    def _same(self, a: Place, b: Place | None) -> bool:
        return b is not None and self.dialect.plain_vectors and a.side == b.side and a.size == b.size

    def on_Relayout(self, s: p.Relayout) -> list[str]:
        if s.word == "copy":
            return self.define(s.name, s.define, s.value)
        return self.define(s.name, s.define, self.word(s.word, self.place(s.place), s.value))

    def on_Assign(self, s: p.Assign) -> list[str]:
        return [f"{s.name} = {s.value};"]

    def on_Map(self, s: p.Map) -> list[str]:
        params = ", ".join(f"{self.dialect.type(dtype)} {name}" for dtype, name in s.params)
        capture = "[=]" if s.captures else "[]"
        locals_ = [f"const {self.dialect.type(dtype)} {name} = {text};" for dtype, name, text in s.locals]
        head = f"{'auto ' if s.define else ''}{s.name} = "
        body = f"return {s.result};"
        short = f"{capture}({params}) {{ {body} }}"
        word = self.mapping(s)
        line = head + self.word(word, self.place(s.place), short, *s.args) + ";"
        if not locals_ and len(line) <= WIDTH - 8:
            return [line]
        call = self.word(word, self.place(s.place), "\0", *s.args)
        before, after = call.split("\0")
        return [f"{head}{before}{capture}({params}) {{", *indented([*locals_, *wrapped(body)]), f"}}{after};"]

    def mapping(self, s: p.Map) -> str:
        """The word for a map; a platform may have another one for results that the next statement alone reads."""
        return "map"

    # ---- matrix products

    def operand(self, x: p.Operand) -> str:
        text = x.name
        if x.shared is not None and (x.shared.slots > 1 or x.slot != "0"):
            text = f"{x.name}[{x.slot}]"
        elif x.shared is not None:
            text = self.only(x.shared)
        return self.word("transposed", "", text) if x.transposed else text

    def only(self, s: p.Shared) -> str:
        """The only slot of a shared operand."""
        return f"{s.name}[0]"

    def slot(self, s: p.Shared, slot: str) -> str:
        return self.only(s) if s.slots == 1 else f"{s.name}[{slot}]"

    def on_CopyToShared(self, s: p.CopyToShared) -> list[str]:
        return [self.word("stage", "", self.slot(s.shared, s.slot), *self.address(s.access), *s.picks) + ";"]

    def on_StoreToShared(self, s: p.StoreToShared) -> list[str]:
        return [self.word("put", "", self.only(s.shared), s.value) + ";"]

    def on_Commit(self, s: p.Commit) -> list[str]:
        return [self.word("commit") + ";"]

    def on_Wait(self, s: p.Wait) -> list[str]:
        return [self.word("wait", str(s.groups)) + ";"]

    def on_Sync(self, s: p.Sync) -> list[str]:
        return [self.word("sync") + ";"]

    def on_Dot(self, s: p.Dot) -> list[str]:
        return [self.word("dot", "", s.acc, self.operand(s.a), self.operand(s.b)) + ";"]

    # ---- loops

    def on_Loop(self, s: p.Loop) -> list[str]:
        if s.pipeline is not None:
            return self.pipelined(s, s.pipeline)
        body = self.statements(s.body)
        ends = [_OF_INT32.fullmatch(str(end)) for end in (s.begin, s.end)]
        if all(ends):
            begin, end = (found[1] for found in ends if found)
            at = self.names.fresh(f"{s.var}_at")
            body = [f"const int64_t {s.var} = {at};", *body]
            head = f"for (int32_t {at} = {begin}; {at} < {end}; {_further(at, s.step)}) {{"
        else:
            head = f"for (int64_t {s.var} = {s.begin}; {s.var} < {s.end}; {_further(s.var, s.step)}) {{"
        return [*self.rolled(s), head, *indented(body), "}"]

    def rolled(self, s: p.Loop) -> list[str]:
        """A line before a loop that the compiler must leave as it is."""
        return []

    def on_Block(self, s: p.Block) -> list[str]:
        head = "{" if s.when is None else f"if ({s.when}) {{"
        return [f"{head}{f'  // {s.note}' if s.note else ''}", *indented(self.statements(s.body)), "}"]

    def pipelined(self, s: p.Loop, pipe: p.Pipeline) -> list[str]:
        """The loop with its copies ``slots - 1`` steps ahead: one barrier a step, since a slot is refilled only after the
        barrier that follows its last use."""
        ahead = pipe.slots - 1
        lines = [f"// Operands travel to shared memory {ahead} step{'s' if ahead > 1 else ''} ahead of their use.",
                 f"auto {pipe.stage} = [&](int64_t {s.var}, int {pipe.slot}) {{",
                 *indented([x for c in pipe.copies for x in self.on_CopyToShared(c)]), "};"]  # fmt: skip
        begin, end = number(s.begin), number(s.end)
        first = "0" if begin == 0 else self.names.fresh(f"first_{s.var}")
        if begin != 0:
            lines.append(f"const int64_t {first} = {s.begin};")
        rolled = pipe.slots > self.dialect.unrolled_slots
        if rolled:
            n = self.names.fresh("ahead")
            at = f"{n} * {s.step}" if begin == 0 else f"{first} + {n} * {s.step}"
            lines += [NOT_UNROLLED, f"for (int {n} = 0; {n} < {ahead}; ++{n}) {{",
                      f"    if ({at} < {s.end}) {pipe.stage}({at}, {n});", f"    {self.word('commit')};", "}"]
        for n in range(0 if rolled else ahead):
            at = str(n * s.step) if begin == 0 else f"{first} + {n * s.step}" if n else first
            inside = begin == 0 and end is not None and n * s.step < end
            lines += [f"{'' if inside else f'if ({at} < {s.end}) '}{pipe.stage}({at}, {n});", self.word("commit") + ";"]
        lines.append(f"int {pipe.slot} = 0;")
        refill = f"({pipe.slot} + {ahead}) % {pipe.slots}" if ahead > 1 else f"{pipe.slot} ^ 1"
        next_slot = f"({pipe.slot} + 1) % {pipe.slots}" if pipe.slots > 2 else f"{pipe.slot} ^ 1"
        ahead_at = f"{s.var} + {ahead * s.step}"
        body = [
            f"{self.word('wait', str(ahead - 1))};  // this step's operands have arrived,",
            f"{self.word('sync')};  // for every thread; and the slot of the step before is free",
            f"if ({ahead_at} < {s.end}) {pipe.stage}({ahead_at}, {refill});",
            f"{self.word('commit')};",
            *self.statements(s.body),
            f"{pipe.slot} = {next_slot};",
        ]
        head = f"for (int64_t {s.var} = {first}; {s.var} < {s.end}; {s.var} += {s.step}) {{"
        return [*lines, *([NOT_UNROLLED] if rolled else self.rolled(s)), head, *indented(body), "}"]


_OF_INT32 = re.compile(r"int64_t\((\w+)\)")
"""An end that is known as a number of 32 bits.  Of loops between two of these the counter has 32 bits as well: NVRTC 13.0 and
13.5 crash over some of them that 64 bits count and that run once or twice."""


def _further(counter: str, step: int) -> str:
    return f"{counter} += {step}" if step > 1 else f"++{counter}"


NOT_UNROLLED = "#pragma unroll 1  // so deep a pipeline, unrolled, takes longer to fetch than to do"


def _axes(x: Layout) -> str:
    """What a layout's rows and columns are, for the reader."""
    row, col = x.axes
    return f"rows along {row}, columns along {col}" if row else f"one row along {col}"


def indented(lines: Sequence[str]) -> list[str]:
    """One level further in; empty lines stay empty."""
    return ["    " + line if line else "" for line in lines]


def wrapped(line: str) -> list[str]:
    """``line`` broken at a sensible place where it is too long."""
    if len(line) <= WIDTH - 16:
        return [line]
    depth, best = 0, -1
    lowest = 99
    for n, c in enumerate(line[: WIDTH - 16]):
        depth += (c in "([{") - (c in ")]}")
        operator = line[n : n + 3] in (" + ", " - ", " ? ", " : ", " * ", " / ") or line[n : n + 4] in (" && ", " || ")
        if operator and depth <= lowest and n > 30:
            lowest, best = depth, n
    if best < 0:
        return [line]
    rest = wrapped("    " + line[best + 1 :])
    return [line[:best], *rest]
