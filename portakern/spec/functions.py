"""Every function an operator may use, in one namespace (:mod:`portakern` offers the same names).

They take arrays, Python numbers and sizes, and give an array.  Arrays of one call are brought to one dtype and one shape, as
numpy does.  Each raises a ``SpecError``, with the operator's line, if dtypes, shapes or values do not fit.

These words mean the same in all of them:

- ``x``, ``a``, ``b``: the operands.
- ``arrays``, ``values``: several of them.
- ``axis``: a dim by its position, from the end if negative; a tuple for several; ``None`` for all.
- ``keepdims``: whether a reduced dim stays, as 1.
- ``dtype``: of the result.
- ``shape``: dims of the result, as numbers or sizes.
- ``reverse``: from the end to the beginning.
- ``exclusive``: without the element itself.
- ``descending``: the largest first.
- ``precision``: of a product: ``ieee``, ``tf32``, ``bf16x3``, ``bf16x6`` or ``fp8_fast``.
- ``equation``: as numpy's ``einsum`` takes it.
- ``window``, ``stride``, ``dilation``: of each spatial dim, one number for all or one for each.
- ``padding``: before and after each spatial dim: one number, one for each dim, or pairs.
- ``ceil``: whether a window that begins inside and ends outside counts.
- ``seed``: an i32 or a number.  The same seed gives the same numbers on every target.
- ``mean``, ``std``: of the distribution.
- ``indices``: integers.
- ``count``: how many there are.
- ``fill``: what an index outside gives.
- ``offsets``: integers in ascending order: where segments begin, and where the last one ends.
- ``real``, ``imag``: the two parts of complex numbers.
- ``widths``: (before, after) for each dim.
- ``dim``: a size, as ``x.shape[0]``.
"""

from __future__ import annotations

from portakern.spec.contractions import dot, einsum, matmul
from portakern.spec.elementwise import (
    abs,
    add,
    bitcast,
    cast,
    ceil,
    clip,
    cos,
    divide,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    gelu,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    pow,
    reciprocal,
    relu,
    remainder,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sign,
    silu,
    sin,
    size,
    softplus,
    sqrt,
    square,
    subtract,
    tanh,
    trunc,
    where,
)
from portakern.spec.fourier import fft, ifft, irfft, rfft
from portakern.spec.linear import cholesky, det, solve_triangular
from portakern.spec.nibbles import pack, unpack
from portakern.spec.orders import (
    argsort,
    bincount,
    histogram,
    index_put,
    kthvalue,
    median,
    mode,
    scatter,
    searchsorted,
    sort,
    topk,
    unique_counts,
)
from portakern.spec.pieces import (
    concat,
    diag,
    interleave,
    one_hot,
    pad,
    repeat,
    roll,
    split,
    stack,
    tile,
    update,
)
from portakern.spec.random import bernoulli, dropout, normal, random_bits, uniform
from portakern.spec.recurrences import associative_scan, scan
from portakern.spec.reductions import (
    all,
    any,
    argmax,
    argmin,
    cummax,
    cummin,
    cumprod,
    cumsum,
    log_softmax,
    logsumexp,
    max,
    mean,
    min,
    prod,
    softmax,
    std,
    sum,
    var,
)
from portakern.spec.segments import (
    grouped_matmul,
    segment_all,
    segment_any,
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
)
from portakern.spec.views import (
    arange,
    broadcast_to,
    expand_dims,
    flip,
    full,
    getitem,
    iota,
    ones,
    permute,
    reshape,
    squeeze,
    swapaxes,
    take,
    take_along,
    transpose,
    tri,
    tril,
    triu,
    zeros,
)
from portakern.spec.windows import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    conv,
    local_response_norm,
    lp_pool,
    max_pool,
    min_pool,
    unfold,
    windows,
)

__all__ = [
    "abs", "adaptive_avg_pool", "adaptive_max_pool", "add", "all", "any", "arange", "argmax", "argmin",
    "argsort", "associative_scan", "avg_pool", "bernoulli", "bincount", "bitcast", "broadcast_to", "cast",
    "ceil", "cholesky", "clip", "concat", "conv", "cos", "cummax", "cummin", "cumprod", "cumsum", "det",
    "diag", "divide", "dot", "dropout", "einsum", "equal", "erf", "exp", "exp2", "expand_dims", "expm1", "fft",
    "flip", "floor", "floor_divide", "full", "gelu", "getitem", "greater", "greater_equal", "grouped_matmul",
    "histogram", "ifft", "index_put", "interleave", "iota", "irfft", "isnan", "kthvalue", "less", "less_equal",
    "local_response_norm", "log", "log1p", "log2", "log_softmax", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsumexp", "lp_pool", "matmul", "max", "max_pool", "maximum", "mean", "median", "min",
    "min_pool", "minimum", "mode", "multiply", "negative", "normal", "not_equal", "one_hot", "ones", "pack", "pad",
    "permute", "pow", "prod", "random_bits", "reciprocal", "relu", "remainder", "repeat", "reshape", "rfft",
    "roll", "round", "rsqrt", "scan", "scatter", "searchsorted", "segment_all", "segment_any", "segment_max",
    "segment_mean", "segment_min", "segment_prod", "segment_sum", "shift_left", "shift_right", "sigmoid",
    "sign", "silu", "sin", "size", "softmax", "softplus", "solve_triangular", "sort", "split", "sqrt",
    "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along", "tanh", "tile",
    "topk", "transpose", "tri", "tril", "triu", "trunc", "unfold", "uniform", "unique_counts", "unpack", "update", "var",
    "where", "windows", "zeros",
]  # fmt: skip
