"""Dtypes as people name them: ``pk.f32``, ``"f32"``, ``"float32"``, ``"half"``, ``torch.float32``, ``np.float32``."""

from __future__ import annotations

import difflib
from typing import Any

from portakern.dtypes import DTYPES, DType
from portakern.errors import UsageError

DTypeLike = str | DType | Any
"""What :func:`dtype_name` reads."""

_WORDS: dict[str, str] = {
    "double": "f64", "single": "f32", "half": "f16", "long": "i64", "short": "i16", "byte": "u8",
    "bool_": "bool", "boolean": "bool", "fp64": "f64", "fp32": "f32", "fp16": "f16",
    "e4m3": "f8e4m3", "e5m2": "f8e5m2", "float8_e4m3": "f8e4m3", "fp8_e4m3": "f8e4m3",
    "fp8_e5m2": "f8e5m2", "f8e4m3fn": "f8e4m3", "s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64",
    **{d.long_name: d.name for d in DTYPES.values()}, **{name: name for name in DTYPES},
}  # fmt: skip
"""Words for dtypes, in lower case.  ``float`` is none: it has 32 bits in PyTorch and C, and 64 in Python and numpy."""

_PYTHON = {float: "f64", int: "i64", bool: "bool"}


def dtype_name(dtype: DTypeLike) -> str:
    """Our name of a dtype.

    Raises :class:`UsageError` for what is none, or one that there is not here, with what may be meant.
    """
    if isinstance(dtype, DType):
        return dtype.name
    word = dtype if isinstance(dtype, str) else _PYTHON.get(dtype) if _hashable(dtype) else None
    word = _told(dtype) if word is None else word
    plain = word.strip().lower().rpartition(".")[2]  # torch.float32, np.float32
    if plain in _WORDS:
        return _WORDS[plain]
    shown = f"unknown dtype {word!r}" if isinstance(dtype, str) or _is_dtype(dtype) else f"{dtype!r} is not a dtype"
    words = [word for word, name in _WORDS.items() if DTYPES[name].bits >= 8]  # who is far off means no integers of four bits
    near = dict.fromkeys(_WORDS[n] for n in difflib.get_close_matches(plain, words, 4, 0.6))
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(shown, hint=f"{meant}dtypes are {', '.join(DTYPES)}")


def _told(dtype: Any) -> str:
    """The word by which a library's dtype calls itself, as dtypes of numpy, torch and jax and their scalar types do."""
    if hasattr(dtype, "__array__") and not isinstance(dtype, type):
        return "an array"
    inner = getattr(dtype, "dtype", None)  # jax.numpy.float32 holds numpy's
    named = getattr(dtype, "name", None) or (getattr(inner, "name", None) if not isinstance(dtype, type) else None)
    if isinstance(named, str):
        return named
    return dtype.__name__ if isinstance(dtype, type) else str(dtype)


def _is_dtype(dtype: Any) -> bool:
    return type(dtype).__name__.lower().endswith(("dtype", "scalarmeta")) or isinstance(dtype, type)


def _hashable(x: Any) -> bool:
    return type(x).__hash__ is not None
