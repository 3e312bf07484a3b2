"""The runtime without a GPU: which device is taken, what is launched, and what is said about wrong arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from portakern.backends.cuda import runtime
from portakern.backends.cuda.arrays import family_of

from portakern.backend import Binary
from portakern.errors import RuntimeFault, ToolMissing, UsageError
from portakern.registry import registry
from tests.cuda import references
from tests.cuda.variants import all_variants

CUDA = registry().language("cuda")


class FakeDriver:
    """Host memory in place of a GPU's; keeps what would have been launched."""

    devices = (("NVIDIA H100 PCIe", (9, 0)), ("NVIDIA H200", (9, 0)), ("NVIDIA GeForce RTX 3090", (8, 6)))

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.memory: dict[int, np.ndarray] = {}

    def use(self, ordinal: int) -> None:
        self.ordinal = ordinal

    def load(self, cubin: bytes) -> int:
        return 1

    def unload(self, module: int) -> None: ...

    def function(self, module: int, name: str, shared_bytes: int) -> str:
        return name

    def launch(self, *args: Any) -> None:
        self.launched.append(args)

    def synchronize(self) -> None: ...

    def allocate(self, count: int) -> int:
        block = np.zeros(count, np.uint8)
        self.memory[block.ctypes.data] = block
        return block.ctypes.data

    def free(self, pointer: int) -> None:
        del self.memory[pointer]

    def upload(self, pointer: int, host: int, count: int) -> None:
        runtime.ctypes.memmove(pointer, host, count)

    def download(self, host: int, pointer: int, count: int) -> None:
        runtime.ctypes.memmove(host, pointer, count)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    made = FakeDriver()
    monkeypatch.setattr(runtime, "driver", lambda: made)
    return made


def load(name: str, target: str = "cuda:sm_90a") -> Any:
    source = CUDA.emitter.emit(all_variants()[name], registry().target(target))
    return runtime.CudaRuntime().load(source, Binary("cubin", b"\x7fELF", "none"))


@pytest.mark.parametrize(
    ("target", "expected"),
    [("sm_90a", "NVIDIA H100 PCIe"), ("h200", "NVIDIA H200"), ("h100-pcie", "NVIDIA H100 PCIe"),
     ("sm_80", "NVIDIA GeForce RTX 3090")],
)
def test_the_device_that_runs_the_code_is_taken(fake: FakeDriver, target: str, expected: str) -> None:
    assert runtime.CudaRuntime().device_name(registry().target(f"cuda:{target}")) == expected


@pytest.mark.parametrize("target", ["sm_100a", "h100-sxm", "a100", "sm_120"])
def test_a_device_that_is_not_there_is_reported(fake: FakeDriver, target: str) -> None:
    found = runtime.CudaRuntime().available(registry().target(f"cuda:{target}"))
    assert not found and "NVIDIA H200 (9.0)" in found.detail


def test_a_machine_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise ToolMissing("the NVIDIA driver is not installed here")

    monkeypatch.setattr(runtime, "driver", none)
    assert "driver" in runtime.CudaRuntime().available(registry().target("cuda:sm_90a")).detail


def test_a_run_copies_guard_bands_and_frees_everything(fake: FakeDriver) -> None:
    buffers = references.make_buffers(all_variants()["softmax_open"])
    before = {n: b.storage.copy() for n, b in buffers.items()}
    load("softmax_open").run(buffers, {"M": 11})
    ((function, grid, block, _, _, args),) = fake.launched
    assert (function, list(grid), tuple(block)) == ("softmax", [6, 1, 1], (128, 1, 1))
    assert args[-1].value == 11 and len(args) == 3 and not fake.memory
    assert all((buffers[n].storage == before[n]).all() for n in buffers)  # nothing ran, so all came back as it went


def test_an_empty_grid_is_not_launched(fake: FakeDriver) -> None:
    program = all_variants()["softmax_open"]
    buffers = {a.name: references.empty_buffer(a, program.shape(a.name, {"M": 0})) for a in program.arrays}
    load("softmax_open").run(buffers, {"M": 0})
    assert fake.launched == []


def test_a_grid_beyond_the_limit_is_an_error(fake: FakeDriver) -> None:
    with pytest.raises(RuntimeFault, match="blocks"):
        load("softmax_open").launch({"x": 0, "y": 0}, {}, {"M": 2**33}, 0)


def test_host_arrays_are_refused_with_advice() -> None:
    with pytest.raises(UsageError, match="host memory") as caught:
        family_of([np.zeros(3)])
    assert "torch" in caught.value.hint


def test_torch_arrays_on_the_cpu_are_refused(fake: FakeDriver) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UsageError, match="the argument x is on cpu"):
        load("softmax").call([torch.zeros(5, 1000, dtype=torch.bfloat16)], {})
