"""Discrete Fourier transforms along one axis, of complex arrays as pairs of real ones.

A transform of n = a * b elements is a of b and b of a, with a factor between them (Cooley and Tukey, An algorithm for the
machine calculation of complex Fourier series, 1965): element j = j1 * b + j2 goes into frequency k = k1 + a * k2 as

    X[k1 + a k2] = sum over j2 of  w(b)^(j2 k2) * w(a b)^(j2 k1) * sum over j1 of  w(a)^(j1 k1) * x[j1 b + j2]

where w(n) = exp(-2 pi i / n).  Sums of at most :data:`WIDEST` elements, and of a prime number of them, are products with the
matrix of their roots, whose real and imaginary parts are contracted together.  Every root is the cosine of a whole number of
parts of a turn, which is reduced in integers to at most an eighth of a turn from the nearest quarter: its error is that of cos
and sin near zero, and the roots 1, -i, -1 and i are exact.
"""

from __future__ import annotations

import math

from portakern.dtypes import DTYPES
from portakern.ir.size import Size
from portakern.spec import contractions, pieces, views
from portakern.spec import elementwise as ew
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced

Pair = tuple[Traced, Traced]

WIDEST = 64
"""Elements that are summed by one product, if they can be cut into fewer: the edge of what matrix units take at once."""

LARGEST_PRIME = 46337
"""The largest prime whose square is below 2 ** 31, so that the parts of a turn are i32."""

LONGEST = 2**27
"""Elements of which eight times as many parts of a turn are i32."""


@located
def fft(real: Traced, imag: Traced | None = None, axis: int = -1) -> Pair:
    """The discrete Fourier transform along ``axis`` of real + i imag, without a factor: (real, imag) of their dtype.

    Sums are in f32, or in f64 for f64.  The axis has a known size.  Products of small primes take the least
    work; a prime factor p is a product with a matrix of p x p, and one above 46337 is refused.
    """
    d = views.check_axis(axis, real.ndim)
    both = _transformed(*_last(d, real, imag), _checked(_known(real, d)))
    return _back(both, d, _result(real, imag))


@located
def ifft(real: Traced, imag: Traced, axis: int = -1) -> Pair:
    """The inverse of :func:`fft`: the transform with the opposite sign, divided by the number of elements."""
    d = views.check_axis(axis, real.ndim)
    n = _checked(_known(real, d))
    re, im = _last(d, real, imag)
    assert im is not None
    # Parts exchanged on both sides turn the sign around.
    back, forth = _transformed(im, re, n)
    return _back((ew.multiply(forth, 1.0 / n), ew.multiply(back, 1.0 / n)), d, _result(real, imag))


@located
def rfft(x: Traced, axis: int = -1) -> Pair:
    """:func:`fft` of a real array, of whose n frequencies it gives the first n // 2 + 1: the others are their conjugates."""
    d = views.check_axis(axis, x.ndim)
    n = _checked(_known(x, d))
    (line, _) = _last(d, x, None)
    re, im = _transformed(line, None, n, n // 2 + 1)
    return _back((re, im), d, _result(x, None))


@located
def irfft(real: Traced, imag: Traced, n: int | None = None, axis: int = -1) -> Traced:
    """The real array of ``n`` elements (by default 2 * (frequencies - 1)) for which :func:`rfft` gives real + i imag.

    The imaginary parts of frequency 0 and, of an even ``n``, of the last one count as zeros.
    """
    d = views.check_axis(axis, real.ndim)
    given = _known(real, d)
    n = 2 * (given - 1) if n is None else n
    if n < 1 or n // 2 + 1 != given:
        raise spec_error(f"irfft of {given} frequencies into {n} elements",
                         f"n is {2 * given - 2} or {2 * given - 1}" if given > 1 else "n is 1")  # fmt: skip
    _checked(n)
    re, im = _last(d, real, imag)
    assert im is not None
    # Frequency n - k is the conjugate of frequency k.
    own = (n - 1) // 2
    edge = pieces.pad(im[..., 1 : 1 + own], [*[(0, 0)] * (im.ndim - 1), (1, n % 2 == 0)])
    if own:
        re = pieces.concat([re, views.flip(re[..., 1 : 1 + own], -1)], -1)
        edge = pieces.concat([edge, ew.negative(views.flip(im[..., 1 : 1 + own], -1))], -1)
    _, found = _transformed(edge, re, n)
    return ew.cast(views.swapaxes(ew.multiply(found, 1.0 / n), d, -1), _result(real, imag))


# ---- along the last axis ----------------------------------------------------------------------------------------------


def _known(x: Traced, d: int) -> int:
    n = x.shape[d]
    if not isinstance(n, int):
        raise spec_error(f"a Fourier transform along an open dim of {n} elements", "build it for given sizes")
    return n


def _checked(n: int) -> int:
    if n < 1 or n > LONGEST:
        raise spec_error(f"a Fourier transform of {n} elements", f"it takes 1 to {LONGEST}")
    if (largest := factors(n)[-1]) > LARGEST_PRIME:
        raise spec_error(f"a Fourier transform of {n} elements, a multiple of the prime {largest}",
                         f"its prime factors must be at most {LARGEST_PRIME}: pad to {2 ** (n - 1).bit_length()}")  # fmt: skip
    return n


def _result(real: Traced, imag: Traced | None) -> str:
    name = real.type.dtype if imag is None else contractions.pair(real, imag)[0].type.dtype
    return name if DTYPES[name].is_float else "f32"


def _last(d: int, real: Traced, imag: Traced | None) -> tuple[Traced, Traced | None]:
    """Both parts with the axis last, in the dtype that is summed in."""
    if imag is not None and imag.shape != real.shape:
        raise spec_error(f"real parts {real.type} and imaginary parts {imag.type}", "both have the same shape")
    wide = "f64" if _result(real, imag) == "f64" else "f32"
    re, im = (None if x is None else ew.cast(views.swapaxes(x, d, -1), wide) for x in (real, imag))
    assert re is not None
    return re, im


def _back(both: Pair, d: int, dtype: str) -> Pair:
    re, im = (ew.cast(views.swapaxes(x, d, -1), dtype) for x in both)
    return re, im


def factors(n: int) -> list[int]:
    """The prime factors of ``n`` in ascending order, each as often as it divides it; of 1, 1."""
    found: list[int] = []
    p = 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return [*found, n] if n > 1 or not found else found


def cut(n: int) -> list[int]:
    """The numbers of elements that products sum, one after the other: groups of the prime factors of ``n``, about equal, as few
    as have at most :data:`WIDEST` elements each, or one large prime."""
    primes = factors(n)[::-1]
    for count in range(1, len(primes) + 1):
        groups = [1] * count
        for p in primes:
            groups[groups.index(min(groups))] *= p
        if max(groups) <= max(WIDEST, primes[0]):
            return groups
    return primes


def _transformed(re: Traced, im: Traced | None, n: int, kept: int | None = None) -> Pair:
    """The first ``kept`` frequencies (all of them without one) along the last axis of ``n`` elements."""
    steps = cut(n)
    lead, dtype = re.shape[:-1], re.type.dtype
    at = len(lead)
    if len(steps) == 1:
        matrix = _matrix(n, kept or n, dtype)
        both = (_first(re, im, matrix[:, :, part], at) for part in (0, 1))
        return tuple(both)  # type: ignore[return-value]
    a, rest = steps[0], n // steps[0]
    split = [None if x is None else views.reshape(x, (*lead, a, rest)) for x in (re, im)]
    assert split[0] is not None
    found = _first(split[0], split[1], _matrix(a, a, dtype), at)  # [.., elements left, part, frequency]
    for a in steps[1:-1]:
        found = _turned(found, at, rest, dtype)
        found = views.reshape(found, (*lead, a, rest // a, *found.shape[at + 1 :]))
        matrix = _matrix(a, a, dtype)
        found = _contracted(found, matrix, (found.ndim - 2, at), (0, 1))  # [.., elements left, frequencies, part, frequency]
        rest //= a
    found, matrix = _turned(found, at, rest, dtype), _matrix(rest, rest, dtype)
    ends: list[Traced] = []
    for part in (0, 1):
        whole = _contracted(found, matrix[:, :, part], (found.ndim - 2, at), (0, 1))  # [.., frequencies, the fastest first]
        line = views.reshape(views.permute(whole, (*range(at), *reversed(range(at, whole.ndim)))), (*lead, n))
        ends.append(line if kept is None else line[..., :kept])
    return ends[0], ends[1]


def _first(re: Traced, im: Traced | None, matrix: Traced, axis: int) -> Traced:
    """re and im along ``axis`` with the rows of ``matrix`` [element, part, ..] that are theirs."""
    found = _contracted(re, matrix[0], (axis,), (0,))
    return found if im is None else found + _contracted(im, matrix[1], (axis,), (0,))


def _contracted(x: Traced, matrix: Traced, left: tuple[int, ...], right: tuple[int, ...]) -> Traced:
    return contractions.contract(x, matrix, (), (), left, right, None, "ieee")


def _turned(x: Traced, axis: int, elements: int, dtype: str) -> Traced:
    """x [.., elements left, .., part, frequency] times the factor between this step and the next."""
    done = x.shape[-1]
    assert isinstance(done, int)
    shape: list[Size] = [1] * x.ndim
    shape[axis], shape[-1] = elements, done
    number = views.iota(shape, axis) * views.iota(shape, x.ndim - 1) * 4
    n = elements * done
    shape[-1], shape[-2] = 1, 2
    own = cosine(number, n, dtype)
    # the real part has im * sin added, the imaginary one re * sin taken away
    other = cosine(number + (2 * views.iota(shape, x.ndim - 2) - 1) * n, n, dtype)
    return x * own + views.flip(x, x.ndim - 2) * other


def _matrix(n: int, frequencies: int, dtype: str) -> Traced:
    """[part of an element, element, part, frequency]: what sums real and imaginary parts of n elements to those of their
    frequencies."""
    shape: tuple[Size, ...] = (2, n, 2, frequencies)
    own, element, part, frequency = (views.iota(shape, d) for d in range(4))
    # (re + i im) * (cos - i sin), where sin is the cosine a quarter before
    return cosine(element * frequency % n * 4 + (part - own) * n, n, dtype)


def cosine(number: Traced, n: int, dtype: str) -> Traced:
    """The cosine of ``number`` of the 4 n parts of a turn, from -n to below 6 n."""
    quarter = ew.floor_divide(number * 2 + n, 2 * n)  # the nearest
    angle = ew.cast(number - quarter * n, dtype) * (math.pi / (2 * n))
    near = ew.where((quarter & 1) == 0, ew.cos(angle), ew.sin(angle))
    return ew.where(((quarter + 1) & 2) == 0, near, -near)
