"""Operations on complex arrays, each of which is two real ones.

A rule here takes and gives :class:`Complex` where PyTorch has a complex array.  What moves elements or is the same for both
parts is the real rule, for each part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from portakern.ir.size import Size, product
from portakern.spec import contractions, fourier, pieces
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.aten.trigonometry import angle
from portakern.torch_import.rules import Call, Rule, number, rule_for, spread, value
from portakern.torch_import.types import NotImported

RULES: dict[str, Rule] = {}

BOTH = frozenset({
    "aten.view", "aten.reshape", "aten._unsafe_view", "aten._reshape_copy", "aten.view_copy", "aten.squeeze", "aten.unsqueeze",
    "aten.squeeze_copy", "aten.unsqueeze_copy", "aten._reshape_alias", "aten.expand", "aten.expand_copy", "aten.permute",
    "aten.permute_copy", "aten.transpose", "aten.transpose_copy", "aten.t", "aten.t_copy", "aten.flip", "aten.repeat",
    "aten.slice",
    "aten.slice_copy", "aten.select", "aten.select_copy", "aten.split", "aten.split_with_sizes", "aten.unbind", "aten.diagonal",
    "aten.unfold", "aten.slice_scatter", "aten.select_scatter", "aten.roll", "aten.tril", "aten.triu",
    "aten.constant_pad_nd", "aten.index", "aten.index_select", "aten.gather", "aten.embedding", "aten.alias", "aten.clone",
    "aten.contiguous", "aten.detach", "aten.lift_fresh_copy", "aten.copy", "aten.neg", "aten.sum", "aten.mean", "aten.cumsum",
    "aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.empty", "aten.empty_like",
})  # fmt: skip
"""What is done to the real and the imaginary parts alike."""


@dataclass(frozen=True)
class Complex:
    """real + i imag."""

    real: Traced
    imag: Traced

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.real.shape

    @property
    def ndim(self) -> int:
        return self.real.ndim

    @staticmethod
    def of(x: Any, dtype: str) -> Complex:
        """An array or a number as a complex one with parts of ``dtype``."""
        if isinstance(x, Complex):
            return Complex(ew.cast(x.real, dtype), ew.cast(x.imag, dtype))
        if isinstance(x, complex):
            return Complex(value(x.real, dtype), value(x.imag, dtype))
        real = value(x, dtype)
        return Complex(real, spread(value(0, dtype), real.shape))


def complex_rule(name: str) -> Rule:
    """The rule of ``aten.mul.Tensor`` for complex arrays; raises :class:`NotImported` where there is none."""
    base = ".".join(name.split(".")[:2])
    found = RULES.get(name) or RULES.get(base)
    if found is None and base in BOTH and (real := rule_for(name)) is not None:
        return _for_both(real)
    if found is None:
        raise NotImported("it has no rule for complex arrays")
    return found


def has_complex(given: Any) -> bool:
    if isinstance(given, list | tuple):
        return any(has_complex(x) for x in given)
    return isinstance(given, Complex | complex)


def _for_both(real: Rule) -> Rule:
    def apply(call: Call, *args: Any, **kwargs: Any) -> Any:
        def part(of: Callable[[Complex], Traced]) -> Any:
            return real(call, *[_part(a, of, call) for a in args], **{k: _part(v, of, call) for k, v in kwargs.items()})

        re, im = part(lambda x: x.real), part(lambda x: x.imag)
        if isinstance(re, list | tuple):
            return [Complex(a, b) for a, b in zip(re, im, strict=True)]
        return Complex(re, im)

    return apply


def _part(given: Any, of: Callable[[Complex], Traced], call: Call) -> Any:
    """An argument as the rule of one part takes it."""
    if isinstance(given, list | tuple):
        return [_part(x, of, call) for x in given] if has_complex(given) else given
    if isinstance(given, complex):
        return of(Complex.of(given, call.dtype))
    return of(given) if isinstance(given, Complex) else given


def on_complex(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


# ---- between real and complex -----------------------------------------------------------------------------------------


@on_complex("aten._to_copy", "prims.convert_element_type")
def _(call: Call, x: Any, *args: Any, **kwargs: Any) -> Any:
    if call.complex:
        return Complex.of(x, call.dtype)
    return ew.cast(x.real, call.dtype)


@on_complex("aten.complex")
def _(call: Call, real: Traced, imag: Traced) -> Complex:
    return _spread(Complex(real, imag), call.shape)


@on_complex("aten.polar")
def _(call: Call, length: Traced, angle: Traced) -> Complex:
    return _spread(Complex(ew.multiply(length, ew.cos(angle)), ew.multiply(length, ew.sin(angle))), call.shape)


@on_complex("aten.view_as_complex", "aten.view_as_complex_copy")
def _(call: Call, pairs: Traced) -> Complex:
    return from_pairs(pairs)


@on_complex("aten.view_as_real", "aten.view_as_real_copy")
def _(call: Call, x: Complex) -> Traced:
    return to_pairs(x)


def from_pairs(pairs: Traced) -> Complex:
    return Complex(pairs[..., 0], pairs[..., 1])


def to_pairs(x: Complex) -> Traced:
    return pieces.stack([x.real, x.imag], -1)


@on_complex("aten.real")
def _(call: Call, x: Complex) -> Traced:
    return x.real


@on_complex("aten.imag")
def _(call: Call, x: Complex) -> Traced:
    return x.imag


@on_complex("aten.abs")
def _(call: Call, x: Complex) -> Traced:
    return length(x)


def length(x: Complex) -> Traced:
    return ew.sqrt(square(x))


@on_complex("aten.angle")
def _(call: Call, x: Complex) -> Traced:
    return angle(x.imag, x.real)


def square(x: Complex) -> Traced:
    return ew.add(ew.multiply(x.real, x.real), ew.multiply(x.imag, x.imag))


def _spread(x: Complex, shape: tuple[Size, ...]) -> Complex:
    return Complex(spread(x.real, shape), spread(x.imag, shape))


# ---- arithmetic -------------------------------------------------------------------------------------------------------


@on_complex("aten.conj", "aten._conj", "aten._conj_physical", "aten.conj_physical", "aten._conj_copy")
def _(call: Call, x: Complex) -> Complex:
    return Complex(x.real, ew.negative(x.imag))


@on_complex("aten.resolve_conj", "aten.resolve_neg")
def _(call: Call, x: Complex) -> Complex:
    return x


@on_complex("aten.add")
def _(call: Call, a: Any, b: Any, alpha: Any = 1) -> Complex:
    b = b if alpha == 1 else times(Complex.of(b, call.dtype), alpha, call.dtype)
    return _each(ew.add, a, b, call)


@on_complex("aten.sub")
def _(call: Call, a: Any, b: Any, alpha: Any = 1) -> Complex:
    b = b if alpha == 1 else times(Complex.of(b, call.dtype), alpha, call.dtype)
    return _each(ew.subtract, a, b, call)


def _each(fn: Callable[[Any, Any], Traced], a: Any, b: Any, call: Call) -> Complex:
    a, b = Complex.of(a, call.dtype), Complex.of(b, call.dtype)
    return Complex(fn(a.real, b.real), fn(a.imag, b.imag))


@on_complex("aten.cat", "aten.stack")
def _(call: Call, arrays: Sequence[Any], dim: int = 0) -> Complex:
    each = [Complex.of(x, call.dtype) for x in arrays]
    real = rule_for(call.name)
    assert real is not None
    return Complex(real(call, [x.real for x in each], dim), real(call, [x.imag for x in each], dim))


@on_complex("aten.where")
def _(call: Call, condition: Traced, yes: Any, no: Any) -> Complex:
    return _each(lambda a, b: spread(ew.where(condition, a, b), call.shape), yes, no, call)


@on_complex("aten.full", "aten.full_like", "aten.new_full")
def _(call: Call, *args: Any, **kwargs: Any) -> Complex:
    return _spread(Complex.of(args[-1], call.dtype), call.shape)


@on_complex("aten.mul")
def _(call: Call, a: Any, b: Any) -> Complex:
    return times(a, b, call.dtype)


def is_real(x: Any) -> bool:
    return not isinstance(x, Complex | complex)


def times(a: Any, b: Any, dtype: str) -> Complex:
    if is_real(a):
        a, b = b, a
    a = Complex.of(a, dtype)
    if is_real(b):
        b = value(b, dtype)
        return Complex(ew.multiply(a.real, b), ew.multiply(a.imag, b))
    b = Complex.of(b, dtype)
    return Complex(ew.subtract(ew.multiply(a.real, b.real), ew.multiply(a.imag, b.imag)),
                   ew.add(ew.multiply(a.real, b.imag), ew.multiply(a.imag, b.real)))  # fmt: skip


@on_complex("aten.div")
def _(call: Call, a: Any, b: Any) -> Complex:
    if is_real(b):
        a, b = Complex.of(a, call.dtype), value(b, call.dtype)
        return Complex(ew.divide(a.real, b), ew.divide(a.imag, b))
    b = Complex.of(b, call.dtype)
    over = square(b)
    return times(a, Complex(ew.divide(b.real, over), ew.divide(ew.negative(b.imag), over)), call.dtype)


@on_complex("aten.exp")
def _(call: Call, x: Complex) -> Complex:
    length = ew.exp(x.real)
    return Complex(ew.multiply(length, ew.cos(x.imag)), ew.multiply(length, ew.sin(x.imag)))


@on_complex("aten.mm", "aten.bmm", "aten.mv", "aten.matmul")
def _(call: Call, a: Any, b: Any) -> Complex:
    a, b = Complex.of(a, call.dtype), Complex.of(b, call.dtype)
    times = contractions.matmul
    return Complex(ew.subtract(times(a.real, b.real), times(a.imag, b.imag)),
                   ew.add(times(a.real, b.imag), times(a.imag, b.real)))  # fmt: skip


# ---- Fourier transforms -----------------------------------------------------------------------------------------------


def _scale(norm: int, shape: Sequence[Size], dims: Sequence[int]) -> float:
    """PyTorch's factor: none, one over the root of the number of elements, or one over it."""
    count = number(product(tuple(shape[d] for d in dims)), "a Fourier transform")
    return {0: 1.0, 1: 1.0 / math.sqrt(count), 2: 1.0 / count}[norm]


def _scaled(x: Complex, factor: float) -> Complex:
    return x if factor == 1 else Complex(ew.multiply(x.real, factor), ew.multiply(x.imag, factor))


def _along(x: Complex, dims: Sequence[int], forward: bool) -> Complex:
    """Transforms along each of ``dims``, without a factor; parts exchanged on both sides turn the sign around."""
    for d in dims:
        if forward:
            x = Complex(*fourier.fft(x.real, x.imag, d))
        else:
            imag, real = fourier.fft(x.imag, x.real, d)
            x = Complex(real, imag)
    return x


@on_complex("aten._fft_c2c")
def _(call: Call, x: Complex, dims: Sequence[int], norm: int, forward: bool) -> Complex:
    return _scaled(_along(x, dims, forward), _scale(norm, x.shape, dims))


@on_complex("aten._fft_r2c")
def _(call: Call, x: Traced, dims: Sequence[int], norm: int, onesided: bool) -> Complex:
    *others, last = dims
    made = Complex(*(fourier.rfft(x, last) if onesided else fourier.fft(x, None, last)))
    return _scaled(_along(made, others, True), _scale(norm, x.shape, dims))


@on_complex("aten._fft_c2r")
def _(call: Call, x: Complex, dims: Sequence[int], norm: int, size: int) -> Traced:
    *others, last = dims
    x = _along(x, others, False)
    made = fourier.irfft(x.real, x.imag, number(size, "a Fourier transform"), last)  # divided by ``size``
    factor = _scale(norm, call.shape, dims) * number(size, "a Fourier transform")
    return made if math.isclose(factor, 1) else ew.multiply(made, factor)
