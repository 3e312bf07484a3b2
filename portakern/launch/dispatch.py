"""What a source launches on a machine, with everything fixed: grids evaluated, arguments as bytes and places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from portakern.backend import Argument, ArrayFill, CompiledBinary, Dispatch, DispatchSequence, Launch, Source
from portakern.dtypes import DTYPES, numpy_dtype
from portakern.errors import BackendError, RuntimeFault
from portakern.ir.program import Array, turns
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from portakern.launch.packing import shape_of


def dispatch_sequence_of(source: Source, binary: CompiledBinary, sizes: Mapping[str, int],
                         scalars: Mapping[str, Any] | None = None) -> DispatchSequence:  # fmt: skip
    """The launches of ``source`` compiled to ``binary``, with open dims and run-time scalars as given.

    Scalars that are not given are 1, which is for those who want the launches alone.  Languages whose text holds its own
    host function are asked (:attr:`Language.dispatch_sequence`).

    Raises:
        BackendError: the language does not say what its sources launch.
        RuntimeFault: a launch names what the operator does not have.
    """
    from portakern.registry import registry

    values = {a.name: (scalars or {}).get(a.name, 1) for a in source.by_role("scalar")}
    language = registry().language(source.target.language)
    if language.dispatch_sequence is not None:
        return language.dispatch_sequence(source, binary, sizes, values)
    if not source.launches and any(0 not in shape_of(a, sizes) for a in source.by_role("output")):
        raise BackendError(f"{language.name} does not say what its sources launch", kind="no-launches")
    filled = (fill_of(a, a.init) for a in source.arrays if a.init is not None and isinstance(a.type, BufferType))
    temporaries = tuple((a.name, bytes_of(a, sizes)) for a in source.by_role("temporary"))
    return DispatchSequence((*filled, *_dispatches(source, binary, sizes, values)), temporaries)


def bytes_of(array: Array, sizes: Mapping[str, int]) -> int:
    """What an array takes up, where it is contiguous."""
    return math.prod(shape_of(array, sizes)) * DTYPES[array.dtype].bytes


def fill_of(array: Array, value: float) -> ArrayFill:
    """``array`` filled with a number in its own dtype."""
    return ArrayFill(array.name, number_bytes(array.dtype, value))


def number_bytes(dtype: str, value: Any) -> bytes:
    """A number in a dtype of ours, as memory holds it."""
    import numpy as np

    return np.asarray(value).astype(numpy_dtype(dtype)).tobytes()


def _dispatches(source: Source, binary: CompiledBinary, sizes: Mapping[str, int],
                values: Mapping[str, Any]) -> Iterator[Dispatch]:  # fmt: skip
    """The launches in order, as often as they are repeated; one whose grid is empty is left out."""
    arrays = {a.name: a for a in source.arrays}
    for turn in turns(len(source.launches), source.repeats, sizes):
        x = source.launches[turn.number]
        gx, gy, gz = (evaluate(n, turn.sizes) for n in x.grid)
        if gx * gy * gz == 0:
            continue
        args = tuple(_argument(x, turn.array(name), arrays, turn.sizes, values) for name in x.args)
        yield Dispatch(x.kernel, binary.data, binary.assembly or "", (gx, gy, gz), x.block, x.shared_bytes, args)


def _argument(launch: Launch, name: str, arrays: Mapping[str, Array], sizes: Mapping[str, int],
              values: Mapping[str, Any]) -> Argument:  # fmt: skip
    if name in values:
        return Argument(value=number_bytes(arrays[name].dtype, values[name]))
    if name in arrays:
        return Argument(name)
    if (described := next((m for m in launch.maps if m.name == name), None)) is not None:
        return Argument(described.array)
    if name in sizes:
        return Argument(value=sizes[name].to_bytes(8, "little", signed=True))
    raise RuntimeFault(f"{launch.kernel} takes {name!r}, which is no array, scalar or open dim of the operator")
