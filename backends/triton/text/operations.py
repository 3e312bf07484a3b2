"""How each operation on tiles reads in Triton: tables from operation to text, and the helper functions the text uses.

Helpers are plain ``@triton.jit`` functions printed above the kernel that uses them. They exist where Triton has no
word (rounding to even, ``tanh``), where its word depends on the vendor, or where it drops NaN (``tl.max``).
"""

from __future__ import annotations

from collections.abc import Callable

from portakern.emit.python_like import Expr, call, infix, negative, number

DTYPE = {
    "f64": "tl.float64", "f32": "tl.float32", "f16": "tl.float16", "bf16": "tl.bfloat16",
    "f8e4m3": "tl.float8e4nv", "f8e5m2": "tl.float8e5",
    "i64": "tl.int64", "i32": "tl.int32", "i16": "tl.int16", "i8": "tl.int8",
    "u64": "tl.uint64", "u32": "tl.uint32", "u16": "tl.uint16", "u8": "tl.uint8", "bool": "tl.int1",
}  # fmt: skip

TORCH_DTYPE = {
    "f64": "torch.float64", "f32": "torch.float32", "f16": "torch.float16", "bf16": "torch.bfloat16",
    "f8e4m3": "torch.float8_e4m3fn", "f8e5m2": "torch.float8_e5m2",
    "i64": "torch.int64", "i32": "torch.int32", "i16": "torch.int16", "i8": "torch.int8",
    "u64": "torch.uint64", "u32": "torch.uint32", "u16": "torch.uint16", "u8": "torch.uint8", "bool": "torch.bool",
}  # fmt: skip

HELPERS: dict[str, str] = {
    "max_nan": '''
@triton.jit
def max_nan(a, b):
    """The larger value; NaN if either is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "min_nan": '''
@triton.jit
def min_nan(a, b):
    """The smaller value; NaN if either is NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "multiply": '''
@triton.jit
def multiply(a, b):
    return a * b
''',
    "moved_on": '''
@triton.jit
def moved_on(x, first, N: tl.constexpr, axis: tl.constexpr, reverse: tl.constexpr):
    """x, N long along its last dim, one place further on along it, `first` at the place that gets free."""
    place = tl.arange(0, N)
    source = tl.minimum(place + 1, N - 1) if reverse else tl.maximum(place - 1, 0)
    before = tl.gather(x, source + tl.zeros(x.shape, tl.int32), axis)
    return tl.where(place == (N - 1 if reverse else 0), first, before)
''',
    "last_of": '''
@triton.jit
def last_of(x, place, N: tl.constexpr, axis: tl.constexpr):
    """The element of x, N long along an axis, whose `place` along it is the last."""
    return tl.sum(tl.where(place == N - 1, x, 0), axis)
''',
    "sorted_order": '''
@triton.jit
def sorted_order(key, N: tl.constexpr, K: tl.constexpr):
    """Where the K smallest of N keys lie, in ascending order, equal ones in theirs: pairs of key and place are sorted."""
    pairs = key.to(tl.int64) << 32 | tl.arange(0, N)
    if K < N:
        pairs = ~tl.topk(~pairs, K)  # the largest of what is turned round, the largest first
    else:
        pairs = tl.sort(pairs)
    return (pairs & 0xFFFFFFFF).to(tl.int32)
''',
    "sorted_order_64": '''
@triton.jit
def sorted_order_64(key, N: tl.constexpr, K: tl.constexpr):
    """The same for keys of 64 bits: by their lower halves, then by their upper ones."""
    order = sorted_order((key & 0xFFFFFFFF) - 0x80000000, N, N)
    return tl.gather(order, sorted_order(tl.gather(key >> 32, order, 0), N, K), 0)
''',
    "tanh": '''
@triton.jit
def tanh(x):
    """Hyperbolic tangent: the odd polynomial of Cephes tanhf where 1 - e would cancel, (1 - e) / (1 + e) elsewhere."""
    e = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - e) / (1.0 + e)
    s = x * x
    p = (-5.70498872745e-3 * s + 2.06390887954e-2) * s - 5.37397155531e-2
    p = (p * s + 1.33314422036e-1) * s - 3.33332819422e-1
    return tl.where(tl.abs(x) < 0.625, x + x * s * p, tl.where(x < 0.0, -far, far))
''',
    "tanh_f64": '''
@triton.jit
def tanh_f64(x):
    """Hyperbolic tangent: Lambert's continued fraction where 1 - e would cancel, (1 - e) / (1 + e) elsewhere."""
    e = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - e) / (1.0 + e)
    s = x * x
    near = x / (1.0 + s / (3.0 + s / (5.0 + s / (7.0 + s / (9.0 + s / (11.0 + s / (13.0 + s / (15.0 + s / 17.0))))))))
    return tl.where(tl.abs(x) < 0.5, near, tl.where(x < 0.0, -far, far))
''',
    "expm1": '''
@triton.jit
def expm1(x):
    """exp(x) - 1 without cancellation near 0 (Kahan: the rounding errors of exp and log cancel each other)."""
    e = tl.exp(x)
    d = e - 1.0
    return tl.where(d == 0.0, x, tl.where((d == -1.0) | (tl.abs(x) > 1.0), d, d * x / tl.log(e)))
''',
    "log1p": '''
@triton.jit
def log1p(x):
    """log(1 + x) without cancellation near 0 (Kahan: the error of 1 + x is divided out)."""
    u = 1.0 + x
    d = u - 1.0
    return tl.where(d == 0.0, x, tl.where(u > 2.0, tl.log(u), tl.log(u) * x / d))
''',
    "round_even": '''
@triton.jit
def round_even(x):
    """To the nearest integer, halves to even: adding and taking away 2**23 leaves no bits after the point."""
    a = tl.abs(x)
    r = (a + 8388608.0) - 8388608.0
    return tl.where(a < 8388608.0, tl.where(x < 0.0, -r, r), x)
''',
    "round_even_f64": '''
@triton.jit
def round_even_f64(x):
    """To the nearest integer, halves to even: adding and taking away 2**52 leaves no bits after the point."""
    a = tl.abs(x)
    r = (a + 4503599627370496.0) - 4503599627370496.0
    return tl.where(a < 4503599627370496.0, tl.where(x < 0.0, -r, r), x)
''',
    "sign": '''
@triton.jit
def sign(x):
    """-1, 0 or 1; zeros and NaN pass."""
    return tl.where(x > 0, 1, tl.where(x < 0, -1, x)).to(x.dtype)
''',
    "power": '''
@triton.jit
def power(x, y):
    """x ** y through float64, so that the error of the logarithm does not grow with y."""
    a = tl.abs(x).to(tl.float64)
    b = y.to(tl.float64)
    r = tl.exp2(b * tl.log2(a)).to(x.dtype)
    whole = tl.floor(b) == b
    odd = whole & (tl.floor(b * 0.5) * 2.0 != b)
    r = tl.where(x < 0, tl.where(odd, -r, tl.where(whole, r, float("nan"))), r)
    return tl.where((b == 0.0) | (x == 1.0), 1.0, r)
''',
    "to_e4m3": '''
@triton.jit
def to_e4m3(x):
    """To nearest even in float8e4nv; NaN where that is too large (hardware gives its largest number)."""
    return tl.where(tl.abs(x) <= 464.0, x, float("nan")).to(tl.float8e4nv)
''',
    "to_e5m2": '''
@triton.jit
def to_e5m2(x):
    """To nearest even in float8e5; infinite where that is too large (hardware gives its largest number)."""
    bits = x.to(tl.float8e5).to(tl.uint8, bitcast=True)
    return tl.where(tl.abs(x) < 61440.0, bits, tl.where(x != x, 127, tl.where(x < 0.0, 252, 124))).to(tl.uint8).to(
        tl.float8e5, bitcast=True)
''',
    "trunc": '''
@triton.jit
def trunc(x):
    """Towards zero."""
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))
''',
    "float_rem": '''
@triton.jit
def float_rem(a, b):
    """What a leaves by b, with the sign of b: exact. A step in float64 takes 2**52 off the quotient, which is below 2**278."""
    d = tl.abs(b).to(tl.float64)
    r = tl.where(tl.abs(a) < float("inf"), a, float("nan")).to(tl.float64)
    for _ in tl.static_range(6):
        r = tl.where(d == float("inf"), r, tl.fma(-trunc(r / d), d, r))
    return tl.where((r != 0.0) & ((r < 0.0) != (b < 0.0)), r + b, r).to(a.dtype)
''',
    "double_rem": '''
@triton.jit
def double_rem(a, b):
    """The same of float64, whose quotients may overflow: first by a large multiple of b."""
    r = tl.where(tl.abs(a) < float("inf"), a, float("nan"))
    d = tl.abs(b)
    far = d * 8.98846567431158e307
    for _ in range(21):
        r = tl.where(far < float("inf"), tl.fma(-trunc(r / far), far, r), r)
    for _ in range(21):
        r = tl.where(d == float("inf"), r, tl.fma(-trunc(r / d), d, r))
    return tl.where((r != 0.0) & ((r < 0.0) != (b < 0.0)), r + b, r)
''',
    "floor_div": '''
@triton.jit
def floor_div(a, b):
    """Integer division rounded down (Triton's rounds towards zero). The least number has no opposite: it wraps round."""
    d = tl.where(b == -1, 1, b)
    q = a // d
    return tl.where(b == -1, -a, tl.where((a % d != 0) & ((a < 0) != (d < 0)), q - 1, q))
''',
    "floor_rem": '''
@triton.jit
def floor_rem(a, b):
    """Integer remainder with the sign of the divisor (Triton's has the dividend's)."""
    r = a % tl.where(b == -1, 1, b)  # a processor may trap on the least number and -1
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
''',
}
"""Helper functions by name."""

CHECKED_CASTS = {"f8e4m3": "to_e4m3", "f8e5m2": "to_e5m2"}
"""The helpers that round to formats whose conversions by hardware saturate."""

_Unary = Callable[[Expr, str], Expr]


def _word(name: str) -> _Unary:
    return lambda x, dtype: call(name, x)


def _helper(name: str, wide: str = "") -> _Unary:
    return lambda x, dtype: call(wide if wide and dtype == "f64" else name, x)


UNARY: dict[str, _Unary] = {
    "neg": lambda x, dtype: negative(x), "not": lambda x, dtype: Expr(f"~{x.at(12)}", 12),
    "reciprocal": lambda x, dtype: infix("/", Expr("1.0"), x), "isnan": lambda x, dtype: infix("!=", x, x),
    **{fn: _word(f"tl.{fn}") for fn in ("abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "erf", "sin",
                                        "cos", "floor", "ceil")},
    "tanh": _helper("tanh", "tanh_f64"), "expm1": _helper("expm1"), "log1p": _helper("log1p"),
    "round": _helper("round_even", "round_even_f64"), "sign": _helper("sign"),
    "trunc": _helper("trunc"),
}  # fmt: skip
"""Unary functions: text from the operand's text and dtype."""

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def binary(fn: str, a: Expr, b: Expr, dtype: str) -> Expr | None:
    """Text of a binary function on values of ``dtype``; ``None`` where there is no rule."""
    is_float = dtype in ("f64", "f32")
    if fn in INFIX:
        return infix(INFIX[fn], a, b)
    if fn in ("max", "min"):
        return call(f"{fn}_nan" if is_float else f"tl.{fn}imum", a, b)
    if fn == "pow" and is_float:
        return call("power", a, b)
    if fn == "floordiv":
        return call("tl.floor", infix("/", a, b)) if is_float else call("floor_div", a, b)
    if fn == "rem":
        return call({"f32": "float_rem", "f64": "double_rem"}.get(dtype, "floor_rem"), a, b)
    return None


def reduce(fn: str, x: Expr, axis: int, dtype: str) -> Expr | None:
    """Text of a reduction over the dim ``axis``. Sums and NaN-keeping extremes are trees over warps."""
    is_float = dtype in ("f64", "f32")
    match fn:
        case "sum":
            return call("tl.sum", x, axis=str(axis))
        case "max" | "min":
            return call("tl.reduce", x, str(axis), f"{fn}_nan") if is_float else call(f"tl.{fn}", x, axis=str(axis))
        case "prod":
            return call("tl.reduce", x, str(axis), "multiply")
        case "any" | "all":
            word = "tl.max" if fn == "any" else "tl.min"
            return infix("!=", call(word, f"{x.at(14)}.to(tl.int32)", axis=str(axis)), Expr("0"))
    return None


def scan(fn: str, x: Expr, axis: int, dtype: str, backwards: bool) -> Expr:
    """Text of running values along the dim ``axis``."""
    how = {"reverse": "True"} if backwards else {}
    if fn in ("sum", "prod"):
        return call(f"tl.cum{fn}", x, axis=str(axis), **how)
    return call("tl.associative_scan", x, str(axis), f"{fn}_nan", **how)


def constant(value: float | int | bool, dtype: str) -> Expr:
    return number(value, dtype in ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"))
