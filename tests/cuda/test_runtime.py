"""The runtime on a stand-in for the driver: which device is taken, what is launched, what is said about wrong arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portakern import native
from portakern.backend import CompiledBinary
from portakern.backends.cuda import runtime
from portakern.dtypes import numpy_dtype
from portakern.errors import RuntimeFault, ToolMissing, UsageError
from portakern.launch import executable
from portakern.launch.arrays import ArrayLibrary, family_of
from portakern.registry import registry
from tests.cuda import references
from tests.cuda.standin import Standin, standin
from tests.cuda.variants import all_variants

CUDA = registry().language("cuda")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    made = standin()
    made.set_current(0)
    monkeypatch.setattr(runtime, "devices", lambda: tuple(native.open_device("cuda", n, made.path) for n in range(3)))
    made.parameters("softmax", 8, 8, 8)
    yield made
    made.journal()


class HostArrays(ArrayLibrary):
    """numpy arrays that pose as a device's: the stand-in's memory is the host's."""

    def view(self, given: Any) -> Any:
        return np.asarray(given)

    def stream(self) -> int:
        return 0x77

    def addresses(self, arrays: Sequence[Any]) -> list[int]:
        return [x.ctypes.data for x in arrays]

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        return lambda: np.empty(shape, numpy_dtype(dtype))

    def device(self, array: Any) -> tuple[str, int]:
        return self.kind, self.ordinal

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(n // array.itemsize for n in array.strides)


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch, cuda: Standin) -> Standin:
    monkeypatch.setattr(executable, "family_of", lambda inputs, kind, ordinal: HostArrays(kind, ordinal))
    return cuda


def emitted(name: str, target: str = "cuda:sm_90a") -> Any:
    return CUDA.emitter.emit(all_variants()[name], registry().target(target))


def load(name: str) -> Any:
    return runtime.CudaRuntime().load(emitted(name), CompiledBinary("cubin", b"\x7fELF", "none"))


def aligned(shape: tuple[int, ...], dtype: str, shift: int = 0) -> np.ndarray:
    """An array whose address is ``shift`` bytes behind a multiple of 256."""
    kind = np.dtype(numpy_dtype(dtype))
    count = int(np.prod(shape)) * kind.itemsize
    raw = np.zeros(count + 512, np.uint8)
    start = -raw.ctypes.data % 256 + shift
    return raw[start : start + count].view(kind).reshape(shape)


def launches(cuda: Standin) -> list[str]:
    return [x for x in cuda.journal() if x.startswith("cuLaunchKernel")]


# ---- devices


@pytest.mark.parametrize(
    ("target", "expected"),
    [("sm_90a", "NVIDIA H100 PCIe"), ("h200", "NVIDIA H200"), ("h100-pcie", "NVIDIA H100 PCIe"),
     ("sm_80", "NVIDIA GeForce RTX 3090")],
)
def test_the_device_that_runs_the_code_is_taken(cuda: Standin, target: str, expected: str) -> None:
    found = registry().target(f"cuda:{target}")
    assert runtime.CudaRuntime().device_name(found) == runtime.CudaRuntime().device(found).facts.name == expected


@pytest.mark.parametrize("target", ["sm_100a", "h100-sxm", "a100", "sm_120"])
def test_a_device_that_is_not_there_is_reported(cuda: Standin, target: str) -> None:
    found = runtime.CudaRuntime().available(registry().target(f"cuda:{target}"))
    assert not found and "NVIDIA H200 (sm_90)" in found.detail


@pytest.mark.parametrize(("probe", "says"), [
    (native.DriverProbe("cuda", "", False, "", "", 0, "libcuda.so.1: cannot open"), "not installed here.*cannot open"),
    (native.DriverProbe("cuda", "", True, "/x", "13.0", 0, "cuInit returned 100"), "gives no GPU: cuInit returned 100"),
])  # fmt: skip
def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch, probe: native.DriverProbe, says: str) -> None:
    runtime.devices.cache_clear()
    monkeypatch.setattr(native, "probe_driver", lambda name: probe)
    with pytest.raises(ToolMissing, match=says):
        runtime.CudaRuntime().device(registry().target("cuda:sm_90a"))
    assert not runtime.CudaRuntime().available(registry().target("cuda:sm_90a"))


# ---- on host data


def test_a_run_copies_guard_bands_and_frees_everything(cuda: Standin) -> None:
    buffers = references.make_buffers(all_variants()["softmax_open"])
    before = {n: b.storage.copy() for n, b in buffers.items()}
    loaded = load("softmax_open")
    cuda.journal()
    loaded.run(buffers, {"M": 11})
    calls = cuda.journal()
    (launch,) = (x for x in calls if x.startswith("cuLaunchKernel"))
    assert launch.startswith("cuLaunchKernelEx softmax grid 6 1 1 block 128 1 1 shared 0 stream 0") and launch.endswith(" b")
    assert sum(x.startswith("cuMemAlloc") for x in calls) == calls.count("cuMemFree") == 2
    assert calls.index("cuCtxSynchronize") < min(n for n, x in enumerate(calls) if x.startswith("cuMemcpyDtoH"))
    assert all((buffers[n].storage == before[n]).all() for n in buffers)  # nothing ran, so all came back as it went


def test_an_empty_grid_is_not_launched(cuda: Standin) -> None:
    program = all_variants()["softmax_open"]
    buffers = {a.name: references.empty_buffer(a, program.shape(a.name, {"M": 0})) for a in program.arrays}
    load("softmax_open").run(buffers, {"M": 0})
    assert launches(cuda) == []


def test_a_grid_beyond_the_limit_is_an_error(cuda: Standin) -> None:
    with pytest.raises(RuntimeFault, match="blocks along x"):
        load("softmax_open")._launches({"x": 0, "y": 0}, {}, {"M": 2**33})


def test_a_kernel_that_fails_frees_what_was_copied(cuda: Standin) -> None:
    loaded = load("softmax_open")
    cuda.journal()
    cuda.fail("cuLaunchKernelEx", 1)
    with pytest.raises(native.DriverError, match="cuLaunchKernel"):
        loaded.run(references.make_buffers(all_variants()["softmax_open"]), {"M": 11})
    assert cuda.journal().count("cuMemFree") == 2


# ---- on arrays


def test_a_call_checks_and_a_specialised_one_only_launches(on_host: Standin) -> None:
    loaded = load("softmax_open")
    x = aligned((11, 1000), "bf16")
    made = loaded.call([x], {"M": 11})
    assert made.shape == (11, 1000) and made.dtype == x.dtype
    (first,) = launches(on_host)
    assert "stream 77" in first and first.endswith(f" {x.ctypes.data:x} {made.ctypes.data:x} b")

    again = loaded.specialise([x], {"M": 11})
    assert launches(on_host) == []
    z = aligned((11, 1000), "bf16")
    outputs = [again([z]), again([x])]
    assert launches(on_host) == [f"{first.rpartition(' args')[0]} args {a.ctypes.data:x} {y.ctypes.data:x} b"
                                 for a, y in zip([z, x], outputs, strict=True)]  # fmt: skip
    assert outputs[0] is not outputs[1]


def test_a_prepared_call_writes_the_arrays_it_was_given(on_host: Standin) -> None:
    x, y = aligned((11, 1000), "bf16"), aligned((11, 1000), "bf16")
    prepared = load("softmax_open").prepare([x], {"M": 11}, [y])
    assert launches(on_host) == [] and prepared.outputs[0] is y and prepared.stream == 0x77
    prepared()
    prepared(0x99)
    first, second = launches(on_host)
    assert "stream 77" in first and "stream 99" in second and f"{y.ctypes.data:x} b" in second


def test_a_prepared_call_keeps_what_it_points_into(on_host: Standin) -> None:
    x, y = aligned((11, 1000), "bf16"), aligned((11, 1000), "bf16")
    prepared = load("softmax_open").prepare([x], {"M": 11}, [y])
    before = sys.getrefcount(x)
    call = prepared.call
    del prepared
    assert sys.getrefcount(x) == before  # the call has it, not only the prepared one
    del call
    assert sys.getrefcount(x) < before


@pytest.mark.parametrize(("value", "steps"), [
    (0.0, ["cuMemsetD8Async 0 22000 stream 77"]), (float("-inf"), ["cuMemcpyDtoDAsync 22000 stream 77"]),
])  # fmt: skip
def test_initial_values_are_part_of_every_call(on_host: Standin, value: float, steps: list[str]) -> None:
    source = emitted("softmax_open")
    arrays = tuple(replace(a, init=value) if a.role == "output" else a for a in source.arrays)
    loaded = runtime.CudaRuntime().load(replace(source, arrays=arrays), CompiledBinary("cubin", b"\x7fELF", "none"))
    x, y = aligned((11, 1000), "bf16"), aligned((11, 1000), "bf16")
    prepared, again = loaded.prepare([x], {"M": 11}, [y]), loaded.specialise([x], {"M": 11})
    again([x])
    for call in (lambda: (prepared(), y)[1], lambda: again([x])):
        y[...] = 5
        on_host.journal()
        written = call()
        queued = on_host.journal()
        assert queued[:-1] == steps and queued[-1].startswith("cuLaunchKernelEx softmax")
        assert (written.astype(np.float32) == value).all()


def test_arguments_prepared_on_the_host_follow_the_arrays(on_host: Standin) -> None:
    """What a tensor map is: bytes by value that hold addresses."""
    source = emitted("softmax_open")
    (launch,) = source.launches
    source = replace(source, launches=(replace(launch, args=(*launch.args, "map")),))
    on_host.parameters("softmax", 8, 8, 8, 128)
    loaded = executable.NativeExecutable(source, runtime.devices()[0], b"cubin", kind="cuda", descriptors=[{
        "map": lambda places, sizes: (places["x"] + sizes["M"]).to_bytes(128, "little")}])  # fmt: skip
    again = loaded.specialise([aligned((11, 1000), "bf16")], {"M": 11})
    on_host.journal()
    for x in (aligned((11, 1000), "bf16"), aligned((11, 1000), "bf16")):
        again([x])
        (queued,) = launches(on_host)
        assert queued.endswith(f" b {x.ctypes.data + 11:x}")


def test_every_launch_has_its_own_of_a_name(on_host: Standin) -> None:
    """Kernels name their maps by themselves: phases of one convolution all write through an ``out_map``."""
    source = emitted("softmax_open")
    (launch,) = source.launches
    source = replace(source, launches=(replace(launch, args=(*launch.args, "map")),) * 2)
    on_host.parameters("softmax", 8, 8, 8, 128)
    loaded = executable.NativeExecutable(source, runtime.devices()[0], b"cubin", kind="cuda", descriptors=[
        {"map": lambda places, sizes, number=number: number.to_bytes(128, "little")} for number in (1, 2)])  # fmt: skip
    on_host.journal()
    loaded.specialise([aligned((11, 1000), "bf16")], {"M": 11})([aligned((11, 1000), "bf16")])
    assert [line[-3:] for line in launches(on_host)] == ["b 1", "b 2"]


@pytest.mark.parametrize(("given", "says"), [
    (aligned((11, 1001), "bf16"), "built for bf16.11, 1000"), (aligned((11, 1000), "f32"), "is f32"),
    (aligned((11, 2000), "bf16")[:, ::2], "has strides"), (aligned((11, 1000), "bf16", 2), "multiple of 16 bytes"),
])  # fmt: skip
def test_arrays_that_the_kernel_was_not_built_for_are_refused(on_host: Standin, given: np.ndarray, says: str) -> None:
    for call in ("call", "prepare", "specialise"):
        with pytest.raises(UsageError, match=says):
            getattr(load("softmax_open"), call)([given], {"M": 11})


def test_arrays_of_another_library_are_looked_at_in_every_call(on_host: Standin) -> None:
    class Foreign:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            return self.array

    again = load("softmax_open").specialise([Foreign(aligned((11, 1000), "bf16"))], {"M": 11})
    x = aligned((11, 1000), "bf16")
    on_host.journal()
    again([Foreign(x)])
    assert f"args {x.ctypes.data:x} " in launches(on_host)[0]


def test_outputs_of_another_number_are_refused(on_host: Standin) -> None:
    with pytest.raises(UsageError, match="has 1 outputs, and 0 arrays"):
        load("softmax_open").prepare([aligned((11, 1000), "bf16")], {"M": 11}, [])


def test_host_arrays_are_refused_with_advice() -> None:
    with pytest.raises(UsageError, match="host memory") as caught:
        family_of([np.zeros(3)], "cuda", 0)
    assert "torch" in caught.value.hint


def test_torch_arrays_on_the_cpu_are_refused(cuda: Standin) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UsageError, match="the argument x is on cpu"):
        load("softmax").call([torch.zeros(5, 1000, dtype=torch.bfloat16)], {})
