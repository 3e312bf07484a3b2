"""What each tile operation is in jax.numpy, as tables.  Everything here compiles for all five generations."""

from __future__ import annotations

from .expressions import UNARY as UNARY_BINDING
from .expressions import PlacedExpr, call, infix

JNP = {
    "f32": "jnp.float32", "bf16": "jnp.bfloat16", "i32": "jnp.int32", "i16": "jnp.int16", "i8": "jnp.int8",
    "u32": "jnp.uint32", "u16": "jnp.uint16", "u8": "jnp.uint8", "bool": "jnp.bool_",
    "f8e4m3": "jnp.float8_e4m3fn", "f8e5m2": "jnp.float8_e5m2",
}  # fmt: skip

CALLS = {
    "abs": "jnp.abs", "exp": "jnp.exp", "exp2": "jnp.exp2", "log": "jnp.log", "log2": "jnp.log2", "log1p": "jnp.log1p",
    "sqrt": "jnp.sqrt", "rsqrt": "jax.lax.rsqrt", "tanh": "jnp.tanh", "sigmoid": "jax.nn.sigmoid", "erf": "jax.lax.erf",
    "sin": "jnp.sin", "cos": "jnp.cos", "floor": "jnp.floor", "ceil": "jnp.ceil", "trunc": "jnp.trunc",
    "round": "jnp.round", "sign": "jnp.sign", "isnan": "jnp.isnan", "max": "jnp.maximum", "min": "jnp.minimum",
    "pow": "jnp.power", "rem": "jnp.remainder", "floordiv": "jnp.floor_divide", "expm1": "expm1",
}  # fmt: skip

SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip

REDUCTIONS = {"sum": "jnp.sum", "max": "jnp.max", "min": "jnp.min", "any": "jnp.any", "all": "jnp.all",
              "prod": "reduce_product"}

JOINS = {"sum": "jnp.add", "prod": "jnp.multiply", "max": "jnp.maximum", "min": "jnp.minimum"}

HELPERS = {
    "words": '''def words(x):
    """The lower and the upper 32 bits of 64-bit integers, which may come as uint32[2, ...]: jax has no more without x64."""
    if not isinstance(x, jax.Array) and np.asarray(x).dtype != np.uint32:
        x = np.moveaxis(np.array(x, np.int64)[..., None].view(np.uint32), -1, 0)
    if x.ndim and x.dtype == np.uint32:
        return tuple(jax.lax.bitcast_convert_type(jnp.asarray(x[n]), jnp.int32) for n in range(2))
    return x.astype(jnp.int32), (x >> 31 >> 1).astype(jnp.int32)
''',
    "of_words": '''def of_words(low, high):
    """64-bit integers of their lower and upper 32 bits, as uint32[2, ...] where jax has no more, without x64."""
    both = jax.lax.bitcast_convert_type(jnp.stack([low, high]), jnp.uint32)
    return both[1].astype(jnp.int64) << 32 | both[0].astype(jnp.int64) if jax.config.jax_enable_x64 else both
''',
    "expm1": '''def expm1(x):
    """exp(x) - 1 without cancellation near 0; Mosaic has no expm1.  tanh(x/2) = (e^x - 1) / (e^x + 1)."""
    half = jnp.tanh(0.5 * x)
    return jnp.where(jnp.abs(x) < 0.5, 2.0 * half / (1.0 - half), jnp.exp(x) - 1.0)
''',
    "reduce_product": '''def reduce_product(x, axis, keepdims):
    """Product along an axis; Mosaic has no multiplying reduction, so halves are folded onto each other."""
    odd = None
    while (n := x.shape[axis]) > 1:
        half = n // 2
        if n % 2:
            last = jax.lax.slice_in_dim(x, n - 1, n, axis=axis)
            odd = last if odd is None else odd * last
        x = jax.lax.slice_in_dim(x, 0, half, axis=axis) * jax.lax.slice_in_dim(x, half, 2 * half, axis=axis)
    return x if odd is None else x * odd
''',
    "running": '''def running(join, x, axis, nothing, reverse=False, exclusive=False):
    """Running values along an axis, in log2 steps that join what stands 1, 2, 4, ... places before; Mosaic has no cumsum."""
    n = x.shape[axis]
    place = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)
    place = n - 1 - place if reverse else place

    def before(x, step):
        return jnp.where(place >= step, pltpu.roll(x, n - step if reverse else step, axis), nothing)

    step = 1
    while step < n:
        x, step = join(before(x, step), x), 2 * step
    return before(x, 1) if exclusive else x
''',
    "running_by": '''def running_by(join, axis, *xs):
    """Running values of arrays along an axis, in log2 steps that join what stands 1, 2, 4, ... places before."""
    n = xs[0].shape[axis]
    place = jax.lax.broadcasted_iota(jnp.int32, xs[0].shape, axis)
    step = 1
    while step < n:
        joined = join(*(pltpu.roll(x, step, axis) for x in xs), *xs)
        xs, step = tuple(jnp.where(place >= step, j, x) for j, x in zip(joined, xs)), 2 * step
    return xs
''',
    "sorted_by": '''def sorted_by(axis, *xs):
    """Arrays in ascending order of the keys in the first along an axis, equal ones in theirs: Batcher's network of merges
    (Knuth, The Art of Computer Programming 5.2.2, algorithm M), which takes any length."""
    n = xs[0].shape[axis]
    place = jax.lax.broadcasted_iota(jnp.int32, xs[0].shape, axis)
    xs = (xs[0], place, *xs[1:])

    def before(a, b):
        return (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))

    most = 1 << max(n - 1, 1).bit_length() - 1
    p = most
    while p and n > 1:
        q, r, d = most, 0, p
        while True:  # elements whose bit p is r meet those d further on
            later, earlier = (tuple(pltpu.roll(x, step, axis) for x in xs) for step in (n - d, d))
            down = (place & p == r) & (place < n - d) & before(later, xs)
            up = (place - d & p == r) & (place >= d) & before(xs, earlier)
            xs = tuple(jnp.where(down, a, jnp.where(up, b, x)) for a, b, x in zip(later, earlier, xs))
            if q == p:
                break
            q, r, d = q // 2, p, q - p
        p //= 2
    return (xs[0], *xs[2:])
''',
}
"""Functions written out above the kernels that use them."""

NAMES = {
    "add": "total", "sub": "diff", "mul": "scaled", "div": "ratio", "max": "larger", "min": "smaller", "rem": "remainder",
    "floordiv": "quotient", "pow": "power", "and": "bits", "or": "bits", "xor": "bits", "shl": "bits", "shr": "bits",
    "sqrt": "root", "rsqrt": "inverse", "sigmoid": "gate", "neg": "negated",
}  # fmt: skip
"""What the result of a function is called where it needs a name; other functions give theirs."""


def unary(fn: str, x: PlacedExpr, dtype: str) -> PlacedExpr:
    """``fn`` of ``x``, whose dtype is ``dtype``."""
    if fn in ("neg", "not"):
        return PlacedExpr(f"{'-' if fn == 'neg' else '~'}{x.at(UNARY_BINDING)}", x.place, UNARY_BINDING)
    if fn == "reciprocal":
        return infix("/", PlacedExpr("1.0"), x)
    return call(CALLS[fn], x)


def binary(fn: str, a: PlacedExpr, b: PlacedExpr, dtype: str) -> PlacedExpr:
    if fn == "div" and dtype.startswith(("i", "u")):
        return call("jax.lax.div", a, b)
    return infix(SYMBOLS[fn], a, b) if fn in SYMBOLS else call(CALLS[fn], a, b)


def select(condition: PlacedExpr, yes: PlacedExpr, no: PlacedExpr, dtype: str) -> PlacedExpr:
    """A choice of booleans is said with logic: Mosaic has no select between masks."""
    if dtype == "bool":
        return infix("|", infix("&", condition, yes), infix("&", unary("not", condition, "bool"), no))
    chosen = call("jnp.where", condition, yes, no)
    return cast(chosen, dtype) if yes.literal and no.literal and dtype not in ("f32", "i32") else chosen


def cast(x: PlacedExpr, dtype: str) -> PlacedExpr:
    if x.place is None:
        return PlacedExpr(f"{JNP[dtype]}({x.text})")
    return PlacedExpr(f"{x.at(0)}.astype({JNP[dtype]})", x.place)


def converted(x: PlacedExpr, have: str, dtype: str) -> PlacedExpr:
    """``x`` of ``have`` as ``dtype``: to narrow integers by way of i32, which wraps like everywhere else."""
    if have == dtype:
        return x
    narrow = dtype in ("i8", "u8", "i16", "u16") and have not in ("i32", "i16", "u16", "i8", "u8")
    return cast(cast(x, "i32") if narrow else x, dtype)


def number(value: float | int | bool, dtype: str) -> PlacedExpr:
    """A constant as a Python literal."""
    if dtype == "bool":
        return PlacedExpr(str(bool(value)), literal=True)
    if dtype.startswith(("i", "u")):
        text = str(int(value))
    else:
        value = float(value)
        text = "jnp.nan" if value != value else repr(value).replace("inf", "jnp.inf")
    return PlacedExpr(text, None, UNARY_BINDING if text.startswith("-") else 0, literal=True)
