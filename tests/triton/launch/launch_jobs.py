"""Runs in workers of test_recording.py: records host functions for a GPU that is not here, on tensors of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from portakern import native
from portakern.backend import Source, Target

KERNELS = '''
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scale(x, y, n, a, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * a, mask=i < n)


def plain(x, y):
    scale[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), 1.5, BLOCK=32, num_warps=2)


def by_function(x, y):
    scale[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]), 2, 3)](x, y, x.numel(), 2.0, BLOCK=64)


def through_a_temporary(x, y):
    t = torch.empty((x.numel(),), dtype=torch.float32, device=x.device)
    zeros = torch.full((x.numel(),), 0.0, dtype=torch.float32, device=x.device)
    y.fill_(float("-inf"))
    scale[(4,)](x, t, x.numel(), 2.0, BLOCK=32)
    scale[(4,)](t[8:], y, x.numel(), 3.0, BLOCK=32)
    scale[(4,)](zeros, y, x.numel(), 3.0, BLOCK=32)


def nothing(x, y):
    scale[(0,)](x, y, x.numel(), 1.5, BLOCK=32)


def computes(x, y):
    scale[(4,)](x + 1, y, x.numel(), 1.5, BLOCK=32)


def looks(x, y):
    scale[(4,)](x, y, x.numel(), x[0].item(), BLOCK=32)


@triton.jit
def move(x_desc, y_desc):
    y_desc.store([0, 0], x_desc.load([0, 0]) * 2.0)


def described(x, y):
    tall, wide = (TensorDescriptor(t, [5, 20], [20, 1], [8, 16]) for t in (x, y))
    move[(1,)](tall, wide, num_warps=4)


held = torch.zeros(1000)


def foreign_memory(x, y):
    scale[(4,)](held, y, x.numel(), 1.5, BLOCK=32)
'''


def module(entry: str) -> Any:
    from portakern.backends.triton.compile.source_module import load_module

    return load_module(Source(target(), entry, entry, KERNELS, ".py", ()))


def target() -> Target:
    from portakern.backends.triton import backend
    from portakern.device import load_devices

    return Target("triton", load_devices(backend.devices)["sm_90"])


class Kernel:
    def __init__(self, name: str, shared: int) -> None:
        self.name, self.shared = name, shared


class Module:
    def kernel(self, name: str, shared: int) -> Kernel:
        return Kernel(name, shared)


class Call:
    """Notes the steps, and every (stream, pointers) that it is called with."""

    def __init__(self, steps: Sequence[Any]) -> None:
        self.steps, self.kept, self.calls = list(steps), [], []

    def keep(self, *objects: Any) -> None:
        self.kept += objects

    def __call__(self, stream: int = 0, pointers: Sequence[int] | None = None) -> None:
        self.calls.append((stream, pointers))


class Device:
    """Stands in for a device of the native core."""

    def __init__(self) -> None:
        self.loaded: list[bytes] = []

    def load(self, binary: bytes) -> Module:
        self.loaded.append(binary)
        return Module()

    def call(self, steps: Sequence[Any]) -> Call:
        return Call(steps)

    def tensor_map(self, address: int, dtype: str, itemsize: int, shape: Any, strides: Any, box: Any, swizzle: int) -> bytes:
        """What it is asked, as bytes."""
        return f"{address} {dtype} {list(shape)} {list(strides)} {list(box)} {swizzle}".encode().ljust(128)


def native_device(device: Device) -> native.Device:
    return cast(native.Device, device)


def without_device(function: Callable[[], Any]) -> Any:
    """``function()`` while Triton believes in a GPU that is not here, and loads nothing onto it."""
    from unittest.mock import patch

    from triton.compiler.compiler import CompiledKernel
    from triton.runtime import driver  # type: ignore[attr-defined]

    from portakern.backends.triton.compile.worker import _NoDevice, gpu_target

    before = getattr(driver, "_active", None)
    driver.set_active(_NoDevice(gpu_target("sm_90")))  # type: ignore[arg-type]
    try:
        with patch.object(CompiledKernel, "_init_handles", lambda self: None):
            return function()
    finally:
        driver.set_active(before)  # type: ignore[arg-type]


def described() -> dict[str, Any]:
    """The parameters of a kernel that takes two descriptors, and what the maps were made of."""
    from portakern.backends.triton.launch.recording import record
    from portakern.backends.triton.launch.replay import Replayer

    x, y = torch.arange(100.0), torch.zeros(100)
    function = module("described").described
    replay = without_device(lambda: Replayer(native_device(Device()), "cubin").replay(record(function, [x, y]), [x, y]))
    (step,) = replay.call.steps
    maps = [a.data.decode().split(" ", 1) for a in step.args if len(a.data) == 128]
    return {"sizes": [len(a.data) for a in step.args], "fixed": replay.fixed, "maps": [rest.strip() for _, rest in maps],
            "right": [int(at) for at, _ in maps] == [x.data_ptr(), y.data_ptr()]}  # fmt: skip


def replayed(entry: str) -> dict[str, Any]:
    """What the native core is told to do for ``entry(x, y)`` with 100 numbers; ``refused`` with the reason if nothing."""
    from portakern.backends.triton.launch.recording import NotReplayable, record
    from portakern.backends.triton.launch.replay import Replayer

    x, y = torch.arange(100.0), torch.zeros(100)
    device = Device()
    function = getattr(module(entry), entry)
    try:
        replay = without_device(lambda: Replayer(native_device(device), "cubin").replay(record(function, [x, y]), [x, y]))
    except NotReplayable as why:
        return {"refused": str(why)}
    steps = []
    for step in replay.call.steps:
        if isinstance(step, native.LaunchSpec):
            steps.append({"name": step.kernel.name, "grid": step.grid, "block": step.block, "shared": step.shared_bytes,
                          "args": [(a.kind, a.data.hex()) for a in step.args]})  # fmt: skip
        else:
            steps.append({"kind": type(step).__name__, "bytes": step.bytes})
    return {"steps": steps, "slots": [(p.array, p.offset) for p in replay.slots], "made": len(replay.allocated),
            "loaded": len(device.loaded), "y": y.tolist()}  # fmt: skip


def relaunched() -> dict[str, Any]:
    """A specialised call on other tensors than those recorded: what addresses are put in place."""
    from portakern.backends.triton.launch.executable import TritonExecutable
    from portakern.backends.triton.launch.recording import record
    from portakern.backends.triton.launch.replay import Replayer
    from portakern.ir.program import Array
    from portakern.ir.tile import BufferType

    shape = BufferType((100,), "f32")
    source = Source(target(), "through_a_temporary", "through_a_temporary", KERNELS, ".py",
                    (Array("x", shape, "input"), Array("y", shape, "output")))  # fmt: skip
    executable = TritonExecutable(source, "cpu")
    x, y = torch.arange(100.0), torch.zeros(100)
    replayer = Replayer(native_device(Device()), "cubin")
    replay = without_device(lambda: replayer.replay(record(executable.function, [x, y]), [x, y]))
    call = executable._relaunching(replay, 1, executable._makers([x], {}), lambda: 7)
    again = torch.ones(100)
    first, second = call([again]), call([again])
    (stream, one), (_, two) = replay.call.calls
    return {"stream": stream, "inputs": [p - again.data_ptr() for p, s in zip(one, replay.slots, strict=True) if s.array == 0],
            "outputs": [p == first.data_ptr() for p, s in zip(one, replay.slots, strict=True) if s.array == 1],
            "differ": first.data_ptr() != second.data_ptr() and one != two,
            "old": [p for p in one if p in [a.data_ptr() for a in (x, y, *replay.allocated)]]}  # fmt: skip


def recalled() -> dict[str, Any]:
    """Specialised calls of a host function with descriptors: one call of the native core for each set of addresses."""
    from unittest.mock import patch

    from portakern.backends.triton.launch.executable import TritonExecutable
    from portakern.backends.triton.launch.recording import record
    from portakern.backends.triton.launch.replay import Replayer
    from portakern.ir.program import Array
    from portakern.ir.tile import BufferType

    shape = BufferType((100,), "f32")
    source = Source(target(), "described", "described", KERNELS, ".py",
                    (Array("x", shape, "input"), Array("y", shape, "output")))  # fmt: skip
    executable = TritonExecutable(source, "cpu")
    replayer, made = Replayer(native_device(Device()), "cubin"), []

    def replay(arrays: Any) -> Any:
        made.append(without_device(lambda: replayer.replay(record(executable.function, arrays), arrays)))
        return made[-1]

    y, z = torch.zeros(100), torch.zeros(100)
    results = iter([y, z, y])
    with patch.object(executable, "_replay", replay):
        call = executable._recalling(1, [lambda: next(results)], lambda: 7)
        x = torch.arange(100.0)
        returned = [call([x]) for _ in range(3)]
    return {"calls": [m.call.calls for m in made], "returned": [r is want for r, want in zip(returned, (y, z, y), strict=True)],
            "at": [int(a.data.decode().split()[0]) == t.data_ptr() for m, t in zip(made, (y, z), strict=True)
                   for a in m.call.steps[0].args[5:6]]}  # fmt: skip


def other_threads() -> dict[str, int]:
    """While one thread records, the launches of another go to Triton's launcher."""
    import threading

    from portakern.backends.triton.launch.recording import record

    loaded = module("plain")
    x, y = torch.arange(100.0), torch.zeros(100)
    begun, ended = threading.Event(), threading.Event()
    seen: dict[str, int] = {"launched": 0}

    def host(x: Any, y: Any) -> None:
        begun.set()
        ended.wait(60)
        loaded.plain(x, y)

    def other() -> None:
        begun.wait(60)
        try:
            loaded.plain(x, y)
        except Exception:  # Triton's launcher asks the driver for the device's properties, and there is none
            seen["launched"] += 1
        ended.set()

    def both() -> None:
        loaded.scale.warmup(x, y, 100, 1.5, BLOCK=32, num_warps=2, grid=(1,))
        thread = threading.Thread(target=other)
        thread.start()
        seen["noted"] = len(record(host, [x, y]).steps)
        thread.join()

    without_device(both)
    return seen


def parameters_of(isa: str) -> tuple[int, ...]:
    """The sizes of the parameters of ``scale`` for an instruction set."""
    from portakern.backends.triton.compile.machine_code import parameter_sizes
    from portakern.backends.triton.compile.source_module import load_module
    from portakern.backends.triton.compile.worker import compiling_for

    entry = f"plain_{isa}"  # a text of its own: a kernel's cache does not tell instruction sets apart
    loaded = load_module(Source(target(), entry, "plain", KERNELS + f"\n# {isa}\n", ".py", ()))
    with compiling_for(isa) as launched:
        loaded.plain(torch.empty(100, device="meta"), torch.empty(100, device="meta"))
    (kernel,) = (x.compiled for x in launched)
    return parameter_sizes(kernel.asm["cubin" if isa.startswith("sm_") else "hsaco"], kernel.metadata.name)
