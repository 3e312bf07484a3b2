"""The HIP driver's table: against a stand-in that records what is called, and against AMD's own library without a GPU.

No AMD GPU has been seen by this code: the stand-in shows that names, argument orders, lifetimes and the order of calls are
those of the API reference, and nothing about silicon.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from portakern import native
from portakern.timing.measure import Contender, Options, measure
from tests.driver_table import NO_DEVICE, OK, TIMEOUT, UNSUPPORTED, Argument, Launch, Table
from tests.rocm.standin import Standin, standin

ELF = b"\x7fELF...."
MB = 1 << 20
CAN_WAIT, L2 = 10013, 19


@pytest.fixture
def hip() -> Iterator[Standin]:
    yield from fresh(standin())


@pytest.fixture
def old() -> Iterator[Standin]:
    yield from fresh(standin(old=True))


def fresh(made: Standin) -> Iterator[Standin]:
    made.set_current(0)
    made.journal()
    yield made
    made.fail("", 0)
    made.options()
    made.attribute(CAN_WAIT, 1)


class Device:
    """A device of the table."""

    def __init__(self, made: Standin, ordinal: int = 0) -> None:
        self.table = Table("hip")
        self.handle = self.table.make("open", made.path.encode(), ordinal)

    def make(self, function: str, *args: object) -> ctypes.c_void_p:
        return self.table.make(function, self.handle, *args)

    def call(self, function: str, *args: object) -> int:
        return self.table.calls[function](self.handle, *args)

    def error(self) -> str:
        return self.table.error().text.decode()

    def stream(self) -> ctypes.c_void_p:
        return self.make("stream_wrap", ctypes.c_uint64(0))

    def launch(self, stream: ctypes.c_void_p, *values: ctypes._SimpleCData, cluster: tuple[int, int, int] = (1, 1, 1),
               attributes: int = 0) -> int:  # fmt: skip
        module = self.make("load", ELF, ctypes.c_size_t(len(ELF)))
        kernel = self.make("kernel", module, b"pk_empty", ctypes.c_uint32(0))
        args = (Argument * len(values))(*(Argument(ctypes.addressof(v), ctypes.sizeof(v), 0) for v in values))
        sizes = [(ctypes.c_uint32 * 3)(*x) for x in ((7, 5, 3), (128, 2, 1), cluster)]
        spec = Launch(kernel, *sizes, 4096, attributes, len(values), args)
        return self.call("launch", stream, ctypes.byref(spec))


# ---- devices


def test_facts(hip: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAKERN_SYSFS", str(tmp_path))
    facts = native.open_device("hip", 1, hip.path).facts
    assert (facts.name, facts.arch, facts.ordinal) == ("AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 1)
    assert (facts.units, facts.clock_khz, facts.memory_clock_khz, facts.bus_bits) == (304, 2_100_000, 1_300_000, 8192)
    assert (facts.version, facts.shared_bytes, facts.timer_ns) == ("6.3.42134", 65536, 10)
    assert facts.uuid == bytes(range(16)).hex() and facts.memory_bytes == 192 << 30
    # HIP tells the L2 only; what a flush moves covers any cache that AMD's GPUs have.
    assert facts.cache_bytes == 4 * MB and facts.flush_bytes == 512 * MB


def test_facts_of_an_old_runtime(old: Standin) -> None:
    assert native.open_device("hip", 0, old.path).facts.arch == "gfx942:sramecc+:xnack-"


def test_the_infinity_cache_and_the_sensors_are_the_kernels_to_tell(
    hip: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAKERN_SYSFS", str(tmp_path))
    nodes = tmp_path / "class" / "kfd" / "kfd" / "topology" / "nodes"
    for node, (simds, bus) in enumerate(((0, 0), (1216, 0xC0), (1216, 0xC1))):
        write(nodes / str(node) / "properties", f"cpu_cores_count 0\nsimd_count {simds}\nlocation_id {bus << 8}\ndomain 0\n")
        for number, (level, size) in enumerate(((1, 32), (2, 4096), (3, 262144 if bus == 0xC1 else 1))):
            write(nodes / str(node) / "caches" / str(number) / "properties", f"level {level}\nsize {size}\n")
    sensors = tmp_path / "bus" / "pci" / "devices" / "0000:c1:00.0" / "hwmon" / "hwmon3"
    for name, text in (("freq1_label", "sclk"), ("freq1_input", "2100000000"), ("freq2_label", "mclk"),
                       ("freq2_input", "1300000000"), ("temp1_label", "edge"), ("temp1_input", "40000"),
                       ("temp2_label", "junction"), ("temp2_input", "61000"), ("power1_average", "750000000")):  # fmt: skip
        write(sensors / name, text)
    opened = native.open_device("hip", 1, hip.path)
    assert opened.facts.cache_bytes == 256 * MB and opened.facts.flush_bytes == 512 * MB
    health = opened.health()
    assert (health.clock_mhz, health.memory_clock_mhz, health.temperature_c, health.power_mw) == (2100, 1300, 61, 750_000)
    assert health.throttled is None and health.reason is None
    assert native.open_device("hip", 0, hip.path).health().clock_mhz is None


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_threads_device_comes_back(hip: Standin) -> None:
    device = Device(hip, 1)
    assert device.make("allocate", ctypes.c_size_t(64))
    assert hip.current() == 0
    assert hip.journal() == ["hipSetDevice 1", "hipMalloc 64", "hipSetDevice 0"]


def test_no_such_device(hip: Standin) -> None:
    with pytest.raises(native.DriverError, match="no AMD GPU 2: HIP finds 2") as caught:
        native.open_device("hip", 2, hip.path)
    assert caught.value.kind == "no-device"
    hip.fail("hipGetDeviceCount", 100)
    with pytest.raises(native.DriverError) as caught:
        native.open_device("hip", 0, hip.path)
    assert caught.value.kind == "no-device"


def test_failures_name_the_function_and_what_ends_the_device(hip: Standin) -> None:
    device = native.open_device("hip", 0, hip.path)
    with pytest.raises(native.DriverError, match="no code object") as caught:
        device.load(b"nothing of the kind")
    assert caught.value.kind == "invalid"
    hip.fail("hipModuleLoadData", 209)
    with pytest.raises(native.DriverError, match=r"hipModuleLoadData.*no kernel image") as caught:
        device.load(ELF)
    assert caught.value.kind == "driver"
    hip.fail("hipStreamQuery", 700)
    with pytest.raises(native.DriverError, match="illegal address") as caught:
        device.synchronize(1.0, stream=0)
    assert caught.value.kind == "device-lost"


# ---- launching


def test_launches(hip: Standin, old: Standin) -> None:
    device = Device(hip)
    stream = device.stream()
    hip.journal()
    assert device.launch(stream, ctypes.c_uint64(1)) == OK
    assert hip.journal()[-1] == "launch pk_empty grid 7 5 3 block 128 2 1 shared 4096 stream (nil)"
    assert device.launch(stream, attributes=native.COOPERATIVE) == OK
    assert hip.journal()[-1].startswith("cooperative pk_empty")
    assert device.launch(stream, cluster=(2, 1, 1)) == UNSUPPORTED and "clusters" in device.error()
    assert device.launch(stream, attributes=native.OVERLAP_PREVIOUS) == UNSUPPORTED
    ancient = Device(old)
    assert ancient.launch(ancient.stream(), attributes=native.COOPERATIVE) == UNSUPPORTED


def test_streams(hip: Standin) -> None:
    device = Device(hip)
    own, wrapped = device.make("stream_create"), device.make("stream_wrap", ctypes.c_uint64(0x77))
    assert device.table.stream_native(device.handle, wrapped) == 0x77
    device.call("stream_destroy", wrapped)
    device.call("stream_destroy", own)
    assert hip.journal() == ["hipStreamCreateWithFlags 1", "hipStreamDestroy"]  # what is wrapped is not ours to end


def test_waiting_ends_at_the_deadline(hip: Standin) -> None:
    device = Device(hip)
    hip.options(hang=True)
    stream = device.stream()
    for waited_for in (stream, None):
        begin = time.monotonic()
        assert device.call("synchronize", waited_for, ctypes.c_int64(20_000_000)) == TIMEOUT
        assert 0.015 < time.monotonic() - begin < 5
    hip.options()
    assert device.call("synchronize", None, ctypes.c_int64(5_000_000_000)) == OK


# ---- gates, graphs, flushing


def test_a_gate_waits_in_signal_memory(hip: Standin) -> None:
    device = Device(hip)
    stream, gate = device.stream(), device.make("gate_create")
    assert "hipExtMallocWithFlags 8 2" in hip.journal()
    for closing in (1, 2):
        assert device.call("gate_close", stream, gate) == OK
        assert hip.journal() == [f"hipStreamWaitValue32 stream (nil) value {closing} flags 0 mask ffffffff"]
        assert device.call("synchronize", stream, ctypes.c_int64(2_000_000)) == TIMEOUT
        assert device.call("gate_open", gate) == OK
        assert device.call("synchronize", stream, ctypes.c_int64(5_000_000_000)) == OK
    device.call("gate_destroy", gate)
    assert hip.journal() == ["hipFree"]


def test_a_gate_without_signal_memory_is_in_the_hosts(hip: Standin) -> None:
    hip.options(signals=False)
    device = Device(hip)
    gate = device.make("gate_create")
    assert "hipHostMalloc 8 40000002" in hip.journal()
    device.call("gate_destroy", gate)
    assert hip.journal() == ["hipHostFree"]


def test_streams_that_cannot_wait_have_no_gate(hip: Standin) -> None:
    hip.attribute(CAN_WAIT, 0)
    device = Device(hip)
    assert device.call("gate_create", ctypes.byref(ctypes.c_void_p())) == UNSUPPORTED


def test_a_gate_prepares_what_must_not_wait_behind_it(hip: Standin) -> None:
    device = Device(hip)
    stream, gate = device.stream(), device.make("gate_create")
    journal = hip.journal()
    assert [x for x in journal if x.startswith(("hiprtc", "hipMalloc", "hipModule"))] == [
        "hiprtcCompileProgram --offload-arch=gfx942:sramecc+:xnack-", "hipModuleLoadData", f"hipMalloc {512 * MB}",
    ]  # fmt: skip
    device.call("gate_close", stream, gate)
    assert device.call("flush", stream) == OK and device.call("launch_empty", stream) == OK
    assert hip.journal()[1:] == [
        "launch pk_read grid 2432 1 1 block 256 1 1 shared 0 stream (nil)",
        "launch pk_empty grid 1 1 1 block 64 1 1 shared 0 stream (nil)",
    ]
    device.call("gate_destroy", gate)


@pytest.mark.parametrize("without", ["compiler that works", "compiler"])
def test_without_a_compiler_nothing_is_flushed_and_nothing_pretended(hip: Standin, old: Standin, without: str) -> None:
    hip.options(compiler=False)
    device = Device(hip if without == "compiler that works" else old)
    stream = device.stream()
    assert device.call("flush", stream) == UNSUPPORTED and "run-time compiler" in device.error()
    assert device.call("launch_empty", stream) == UNSUPPORTED
    device.make("gate_create")  # is there all the same
    assert not [x for x in (*hip.journal(), *old.journal()) if x.startswith(("launch", "hipMemset"))]


def test_graphs(hip: Standin, old: Standin) -> None:
    device = Device(hip)
    stream = device.make("stream_create")
    assert device.call("capture_begin", stream) == OK
    device.launch(stream)
    graph = device.make("capture_end", stream)
    assert device.call("graph_launch", stream, graph) == OK
    device.call("graph_destroy", graph)
    names = [x.split()[0] for x in hip.journal() if "Graph" in x or "Capture" in x]
    assert names == ["hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiate", "hipGraphDestroy",
                     "hipGraphLaunch", "hipGraphExecDestroy"]  # fmt: skip
    ancient = Device(old)
    assert ancient.call("capture_begin", ancient.stream()) == UNSUPPORTED


def test_events(hip: Standin) -> None:
    device = Device(hip)
    stream, begin, end = device.stream(), device.make("event_create"), device.make("event_create")
    device.call("event_record", stream, begin)
    time.sleep(0.01)
    device.call("event_record", stream, end)
    elapsed = ctypes.c_double()
    assert device.call("event_elapsed", begin, end, ctypes.byref(elapsed)) == OK
    assert 9e6 < elapsed.value < 1e9  # nanoseconds


# ---- the whole protocol


def shift(device: native.Device, x: int, y: int, n: int) -> native.Call:
    kernel = device.load(ELF).kernel("shift")
    args = [native.pointer(x), native.scalar("f32", 0.5), native.pointer(y), native.scalar("i64", n)]
    return device.call([native.LaunchSpec(kernel, (4, 1, 1), (256, 1, 1), args)])


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_the_timing_protocol(hip: Standin, cache: str) -> None:
    import numpy as np

    device = native.open_device("hip", 0, hip.path)
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    places = [device.allocate(x.nbytes) for _ in range(2)]
    device.copy_in(places[0], x.ctypes.data, x.nbytes)
    call = shift(device, places[0], places[1], 1000)
    hip.journal()
    options = Options(budget_s=0.2, min_samples=6, max_samples=6, warm_up_s=0.01, cache=cache, mode="single")  # type: ignore[arg-type]
    timing = measure(device, [Contender("shift", [call])], options).timings[0]
    assert len(timing.samples_us) == 6 and "gate" in timing.mode and "not gated" not in timing.mode
    journal = [x.split(" stream")[0].split(" grid")[0].partition(" value")[0] for x in hip.journal()]
    lines = [x for x, _ in itertools.groupby(journal)]  # as one: the calls that lead into a warm sample
    before = "launch pk_read" if cache == "cold" else "launch shift"
    sample = ["hipStreamWaitValue32", before, "hipEventRecord", "launch shift", "hipEventRecord", "hipEventElapsedTime"]
    assert sum(lines[n : n + len(sample)] == sample for n in range(len(lines))) >= 6, lines[-40:]
    assert not [x for x in lines if x == "hipMalloc" and lines.index(x) > lines.index("hipStreamWaitValue32")]
    device.copy_out(y.ctypes.data, places[1], y.nbytes)
    assert (y == x + 0.5).all()
    for place in places:
        device.free(place)


def test_timing_says_what_a_gpu_or_its_runtime_cannot_do(hip: Standin, old: Standin) -> None:
    old.attribute(CAN_WAIT, 0)
    device = native.open_device("hip", 0, old.path)  # without a run-time compiler
    place = device.allocate(4000)
    options = Options(budget_s=0.1, min_samples=5, max_samples=5, warm_up_s=0.01)
    timing = measure(device, [Contender("shift", [shift(device, place, place, 10)])], options).timings[0]
    assert "cannot flush" in timing.mode and "no gate" in timing.mode and timing.empty_us is None
    device.free(place)


# ---- AMD's own library, without a GPU

REAL = """
from portakern import native
found = native.probe_driver("hip")
if not found.present or found.device_count:
    print("skip", found.error or f"{found.device_count} GPUs")
    raise SystemExit
assert found.version and "100" in found.error, found
try:
    native.open_device("hip")
except native.DriverError as error:
    assert error.kind == "no-device", error.kind
    print("fine", found.path, error.message)
"""


def test_amds_library_on_a_machine_without_a_gpu() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PORTAKERN_HIP_LIBRARY"}
    run = subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, timeout=60, env=environment)
    assert run.returncode == 0, run.stderr
    if run.stdout.startswith("skip"):
        pytest.skip(f"needs AMD's HIP runtime and no AMD GPU: apt-get install libamdhip64-5 ({run.stdout[5:].strip()})")
    assert run.stdout.startswith("fine") and "hip" in run.stdout


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    nothing = tmp_path / "libamdhip64.so"
    nothing.write_text("nothing")
    assert not native.probe_driver("hip", str(nothing)).present
    status = Table("hip").calls["open"](str(nothing).encode(), 0, ctypes.byref(ctypes.c_void_p()))
    assert status == NO_DEVICE
