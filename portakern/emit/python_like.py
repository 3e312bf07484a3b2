"""What emitters of Python-like languages share: names, expressions with precedence, indentation, which values get a name.

The rules follow what a careful author does by hand: a value that is used once is written where it is used, as long as
the line stays readable; loads, contractions and values used more than once get a name; a loop-carried value keeps its
name through the loop and is assigned in place wherever nothing reads the old value afterwards.
"""

from __future__ import annotations

import ast
import keyword
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from portakern.ir.core import Arg, Block, Op, Result, Yield, yielded
from portakern.ir.size import Size, Sym, substitute
from portakern.ir.tile import Binary, Broadcast, Cast, Const, Coord, Dot, Extent, For, Load, Reduce, Start, Store, Unary

# ---- expressions -----------------------------------------------------------------------------------------------------

TERNARY, COMPARE, OR, XOR, AND, SHIFT, SUM, PRODUCT, NEGATION, ATOM = 1, 5, 6, 7, 8, 9, 10, 11, 12, 14
"""How tightly an expression binds in Python, loosest first."""

OPERATORS = {
    "|": OR, "^": XOR, "&": AND, "<<": SHIFT, ">>": SHIFT, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT,
    "//": PRODUCT, "%": PRODUCT, "==": COMPARE, "!=": COMPARE, "<": COMPARE, "<=": COMPARE, ">": COMPARE, ">=": COMPARE,
}  # fmt: skip


@dataclass(frozen=True)
class Expr:
    """Text of an expression and how tightly its outermost operator binds."""

    text: str
    rank: int = ATOM

    def at(self, rank: int) -> str:
        """The text as an operand that must bind at least as tightly as ``rank``."""
        return self.text if self.rank >= rank else f"({self.text})"

    def __str__(self) -> str:
        return self.text


def infix(operator: str, left: Expr, right: Expr) -> Expr:
    """``left operator right`` with the parentheses Python needs and no others."""
    rank = OPERATORS[operator]
    first = rank + 1 if rank == COMPARE else rank
    return Expr(f"{left.at(first)} {operator} {right.at(rank + 1)}", rank)


def total(parts: Sequence[Expr]) -> Expr:
    """The sum of ``parts``; ``0`` when there are none."""
    result = parts[0] if parts else Expr("0")
    for part in parts[1:]:
        result = infix("+", result, part)
    return result


def product(parts: Sequence[Expr]) -> Expr:
    """The product of ``parts``; ``1`` when there are none."""
    result = parts[0] if parts else Expr("1")
    for part in parts[1:]:
        result = infix("*", result, part)
    return result


def negative(x: Expr) -> Expr:
    return Expr(f"-{x.at(NEGATION)}", NEGATION)


def call(function: str, *arguments: Expr | str, **keywords: Expr | str) -> Expr:
    return Expr(f"{function}({', '.join([*map(str, arguments), *(f'{k}={v}' for k, v in keywords.items())])})")


def ternary(condition: Expr, yes: Expr, no: Expr) -> Expr:
    return Expr(f"{yes.at(TERNARY + 1)} if {condition.at(TERNARY + 1)} else {no.at(TERNARY)}", TERNARY)


def size_expr(size: Size, names: Mapping[str, str] | None = None) -> Expr:
    """A size as an expression of its open dims, renamed where ``names`` says so."""
    if isinstance(size, int):
        return Expr(str(size), ATOM if size >= 0 else NEGATION)
    renamed = substitute(size, {old: Sym.named(new) for old, new in (names or {}).items()})
    if not isinstance(renamed, Sym) or len(renamed.terms) > 1:
        return Expr(str(renamed), SUM)
    monomial, coefficient = renamed.terms[0]  # type: ignore[misc]
    single = coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str)
    return Expr(str(renamed), ATOM if single else PRODUCT if coefficient > 0 else SUM)


def number(value: float | int | bool, is_float: bool) -> Expr:
    """A constant; the infinities and NaN in the form every Python-like kernel language takes."""
    if isinstance(value, bool) or not is_float:
        return Expr(repr(bool(value) if isinstance(value, bool) else int(value)), ATOM if value >= 0 else NEGATION)
    if not math.isfinite(value):
        return Expr(f'float("{value}")')
    return Expr(repr(float(value)), NEGATION if math.copysign(1.0, value) < 0 else ATOM)


# ---- names -----------------------------------------------------------------------------------------------------------


def names_in(text: str) -> frozenset[str]:
    """The names that Python text reads or binds, as its syntax tree has them: what is said in comments is none."""
    return frozenset(node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))


def with_helpers(text: str, helpers: Mapping[str, str]) -> list[str]:
    """Those of ``helpers`` (text by name) that ``text`` calls, and those they call, in the order of the table."""
    wanted: set[str] = set()
    waiting = [text]
    while waiting:
        found = (names_in(waiting.pop()) & helpers.keys()) - wanted
        wanted |= found
        waiting += [helpers[name] for name in found]
    return [name for name in helpers if name in wanted]


class PythonNames:
    """Hands out names that are not taken; ``reserved`` are those of the language and its modules."""

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self.taken = {*reserved, *keyword.kwlist}

    def fresh(self, hint: str) -> str:
        base = hint if hint.isidentifier() else "t"
        name, number = base, 1
        while name in self.taken:
            number += 1
            name = f"{base}_{number}" if base[-1].isdigit() else f"{base}{number}"
        self.taken.add(name)
        return name


# ---- text ------------------------------------------------------------------------------------------------------------


class PythonWriter:
    """Lines of Python with indentation; long calls are broken at their commas."""

    def __init__(self, width: int = 110) -> None:
        self.lines: list[str] = []
        self.width = width
        self._depth = 0

    def line(self, text: str = "") -> None:
        self.lines += wrapped("    " * self._depth + text, self.width) if text else [""]

    def comment(self, text: str) -> None:
        self.line(f"# {text}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head`` and what is written inside, indented."""
        self.line(head)
        self._depth += 1
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.line("pass")
        self._depth -= 1

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def wrapped(line: str, width: int) -> list[str]:
    """``line``, or its outermost last bracket opened with one level of indentation where it is too long."""
    if len(line) <= width:
        return [line]
    opened = _last_bracket(line)
    if opened is None:
        return [line]
    start, end = opened
    margin = " " * (len(line) - len(line.lstrip()))
    parts = _split(line[start + 1 : end])
    if len(parts) < 2:
        return [line]
    rows, row = [], ""
    for part in parts:
        more = f"{row}, {part}" if row else part
        if row and len(margin) + 4 + len(more) + 1 > width:
            rows.append(row)
            row = part
        else:
            row = more
    rows.append(row)
    body = [line_ for r in rows for line_ in wrapped(f"{margin}    {r},", width)]
    return [line[: start + 1], *body, margin + line[end:]]


def _last_bracket(line: str) -> tuple[int, int] | None:
    """Where the longest bracket that stands in no other opens and closes."""
    stack: list[int] = []
    best: tuple[int, int] | None = None
    quote = ""
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([{":
            stack.append(i)
        elif c in ")]}" and stack:
            start = stack.pop()
            if not stack and (best is None or i - start > best[1] - best[0]):
                best = (start, i)
    return best


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


# ---- which values get a name ---------------------------------------------------------------------------------------

TRIVIAL = (Const, Extent, Coord, Start, Arg, Result)
"""Values whose text is a name or a number already."""


def count_uses(block: Block) -> Counter[Op]:
    """How often the text of each value would appear; a broadcast appears wherever its users do."""
    operations = list(block.walk())
    uses: Counter[Op] = Counter()
    for op in reversed(operations):
        times = max(1, uses[op]) if isinstance(op, Broadcast) else 1
        for operand in op.operands:
            uses[operand] += times
    return uses


def named_values(block: Block, heaviest: int = 7) -> frozenset[Op]:
    """The values of a kernel's body that are assigned to a name.

    A value is named when it is used more than once, is a contraction, or when the expression written in its place
    would hold more than ``heaviest`` operations, or gives coordinates, which are written where an element lies and where it
    is asked whether there is one. A load gives its name to the cast that is its only use. Values used
    inside a loop but computed before it are named, since a loop would compute them again.
    """
    uses = count_uses(block)
    named: set[Op] = set()
    weight: dict[Op, int] = {}
    depth: dict[Op, int] = {}
    users: dict[Op, list[Op]] = {}
    for op in block.walk():
        for operand in op.operands:
            users.setdefault(operand, []).append(op)

    def crosses(op: Op) -> bool:
        return any(depth.get(u, 0) > depth[op] for u in users.get(op, ()))

    def measure(inner: Block, level: int) -> None:
        for op in inner.ops:
            depth[op] = level
            for region in op.regions:
                measure(region, level + 1)

    measure(block, 0)
    for op in block.walk():
        if isinstance(op, TRIVIAL) or not op.pure or isinstance(op, Broadcast):
            weight[op] = weight.get(op.x, 1) if isinstance(op, Broadcast) and op.x not in named else 0
            continue
        heavy = 1 + sum(0 if o in named else weight.get(o, 0) for o in op.operands)
        only = users.get(op, [])
        reduction = isinstance(op, Reduce) and not _accumulates(op, only)
        into_cast = isinstance(op, Load) and len(only) == 1 and isinstance(only[0], Cast)
        of_load = isinstance(op, Cast) and isinstance(op.x, Load) and op.x not in named
        gathered = any(isinstance(u, Load) for u in only)
        if (uses[op] > 1 or isinstance(op, Dot) or reduction or (isinstance(op, Load) and not into_cast) or of_load
                or gathered or heavy > heaviest or crosses(op)):  # fmt: skip
            named.add(op)
        weight[op] = heavy
    return frozenset(named)


def _accumulates(op: Op, users: Sequence[Op]) -> bool:
    """Whether ``op`` is only added to (or joined with) a carried value, which reads well on one line."""
    return len(users) == 1 and isinstance(users[0], Binary) and users[0].rhs is op


def reads(op: Op, named: Collection[Op]) -> set[Op]:
    """The names a statement for ``op`` reads: named values and arguments, through everything written in place."""
    found: set[Op] = set()

    def visit(value: Op) -> None:
        if isinstance(value, Arg) or value in named or isinstance(value, For):
            found.add(value)
        else:
            for operand in value.operands:
                visit(operand)

    for operand in op.operands:
        visit(operand)
    for region in op.regions:
        for inner in region.walk():
            for operand in inner.operands:
                visit(operand)
    return found


def assigned_in_place(body: Block, named: Collection[Op]) -> dict[Op, Arg]:
    """The values of a loop body that may be assigned straight to the carried name they become.

    That holds for a named value when no statement after it reads the old value of that name.
    """
    statements = [op for op in body.ops if op in named or not op.pure]
    results = yielded(body)
    found: dict[Op, Arg] = {}
    for arg, value in zip(body.args, results, strict=True):
        if value not in statements or value in found or results.count(value) > 1:
            continue
        later = statements[statements.index(value) + 1 :]
        old = any(arg in reads(s, named) for s in later if not isinstance(s, Yield))
        others = any(v is arg or (v not in named and arg in _reads_of_value(v, named)) for v in results if v is not value)
        if not old and not others:
            found[value] = arg  # type: ignore[assignment]
    return found


def _reads_of_value(value: Op, named: Collection[Op]) -> set[Op]:
    return {value} if isinstance(value, Arg) else reads(value, named)


def assignments(pairs: Sequence[tuple[str, str]], hazard: bool) -> list[str]:
    """Lines assigning to carried names; all at once where one of the values reads a name assigned before it."""
    if not hazard:
        return [f"{name} = {value}" for name, value in pairs]
    return [f"{', '.join(n for n, _ in pairs)} = {', '.join(v for _, v in pairs)}"]


def carried_hazard(pairs: Sequence[tuple[Op, Op]], named: Collection[Op]) -> bool:
    """Whether assigning ``(arg, value)`` one after the other would read an argument already overwritten."""
    return any(earlier in _reads_of_value(value, named)
               for i, (_, value) in enumerate(pairs) for earlier, _ in pairs[:i])  # fmt: skip


def hint_of(op: Op, users: Callable[[Op], Sequence[Op]] = lambda _: ()) -> str:
    """A telling name for a value: what it was loaded from, what it will be stored to, or how it was computed."""
    match op:
        case Load(buffer=Arg(name=name)):
            return name
        case Cast(x=x):
            return hint_of(x, users)
        case Reduce(fn=fn, axis=axis):
            return f"{fn}_{axis}"
        case Dot():
            return "product"
        case Unary(fn=fn):
            return f"{fn}_{leaf_of(op)}"
    for user in users(op):
        if isinstance(user, Cast):
            user = next(iter(users(user)), user)
        if isinstance(user, Store) and isinstance(user.buffer, Arg):
            return user.buffer.name
    return "t"


def leaf_of(op: Op) -> str:
    """The name of the first array or argument that ``op`` is computed from."""
    while op.operands:
        if isinstance(op, Load) and isinstance(op.buffer, Arg):
            return op.buffer.name
        op = op.operands[0]
    return op.name if isinstance(op, Arg) else "t"
