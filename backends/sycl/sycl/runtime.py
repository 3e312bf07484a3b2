"""Runs SYCL programs on this machine's CPU."""

from __future__ import annotations

import ctypes as c
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from portakern.backend import Availability, Binary, HostBuffer, Launch, Source, Target
from portakern.errors import RuntimeFault
from portakern.ir.program import Array
from portakern.ir.size import evaluate

from ..host import (
    as_numpy,
    check_layout,
    element_span,
    inputs_by_name,
    new_like,
    numpy_dtype,
    same_kind,
    scalar_argument,
    shape_of,
)  # fmt: skip
from ..workers import call
from . import library
from .toolchain import SyclToolchain

if TYPE_CHECKING:
    import numpy as np


class SyclRuntime:
    def available(self, target: Target) -> Availability:
        if target.device.kind != "cpu":
            return Availability(False, f"no runtime for {target.device.title}: its kernels are compiled only")
        return SyclToolchain().available(target)

    def device_name(self, target: Target) -> str:
        return call("portakern.backends.sycl.sycl.jobs:describe_device", timeout_s=120.0)

    def load(self, source: Source, binary: Binary | None) -> SyclExecutable:
        if source.target.device.kind != "cpu":
            raise RuntimeFault(f"{source.target} cannot run here", hint="its kernels are compiled only")
        return SyclExecutable(source, binary or SyclToolchain().compile(source))


class SyclExecutable:
    """A program on the CPU device, which reads and writes host memory where it is: the guard bands around an array
    are real neighbours of it."""

    guards = True

    def __init__(self, source: Source, binary: Binary) -> None:
        self.source = source
        built_for, data = pickle.loads(binary.data)
        here = library.device_name()
        if built_for != here:
            raise RuntimeFault(f"the program was built for {built_for}; this machine has {here}", hint="build it again here")
        self.program = library.Program(data, spirv=False) if source.launches else None
        self.kernels = {x.kernel: self.program.kernel(x.kernel) for x in source.launches} if self.program else {}

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        args: dict[str, Any] = {}
        for array in self.source.by_role("input", "output"):
            host = buffers[array.name]
            if array.init is not None:
                host.array[...] = array.init
            args[array.name] = host.storage.ctypes.data + host.offset
        for array in self.source.by_role("scalar"):
            args[array.name] = scalar_argument(buffers[array.name].array[()], array.dtype)
        self.launch_all(args, sizes)

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        given = inputs_by_name(self.source, inputs)
        args: dict[str, Any] = {}
        alive: list[np.ndarray] = []
        for array in self.source.by_role("input"):
            view = as_numpy(given[array.name], array)
            check_layout(view, array, sizes)
            args[array.name] = view.ctypes.data
            alive.append(view)
        for array in self.source.by_role("scalar"):
            args[array.name] = scalar_argument(given[array.name], array.dtype)
        like = next((given[a.name] for a in self.source.by_role("input")), None)
        results: list[Any] = []
        for array in self.source.by_role("output"):
            made, view = new_like(like, shape_of(array, sizes), array.dtype)
            if array.init is not None:
                view[...] = array.init
            args[array.name] = view.ctypes.data
            alive.append(view)
            results.append(made)
        self.launch_all(args, sizes)
        results = [same_kind(like, r) for r in results]
        return results[0] if len(results) == 1 else tuple(results)

    def launch_all(self, args: dict[str, Any], sizes: Mapping[str, int]) -> None:
        for name in self.source.sizes:
            args[name] = numpy_dtype("i64").type(sizes[name])
        with ExitStack() as stack:
            for array in self.source.by_role("temporary"):
                args[array.name] = stack.enter_context(self.temporary(array, sizes))
            for launch in self.source.launches:
                self.launch(launch, args, sizes)

    def launch(self, launch: Launch, args: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        grid = [evaluate(n, sizes) for n in launch.grid]
        if 0 in grid:
            return
        values = [args[name] for name in launch.args]
        given = (library.Argument * max(len(values), 1))()
        alive: list[Any] = []  # scalars are read during the call
        for slot, value in zip(given, values, strict=False):
            if isinstance(value, int):
                slot.data, slot.bytes = value, 0
            else:
                alive.append(value.reshape(1))
                slot.data, slot.bytes = alive[-1].ctypes.data, value.nbytes
        triple = c.c_size_t * 3
        shim = library.library()
        kernel = self.kernels[launch.kernel]
        if shim.pk_launch(library.queue(), kernel, triple(*grid), triple(*launch.block), given, len(launch.args)):
            raise RuntimeFault(f"{launch.kernel} cannot be launched: {library.reason()}")

    @contextmanager
    def temporary(self, array: Array, sizes: Mapping[str, int]) -> Iterator[int]:
        """Memory of the device for a temporary, freed when the program has run."""
        import numpy as np

        dtype = numpy_dtype(array.dtype)
        count = element_span(array, sizes)
        size = max(count * dtype.itemsize, 64)
        shim, queue = library.library(), library.queue()
        memory = shim.pk_allocate(queue, size)
        if not memory:
            raise RuntimeFault(f"{size} bytes for the temporary {array.name} cannot be had: {library.reason()}")
        try:
            if array.init is not None and count:
                raw = np.ctypeslib.as_array((c.c_uint8 * (count * dtype.itemsize)).from_address(memory))
                raw.view(dtype)[...] = array.init
            yield memory
        finally:
            shim.pk_release(queue, memory)
