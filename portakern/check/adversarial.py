"""Inputs that wrong kernels dislike.  Only inputs that may hold any number are changed; indices and the like stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from portakern.dtypes import DTYPES
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.spec.inputs import Family, Normal, make_inputs

Change = Callable[[np.ndarray, str, np.random.Generator], np.ndarray]


def _large(x: np.ndarray, dtype: str, _: np.random.Generator) -> np.ndarray:
    return x * (2.0**8 if dtype == "f16" else 2.0**40)


def _steep(x: np.ndarray, dtype: str, _: np.random.Generator) -> np.ndarray:
    """Where exp overflows unless it is shifted, and its argument is still exact enough to tell."""
    return x * 2.0**6


def _tiny(x: np.ndarray, dtype: str, _: np.random.Generator) -> np.ndarray:
    return x * (2.0**-10 if dtype == "f16" else 2.0**-60)


def _cancelling(x: np.ndarray, dtype: str, _: np.random.Generator) -> np.ndarray:
    """Neighbours of opposite sign that cancel but for a few."""
    flat = x.reshape(-1).copy()
    half = flat.size // 2
    flat[1 : 2 * half : 2] = -flat[0 : 2 * half : 2]
    flat[:: max(flat.size // 7, 1)] += 0.125
    return flat.reshape(x.shape)


def _constant(x: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    return np.full_like(x, rng.uniform(0.3, 0.9))


def _zeros(x: np.ndarray, dtype: str, _: np.random.Generator) -> np.ndarray:
    return np.zeros_like(x)


def _nonfinite(x: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """One of each kind, of NaN one with a sign as x86 makes them; in large arrays one in every so many elements, so that a
    part of the array has some."""
    flat = x.reshape(-1).copy()
    for share, value in ((0.37, np.nan), (0.61, np.inf), (0.83, -np.inf), (0.47, -np.nan)):
        if flat.size >= 4:
            flat[int(share * flat.size)] = value
            flat[rng.integers(0, flat.size, flat.size // PLANTED if flat.size > LARGE else 0)] = value
    return flat.reshape(x.shape)


LARGE, PLANTED = 1 << 15, 1 << 11


def _offset(x: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Far from zero and near each other, in some rows nearer: the mean of squares less the square of the mean is noise.

    Of rows of 50 to 3000 whose layer norm is computed like that, most are seen at spreads of 1/4 to 1, and few above: what may
    be lost rightly, in a long sum that is the mean, is wide there, too.
    """
    if DTYPES[dtype].largest < OFFSET[1]:
        return x
    spread = 0.25 * 4.0 ** rng.uniform(0, 1, (*x.shape[:-1], 1)[: x.ndim])
    return rng.uniform(*OFFSET) + spread * x


OFFSET = (960.0, 1020.0)
"""Below a power of two, where values of 16 bits are as near to each other as they can be."""


def _outliers(x: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """A few numbers are as large as activations of large models get, or as the dtype holds."""
    top = min(7e5, DTYPES[dtype].largest / 2)
    chosen = rng.random(x.shape) < 1 / 64
    chosen.reshape(-1)[: min(1, x.size)] = True
    return np.where(chosen, np.sign(x) * rng.uniform(top / 2, top, x.shape), x)


def _integers(x: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Sums of these are exact in f32, whatever their order, and soon not in a narrower accumulator."""
    return rng.integers(-1, 4, x.shape).astype(np.float64)


def _sparse(x: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """A few numbers per row, one of them at its end: long sums of few terms have tight bounds."""
    if not x.ndim or x.shape[-1] < 16:
        return x
    keep = rng.random(x.shape) < 8 / x.shape[-1]
    keep[..., -1] = True
    return np.where(keep, x, 0.0)


KINDS: dict[str, Change] = {
    "large": _large, "steep": _steep, "tiny": _tiny, "cancelling": _cancelling, "constant": _constant, "zeros": _zeros,
    "nonfinite": _nonfinite, "integers": _integers, "small": lambda x, dtype, rng: x * 2.0**-9, "sparse": _sparse,
    "offset": _offset, "outliers": _outliers,
}  # fmt: skip
"""Name of a stage and how it changes standard normal numbers.  ``integers`` makes most operators exact."""

FIRST_ONLY = {"small", "sparse", "offset"}
"""These change the first array only: beside small numbers an epsilon counts, beside sparse ones the others are full, and what
is far from zero hides what is added to it."""


def adversarial_inputs(kind: str, program: TensorProgram, families: Mapping[str, Family], seed: int) -> dict[str, np.ndarray]:
    """Inputs for ``program`` changed as ``kind`` says."""
    inputs = make_inputs(program, families, seed)
    rng = np.random.default_rng([seed, *kind.encode()])
    with np.errstate(all="ignore"):
        for arg in program.args:
            dtype = tensor_type(arg).dtype
            family = families.get(arg.name)
            if DTYPES[dtype].is_float and (family is None or isinstance(family, Normal)):
                x = inputs[arg.name]
                inputs[arg.name] = np.asarray(KINDS[kind](x.astype(np.float64), dtype, rng)).astype(x.dtype)
                if kind in FIRST_ONLY:
                    break
    return inputs
