"""What a program must give for some inputs, kept on disk, since several targets check the same cases."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from portakern.check import accuracy, bounds
from portakern.check.bounds import Val, propagate
from portakern.check.bounds.free import is_free
from portakern.dtypes import DTYPES
from portakern.errors import CacheError
from portakern.ir import oracle
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.tools.cache import Cache, digest

_WORTH_KEEPING_S = 0.1


def expected(program: TensorProgram, inputs: Mapping[str, np.ndarray], cache: Cache | None = None) -> dict[str, Val]:
    """The outputs of ``program`` with their bounds; from ``cache`` where they are in it."""
    if cache is None:
        return propagate(program, inputs)
    key = _key(program, inputs)
    stored = _read(cache, key)
    if stored is not None:
        return _unpack(program, stored)
    begun = time.perf_counter()
    values = propagate(program, inputs)
    if time.perf_counter() - begun > _WORTH_KEEPING_S and all(v.choice is None for v in values.values()):
        cache.put(key, _pack(program, values))
    return values


def _key(program: TensorProgram, inputs: Mapping[str, np.ndarray]) -> str:
    given = [np.ascontiguousarray(inputs[a.name]).tobytes() for a in program.args]
    return digest("expected", _RULES, is_free(), program.digest, given)


def _source_of_rules() -> str:
    """Changes whenever the rules do, so that no expectation outlives them."""
    files = [Path(str(accuracy.__file__)), Path(str(oracle.__file__)), *sorted(Path(str(bounds.__file__)).parent.glob("*.py"))]
    return digest(*(f.read_bytes() for f in files))


_RULES = _source_of_rules()


def _read(cache: Cache, key: str) -> bytes | None:
    try:
        return cache.get(key)
    except CacheError:
        return None  # an unreadable entry costs time only; writing one is what must be heard


def _pack(program: TensorProgram, values: Mapping[str, Val]) -> bytes:
    arrays: dict[str, np.ndarray] = {}
    for (name, v), op in zip(values.items(), program.results, strict=True):
        dtype = DTYPES[tensor_type(op).dtype]
        narrow = dtype.is_float and dtype.bits < 32  # float32 is far finer than what will be compared
        arrays[f"x {name}"] = v.x.astype(np.float32) if narrow else v.x
        with np.errstate(over="ignore"):
            arrays[f"e {name}"] = np.asarray(v.e).astype(np.float32) * np.float32(1 + 2.0**-22)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _unpack(program: TensorProgram, stored: bytes) -> dict[str, Val]:
    with np.load(io.BytesIO(stored)) as arrays:
        out = {}
        for name, op in zip(program.outputs, program.results, strict=True):
            working = oracle.working_dtype(tensor_type(op).dtype)
            out[name] = Val(arrays[f"x {name}"].astype(working), arrays[f"e {name}"].astype(np.float64))
        return out
