"""The CUDA driver's table on a real GPU: gate, graph, flush, clusters, deadline, health, and a kernel that faults."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from pathlib import Path

import pytest

from portakern import native
from tests.driver_table import OK, TIMEOUT, Table

pytestmark = pytest.mark.gpu

PTX = b"""
.version 7.0
.target sm_80
.address_size 64

.visible .entry add(.param .u64 to, .param .u32 what)
{
    .reg .b32 %r<3>;
    .reg .b64 %a;
    ld.param.u64 %a, [to];
    ld.param.u32 %r0, [what];
    ld.global.u32 %r1, [%a];
    add.u32 %r1, %r1, %r0;
    st.global.u32 [%a], %r1;
    ret;
}

.visible .entry spin(.param .u64 cycles)
{
    .reg .pred %more;
    .reg .b64 %wanted, %begin, %now;
    ld.param.u64 %wanted, [cycles];
    mov.u64 %begin, %clock64;
WAIT:
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %more, %now, %wanted;
    @%more bra WAIT;
    ret;
}
"""


class Gpu:
    def __init__(self) -> None:
        self.device = native.open_device("cuda")
        self.table = Table("cuda")
        self.handle = self.table.make("open", None, 0)
        self.module = self.device.load(PTX)
        self.stream = self.device.stream()
        self.wrapped = self.table.make("stream_wrap", self.handle, ctypes.c_uint64(self.stream.handle))
        self.place = self.device.allocate(4)
        self.device.fill(self.place, 0, 4)
        self.device.synchronize(10.0)

    def call(self, function: str, *args: object) -> int:
        status = self.table.calls[function](self.handle, *args)
        assert status in (OK, TIMEOUT), (function, status, self.table.error().text)
        return status

    def make(self, function: str, *args: object) -> ctypes.c_void_p:
        return self.table.make(function, self.handle, *args)

    def add(self, number: int, **more: object) -> native.Call:
        args = (native.pointer(self.place), native.scalar("u32", number))
        return self.device.call([native.LaunchSpec(self.module.kernel("add"), (1, 1, 1), (1, 1, 1), args, **more)])  # type: ignore[arg-type]

    def spin(self, cycles: int) -> native.Call:
        args = (native.scalar("u64", cycles),)
        return self.device.call([native.LaunchSpec(self.module.kernel("spin"), (1, 1, 1), (1, 1, 1), args)])

    def value(self) -> int:
        found = ctypes.c_uint32()
        self.device.copy_out(ctypes.addressof(found), self.place, 4)
        return found.value


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return Gpu()


def test_facts_and_health(gpu: Gpu) -> None:
    facts, health = gpu.device.facts, gpu.device.health()
    assert facts.units and facts.cache_bytes and facts.clock_khz and facts.memory_bytes and facts.uuid
    assert facts.flush_bytes == 2 * facts.cache_bytes
    assert health.clock_mhz and health.temperature_c and health.power_mw and health.throttled is not None


def test_nothing_passes_a_closed_gate(gpu: Gpu) -> None:
    gate, begin, end = gpu.make("gate_create"), gpu.make("event_create"), gpu.make("event_create")
    call, before = gpu.add(3), gpu.value()
    for number in (1, 2, 3):
        gpu.call("gate_close", gpu.wrapped, gate)
        for function, *args in [("flush", gpu.wrapped), ("event_record", gpu.wrapped, begin)]:
            gpu.call(function, *args)
        call(gpu.stream.handle)
        gpu.call("event_record", gpu.wrapped, end)
        assert gpu.call("synchronize", gpu.wrapped, ctypes.c_int64(20_000_000)) == TIMEOUT
        gpu.call("gate_open", gate)
        assert gpu.call("synchronize", gpu.wrapped, ctypes.c_int64(10**10)) == OK
        elapsed = ctypes.c_double()
        gpu.call("event_elapsed", begin, end, ctypes.byref(elapsed))
        assert 0 < elapsed.value < 1e6 and gpu.value() == before + 3 * number
    gpu.call("reset_persisting")
    gpu.table.gate_destroy(gpu.handle, gate)


def test_a_graph_replays_what_was_captured(gpu: Gpu) -> None:
    call, before = gpu.add(5), gpu.value()
    gpu.call("capture_begin", gpu.wrapped)
    for _ in range(4):
        call(gpu.stream.handle)
    gpu.call("launch_empty", gpu.wrapped)
    graph = gpu.make("capture_end", gpu.wrapped)
    assert gpu.value() == before
    for _ in range(2):
        gpu.call("graph_launch", gpu.wrapped, graph)
    gpu.device.synchronize(10.0)
    assert gpu.value() == before + 40
    gpu.table.graph_destroy(gpu.handle, graph)


def test_a_repeated_call_is_a_graph_with_its_latest_arguments(gpu: Gpu) -> None:
    places = [gpu.device.allocate(4) for _ in range(2)]
    for place in places:
        gpu.device.fill(place, 0, 4)
    gpu.device.synchronize(10.0)
    kernel = gpu.module.kernel("add")
    args = [(native.pointer(places[0]), native.scalar("u32", n)) for n in (1, 10)]
    call = gpu.device.call([native.LaunchSpec(kernel, (1, 1, 1), (1, 1, 1), x) for x in args])
    for stream in (0, gpu.stream.handle):
        for n in range(100):
            call(stream, [places[n % 2]] * 2)
        gpu.device.synchronize(10.0)
    found = ctypes.c_uint32()
    for place in places:
        gpu.device.copy_out(ctypes.addressof(found), place, 4)
        assert found.value == 2 * 50 * 11
        gpu.device.free(place)


def test_a_repeated_call_is_captured_by_torch(gpu: Gpu) -> None:
    torch = pytest.importorskip("torch")
    call, before = gpu.add(1), gpu.value()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            call(stream.cuda_stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        call(stream.cuda_stream)
        call(stream.cuda_stream)
    assert gpu.value() == before + 5
    graph.replay()
    torch.cuda.synchronize()
    assert gpu.value() == before + 7


def test_clusters_and_attributes_are_launched(gpu: Gpu) -> None:
    before = gpu.value()
    gpu.add(1, attributes=native.OVERLAP_PREVIOUS)(gpu.stream)
    gpu.add(1, attributes=native.COOPERATIVE)(gpu.stream)
    gpu.device.synchronize(10.0)
    assert gpu.value() == before + 2
    if int((gpu.device.facts.arch or "sm_0").removeprefix("sm_")) >= 90:
        args = (native.scalar("u64", 10),)
        kernel = gpu.module.kernel("spin")
        gpu.device.call([native.LaunchSpec(kernel, (16, 1, 1), (1, 1, 1), args, cluster=(n, 1, 1)) for n in (2, 8, 16)])()
        gpu.device.synchronize(10.0)


def test_arguments_that_do_not_fit_are_refused(gpu: Gpu) -> None:
    spec = native.LaunchSpec(gpu.module.kernel("add"), (1, 1, 1), (1, 1, 1), (native.pointer(gpu.place),))
    with pytest.raises(native.DriverError, match=r"parameters have \(8, 4\) bytes"):
        gpu.device.call([spec])()


@pytest.mark.parametrize("whole", [True, False])
def test_a_deadline_passes_and_the_device_lives_on(gpu: Gpu, whole: bool) -> None:
    gpu.spin(400_000_000)(gpu.stream)  # about 0.2 s
    begin = time.monotonic()
    with pytest.raises(native.DriverError) as caught:
        gpu.device.synchronize(0.02, None if whole else gpu.stream)
    assert caught.value.kind == "timeout" and time.monotonic() - begin < 0.15
    gpu.device.synchronize(10.0)
    before = gpu.value()
    gpu.add(1)()
    gpu.device.synchronize(10.0)
    assert gpu.value() == before + 1


_FAULT = """
from portakern import native
from tests.cuda.test_driver_gpu import Gpu
gpu = Gpu()
gpu.place = 8
gpu.add(1)()
try:
    gpu.device.synchronize(10.0)
except native.DriverError as error:
    print(error.kind, error.message)
"""


def test_a_kernel_that_faults_is_told_with_the_drivers_words() -> None:
    ran = subprocess.run([sys.executable, "-c", _FAULT], capture_output=True, text=True, timeout=60,
                         cwd=Path(__file__).parents[2])
    assert ran.stdout.startswith("device-lost") and "ILLEGAL_ADDRESS" in ran.stdout, (ran.stdout, ran.stderr[-500:])


def test_the_context_of_torch_is_ours(gpu: Gpu) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(1, dtype=torch.int32, device="cuda")
    args = (native.pointer(tensor.data_ptr()), native.scalar("u32", 7))
    call = gpu.device.call([native.LaunchSpec(gpu.module.kernel("add"), (1, 1, 1), (1, 1, 1), args)])
    call(torch.cuda.current_stream().cuda_stream)
    assert tensor.item() == 7
