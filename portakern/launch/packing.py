"""From a source's launches to the steps of a native call: grids and scalars evaluated, arguments in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portakern import native
from portakern.backend import Launch, Source
from portakern.errors import RuntimeFault
from portakern.ir.program import Array, turns
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

Limit = Callable[[Launch, Sequence[int]], None]
"""Raises for a launch whose grid (in blocks) the device cannot take."""

Descriptor = Callable[[Mapping[str, int], Mapping[str, int]], bytes]
"""An argument that the host prepares from where arrays lie and what open dims are, e.g. a tensor map: (addresses by the
arrays' names, sizes) to the bytes that the kernel takes by value."""


@dataclass(frozen=True)
class Packed:
    """The steps of a call, and which array each of its pointer slots wants, in order."""

    steps: tuple[Any, ...]
    slots: tuple[str, ...]


def shape_of(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    assert isinstance(array.type, BufferType)
    return tuple(evaluate(n, sizes) for n in array.type.shape)


def strides_of(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """In elements."""
    assert isinstance(array.type, BufferType)
    return tuple(evaluate(n, sizes) for n in array.type.element_strides)


def scalar_of(array: Array, value: Any) -> Any:
    """A run-time scalar as the kernel takes it, by value."""
    return native.scalar(array.dtype, value.item() if hasattr(value, "item") else value)


def launches_of(source: Source, kernels: Sequence[native.Kernel], places: Mapping[str, int], scalars: Mapping[str, Any],
                sizes: Mapping[str, int], limit: Limit | None = None,
                descriptors: Sequence[Mapping[str, Descriptor]] = ()) -> Packed:  # fmt: skip
    """Every launch of ``source`` in order, as often as it is repeated; one whose grid is empty is left out.

    Args:
        kernels: one per launch.
        places: addresses by the arrays' names.
        scalars: run-time scalars as arguments (see :func:`scalar_of`).
        descriptors: arguments that are prepared on the host by name, of each launch; or none of any.

    Raises:
        RuntimeFault: an argument is none of these, or what ``limit`` raises.
    """
    steps: list[Any] = []
    slots: list[str] = []
    if len(kernels) != len(source.launches):
        raise ValueError(f"{len(kernels)} kernels for {len(source.launches)} launches")
    for turn in turns(len(kernels), source.repeats, sizes):
        kernel, x, sizes = kernels[turn.number], source.launches[turn.number], turn.sizes
        x0, y0, z0 = (evaluate(n, sizes) for n in x.grid)
        if math.prod((x0, y0, z0)) == 0:
            continue
        if limit is not None:
            limit(x, (x0, y0, z0))
        prepared = descriptors[turn.number] if descriptors else {}
        args = []
        for name in x.args:
            if name in places:
                args.append(native.pointer(places[turn.array(name)]))
                slots.append(turn.array(name))
            elif name in scalars:
                args.append(scalars[name])
            elif name in sizes:
                args.append(native.scalar("i64", sizes[name]))
            elif name in prepared:
                args.append(native.raw(prepared[name]({n: places[turn.array(n)] for n in places}, sizes)))
            else:
                raise RuntimeFault(f"{x.kernel} takes {name!r}, which is no array, scalar or open dim of the operator")
        steps.append(native.LaunchSpec(kernel, (x0, y0, z0), x.block, tuple(args), x.shared_bytes, x.cluster))
    return Packed(tuple(steps), tuple(slots))
