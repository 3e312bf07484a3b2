"""A program loaded on a device of the native core: what backends with a driver and device arrays share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from portakern.backend import HostBuffer, Source
from portakern.errors import UsageError
from portakern.ir.program import Array
from portakern.ir.tile import BufferType
from portakern.launch.arrays import ArrayLibrary, family_of
from portakern.launch.device_arrays import DeviceArray, DeviceArrays
from portakern.launch.memory import DeviceMemory, check_guards, guarded_temporary, initial_step
from portakern.launch.packing import Descriptor, Limit, Packed, launches_of, scalar_of, shape_of, strides_of
from portakern.launch.prepared import NativePrepared

if TYPE_CHECKING:
    from portakern import native
    from portakern.native import Call

KEPT_CALLS = 16
"""Packed calls kept by one specialised call whose scalars, or prepared arguments, change from call to call."""


class NativeExecutable:
    """A program's kernels, loaded.

    Args:
        source: with launches; one whose operator needs none is loaded from no binary.
        device: where it runs.
        binary: in the driver's format.
        kind: what libraries of arrays call this sort of device (see :mod:`portakern.launch.arrays`).
        limit: raises for a grid that the device cannot take.
        descriptors: arguments that the host prepares at every call by name, of each launch; or none of any.

    Raises:
        DriverError: the driver refuses the binary, or a kernel is not in it.
    """

    guards = True

    def __init__(self, source: Source, device: native.Device, binary: bytes, *, kind: str, limit: Limit | None = None,
                 descriptors: Sequence[Mapping[str, Descriptor]] = ()) -> None:  # fmt: skip
        self.source = source
        self.device = device
        self.kind = kind
        self.limit = limit
        self.descriptors = tuple(descriptors)
        module = device.load(binary) if source.launches else None
        self.kernels = [module.kernel(x.kernel, x.shared_bytes) for x in source.launches] if module is not None else []
        self._given = source.by_role("input", "scalar")
        self._outputs = source.by_role("output")
        self._made = source.by_role("output", "temporary")

    # ---- on host data

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Copy whole allocations over, launch everything, copy them back."""
        places: dict[str, int] = {}
        scalars: dict[str, Any] = {}
        with contextlib.ExitStack() as stack:
            for array in self.source.arrays:
                if not isinstance(array.type, BufferType):
                    scalars[array.name] = self._scalar(array, buffers[array.name].array)
                    continue
                buffer = buffers[array.name] if array.role != "temporary" else guarded_temporary(array, sizes)
                if array.init is not None:
                    buffer.array[...] = array.init
                places[array.name] = stack.enter_context(self._on_device(buffer, checked=array.role == "temporary"))
            self.device.call(self._launches(places, scalars, sizes).steps)()
            self.device.synchronize()

    @contextlib.contextmanager
    def _on_device(self, buffer: HostBuffer, checked: bool) -> Iterator[int]:
        """Where ``buffer``'s array lies on the device; copied back on leaving without an error."""
        memory = DeviceMemory(self.device, buffer.storage.nbytes)
        try:
            memory.read_from(buffer.storage)
            yield memory.address + buffer.offset
            memory.write_to(buffer.storage)
            if checked:
                check_guards(buffer)
        finally:
            memory.free()

    # ---- on arrays of other libraries, where they lie

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Run on arrays on this device, on the current stream of the library they come from; outputs are new arrays of it.

        Raises:
            UsageError: an array lies elsewhere, or has another dtype, shape, strides or alignment than was built for.
        """
        prepared, family = self._prepare(inputs, sizes, None)
        prepared()
        return _one_or_all([family.result(x) for x in prepared.outputs])

    def prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int], outputs: Sequence[Any] | None = None) -> NativePrepared:
        """One call with its arguments fixed (see :class:`portakern.backend.Prepared`).

        Inputs of a library other than torch and cupy are read through torch, and outputs made here are torch's then.
        Temporaries live as long as the call.  Raises as :meth:`call`, for ``outputs`` too.
        """
        return self._prepare(inputs, sizes, outputs)[0]

    def specialise(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
        """``call`` for arrays like these in library, device, dtype, shape, strides and alignment, which it does not check.

        Scalars may change.  Threads may share it.
        """
        family = self._family(inputs)
        views = self._views(family, inputs, sizes)
        if not family.direct or any(x is not given for x, given in zip(views.values(), inputs, strict=False)):
            return lambda again: self.call(again, sizes)
        if self.descriptors or any(a.role == "scalar" for a in self._given):
            return _Repacking(self, family, dict(sizes))
        return self._rebinding(family, sizes)

    def _rebinding(self, family: ArrayLibrary, sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
        """Where only addresses change: make outputs, put the addresses in their places, launch."""
        names = [a.name for a in (*self._given, *self._made)]
        call, wanted = self._pack(dict.fromkeys(names, 0), {}, sizes)
        slots = [names.index(n) for n in wanted]
        makers = [family.maker(shape_of(a, sizes), a.dtype) for a in self._made]
        outputs, stream, addresses = len(self._outputs), family.stream, family.addresses
        if slots == list(range(len(names))) and len(makers) == 1:  # one kernel that takes the arrays in our order

            def launch_one(inputs: Sequence[Any], make: Callable[[], Any] = makers[0]) -> Any:
                made = make()
                call(stream(), addresses([*inputs, made]))
                self._ended()
                return made

            return launch_one

        def launch_all(inputs: Sequence[Any]) -> Any:
            made = [make() for make in makers]
            have = addresses([*inputs, *made])
            call(stream(), [have[n] for n in slots])
            self._ended()
            return _one_or_all(made[:outputs])

        return launch_all

    def _ended(self) -> None:
        """Called when a call is queued, before the temporaries that it made go away.  Memory of a device with queues is used
        again in their order; an executable on the host's memory must wait here."""

    # ---- parts

    def _family(self, inputs: Sequence[Any]) -> ArrayLibrary:
        if any(isinstance(x, DeviceArray) for x in inputs):
            return DeviceArrays(self.kind, self.device)
        return family_of(inputs, self.kind, self.device.ordinal)

    def _views(self, family: ArrayLibrary, inputs: Sequence[Any], sizes: Mapping[str, int]) -> dict[str, Any]:
        """The arrays among the inputs by name, checked."""
        views: dict[str, Any] = {}
        for array, given in zip(self._given, inputs, strict=True):
            if isinstance(array.type, BufferType):
                views[array.name] = self._checked(family, array, family.view(given), sizes)
        return views

    @staticmethod
    def _checked(family: ArrayLibrary, array: Array, view: Any, sizes: Mapping[str, int]) -> Any:
        family.check(view, array, shape_of(array, sizes), strides_of(array, sizes))
        return view

    def _scalar(self, array: Array, value: Any) -> Any:
        return scalar_of(array, value)

    def _scalars(self, inputs: Sequence[Any]) -> dict[str, Any]:
        given = zip(self._given, inputs, strict=True)
        return {a.name: self._scalar(a, x) for a, x in given if not isinstance(a.type, BufferType)}

    def _launches(self, places: Mapping[str, int], scalars: Mapping[str, Any], sizes: Mapping[str, int]) -> Packed:
        return launches_of(self.source, self.kernels, places, scalars, sizes, self.limit, self.descriptors)

    def _pack(self, places: Mapping[str, int], scalars: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Call, list[str]]:
        """The call on arrays at these places, with initial values; and the arrays that its pointer slots want."""
        steps, slots, kept = [], [], []
        for array in self._made:
            if array.init is not None and 0 not in shape_of(array, sizes):
                step, constants = initial_step(self.device, array, places[array.name], sizes)
                steps.append(step)
                slots.append(array.name)
                kept.append(constants)
        packed = self._launches(places, scalars, sizes)
        call = self.device.call([*steps, *packed.steps])
        call.keep(self, *(x for x in kept if x is not None))
        return call, [*slots, *packed.slots]

    def _prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int],
                 outputs: Sequence[Any] | None) -> tuple[NativePrepared, ArrayLibrary]:  # fmt: skip
        family = self._family(inputs)
        arrays = self._views(family, inputs, sizes)
        if outputs is not None:
            if len(outputs) != len(self._outputs):
                raise UsageError(f"{self.source.operator} has {len(self._outputs)} outputs, and {len(outputs)} arrays are "
                                 "given to hold them")
            for array, given in zip(self._outputs, outputs, strict=True):
                arrays[array.name] = self._checked(family, array, family.view(given), sizes)
        for array in self._made:
            if array.name not in arrays:
                arrays[array.name] = family.maker(shape_of(array, sizes), array.dtype)()
        places = dict(zip(arrays, family.addresses(list(arrays.values())), strict=True))
        call, _ = self._pack(places, self._scalars(inputs), sizes)
        call.keep(*arrays.values())
        written = outputs if outputs is not None else [arrays[a.name] for a in self._outputs]
        return NativePrepared(call, written, family.stream()), family


class _Repacking:
    """A call on arrays that are known to fit, whose scalars or prepared arguments are others from call to call."""

    def __init__(self, executable: NativeExecutable, family: ArrayLibrary, sizes: Mapping[str, int]) -> None:
        self.executable = executable
        self.family = family
        self.sizes = sizes
        inputs = [a for a in executable._given if a.role == "input"]
        self.arrays = len(inputs)
        self.makers = [family.maker(shape_of(a, sizes), a.dtype) for a in executable._made]
        self.names = [a.name for a in (*inputs, *executable._made)]
        self.calls: dict[Any, tuple[Call, list[int]]] = {}
        self.lock = Lock()

    def __call__(self, inputs: Sequence[Any]) -> Any:
        made = [make() for make in self.makers]
        addresses = self.family.addresses([*inputs[: self.arrays], *made])
        call, slots = self._packed(inputs, addresses)
        call(self.family.stream(), [addresses[n] for n in slots])
        self.executable._ended()
        return _one_or_all(made[: len(self.executable._outputs)])

    def _packed(self, inputs: Sequence[Any], addresses: list[int]) -> tuple[Call, list[int]]:
        """The packed call for these scalars and, where the host prepares arguments from them, these addresses."""
        scalars = tuple(x.item() if hasattr(x, "item") else x for x in inputs[self.arrays :])
        key = (scalars, tuple(addresses) if self.executable.descriptors else ())
        found = self.calls.get(key)
        if found is None:
            places = dict(zip(self.names, addresses, strict=True))
            call, wanted = self.executable._pack(places, self.executable._scalars(inputs), self.sizes)
            found = (call, [self.names.index(n) for n in wanted])
            with self.lock:
                while len(self.calls) >= KEPT_CALLS:
                    del self.calls[next(iter(self.calls))]
                self.calls[key] = found
        return found


def _one_or_all(outputs: Sequence[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
