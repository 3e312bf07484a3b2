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


def _nonfinite(x: np.ndarray, dtype: str, _: np.random.Generator) -> np.ndarray:
    flat = x.reshape(-1).copy()
    for share, value in ((0.37, np.nan), (0.61, np.inf), (0.83, -np.inf)):
        if flat.size >= 4:
            flat[int(share * flat.size)] = value
    return flat.reshape(x.shape)


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
}  # fmt: skip
"""Name of a stage and how it changes standard normal numbers.  ``integers`` makes most operators exact."""

FIRST_ONLY = {"small", "sparse"}
"""These change the first array only: beside small numbers an epsilon counts, beside sparse ones the others are full."""


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
