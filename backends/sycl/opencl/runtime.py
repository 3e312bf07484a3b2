"""Runs OpenCL programs on this machine's CPU device."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from portakern.backend import Availability, Binary, HostBuffer, Launch, Source, Target
from portakern.errors import RuntimeFault
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

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
from .platforms import describe, device, prepare
from .toolchain import OpenCLToolchain


class OpenCLRuntime:
    def available(self, target: Target) -> Availability:
        return OpenCLToolchain().available(target)

    def device_name(self, target: Target) -> str:
        return call("portakern.backends.sycl.opencl.jobs:describe_device", timeout_s=60.0)

    def load(self, source: Source, binary: Binary | None) -> OpenCLExecutable:
        if binary is None:
            binary = OpenCLToolchain().compile(source)
        return OpenCLExecutable(source, binary)


class OpenCLExecutable:
    """A program on the device.  Host storage is used in place, so writes beside an array reach its guard bands."""

    guards = True

    def __init__(self, source: Source, binary: Binary) -> None:
        self.source = source
        cl = self.cl = prepare()
        found = device()
        built_for, data = pickle.loads(binary.data)
        if built_for != describe(found):
            raise RuntimeFault(f"the program was built for {built_for}; this machine has {describe(found)}",
                               hint="build it again here")
        self.context = cl.Context([found])
        self.queue = cl.CommandQueue(self.context)
        self.kernels = {}
        try:
            program = cl.Program(self.context, [found], [data]).build() if source.launches else None
            self.kernels = {x.kernel: cl.Kernel(program, x.kernel) for x in source.launches}
        except cl.Error as error:
            raise RuntimeFault(f"the program cannot be loaded: {error}", hint="clear the cache and build it again") from error
        self.align = max(int(found.mem_base_addr_align) // 8, 1)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        flags = self.cl.mem_flags
        args: dict[str, Any] = {}
        whole: list[tuple[Any, Any]] = []
        for array in self.source.by_role("input", "output"):
            host = buffers[array.name]
            if array.init is not None:
                host.array[...] = array.init
            memory = self.cl.Buffer(self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=host.storage)
            args[array.name] = self.inside(memory, host.offset, host.storage.nbytes)
            whole.append((memory, host.storage))
        for array in self.source.by_role("scalar"):
            args[array.name] = scalar_argument(buffers[array.name].array[()], array.dtype)
        self.launch_all(args, sizes)
        for memory, storage in whole:
            self.cl.enqueue_copy(self.queue, storage, memory)
        self.queue.finish()

    def inside(self, memory: Any, offset: int, total: int) -> Any:
        if offset == 0:
            return memory
        if offset % self.align:
            raise RuntimeFault(f"an array starts {offset} bytes into its storage; the device needs a multiple of {self.align}")
        return memory.get_sub_region(offset, max(total - offset, 1))

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        given = inputs_by_name(self.source, inputs)
        flags = self.cl.mem_flags
        args: dict[str, Any] = {}
        for array in self.source.by_role("input"):
            view = as_numpy(given[array.name], array)
            check_layout(view, array, sizes)
            args[array.name] = self.shared(view, flags.READ_ONLY)
        for array in self.source.by_role("scalar"):
            args[array.name] = scalar_argument(given[array.name], array.dtype)
        like = next((given[a.name] for a in self.source.by_role("input")), None)
        results: list[Any] = []
        outputs: list[tuple[Any, Any]] = []
        for array in self.source.by_role("output"):
            made, view = new_like(like, shape_of(array, sizes), array.dtype)
            if array.init is not None:
                view[...] = array.init
            memory = self.shared(view, flags.READ_WRITE)
            args[array.name] = memory
            results.append(made)
            outputs.append((memory, view))
        self.launch_all(args, sizes)
        for memory, view in outputs:
            if view.size:  # mapping makes the results visible in the array itself
                mapped, _ = self.cl.enqueue_map_buffer(self.queue, memory, self.cl.map_flags.READ, 0, view.nbytes, "u1")
                mapped.base.release(self.queue)
        self.queue.finish()
        results = [same_kind(like, r) for r in results]
        return results[0] if len(results) == 1 else tuple(results)

    def shared(self, view: Any, access: int) -> Any:
        """A buffer that uses the array's own memory."""
        import numpy as np

        flags = self.cl.mem_flags
        if view.size == 0:
            return self.cl.Buffer(self.context, flags.READ_WRITE, 16)
        low, high = np.lib.array_utils.byte_bounds(view)
        raw = view.reshape(-1).view(np.uint8) if view.flags.c_contiguous else _bytes_at(low, high - low, view)
        return self.cl.Buffer(self.context, access | flags.USE_HOST_PTR, hostbuf=raw)

    def launch_all(self, args: dict[str, Any], sizes: Mapping[str, int]) -> None:
        for array in self.source.by_role("temporary"):
            args[array.name] = self.temporary(array, sizes)
        for name in self.source.sizes:
            args[name] = numpy_dtype("i64").type(sizes[name])
        try:
            for launch in self.source.launches:
                self.launch(launch, args, sizes)
            self.queue.finish()
        except self.cl.Error as error:
            raise RuntimeFault(f"{self.source.operator} cannot be launched: {error}") from error

    def launch(self, launch: Launch, args: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        grid = [evaluate(n, sizes) for n in launch.grid]
        if 0 in grid:
            return
        kernel = self.kernels[launch.kernel]
        kernel.set_args(*(args[name] for name in launch.args))
        work = tuple(n * b for n, b in zip(grid, launch.block, strict=True))
        self.cl.enqueue_nd_range_kernel(self.queue, kernel, work, launch.block)

    def temporary(self, array: Array, sizes: Mapping[str, int]) -> Any:
        import numpy as np

        assert isinstance(array.type, BufferType)
        dtype = numpy_dtype(array.dtype)
        count = element_span(array, sizes)
        memory = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, max(count * dtype.itemsize, 16))
        if array.init is not None and count:
            pattern = np.array(array.init).astype(dtype)
            self.cl.enqueue_fill_buffer(self.queue, memory, pattern, 0, count * dtype.itemsize)
        return memory


def _bytes_at(address: int, count: int, owner: Any) -> Any:
    """The memory of a strided array from its first to its last byte."""
    import ctypes

    import numpy as np

    raw = np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))
    del owner  # kept alive by the caller, who holds the array until the kernel is done
    return raw
