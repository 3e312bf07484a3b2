"""Numbers that assembly leaves to be computed: what kernels need of registers depends on the functions they call (LLVM
AMDGPUUsage, "Symbols" and "MCExpr" of descriptors)."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

_SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]*")
_BINARY: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip


def _alignto(x: int, unit: int) -> int:
    return -(-x // unit) * unit


def _or(*values: int) -> int:
    return int(any(values))


def _totalnumvgprs(accumulation: int, vector: int) -> int:
    """Accumulation registers lie behind the others, from a multiple of four on (gfx90a and later)."""
    return _alignto(vector, 4) + accumulation if accumulation else vector


_FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "max": max,
    "or": _or,
    "alignto": _alignto,
    "totalnumvgprs": _totalnumvgprs,
}


def value(text: str, symbols: Mapping[str, str]) -> int:
    """Raises :class:`ValueError` for what it cannot compute.  ``symbols`` are the values of ``.set``, as texts."""
    try:
        return int(text, 0)
    except ValueError:
        pass
    found = _SYMBOL.sub(lambda m: _substituted(m[0], symbols), text)
    try:
        return _evaluated(ast.parse(found.strip(), mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no expression") from error


def _substituted(name: str, symbols: Mapping[str, str]) -> str:
    if name in _FUNCTIONS:
        return f"_{name}"  # `or` is a word of Python
    if name not in symbols:
        raise ValueError(f"{name!r} has no value")
    return str(value(symbols[name], {k: v for k, v in symbols.items() if k != name}))


def _evaluated(x: ast.expr) -> int:
    match x:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=y):
            return -_evaluated(y)
        case ast.UnaryOp(op=ast.Invert(), operand=y):
            return ~_evaluated(y)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
            return _BINARY[type(op)](_evaluated(a), _evaluated(b))
        case ast.Call(func=ast.Name(id=name), args=args) if name[1:] in _FUNCTIONS:
            return _FUNCTIONS[name[1:]](*map(_evaluated, args))
    raise ValueError(f"{ast.unparse(x)!r} is not known")
