"""x * y + z rounded once, in numpy, which has no such function."""

from __future__ import annotations

import numpy as np

SPLITTER = float(2**27 + 1)


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z of floats of at most 64 bits, in the dtype of ``z``.

    A product of narrower floats is exact in float64, and a sum rounded to odd there is rounded once by rounding it again
    (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Transactions on Computers 57, 2008).  In
    float64 what a product and a sum leave is added at the end, which gives every result that is a float64 itself, such as
    the remainder of a division; others may be off by a unit in the last place.  Products over 2**996 are not split.
    """
    wide = [np.asarray(v, np.float64) for v in (x, y, z)]
    with np.errstate(all="ignore"):
        product = wide[0] * wide[1]
        total, rest = _sum(product, wide[2])
        if z.dtype == np.float64:
            rest = rest + _left(wide[0], wide[1], product)
            found = np.where(np.isfinite(rest), total + rest, total)
        else:
            found = np.where(_even(total) & np.isfinite(rest) & (rest != 0), np.nextafter(total, np.sign(rest) * np.inf), total)
        return found.astype(z.dtype)


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and what is left (Knuth)."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


def _left(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> np.ndarray:
    """What ``product`` leaves of a * b (Dekker, Veltkamp)."""
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    high = x * SPLITTER
    high = high - (high - x)
    return high, x - high


def _even(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.int64) & 1 == 0
