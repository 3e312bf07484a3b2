"""The CUDA driver's table against a stand-in for libcuda: what it calls, in which order, and what it says of failures."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import portakern as pk
from portakern import native
from portakern.errors import PortakernError
from portakern.registry import registry
from tests.cuda.standin import Standin, standin
from tests.driver_table import INVALID, NO_DEVICE, OK, TIMEOUT, UNSUPPORTED, Argument, Launch, Table

CONTEXT = 0xC000 + 100


@pytest.fixture(params=[False, True], ids=["new", "old"])
def each(request: pytest.FixtureRequest) -> Iterator[Standin]:
    yield from fresh(standin(request.param))


@pytest.fixture
def cuda() -> Iterator[Standin]:
    yield from fresh(standin())


@pytest.fixture
def old() -> Iterator[Standin]:
    yield from fresh(standin(old=True))


def fresh(made: Standin) -> Iterator[Standin]:
    made.set_current(0)
    made.journal()
    yield made
    made.fail("", 0)
    made.hang(False)


class Device:
    """A device of the table, with its kernels."""

    def __init__(self, made: Standin, ordinal: int = 0) -> None:
        self.table = Table("cuda")
        self.handle = self.table.make("open", made.path.encode(), ordinal)

    def make(self, function: str, *args: object) -> ctypes.c_void_p:
        return self.table.make(function, self.handle, *args)

    def call(self, function: str, *args: object) -> int:
        return self.table.calls[function](self.handle, *args)

    def kernel(self, name: str, shared: int = 0) -> ctypes.c_void_p:
        module = self.make("load", b"binary of the kernel", ctypes.c_size_t(20))
        return self.make("kernel", module, name.encode(), ctypes.c_uint32(shared))

    def launch(self, kernel: ctypes.c_void_p, *values: ctypes._SimpleCData, cluster: tuple[int, int, int] = (1, 1, 1),
               attributes: int = 0) -> int:  # fmt: skip
        args = (Argument * len(values))(*(Argument(ctypes.addressof(v), ctypes.sizeof(v), 0) for v in values))
        sizes = [(ctypes.c_uint32 * 3)(*x) for x in ((7, 5, 3), (128, 2, 1), cluster)]
        spec = Launch(kernel, *sizes, 4096, attributes, len(values), args)
        return self.call("launch", None, ctypes.byref(spec))


# ---- opening


def test_facts_are_the_drivers_own_and_need_no_context(cuda: Standin) -> None:
    facts = native.open_device("cuda", 1, cuda.path).facts
    assert (facts.name, facts.arch, facts.version, facts.ordinal) == ("NVIDIA H200", "sm_90", "13.0", 1)
    assert facts.uuid == "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"
    assert (facts.units, facts.clock_khz, facts.memory_clock_khz, facts.bus_bits) == (132, 1_980_000, 3_201_000, 6144)
    assert (facts.shared_bytes, facts.cache_bytes, facts.persisting_bytes) == (232448, 60 << 20, 40 << 20)
    assert facts.flush_bytes == 2 * (60 << 20) and facts.timer_ns == 500 and facts.empty_kernel_ns == 1340
    assert not any("retain" in x or "current" in x for x in cuda.journal(contexts=True))


def test_what_an_empty_kernel_takes_is_not_claimed_for_other_architectures(cuda: Standin) -> None:
    assert native.open_device("cuda", 2, cuda.path).facts.empty_kernel_ns is None


@pytest.mark.parametrize(("ordinal", "path", "says"), [(3, None, "there is no GPU 3"), (-1, None, "there is no GPU -1"),
                                                       (0, "/nothing/libcuda.so", "not installed here")])  # fmt: skip
def test_a_device_that_is_not_there_is_absent(cuda: Standin, ordinal: int, path: str | None, says: str) -> None:
    with pytest.raises(native.DriverError, match=says) as caught:
        native.open_device("cuda", ordinal, path or cuda.path)
    assert caught.value.kind == "no-device"


def test_a_library_that_is_no_driver_is_absent(tmp_path: Path) -> None:
    (tmp_path / "empty.c").write_text("")
    subprocess.run(["cc", "-shared", "-o", tmp_path / "empty.so", tmp_path / "empty.c"], check=True, timeout=60)
    with pytest.raises(native.DriverError, match="no cuGetProcAddress") as caught:
        native.open_device("cuda", 0, str(tmp_path / "empty.so"))
    assert caught.value.kind == "no-device"


def test_a_driver_that_does_not_start_is_absent(tmp_path: Path) -> None:
    script = ("import sys; from tests.cuda.standin import standin; from portakern import native; x = standin();"
              "x.fail('cuInit', 100); native.open_device('cuda', 0, x.path)")
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60,
                         cwd=Path(__file__).parents[2])
    assert ran.returncode == 1 and "the NVIDIA driver does not start: cuInit" in ran.stderr, ran.stderr


# ---- the context


def test_the_primary_context_is_retained_once_and_current_when_needed(each: Standin) -> None:
    first, second = Device(each), Device(each)
    assert first.handle.value == second.handle.value
    memory = first.make("allocate", ctypes.c_size_t(64))
    first.call("free", ctypes.c_uint64(memory.value or 0))
    assert sum(x.startswith("retain") for x in each.journal()) <= 1
    assert each.current() == CONTEXT  # the thread had none, and this is the first GPU


def test_another_current_context_comes_back(cuda: Standin) -> None:
    device = Device(cuda)
    device.make("event_create")
    for other in (0xC000 + 101, CONTEXT):
        cuda.set_current(other)
        cuda.journal()
        device.make("event_create")
        assert cuda.current() == other
        switches = [x for x in cuda.journal(contexts=True) if x.startswith("current")]
        assert switches == ([] if other == CONTEXT else [f"current {CONTEXT:x}", f"current {other:x}"])


def test_a_thread_without_a_context_keeps_none_of_another_gpu(cuda: Standin) -> None:
    Device(cuda, 1).make("event_create")
    assert cuda.current() == 0


def test_every_call_is_made_in_the_context_also_from_other_threads(each: Standin) -> None:
    device = Device(each)
    gate, stream = device.make("gate_create"), device.make("stream_create")

    def work() -> None:
        begin, end = device.make("event_create"), device.make("event_create")
        for function, *args in [("gate_close", stream, gate), ("event_record", stream, begin), ("flush", stream),
                                ("launch_empty", stream), ("event_record", stream, end), ("reset_persisting",),
                                ("gate_open", gate), ("synchronize", stream, ctypes.c_int64(10**9)),
                                ("synchronize", None, ctypes.c_int64(-1)),
                                ("synchronize", None, ctypes.c_int64(10**9))]:  # fmt: skip
            assert device.call(function, *args) == OK, function
        elapsed = ctypes.c_double()
        assert device.call("event_elapsed", begin, end, ctypes.byref(elapsed)) == OK
        assert elapsed.value == pytest.approx(12_500)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not [x for x in each.journal() if "NO CONTEXT" in x]
    device.call("gate_destroy", gate)
    device.call("stream_destroy", stream)


# ---- memory


def test_copies_with_the_host_have_ended_when_they_return(cuda: Standin) -> None:
    device = native.open_device("cuda", 0, cuda.path)
    place = device.allocate(8)
    cuda.journal()
    data, back = ctypes.create_string_buffer(b"portaker", 8), ctypes.create_string_buffer(8)
    device.copy_in(place, ctypes.addressof(data), 8)
    device.fill(place, 0x2E, 3)
    device.copy(place + 4, place, 2)
    device.copy_out(ctypes.addressof(back), place, 8)
    assert back.raw == b"...t..er"
    assert cuda.journal() == ["cuMemcpyHtoD 8", "cuStreamSynchronize 0", "cuMemsetD8Async 46 3 stream 0",
                              "cuMemcpyDtoDAsync 2 stream 0", "cuMemcpyDtoH 8"]  # fmt: skip
    device.free(place)


# ---- kernels


def test_a_kernel_is_loaded_at_once_and_may_use_its_shared_memory(each: Standin) -> None:
    device = native.open_device("cuda", 0, each.path)
    each.journal()
    device.load(b"cubin").kernel("gelu", 100_000)
    calls = each.journal()
    loaded = "cuFuncGetAttribute 4 gelu" if each.old else "cuFuncLoad gelu"
    assert calls[:3] == ["cuModuleLoadData cubin", loaded, "cuFuncSetAttribute 8 100000 gelu"]
    assert calls[3:] in ([], ["cuModuleUnload"])


def test_a_launch_hands_over_sizes_stream_and_arguments_in_order(cuda: Standin) -> None:
    device = native.open_device("cuda", 0, cuda.path)
    cuda.parameters("axpy", 8, 4, 8, 2)
    kernel = device.load(b"cubin").kernel("axpy")
    args = [native.pointer(0x1000), native.scalar("i32", 7), native.pointer(0x2000), native.scalar("bf16", 1.0)]
    call = device.call([native.LaunchSpec(kernel, (4, 3, 2), (64, 2, 1), args, 512)])
    cuda.journal()
    call()
    call(0x77, [0x3000, 0x4000])
    expected = "cuLaunchKernelEx axpy grid 4 3 2 block 64 2 1 shared 512 stream {} args {} 7 {} 3f80"
    assert cuda.journal() == [expected.format("0", "1000", "2000"), expected.format("77", "3000", "4000")]


def test_a_cubin_tells_its_parameters_itself(cuda: Standin) -> None:
    """Asking the driver means asking for one too many, which sanitizers report as an error."""
    built = pk.build("row_sum", target="cuda:sm_90a", dtype="f32", M=64, N=128)
    if not (found := registry().language("cuda").toolchain.available(built.target)):  # type: ignore[union-attr]
        pytest.skip(f"needs NVRTC: {found.detail}")
    device = native.open_device("cuda", 0, cuda.path)
    kernel = device.load(built.binary.data).kernel("row_sum")
    device.call([native.LaunchSpec(kernel, (1, 1, 1), (32, 1, 1), [native.pointer(16), native.pointer(32)])])()
    few = device.call([native.LaunchSpec(kernel, (1, 1, 1), (32, 1, 1), [native.pointer(16)])])
    with pytest.raises(native.DriverError, match=r"parameters have \(8, 8\) bytes, the arguments given have \(8\)"):
        few()


def test_clusters_and_attributes_take_the_extended_launch(cuda: Standin) -> None:
    device = Device(cuda)
    kernel = device.kernel("product")
    cuda.journal()
    assert device.launch(kernel, cluster=(2, 1, 1)) == OK
    assert device.launch(kernel, cluster=(4, 4, 1)) == OK
    assert device.launch(kernel, attributes=1) == OK
    assert device.launch(kernel, cluster=(2, 2, 1), attributes=2) == OK
    line = "cuLaunchKernelEx product grid 7 5 3 block 128 2 1 shared 4096 stream 0{} args"
    assert cuda.journal() == [line.format(" cluster 2 1 1"), "cuFuncSetAttribute 14 1 product", line.format(" cluster 4 4 1"),
                              line.format(" attribute 2 = 1"), line.format(" cluster 2 2 1 attribute 6 = 1")]  # fmt: skip
    assert device.launch(kernel, attributes=8) == UNSUPPORTED


def test_an_old_driver_has_no_clusters(old: Standin) -> None:
    device = Device(old)
    kernel = device.kernel("product")
    assert device.launch(kernel, cluster=(2, 1, 1)) == UNSUPPORTED
    assert b"11.6" in device.table.error().text
    old.journal()
    assert device.launch(kernel) == OK
    assert old.journal() == ["cuLaunchKernel product grid 7 5 3 block 128 2 1 shared 4096 stream 0 args"]


def test_arguments_that_the_kernel_does_not_take_are_not_launched(cuda: Standin) -> None:
    device = Device(cuda)
    cuda.parameters("scale", 8, 4)
    kernel = device.kernel("scale")
    cuda.journal()
    assert device.launch(kernel, ctypes.c_uint64(1), ctypes.c_float(2)) == OK
    assert device.launch(kernel, ctypes.c_uint64(1)) == INVALID
    assert device.launch(kernel, ctypes.c_uint64(1), ctypes.c_double(2)) == INVALID
    assert device.table.error().text == b"the kernel's parameters have (8, 4) bytes, the arguments given have (8, 8)"
    assert len(cuda.journal()) == 1


# ---- gates, graphs, flush


@pytest.mark.parametrize("wait", ["cuStreamWaitValue32", "a kernel"])
def test_a_gate_holds_what_is_behind_it_until_it_is_opened(cuda: Standin, wait: str) -> None:
    device = Device(cuda)
    gate, stream = device.make("gate_create"), device.make("stream_create")
    cuda.parameters("pk_gate", 8, 4)
    cuda.journal()
    for ticket in (1, 2):
        if wait == "a kernel":
            cuda.fail("cuStreamWaitValue32", 801)
        assert device.call("gate_close", stream, gate) == OK
        (queued,) = cuda.journal()
        if wait == "a kernel":
            assert queued.startswith("cuLaunchKernel pk_gate grid 1 1 1 block 1 1 1") and queued.endswith(f" {ticket}")
        else:
            assert queued == f"cuStreamWaitValue32 {ticket} flags 0"
            assert device.call("synchronize", stream, ctypes.c_int64(10**6)) == TIMEOUT
        assert device.call("gate_open", gate) == OK
        assert device.call("synchronize", stream, ctypes.c_int64(10**9)) == OK
    device.call("gate_destroy", gate)
    assert "cuMemFreeHost" in cuda.journal()


def test_the_flush_is_ready_before_a_gate_can_be_closed(each: Standin) -> None:
    each.journal()
    device = Device(each, 1)
    gate = device.make("gate_create")
    calls = each.journal()
    assert "cuModuleLoadData helpers" in calls and f"cuMemAlloc {2 * (60 << 20)}" in calls
    assert {"cuFuncGetAttribute 4 pk_empty", "cuFuncGetAttribute 4 pk_flush", "cuFuncGetAttribute 4 pk_gate"} <= set(calls)
    each.parameters("pk_flush", 8, 8)
    stream = device.make("stream_wrap", ctypes.c_uint64(0x55))
    for function, args in [("gate_close", (stream, gate)), ("flush", (stream,)), ("launch_empty", (stream,))]:
        assert device.call(function, *args) == OK
    queued = each.journal()
    assert len(queued) == 3
    assert queued[1].startswith("cuLaunchKernel pk_flush grid 1056 1 1 block 512 1 1 shared 0 stream 55 args")
    assert each.old or queued[1].endswith(f" {(2 * (60 << 20)) // 16:x}")
    assert queued[2].startswith("cuLaunchKernel pk_empty grid 1 1 1 block 32 1 1")
    device.call("gate_open", gate)
    device.call("gate_destroy", gate)


def test_a_graph_is_captured_uploaded_and_replayed(cuda: Standin) -> None:
    device = Device(cuda)
    stream = device.make("stream_create")
    cuda.journal()
    assert device.call("capture_begin", stream) == OK
    graph = device.make("capture_end", stream)
    assert device.call("graph_launch", stream, graph) == OK
    device.call("graph_destroy", graph)
    calls = [x.partition(" stream")[0] for x in cuda.journal() if "Graph" in x or "Capture" in x]
    assert calls == ["cuStreamBeginCapture 2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags 0", "cuGraphUpload",
                     "cuGraphDestroy", "cuGraphLaunch", "cuGraphExecDestroy"]  # fmt: skip


# ---- prepared calls as graphs


def two_launches(made: Standin) -> native.Call:
    device = native.open_device("cuda", 0, made.path)
    made.parameters("first", 8)
    made.parameters("second", 8, 4)
    module = device.load(b"cubin")
    specs = [native.LaunchSpec(module.kernel("first"), (4, 1, 1), (64, 1, 1), (native.pointer(0x10),)),
             native.LaunchSpec(module.kernel("second"), (4, 1, 1), (64, 1, 1), (native.pointer(0x20), native.scalar("i32", 5)))]
    made.journal()
    return device.call(specs)


def test_a_call_made_again_and_again_becomes_a_graph(cuda: Standin) -> None:
    call = two_launches(cuda)
    for _ in range(2):
        call(0x77)
    assert [x.split()[:2] for x in cuda.journal()] == 2 * [["cuLaunchKernelEx", "first"], ["cuLaunchKernelEx", "second"]]
    call(0x77)
    made = cuda.journal()
    expected = "cuGraphLaunch stream 77 | first args {} | second args {} 5"
    assert made[-3:] == ["cuStreamEndCapture", "cuGraphInstantiateWithFlags 0", expected.format(10, 20)]
    call(0x77)
    call(0x77, [0x30, 0x40])
    call(0x77)
    assert cuda.journal() == [expected.format(10, 20), *2 * [expected.format(30, 40)]]
    del call
    assert cuda.journal()[:2] == ["cuGraphExecDestroy", "cuGraphDestroy"]


def test_other_streams_and_captures_take_launches(cuda: Standin) -> None:
    call = two_launches(cuda)
    for _ in range(4):
        call(0x77)
    cuda.journal()
    call(0x99, [0x50, 0x60])
    launches = ["cuLaunchKernelEx first", "cuLaunchKernelEx second"]
    assert [" ".join(x.split()[:2]) for x in cuda.journal()] == launches
    for _ in range(2):
        call(0x99)
    assert cuda.journal()[-1] == "cuGraphLaunch stream 99 | first args 50 | second args 60 5"

    device = Device(cuda)
    stream = device.make("stream_wrap", ctypes.c_uint64(0x99))
    assert device.call("capture_begin", stream) == OK
    call(0x99)
    device.make("capture_end", stream)
    assert not any("cuGraphLaunch" in x for x in cuda.journal())
    call(0x99)
    assert "cuGraphLaunch stream 99" in cuda.journal()[-1]


def test_streams_in_turns_make_no_graph(cuda: Standin) -> None:
    call = two_launches(cuda)
    for stream in 4 * (0x77, 0x99):
        call(stream)
    assert not any("Graph" in x for x in cuda.journal())


def test_an_old_driver_goes_on_launching(old: Standin) -> None:
    call = two_launches(old)
    for _ in range(5):
        call(0x77)
    calls = old.journal()
    assert len(calls) == 10 and all(x.startswith("cuLaunchKernel ") for x in calls)


@pytest.mark.parametrize("function", ["cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams"])
def test_a_graph_that_cannot_be_had_is_done_without(cuda: Standin, function: str) -> None:
    call = two_launches(cuda)
    call(0x77)
    call(0x77)
    if "SetParams" in function:
        call(0x77)
    cuda.fail(function, 999)
    for _ in range(2):
        cuda.journal()
        call(0x77, [0x30, 0x40])
        assert [x.rpartition(" args ")[2] for x in cuda.journal()[-2:]] == ["30", "40 5"]
    assert not any("Graph" in x for x in cuda.journal())


@pytest.mark.parametrize("native_handle", [0, 1])
def test_the_default_stream_is_not_captured(cuda: Standin, native_handle: int) -> None:
    device = Device(cuda)
    assert device.call("capture_begin", device.make("stream_wrap", ctypes.c_uint64(native_handle))) == UNSUPPORTED
    assert b"default stream" in device.table.error().text


def test_a_capture_that_was_broken_is_an_error(cuda: Standin) -> None:
    device = Device(cuda)
    stream = device.make("stream_create")
    device.call("capture_begin", stream)
    cuda.fail("cuStreamEndCapture", 901)
    graph = ctypes.c_void_p()
    assert device.call("capture_end", stream, ctypes.byref(graph)) == 901 and not graph


def test_streams_are_ordered_after_the_default_stream_and_known_by_their_handle(cuda: Standin) -> None:
    device = native.open_device("cuda", 0, cuda.path)
    stream = device.stream()
    assert stream.handle and "cuStreamCreate 0" in cuda.journal()
    table = Device(cuda)
    wrapped = table.make("stream_wrap", ctypes.c_uint64(0x1234))
    assert table.call("stream_native", wrapped) == 0x1234
    table.call("stream_destroy", wrapped)
    assert "cuStreamDestroy" not in cuda.journal()


# ---- deadlines and errors


def test_a_deadline_passes_while_work_runs(each: Standin) -> None:
    device = Device(each)
    stream = device.make("stream_create")
    each.hang(True)
    for waited in (stream, None):
        begin = time.monotonic()
        assert device.call("synchronize", waited, ctypes.c_int64(50_000_000)) == TIMEOUT
        assert 0.04 < time.monotonic() - begin < 5
    each.hang(False)
    assert device.call("synchronize", None, ctypes.c_int64(10**10)) == OK


def test_the_python_face_says_timeout(cuda: Standin) -> None:
    device = native.open_device("cuda", 0, cuda.path)
    cuda.hang(True)
    with pytest.raises(native.DriverError) as caught:
        device.synchronize(0.02)
    assert caught.value.kind == "timeout" and device.stuck
    cuda.hang(False)
    device.synchronize(5.0)
    assert not device.stuck


@pytest.mark.parametrize(("function", "code", "kind"), [
    ("cuModuleLoadData", 200, "driver"), ("cuModuleGetFunction", 500, "driver"), ("cuFuncSetAttribute", 1, "driver"),
    ("cuLaunchKernelEx", 701, "driver"), ("cuLaunchKernelEx", 700, "device-lost"), ("cuLaunchKernelEx", 719, "device-lost"),
])  # fmt: skip
def test_a_failure_names_the_function_and_the_drivers_words(cuda: Standin, function: str, code: int, kind: str) -> None:
    device = native.open_device("cuda", 0, cuda.path)
    cuda.fail(function, code)
    with pytest.raises(PortakernError) as caught:
        kernel = device.load(b"cubin").kernel("k", 1024)
        device.call([native.LaunchSpec(kernel, (1, 1, 1), (1, 1, 1), ())])()
    assert caught.value.kind == kind
    assert function in caught.value.message and "words of the driver" in caught.value.message
    assert ("CUDA_ERROR_ILLEGAL_ADDRESS" in caught.value.message) == (code == 700)


def test_no_memory_for_the_flush_is_an_error_and_not_a_flush_left_out(cuda: Standin) -> None:
    device = Device(cuda, 2)
    cuda.fail("cuMemAlloc", 2)
    assert device.call("flush", None) == 2 and b"flush" in device.table.error().text
    assert device.call("flush", None) == OK


def test_health_without_nvml_is_unsupported(cuda: Standin) -> None:
    device = native.open_device("cuda", 0, cuda.path)
    try:
        device.health()
    except native.DriverError as error:
        assert error.kind == "unsupported" and "NVML" in error.message
        return
    pytest.fail("a GPU of the stand-in is known to NVML")


NVML = """
#include <string.h>
struct device;
static struct device *const it = (struct device *)1;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) {
    *out = it;
    return strcmp(uuid, "GPU-01020304-0506-0708-090a-0b0c0d0e0f10") == 0 ? 0 : 6;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct device **out) {
    *out = it;
    return BUS && strcmp(bus, "0000:ff:1f.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetClockInfo(struct device *d, int which, unsigned *mhz) { *mhz = which == 1 ? 1755 : 3201; return d != it; }
int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned *c) { *c = 61; return d != it || sensor != 0; }
int nvmlDeviceGetPowerUsage(struct device *d, unsigned *mw) { *mw = 650000; return d != it; }
int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, unsigned long long *bits) { *bits = BITS; return d != it; }
"""

_HEALTH = """
import sys
from portakern import native
device = native.open_device("cuda", int(sys.argv[2]), sys.argv[1])
try:
    print(device.health())
except native.DriverError as error:
    print(error.kind, error.message)
"""


def health(folder: Path, made: Standin, ordinal: int, bits: int, bus: bool = True) -> str:
    """What health says in a process that finds a stand-in for NVML."""
    (folder / "nvml.c").write_text(NVML)
    build = ["cc", "-shared", "-fPIC", f"-DBITS={bits}ull", f"-DBUS={int(bus)}"]
    subprocess.run([*build, "-o", folder / "libnvidia-ml.so.1", folder / "nvml.c"], check=True, timeout=60)
    ran = subprocess.run([sys.executable, "-c", _HEALTH, made.path, str(ordinal)], capture_output=True, text=True, timeout=60,
                         env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize(("bits", "throttled", "reason"), [
    (0x1 | 0x2 | 0x10 | 0x100, False, None), (0x4, True, "'software power cap'"),
    (0x8 | 0x40, True, "'hardware slowdown, hardware thermal slowdown'"),
])  # fmt: skip
def test_health_tells_what_slows_the_gpu_down(cuda: Standin, tmp_path: Path, bits: int, throttled: bool, reason: str) -> None:
    said = health(tmp_path, cuda, 1, bits)
    assert said == (f"DeviceHealth(clock_mhz=1755, memory_clock_mhz=3201, temperature_c=61, power_mw=650000, "
                    f"throttled={throttled}, reason={reason})")


def test_health_finds_the_gpu_by_its_bus_where_nvml_has_another_uuid(cuda: Standin, tmp_path: Path) -> None:
    assert "clock_mhz=1755" in health(tmp_path, cuda, 0, 0)
    assert health(tmp_path, cuda, 0, 0, bus=False).startswith("unsupported cuda health: NVML knows no GPU GPU-00010203")


def test_the_probe_and_opening_agree_on_the_devices(cuda: Standin) -> None:
    probe = native.probe_driver("cuda", cuda.path)
    assert (probe.present, probe.device_count, probe.version, probe.error) == (True, 3, "13.0", "")
    assert Table("cuda").open(cuda.path.encode(), 9, ctypes.byref(ctypes.c_void_p())) == NO_DEVICE
