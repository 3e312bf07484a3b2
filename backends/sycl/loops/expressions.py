"""Elementwise operations as expressions of C and C++, on single values and on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portakern.ir.core import Op
from portakern.ir.tile import Binary, Bitcast, Cast, Compare, Select, Unary, tile_type

from .spelling import REGISTER
from .words import Words

ATOM, PREFIX, PRODUCT, SUM, SHIFT, COMPARE, BITS, LOGIC, CHOICE = range(9)


@dataclass(frozen=True)
class TypedExpr:
    """An expression: its text, how loosely its outermost operator binds, its dtype and its lanes."""

    text: str
    level: int
    dtype: str
    lanes: int = 1

    def at(self, level: int) -> str:
        """The text, in parentheses where it stands beside a tighter operator."""
        return self.text if self.level <= level else f"({self.text})"

    def wide(self, lanes: int, words: Words) -> TypedExpr:
        """The same value in every lane."""
        if self.lanes > 1 or lanes == 1:
            return self
        inner = f"-({self.text})" if self.dtype == "bool" else self.text
        return TypedExpr(f"({words.held(self.dtype, lanes)})({inner})", ATOM, self.dtype, lanes)


_CALL = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "log1p": "log1p", "expm1": "expm1", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "tanh": "tanh", "erf": "erf", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "round": "rint",
}  # fmt: skip
_INFIX = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT), "shl": ("<<", SHIFT),
          "shr": (">>", SHIFT)}  # fmt: skip
_BITWISE = {"and": "&", "or": "|", "xor": "^"}
_LOGIC = {"and": "&&", "or": "||", "xor": "!="}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_WIDE = ("f64", "i64", "u64")


def is_float(dtype: str) -> bool:
    return REGISTER[dtype] in ("f32", "f64")


def write(op: Op, values: Sequence[TypedExpr], words: Words) -> TypedExpr:
    """The expression of one elementwise operation on its operands' expressions."""
    dtype = tile_type(op).dtype
    match op:
        case Unary(fn):
            return _unary(fn, values[0], dtype, words)
        case Binary(fn):
            return _binary(fn, values[0], values[1], dtype, words)
        case Compare(fn):
            return _compare(_COMPARE[fn], values[0], values[1], words)
        case Select():
            return _select(values[0], values[1], values[2], words)
        case Cast():
            return _cast(values[0], tile_type(op.x).dtype, dtype, words)
        case Bitcast():
            v = values[0]
            return TypedExpr(words.bits(dtype, v.lanes, v.text), ATOM, dtype, v.lanes)
    op.fail(f"no expression for {op.mnemonic()} here")


def _unary(fn: str, v: TypedExpr, dtype: str, words: Words) -> TypedExpr:
    call = words.call
    one = "1.0" if REGISTER[v.dtype] == "f64" else "1.0f"
    if fn in _CALL:
        return TypedExpr(f"{call(_CALL[fn])}({v.text})", ATOM, dtype, v.lanes)
    if fn == "neg":
        return TypedExpr(f"-{v.at(ATOM)}", PREFIX, dtype, v.lanes)
    if fn == "abs":
        text = f"{call('fabs')}({v.text})" if is_float(dtype) else f"{call('max')}({v.text}, -{v.at(ATOM)})"
        return TypedExpr(text, ATOM, dtype, v.lanes)
    if fn == "reciprocal":
        return TypedExpr(f"{one} / {v.at(PREFIX)}", PRODUCT, dtype, v.lanes)
    if fn == "sigmoid":
        return TypedExpr(f"{one} / ({one} + {call('exp')}(-{v.at(ATOM)}))", PRODUCT, dtype, v.lanes)
    if fn == "isnan":
        return _compare("!=", v, v, words)
    if fn == "not":
        sign = "!" if dtype == "bool" and v.lanes == 1 else "~"
        return TypedExpr(f"{sign}{v.at(ATOM)}", PREFIX, dtype, v.lanes)
    if fn == "sign":
        if not is_float(dtype):
            kind = words.held(dtype, v.lanes)
            return TypedExpr(f"{call('clamp')}({v.text}, ({kind})(-1), ({kind})(1))", ATOM, dtype, v.lanes)
        # The built-in gives 0 for NaN.
        nan = _compare("!=", v, v, words)
        return _select(nan, v, TypedExpr(f"{call('sign')}({v.text})", ATOM, dtype, v.lanes), words)
    raise KeyError(fn)


def _binary(fn: str, a: TypedExpr, b: TypedExpr, dtype: str, words: Words) -> TypedExpr:
    lanes = max(a.lanes, b.lanes)
    if b.lanes > 1 and fn in ("div", "rem", "floordiv") and not is_float(dtype):
        # Lanes beyond the end of a row hold 0, and a CPU traps on an integer division by it.
        one = TypedExpr("1", ATOM, dtype).wide(lanes, words)
        b = TypedExpr(words.select(dtype, lanes, f"{b.at(SHIFT)} == 0", one.text, b.text), ATOM, dtype, lanes)
    if fn in ("and", "or", "xor"):
        if dtype == "bool" and lanes == 1:
            return TypedExpr(f"{a.at(ATOM)} {_LOGIC[fn]} {b.at(ATOM)}", LOGIC, dtype)
        a, b = a.wide(lanes, words), b.wide(lanes, words)
        return TypedExpr(f"{a.at(ATOM)} {_BITWISE[fn]} {b.at(ATOM)}", BITS, dtype, lanes)
    if fn in _INFIX:
        sign, level = _INFIX[fn]
        if fn == "add" and "0" in (a.text, b.text):  # an offset that happens to be 0
            return b if a.text == "0" else a
        right = level if fn in ("add", "mul") and not is_float(dtype) else level - 1  # sums of floats are not associative
        if fn in ("shl", "shr"):
            a = a.wide(lanes, words)  # OpenCL shifts no scalar by vectors
            return TypedExpr(f"{a.at(PREFIX)} {sign} {b.at(PREFIX)}", level, dtype, lanes)
        if a.lanes == 1 and lanes > 1 and a.text == b.text:
            a = a.wide(lanes, words)
        return TypedExpr(f"{a.at(level)} {sign} {b.at(right)}", level, dtype, lanes)
    a, b = a.wide(lanes, words), b.wide(lanes, words)
    if fn in ("max", "min"):
        return TypedExpr(f"{words.extreme(fn, dtype, lanes)}({a.text}, {b.text})", ATOM, dtype, lanes)
    if fn == "pow":
        if not is_float(dtype):
            raise KeyError("pow of integers")
        return TypedExpr(f"{words.call('pow')}({a.text}, {b.text})", ATOM, dtype, lanes)
    if is_float(dtype) and fn == "floordiv":
        return TypedExpr(f"{words.call('floor')}({a.at(PRODUCT)} / {b.at(PREFIX)})", ATOM, dtype, lanes)
    return TypedExpr(f"{words.division(fn, dtype, lanes)}({a.text}, {b.text})", ATOM, dtype, lanes)


def _compare(sign: str, a: TypedExpr, b: TypedExpr, words: Words) -> TypedExpr:
    lanes = max(a.lanes, b.lanes)
    if a.dtype == "bool":
        a, b = a.wide(lanes, words), b.wide(lanes, words)
    text = f"{a.at(SHIFT)} {sign} {b.at(SHIFT)}"
    if lanes > 1 and REGISTER[a.dtype] in _WIDE:
        return TypedExpr(words.convert("i32", lanes, text), ATOM, "bool", lanes)
    return TypedExpr(text, COMPARE, "bool", lanes)


def _select(condition: TypedExpr, yes: TypedExpr, no: TypedExpr, words: Words) -> TypedExpr:
    dtype = yes.dtype
    lanes = max(condition.lanes, yes.lanes, no.lanes)
    if condition.lanes == 1:
        yes, no = yes.wide(lanes, words), no.wide(lanes, words)
        return TypedExpr(f"{condition.at(LOGIC)} ? {yes.at(LOGIC)} : {no.at(LOGIC)}", CHOICE, dtype, lanes)
    yes, no = yes.wide(lanes, words), no.wide(lanes, words)
    return TypedExpr(words.select(dtype, lanes, condition.text, yes.text, no.text), ATOM, dtype, lanes)


def _cast(v: TypedExpr, old: str, new: str, words: Words) -> TypedExpr:
    lanes = v.lanes
    if new == "bool":
        zero = TypedExpr("0", ATOM, old)
        return _compare("!=", v, zero, words)
    if old == "bool" and lanes > 1:  # lanes hold -1 for true
        v = TypedExpr(f"-{v.at(ATOM)}", PREFIX, "i32", lanes)
        old = "i32"
    if new in ("f16", "bf16"):
        if REGISTER[old] != "f32":
            v = _convert(v, "f32", words)
        return TypedExpr(f"{words.round_narrow(new, lanes)}({v.text})", ATOM, new, lanes)
    if new in ("i8", "i16", "u8", "u16"):
        return TypedExpr(words.wrap(new, lanes, _convert(v, "i32", words).text), PREFIX, new, lanes)
    return _convert(v, new, words)


def _convert(v: TypedExpr, new: str, words: Words) -> TypedExpr:
    """To the register type of ``new``; floats to integers truncate."""
    if REGISTER[v.dtype] == REGISTER[new]:
        return TypedExpr(v.text, v.level, new, v.lanes)
    if v.lanes == 1 and v.text.isdigit() and is_float(new):
        return TypedExpr(f"{v.text}.0{'f' if REGISTER[new] == 'f32' else ''}", ATOM, new)
    if v.lanes > 1:
        return TypedExpr(words.convert(new, v.lanes, v.text), ATOM, new, v.lanes)
    return TypedExpr(f"({words.held(new)}){v.at(ATOM)}", PREFIX, new)
