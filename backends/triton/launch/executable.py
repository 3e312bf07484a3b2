"""Running the host function of a Triton source on torch tensors; lives in worker processes and in user programs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from portakern.backend import HostBuffer, Prepared, Source
from portakern.errors import CompileError, PortakernError, RuntimeFault, ScheduleError, UsageError
from portakern.ir.program import Array
from portakern.ir.tile import BufferType
from portakern.launch import NativePrepared, PythonPrepared
from portakern.native import DriverError, open_device

from ..compile.faces import must_be_of
from ..compile.source_module import load_module, parameters, shape_of, torch_dtype
from .alone import Launch, Noted, launchers, noting
from .races import looked_for
from .recording import NotReplayable, record
from .replay import Replay, Replayer
from .some import Some, alone

_REMEMBERED = 64
"""Calls kept for other addresses of the same arrays."""


class TritonExecutable:
    """The host function of one source, loaded on ``device`` (``cpu`` under the interpreter, else ``cuda``).

    Guard bands work because arrays are views into the copied storage.  What is called again and again is launched by the
    native core (see :mod:`.recording`, :mod:`.replay`); ``driver`` is the name of its driver, empty for none.  ``compiled``
    are the digests of what was compiled (see :mod:`..compile.faces`), where that is known.
    """

    guards = True

    def __init__(self, source: Source, device: str, driver: str = "", compiled: frozenset[str] = frozenset()) -> None:
        launchers()
        self.compiled = compiled
        self.source = source
        self.device = device
        self.driver = driver
        self.parameters = parameters(source)
        self._replayers: dict[int, Replayer] = {}
        self._watched = False
        self._last: tuple[Noted, dict[str, Any]] | None = None
        self.function: Callable[..., Any] = getattr(load_module(source), source.entry)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        import torch

        storages: dict[str, Any] = {}
        arguments: list[Any] = []
        for array in self.parameters:
            buffer = buffers[array.name]
            if array.role == "scalar":
                arguments.append(buffer.array.item())
                continue
            storages[array.name] = torch.from_numpy(buffer.storage).to(self.device)
            arguments.append(_view(storages[array.name], buffer, array))
        if self._watched:
            with self._looking(), noting(arguments) as found:
                self._launch(arguments)
            self._last = found, storages
        else:
            self._launch(arguments)
        if self.device != "cpu":
            for name, storage in storages.items():
                buffers[name].storage[:] = storage.cpu().numpy()

    # ---- some programs, where all would take hours

    def blocks(self, sizes: Mapping[str, int]) -> int:
        """Programs of the one launch; 0 on a GPU, where the host function does more, and where programs wait for others."""
        import torch

        if self.device != "cpu":
            return 0
        arguments = [1 if a.role == "scalar" else
                     torch.empty(shape_of(a, dict(sizes)), dtype=torch_dtype(a.dtype), device="meta")
                     for a in self.parameters]  # fmt: skip
        counted = Some()
        with alone(counted), noting(arguments) as found:
            self.function(*arguments)
        one = len(found.steps) == 1 and isinstance(found.steps[0], Launch) and not found.temporaries
        return math.prod(counted.grid) if one and not counted.waits else 0

    def run_blocks(self, blocks: Sequence[int], buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int],
                   seconds: float = math.inf) -> int:  # fmt: skip
        """As :meth:`run`, with these programs alone, of which none begins after so many seconds: how many ran."""
        some = Some(blocks, seconds)
        with alone(some):
            self.run(buffers, sizes)
        return some.ran

    # ---- in part, as strangers' kernels are

    def watch(self) -> None:
        self._watched = True

    def run_part(self, part: str, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> str:
        """In the memory of the last run, which pointers that kernels were given point to."""
        import torch

        assert self._last is not None
        found, storages = self._last
        if part == "kernels" and self.compiled:
            must_be_of(self.compiled, self.source, [s for s in found.steps if isinstance(s, Launch)])
        for name, storage in storages.items():
            storage.copy_(torch.from_numpy(buffers[name].storage))
        found.poison()
        self._guarded(lambda: found.again(launches=part == "kernels"))
        for name, storage in storages.items():
            buffers[name].storage[:] = storage.cpu().numpy()
        return found.words

    def _looking(self) -> contextlib.AbstractContextManager[None]:
        """For races, where kernels are interpreted."""
        return looked_for() if self.device == "cpu" else contextlib.nullcontext()

    def _launch(self, arguments: Sequence[Any]) -> None:
        self._guarded(lambda: self.function(*arguments))

    def _guarded(self, work: Callable[[], object]) -> None:
        """What ``work`` raises, in our words."""
        import torch

        try:
            with self._room_said():
                work()
            if self.device != "cpu":
                torch.cuda.synchronize()
        except ScheduleError:
            raise
        except Exception as error:
            raise RuntimeFault(f"{self.source.operator} on {self.source.target} failed: {type(error).__name__}: {error}",
                               kind="device-lost" if self._is_lost() else "runtime") from error  # fmt: skip

    @contextlib.contextmanager
    def _room_said(self) -> Iterator[None]:
        """For launches, before which Triton compiles for the sizes that it is given and may find that a block has no room."""
        try:
            yield
        except Exception as error:
            if type(error).__name__ != "OutOfResources":
                raise
            raise ScheduleError(f"{self.source.operator} on {self.source.target} at these sizes: {error}",
                                hint="smaller tiles or fewer stages") from error  # fmt: skip

    def _is_lost(self) -> bool:
        """Whether the device answers this process with an earlier kernel's error, as it does from then on."""
        import torch

        if self.device == "cpu":
            return False
        try:
            torch.cuda.synchronize()
        except Exception:
            return True
        return False

    # ---- on arrays of other libraries, where they lie

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Inputs (and scalars) in order, as anything that speaks DLPack on this device; new outputs of the same kind."""
        tensors = self._tensors(inputs)
        outputs = [make() for make in self._makers(tensors, sizes)]
        with self._room_said():
            self.function(*tensors, *outputs)
        like = self._model(inputs)
        results = tuple(_like(like, out) for out in outputs)
        return results[0] if len(results) == 1 else results

    def prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int], outputs: Sequence[Any] | None = None) -> Prepared:
        """One call with its arguments fixed: the launches themselves where the host function does nothing else, else the
        host function.  It runs once now, which compiles and tunes what Triton compiles and tunes at first use."""
        tensors = self._tensors(inputs)
        like = self._model(inputs)
        if outputs is None:
            written = [make() for make in self._makers(tensors, sizes)]
            outputs = [_like(like, x) for x in written]
        else:
            written = [self._taken(x) for x in outputs]
            for x in written:
                self._check_place(x)
        with self._room_said():
            self.function(*tensors, *written)
        stream = self._stream(tensors)
        try:
            replay = self._replay([*tensors, *written])
        except NotReplayable as why:
            again = partial(self.function, *tensors, *written)
            return PythonPrepared(partial(self._on_stream, again, tensors), outputs, stream, str(why))
        replay.call.keep(self, inputs, outputs, tensors, written, replay.allocated)
        return NativePrepared(replay.call, outputs, stream)

    def specialise(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
        """``call`` for tensors like these: the native core launches, with the addresses of the tensors at hand."""
        import torch

        # Numbers at run time and other libraries' arrays take the long way.
        fixed = not self.source.by_role("scalar") and all(isinstance(x, torch.Tensor) for x in inputs)
        if not fixed or self.device == "cpu":
            return lambda again: self.call(again, sizes)
        tensors = self._tensors(inputs)
        makers = self._makers(tensors, sizes)
        outputs = [make() for make in makers]
        with self._room_said():
            self.function(*tensors, *outputs)
        try:
            replay = self._replay([*tensors, *outputs])
        except NotReplayable:
            return lambda again: self.call(again, sizes)
        if replay.fixed and replay.allocated:  # calls that share temporaries must not run at once
            return lambda again: self.call(again, sizes)
        if replay.fixed:
            return self._recalling(len(tensors), makers, partial(self._stream, tensors))
        return self._relaunching(replay, len(tensors), makers, partial(self._stream, tensors))

    def _recalling(self, count: int, makers: Sequence[Callable[[], Any]],
                   stream: Callable[[], int]) -> Callable[[Sequence[Any]], Any]:  # fmt: skip
        """A call for each set of addresses, since tensor maps hold them: allocators give few different ones."""
        calls: dict[tuple[int, ...], Any] = {}
        outputs = len(self.source.by_role("output"))

        def recall(again: Sequence[Any]) -> Any:
            made = [make() for make in makers]
            arrays = [*again[:count], *made]
            places = tuple(x.data_ptr() for x in arrays)
            call = calls.get(places)
            if call is None:
                call = self._replay(arrays).call
                call.keep(self)
                while len(calls) >= _REMEMBERED:
                    calls.pop(next(iter(calls)), None)
                calls[places] = call
            call(stream())
            return made[0] if outputs == 1 else tuple(made[:outputs])

        return recall

    def _relaunching(self, replay: Replay, count: int, makers: Sequence[Callable[[], Any]],
                     stream: Callable[[], int]) -> Callable[[Sequence[Any]], Any]:  # fmt: skip
        """New outputs and temporaries, their addresses and those of the inputs into the slots, and the launches."""
        import torch

        makers = [*makers, *(partial(torch.empty_like, x) for x in replay.allocated)]
        places = [(p.array, p.offset) for p in replay.slots]
        call, outputs = replay.call, len(self.source.by_role("output"))
        call.keep(self)

        def relaunch(again: Sequence[Any]) -> Any:
            made = [make() for make in makers]
            begins = [x.data_ptr() for x in (*again[:count], *made)]
            call(stream(), [offset if n is None else begins[n] + offset for n, offset in places])
            return made[0] if outputs == 1 else tuple(made[:outputs])

        return relaunch

    # ---- parts

    def _replay(self, tensors: Sequence[Any]) -> Replay:
        """The launches as a call of the native core.  Raises :class:`NotReplayable` with the reason why there is none."""
        if not self.driver:
            raise NotReplayable("the interpreter launches nothing")
        import torch

        arrays = [x for x in tensors if isinstance(x, torch.Tensor)]
        ordinal = arrays[0].device.index or 0
        if ordinal not in self._replayers:
            try:
                device = open_device(self.driver, ordinal)
            except PortakernError as error:
                raise NotReplayable(f"the native core has no such device: {error.message}") from None
            code = "cubin" if self.source.target.device.vendor == "NVIDIA" else "hsaco"
            self._replayers[ordinal] = Replayer(device, code)
        try:
            return self._replayers[ordinal].replay(record(self.function, tensors), arrays)
        except (DriverError, CompileError) as error:
            raise NotReplayable(error.message) from None

    def _on_stream(self, work: Callable[[], object], tensors: Sequence[Any], stream: int) -> None:
        """``work``, such as the host function's call, on a stream given by its native handle."""
        with contextlib.ExitStack() as stack:
            if self.device != "cpu" and stream != self._stream(tensors):
                import torch

                stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream)))
            work()

    def _stream(self, tensors: Sequence[Any]) -> int:
        """Native handle of torch's current stream on the tensors' device."""
        if self.device == "cpu":
            return 0
        import torch

        where = next((x.device for x in tensors if isinstance(x, torch.Tensor)), None)
        return torch.cuda.current_stream(where).cuda_stream

    def _tensors(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs as the host function takes them.  Raises :class:`UsageError` for arrays in other memory."""
        given = [a for a in self.parameters if a.role != "output"]
        if len(inputs) != len(given):
            raise RuntimeFault(f"{self.source.operator} takes {len(given)} arrays, not {len(inputs)}")
        tensors = []
        for array, value in zip(given, inputs, strict=True):
            if array.role == "scalar":
                tensors.append(value.item() if hasattr(value, "item") else value)
            else:
                tensors.append(self._taken(value))
                self._check_place(tensors[-1])
        return tensors

    def _check_place(self, tensor: Any) -> None:
        if tensor.device.type != self.device:
            raise UsageError(f"an array lies on {tensor.device}, and {self.source.target} runs on {self.device}",
                             hint=f"move the array there, as by tensor.to({self.device!r})")

    def _makers(self, tensors: Sequence[Any], sizes: Mapping[str, int]) -> list[Callable[[], Any]]:
        import torch

        where = next((x.device for x in tensors if isinstance(x, torch.Tensor)), torch.device(self.device))
        return [partial(torch.empty, shape_of(a, dict(sizes)), dtype=torch_dtype(a.dtype), device=where)
                for a in self.source.by_role("output")]  # fmt: skip

    def _model(self, inputs: Sequence[Any]) -> Any:
        """The array whose library outputs are of."""
        given = [a for a in self.parameters if a.role != "output"]
        return next((v for a, v in zip(given, inputs, strict=True) if a.role == "input"), None)

    def _taken(self, value: Any) -> Any:
        """``value`` as a torch tensor over the same memory."""
        import torch

        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, np.ndarray) and value.dtype.name == "bfloat16":
            return torch.from_numpy(value.view(np.uint16)).view(torch.bfloat16)
        return torch.from_dlpack(value)


def _view(storage: Any, buffer: HostBuffer, array: Array) -> Any:
    """The array inside a storage of bytes, guard bands around it; with gaps where the host's has them."""
    assert isinstance(array.type, BufferType)
    dtype = torch_dtype(array.dtype)
    width, after = dtype.itemsize, storage[buffer.offset :]
    flat = after[: after.numel() // width * width].view(dtype)
    return flat.as_strided(buffer.shape, [s // width for s in buffer.array.strides])


def _like(value: Any, tensor: Any) -> Any:
    """``tensor`` as the same kind of array as ``value``, without a copy."""
    import torch

    if value is None or isinstance(value, torch.Tensor):
        return tensor
    if isinstance(value, np.ndarray):
        if tensor.dtype == torch.bfloat16:
            import ml_dtypes

            return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
        return tensor.numpy()
    module = __import__(type(value).__module__.split(".")[0])
    if module.__name__ in ("jax", "jaxlib"):
        import jax

        return jax.dlpack.from_dlpack(tensor)
    return module.from_dlpack(tensor)
