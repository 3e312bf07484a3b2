"""Sizes: how many elements an array dimension or an axis has, as an ``int`` or as an expression of open dims.

A :class:`Sym` is a polynomial with integer coefficients over *atoms*; an atom is the name of an open dim or a floor
division that did not simplify.  Two equal polynomials are equal objects, so shapes compare with ``==``.  Its text is a
Python expression (and, with ``//`` read as ``/``, a C expression, since sizes are never negative).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

from portakern.errors import IRError


@dataclass(frozen=True, order=True)
class Quotient:
    """``numerator // divisor``, an atom of a :class:`Sym`."""

    numerator: Sym
    divisor: int

    def __str__(self) -> str:
        return f"({self.numerator}) // {self.divisor}"


Atom = str | Quotient
Monomial = tuple[Atom, ...]


def _rank(monomial: Monomial) -> tuple[int, str]:
    return (len(monomial), "*".join(map(str, monomial)))


@dataclass(frozen=True, order=True)
class Sym:
    """A polynomial over open dims: ``terms`` holds ``(monomial, coefficient)`` pairs in canonical order, none zero."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def named(name: str) -> Sym:
        return Sym((((name,), 1),))

    def __add__(self, other: Size) -> Size:
        if not isinstance(other, Size):
            return NotImplemented  # an array, which knows what to do with a size
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _build(total)

    __radd__ = __add__

    def __mul__(self, other: Size) -> Size:
        if not isinstance(other, Size):
            return NotImplemented
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                monomial = tuple(sorted(left + right, key=str))
                total[monomial] = total.get(monomial, 0) + a * b
        return _build(total)

    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1 if isinstance(other, Size) else NotImplemented

    def __rsub__(self, other: int) -> Size:
        return -self + other

    def __floordiv__(self, divisor: int) -> Size:
        if not isinstance(divisor, Size):
            return NotImplemented
        if not isinstance(divisor, int) or divisor <= 0:
            raise IRError(f"a size can be divided by a positive integer only, not by {divisor!r}")
        whole = _build({m: c // divisor for m, c in self.terms})
        rest = {m: c % divisor for m, c in self.terms}
        return whole + _quotient(rest, divisor)

    @property
    def divisibility(self) -> int:
        """The largest integer known to divide this size."""
        return gcd(*(c for _, c in self.terms))

    @property
    def names(self) -> frozenset[str]:
        """The open dims this size depends on."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, str) else atom.numerator.names
        return frozenset(found)

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, c in self.terms:
            body = "*".join(f"({a})" if isinstance(a, Quotient) and (len(monomial) > 1 or c != 1) else str(a)
                            for a in monomial)
            text = str(abs(c)) if not monomial else body if abs(c) == 1 else f"{abs(c)}*{body}"
            parts.append((" - " if c < 0 else " + ") + text if parts else ("-" if c < 0 else "") + text)
        return "".join(parts)

    __repr__ = __str__


Size = int | Sym


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
    return size.terms if isinstance(size, Sym) else (((), size),)


def _build(total: Mapping[Monomial, int]) -> Size:
    terms = tuple(sorted(((m, c) for m, c in total.items() if c), key=lambda t: _rank(t[0]), reverse=True))
    if all(m == () for m, _ in terms):
        return sum(c for _, c in terms)
    return Sym(terms)


def _quotient(terms: Mapping[Monomial, int], divisor: int) -> Size:
    """The sum of ``terms``, whose coefficients are from 0 to ``divisor - 1``, divided by ``divisor`` and rounded down.

    What is written as a division then has a numerator that is not negative, in lowest terms: equal sizes become equal objects.
    """
    terms = {m: c for m, c in terms.items() if c}
    open_terms = {m: c for m, c in terms.items() if m}
    if not open_terms:
        return 0
    common = gcd(divisor, *open_terms.values())
    if common > 1:  # (4 N + 3) // 6 is (2 N + 1) // 3
        return _build({m: c // common for m, c in terms.items()}) // (divisor // common)
    (monomial, coefficient), *others = open_terms.items()
    inner = monomial[0]
    if not others and coefficient == 1 and len(monomial) == 1 and isinstance(inner, Quotient):  # (N // 2 + 1) // 3
        return (inner.numerator + terms.get((), 0) * inner.divisor) // (inner.divisor * divisor)
    numerator = _build(terms)
    assert isinstance(numerator, Sym)
    return Sym((((Quotient(numerator, divisor),), 1),))


def ceildiv(size: Size, divisor: int) -> Size:
    """``size / divisor`` rounded up."""
    return -(-size // divisor) if isinstance(size, int) else (size + (divisor - 1)) // divisor


def product(sizes: tuple[Size, ...]) -> Size:
    return prod(sizes, start=1)  # type: ignore[arg-type, return-value]


def quotient(total: Size, part: Size) -> Size | None:
    """``total / part`` where that is exact and ``part`` is not 0; else ``None``."""
    if isinstance(part, int):
        known = part > 0 and (total if isinstance(total, int) else total.divisibility) % part == 0
        return total // part if known else None
    if isinstance(total, int):
        return 0 if total == 0 else None
    atoms = sorted({a for size in (total, part) for monomial, _ in size.terms for a in monomial}, key=str)
    result: Size = 0
    rest: Size = total
    while isinstance(rest, Sym):  # long division, by powers of the first atom, then of the second, ..
        first = _over(_leading(rest, atoms), _leading(part, atoms))
        if first is None:
            return None
        result, rest = result + first, rest - first * part
    return result if rest == 0 else None


def exact(total: Size, part: Size) -> Size:
    """``total / part``, which is known to be exact; raises ValueError where it is not."""
    found = quotient(total, part)
    if found is None:
        raise ValueError(f"{total} is no multiple of {part}")
    return found


def at_most(size: Size) -> Size:
    """A bound from above without the floor divisions whose factor is a multiple of their divisor.

    ``3 * (2*N // 3) - 2*N`` is at most 0: a quotient times its divisor is at most its numerator, and at least that less the
    divisor and plus one.
    """
    found: Size = 0
    for monomial, c in _terms(size):
        if len(monomial) == 1 and isinstance(monomial[0], Quotient) and c % monomial[0].divisor == 0:
            q, times = monomial[0], c // monomial[0].divisor
            found = found + q.numerator * times + (0 if c > 0 else (q.divisor - 1) * -times)
        else:
            found = found + _build({monomial: c})
    return found


def never_negative(size: Size) -> bool:
    """Whether ``size`` is known to be 0 or more, as dims are: ``K + 1`` is, of ``K - 1`` it is not known."""
    least = 0 - at_most(0 - size)
    return all(c >= 0 and all(not isinstance(a, Quotient) or never_negative(a.numerator) for a in monomial)
               for monomial, c in _terms(least))  # fmt: skip


def _leading(size: Sym, atoms: Sequence[Atom]) -> tuple[Monomial, int]:
    """The term with the highest power of the first of ``atoms``, among these of the second, .."""
    return max(size.terms, key=lambda term: [term[0].count(a) for a in atoms])


def _over(term: tuple[Monomial, int], part: tuple[Monomial, int]) -> Size | None:
    """One term over another, where that is exact."""
    left = list(term[0])
    for atom in part[0]:
        if atom not in left:
            return None
        left.remove(atom)
    whole, over = divmod(term[1], part[1])
    return None if over else Sym(((tuple(left), whole),)) if left else whole


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """``size`` with open dims replaced; names absent from ``values`` stay open."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        term: Size = coefficient
        for atom in monomial:
            if isinstance(atom, Quotient):
                term = term * (substitute(atom.numerator, values) // atom.divisor)
            else:
                term = term * values.get(atom, Sym.named(atom))
        total = total + term
    return total


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number ``size`` stands for; raises :class:`IRError` when an open dim has no value."""
    result = substitute(size, values)
    if isinstance(result, Sym):
        raise IRError(f"the size {size} needs a value for {', '.join(sorted(result.names))}")
    return result


def names_of(size: Size) -> frozenset[str]:
    return size.names if isinstance(size, Sym) else frozenset()


def has_quotient(size: Size) -> bool:
    """Whether ``size`` holds a division whose exactness depends on open dims."""
    return bool(quotients(size))


def quotients(size: Size) -> tuple[Quotient, ...]:
    """The divisions in ``size``."""
    atoms = (atom for monomial, _ in size.terms for atom in monomial) if isinstance(size, Sym) else ()
    return tuple(atom for atom in atoms if isinstance(atom, Quotient))


def divides(divisor: int, size: Size) -> bool:
    """Whether ``size`` is known to be a multiple of ``divisor``."""
    return size % divisor == 0 if isinstance(size, int) else size.divisibility % divisor == 0


def parse_size(text: str) -> Size:
    """Read back the text of a size."""

    def value(node: ast.expr) -> Size:
        match node:
            case ast.Constant(value=int() as number):
                return number
            case ast.Name(id=name):
                return Sym.named(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return value(operand) * -1
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return value(left) + value(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return value(left) - value(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return value(left) * value(right)
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Constant(value=int() as divisor)):
                return value(left) // divisor
        raise IRError(f"not a size: {text!r}")

    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise IRError(f"not a size: {text!r}") from error
    return value(tree.body)
