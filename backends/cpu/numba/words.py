"""How each operation reads in numba: tables from operation to text, and the helper functions the text uses.

Scalars are typed: a plain Python number would turn float32 arithmetic into float64, so constants are written
``f32(0.5)``. Helpers are ordinary ``@njit`` functions, which LLVM inlines and vectorises together with the loop around
them. ``add`` and ``mad`` carry the only relaxed flags: a sum may be taken in any order (as on every target), and a
product may be fused with the addition behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from portakern.emit.python_like import ATOM, NEGATION, PRODUCT, Expr, call, infix, negative

NUMPY = {
    "f64": "np.float64", "f32": "np.float32", "f16": "np.float32", "bf16": "np.float32",
    "i64": "np.int64", "i32": "np.int32", "i16": "np.int16", "i8": "np.int8",
    "u64": "np.uint64", "u32": "np.uint32", "u16": "np.uint16", "u8": "np.uint8", "bool": "np.bool_",
}  # fmt: skip
"""The numpy type a value of each dtype is computed in: 16-bit floats live as float32 between load and store."""

SCALAR = {name: text.replace("np.float32", "f32") for name, text in NUMPY.items()}
HALF_FLOATS = ("f16", "bf16")

FEWEST = 64
"""As many smallest elements are found by putting each element to its place among the smallest so far."""

HELPERS: dict[str, str] = {
    "add": '''
@njit(fastmath={"reassoc"})
def add(a, b):
    """a + b in a sum whose order is free, so that it runs in vector lanes."""
    return a + b
''',
    "mad": '''
@njit(fastmath={"contract"})
def mad(a, b, c):
    """a * b + c, fused where the processor can."""
    return a * b + c
''',
    "maximum": '''
@intrinsic
def maximum(typing, a, b):
    """The larger of two floats; NaN if either is NaN. (LLVM's maximum, which vectorises also as a reduction.)"""
    def lower(context, builder, signature, arguments):
        kind = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.maximum", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, arguments)
    return (a(a, a), lower) if a == b else None
''',
    "minimum": '''
@intrinsic
def minimum(typing, a, b):
    """The smaller of two floats; NaN if either is NaN."""
    def lower(context, builder, signature, arguments):
        kind = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.minimum", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, arguments)
    return (a(a, a), lower) if a == b else None
''',
    "sorted_order": '''
@njit
def sorted_order(keys, count):
    """Where the first `count` of keys lie in ascending order, equal ones in theirs: sorted by some bits after others, the low
    first."""
    order, other, bits = np.arange(count).astype(np.int32), np.empty(count, np.int32), 8 * keys.itemsize
    width = 8 if count < 1 << 12 else 11 if count < 1 << 16 else 14  # counters are few beside keys
    digits, vary = 1 << width, keys[0] ^ keys[0]
    for i in range(count):
        vary |= keys[i] ^ keys[0]
    for shift in range(0, bits, width):
        if vary >> shift & (digits - 1) == 0:
            continue  # all have these bits alike
        sign = digits // 2 if shift + width >= bits else 0  # negative keys come first
        counts = np.zeros(digits, np.int64)
        for i in range(count):
            counts[(keys[i] >> shift & (digits - 1)) ^ sign] += 1
        places = np.cumsum(counts) - counts
        for at in order:
            digit = (keys[at] >> shift & (digits - 1)) ^ sign
            other[places[digit]] = at
            places[digit] += 1
        order, other = other, order
    return order.astype(np.int64)
''',
    "first_few": '''
@njit
def first_few(keys, count, few):
    """Where the `few` smallest of the first `count` keys lie, in ascending order, equal ones in theirs."""
    order, held = np.empty(few, np.int64), 0
    for i in range(count):
        if held == few and keys[i] >= keys[order[few - 1]]:
            continue
        at = min(held, few - 1)
        held = min(held + 1, few)
        while at > 0 and keys[order[at - 1]] > keys[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    return order[:held]
''',
    "from_bf16": '''
@njit
def from_bf16(bits):
    """bf16 is the upper half of a float32."""
    return np.uint32(np.uint32(bits) << 16).view(np.float32)
''',
    "to_bf16": '''
@njit
def to_bf16(x):
    """The bits of x as bf16, rounded to nearest even; a NaN becomes a quiet one of its sign."""
    bits = np.float32(x).view(np.uint32)
    rounded = np.uint16(np.uint32(bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
    return np.uint16((bits >> 16) | 0x40) if x != x else rounded
''',
    "round_bf16": '''
@njit
def round_bf16(x):
    """x rounded to bf16, as a float32."""
    return from_bf16(to_bf16(x))
''',
    "from_f16": '''
@njit
def from_f16(bits):
    """Shift exponent and fraction into place; the product by 2**112 corrects the bias, subnormals included."""
    magnitude = np.uint32((np.uint32(bits) & 0x7FFF) << 13)
    special = (bits & 0x7C00) == 0x7C00
    finite = np.uint32(magnitude).view(np.float32) * f32(2.0**112)
    value = np.uint32(magnitude | 0x7F800000).view(np.float32) if special else finite
    return -value if bits & 0x8000 else value
''',
    "to_f16": '''
@njit
def to_f16(x):
    """The bits of x as f16, rounded to nearest even. Adding 0.5 rounds a subnormal result to a multiple of 2**-24."""
    bits = np.float32(x).view(np.uint32)
    magnitude = np.uint32(bits & 0x7FFFFFFF)
    small = np.uint32(np.float32(np.uint32(magnitude).view(np.float32) + f32(0.5)).view(np.uint32) - 0x3F000000)
    normal = np.uint32((magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13)
    rounded = small if magnitude < 0x38800000 else normal
    rounded = np.uint32(0x7C00) if magnitude >= 0x47800000 else rounded
    rounded = np.uint32(0x7E00) if magnitude > 0x7F800000 else rounded
    return np.uint16(rounded | ((bits >> 16) & 0x8000))
''',
    "round_f16": '''
@njit
def round_f16(x):
    """x rounded to f16, as a float32."""
    return from_f16(to_f16(x))
''',
    "floordiv": '''
@njit
def floordiv(x, y):
    """x // y for int64, which wraps: numba makes 0 of the least number over -1."""
    return -x if y == -1 else x // y
''',
    "power_of_two": '''
@njit
def power_of_two(n):
    """2 ** n for n from -126 to 127."""
    return np.int32(np.int32(n + 127) << 23).view(np.float32)
''',
    "exp": '''
@njit
def exp(x):
    """e ** x for float32 within 2 ulp: 2 ** n times the polynomial of Cephes expf on [-ln 2 / 2, ln 2 / 2].

    2 ** n is applied in two steps, so that results down to the subnormals are right.
    """
    c = min(max(x, f32(-104.0)), f32(89.0))
    n = np.floor(mad(c, f32(1.44269504088896341), f32(0.5)))
    r = mad(n, f32(2.12194440e-4), mad(n, f32(-0.693359375), c))
    p = mad(f32(1.9875691500e-4), r, f32(1.3981999507e-3))
    p = mad(p, r, f32(8.3334519073e-3))
    p = mad(p, r, f32(4.1665795894e-2))
    p = mad(p, r, f32(1.6666665459e-1))
    p = mad(p, r, f32(5.0000001201e-1))
    p = mad(p, r * r, r) + f32(1.0)
    k = np.int32(n)
    half = k >> 1
    y = p * power_of_two(half) * power_of_two(k - half)
    return x if x != x else y
''',
    "tanh": '''
@njit
def tanh(x):
    """Hyperbolic tangent for float32: the polynomial of Cephes tanhf where 1 - e would cancel, (1 - e) / (1 + e) else."""
    a = abs(x)
    e = exp(f32(-2.0) * a)
    far = (f32(1.0) - e) / (f32(1.0) + e)
    s = x * x
    p = mad(f32(-5.70498872745e-3), s, f32(2.06390887954e-2))
    p = mad(p, s, f32(-5.37397155531e-2))
    p = mad(p, s, f32(1.33314422036e-1))
    p = mad(p, s, f32(-3.33332819422e-1))
    near = mad(x * s, p, x)
    return near if a < f32(0.625) else (-far if x < f32(0.0) else far)
''',
    "sigmoid": '''
@njit
def sigmoid(x):
    return f32(1.0) / (f32(1.0) + exp(-x))
''',
    "dot": '''
@njit(fastmath={"contract"}, error_model="numpy")
def dot(acc, a, b, rows, cols, depth):
    """acc[:rows, :cols] += a[:rows, :depth] @ b[:depth, :cols].

    Four rows and four steps at a time: a vector of acc is loaded and stored once for 16 products.
    """
    whole = rows - rows % 4
    deep = depth - depth % 4
    for i in range(0, whole, 4):
        c0, c1, c2, c3 = acc[i], acc[i + 1], acc[i + 2], acc[i + 3]
        a0, a1, a2, a3 = a[i], a[i + 1], a[i + 2], a[i + 3]
        for k in range(0, deep, 4):
            a00, a01, a02, a03 = a0[k], a0[k + 1], a0[k + 2], a0[k + 3]
            a10, a11, a12, a13 = a1[k], a1[k + 1], a1[k + 2], a1[k + 3]
            a20, a21, a22, a23 = a2[k], a2[k + 1], a2[k + 2], a2[k + 3]
            a30, a31, a32, a33 = a3[k], a3[k + 1], a3[k + 2], a3[k + 3]
            b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
            for j in range(cols):
                x0, x1, x2, x3 = b0[j], b1[j], b2[j], b3[j]
                c0[j] = c0[j] + a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
                c1[j] = c1[j] + a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
                c2[j] = c2[j] + a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
                c3[j] = c3[j] + a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3
    # What four by four leaves over: the last columns of a, then the last rows.
    for i in range(rows):
        c, left = acc[i], a[i]
        for k in range(deep if i < whole else 0, depth):
            right, factor = b[k], left[k]
            for j in range(cols):
                c[j] = c[j] + factor * right[j]
''',
}
"""Helper functions by name."""

_Rule = Callable[[Expr, str], Expr]


def scalar(value: Expr | str, dtype: str) -> Expr:
    return call(SCALAR[dtype], value)


def constant(value: float | int | bool, dtype: str) -> Expr:
    """A constant of its dtype. Integers stay plain: numba computes with 64 bits."""
    if dtype == "bool":
        return Expr(repr(bool(value)))
    if dtype not in ("f64", "f32", *HALF_FLOATS):
        return Expr(repr(int(value)), ATOM if value >= 0 else NEGATION)
    if math.isinf(value):
        return scalar("np.inf" if value > 0 else "-np.inf", dtype)
    return scalar("np.nan" if math.isnan(value) else repr(float(value)), dtype)


def _math(name: str) -> _Rule:
    return lambda x, dtype: scalar(call(f"math.{name}", x), dtype)


def _own(name: str) -> _Rule:
    """The vectorised helper for float32, the C library's function for float64."""
    return lambda x, dtype: call(name, x) if dtype != "f64" else call(f"math.{name}", x)


UNARY: dict[str, _Rule] = {
    "neg": lambda x, dtype: negative(x),
    "not": lambda x, dtype: Expr(f"not {x.at(4)}", 4) if dtype == "bool" else Expr(f"~{x.at(NEGATION)}", NEGATION),
    "abs": lambda x, dtype: call("abs", x),
    "reciprocal": lambda x, dtype: infix("/", constant(1.0, dtype), x),
    "isnan": lambda x, dtype: infix("!=", x, x),
    "rsqrt": lambda x, dtype: infix("/", constant(1.0, dtype), call("math.sqrt", x)),
    "sqrt": lambda x, dtype: call("math.sqrt", x),
    "exp": _own("exp"),
    "tanh": _own("tanh"),
    "sigmoid": lambda x, dtype: call("sigmoid", x) if dtype == "f32" else Expr(f"1.0 / (1.0 + math.exp(-{x.at(NEGATION)}))",
                                                                               PRODUCT),
    "exp2": lambda x, dtype: scalar(call("np.exp2", x), dtype),
    "round": lambda x, dtype: call("np.rint", x), "floor": lambda x, dtype: call("np.floor", x),
    "ceil": lambda x, dtype: call("np.ceil", x), "trunc": lambda x, dtype: call("np.trunc", x),
    "sign": lambda x, dtype: call("np.sign", x),
    **{fn: _math(fn) for fn in ("log", "log2", "log1p", "expm1", "erf", "sin", "cos")},
}  # fmt: skip
"""Unary functions: text from the operand's text and dtype."""

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
         "rem": "%", "floordiv": "//"}  # fmt: skip
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def binary(fn: str, a: Expr, b: Expr, dtype: str) -> Expr | None:
    """Text of a binary function on values of ``dtype``; ``None`` where there is no rule."""
    if fn == "floordiv" and dtype == "i64":
        return call("floordiv", a, b)
    if fn in INFIX:
        return infix(INFIX[fn], a, b)
    if fn in ("max", "min"):
        return _extreme(fn, a, b, dtype)
    if fn == "pow":
        return scalar(Expr(f"{a.at(ATOM)} ** {b.at(ATOM)}"), dtype)
    return None


def _extreme(fn: str, a: Expr, b: Expr, dtype: str) -> Expr:
    return call(f"{fn}imum", a, b) if dtype in ("f64", "f32") else call(fn, a, b)


def accumulate(fn: str, total: Expr, x: Expr, dtype: str) -> Expr:
    """``total`` joined with one more value of a reduction."""
    if fn in ("max", "min"):
        return _extreme(fn, total, x, dtype)
    if fn == "sum" and dtype in ("f64", "f32"):
        return call("add", total, x)
    return infix({"sum": "+", "prod": "*", "any": "|", "all": "&"}[fn], total, x)


def identity(fn: str, dtype: str) -> Expr:
    """The value a reduction starts from."""
    if fn in ("max", "min") and dtype not in ("f64", "f32"):
        return Expr(f"np.iinfo({NUMPY[dtype]}).{'min' if fn == 'max' else 'max'}")
    values = {"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf, "any": False, "all": True}
    return constant(values[fn], dtype)


def from_memory(x: Expr, dtype: str) -> Expr:
    """A loaded element as a value to compute with."""
    return call(f"from_{dtype}", x) if dtype in HALF_FLOATS else x


def to_memory(x: Expr, dtype: str) -> Expr:
    return call(f"to_{dtype}", x) if dtype in HALF_FLOATS else x
