"""The native drivers of OpenCL and of SYCL's CPU device: one set of tests for both tables, on the device itself."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portakern import native
from portakern.backend import Launch, Source
from portakern.backends.sycl.opencl import binaries
from portakern.ir.program import Array
from portakern.ir.size import Sym
from portakern.ir.tile import BufferType
from portakern.timing.measure import Contender, Options, measure
from tests.driver_table import INVALID, OK, TIMEOUT, UNSUPPORTED, Table
from tests.sycl.targets import language, needs_opencl, needs_sycl, target

TEXT = {
    "opencl": """
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void work(__global float *x, __global float *y, long turns)
{
    const long g = get_group_id(0);
    float s = x[g];
    for (long t = 0; t < turns; ++t) s = s * 0.5f + 1.0f;
    y[g] = s;
}
""",
    "sycl": """
#include "pk/cpu.hpp"
PK_KERNEL work(const float* x, float* y, long turns)
{
    const long g = pk::group(0);
    float s = x[g];
    for (long t = 0; t < turns; ++t) s = s * 0.5f + 1.0f;
    y[g] = s;
}
""",
}
GROUPS = 64


class Loaded:
    """A program on a device: y[g] = x[g] after so many turns of s / 2 + 1."""

    def __init__(self, name: str) -> None:
        of, where = language(name), target(f"{name}:cpu")
        assert of.adopt is not None and of.toolchain is not None and of.runtime is not None
        n = Sym.named("turns")
        arrays = tuple(Array(x, BufferType((GROUPS,), "f32"), role) for x, role in (("x", "input"), ("y", "output")))
        launch = Launch("work", (GROUPS, 1, 1), (1, 1, 1), ("x", "y", "turns"))
        source = Source(where, "work", "work", TEXT[name], ".cl", arrays, (str(n),), (launch,), self.headers(name))
        self.binary = of.toolchain.compile(source)
        self.executable: Any = of.runtime.load(source, self.binary)
        self.device: native.Device = self.executable.device
        self.x = np.arange(GROUPS, dtype=np.float32)
        self.table = Table(name)

    @staticmethod
    def headers(name: str) -> tuple[tuple[str, str], ...]:
        if name == "opencl":
            return ()
        from tests import samples

        of, where = language(name), target(f"{name}:cpu")
        return of.emitter.emit(samples.softmax(rows=4, cols=20, dtype="f32", tile=(1, 32)), where).headers

    def prepared(self, turns: int) -> Any:
        return self.executable.prepare([self.x], {"turns": turns})


@pytest.fixture(scope="module", params=[pytest.param("opencl", marks=needs_opencl), pytest.param("sycl", marks=needs_sycl)])
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    yield Loaded(request.param)


def test_facts(loaded: Loaded) -> None:
    facts = loaded.device.facts
    assert facts.name and facts.version and facts.host_memory and not facts.blocking
    assert facts.units and facts.memory_bytes and facts.cache_bytes and facts.timer_ns
    assert facts.flush_bytes and facts.flush_bytes >= 2 * facts.cache_bytes


def test_arrays_are_used_where_they_are(loaded: Loaded) -> None:
    call = loaded.prepared(1)
    call()
    np.testing.assert_array_equal(call.outputs[0], loaded.x / 2 + 1)
    loaded.x[:] += 8
    call()
    np.testing.assert_array_equal(call.outputs[0], loaded.x / 2 + 1)
    loaded.x[:] -= 8
    mine = np.zeros(GROUPS, np.float32)
    loaded.executable.prepare([loaded.x], {"turns": 2}, [mine])()
    np.testing.assert_array_equal(mine, (loaded.x / 2 + 1) / 2 + 1)


def test_memory(loaded: Loaded) -> None:
    device = loaded.device
    place, other = device.allocate(4096), device.allocate(4096)
    there, back = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    device.copy_in(place, there.ctypes.data, 4096)
    device.copy(other, place, 4096)
    device.copy_out(back.ctypes.data, other, 4096)
    assert (back == there).all()
    device.fill(other, 0xFF, 2048)
    device.copy_out(back.ctypes.data, other, 4096)
    assert np.isnan(back[:512]).all() and (back[512:] == there[512:]).all()
    device.free(place)
    device.free(other)


def test_a_deadline_ends_the_wait_and_not_the_work(loaded: Loaded) -> None:
    call = loaded.prepared(20_000_000)
    call.call()
    begin = time.monotonic()
    with pytest.raises(native.DriverError) as caught:
        loaded.device.synchronize(0.01)
    assert caught.value.kind == "timeout" and time.monotonic() - begin < 1
    loaded.device.synchronize()
    assert np.allclose(call.outputs[0], 2)


HANGS = """
import sys
from portakern.errors import PortakernError
from portakern.timing.measure import Contender, Options, measure
from tests.sycl.test_driver import Loaded

loaded = Loaded(sys.argv[1])
try:
    measure(loaded.device, [Contender("work", [loaded.prepared(10**12).call])], Options(deadline_s=0.2))
except PortakernError as error:
    print(error.kind)
raise SystemExit(3)
"""


@pytest.mark.parametrize("name", [pytest.param("opencl", marks=needs_opencl), pytest.param("sycl", marks=needs_sycl)])
def test_a_kernel_that_hangs_is_an_error_and_the_process_can_end(name: str) -> None:
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", HANGS, name], capture_output=True, text=True, timeout=60, cwd=root)
    assert (run.stdout.strip(), run.returncode) == ("timeout", 3), run.stderr


class Handles:
    """A device of the table itself, for what the Python face does not offer."""

    def __init__(self, loaded: Loaded) -> None:
        from portakern.backends.sycl.opencl.platforms import intel_library

        self.table = loaded.table
        path = str(intel_library() or "").encode() or None
        self.device = self.table.make("open", path, 0)
        self.stream = self.table.make("stream_wrap", self.device, ctypes.c_uint64(0))

    def make(self, function: str, *args: object) -> ctypes.c_void_p:
        return self.table.make(function, self.device, *args)

    def call(self, function: str, *args: object) -> int:
        return self.table.calls[function](self.device, *args)

    def elapsed(self, begin: object, end: object) -> tuple[int, float]:
        found = ctypes.c_double(-1)
        return self.call("event_elapsed", begin, end, ctypes.byref(found)), found.value


FOREVER, SHORT = ctypes.c_int64(-1), ctypes.c_int64(5_000_000)


def test_a_gate_holds_what_is_behind_it(loaded: Loaded) -> None:
    h = Handles(loaded)
    gate, begin, end = h.make("gate_create"), h.make("event_create"), h.make("event_create")
    for _ in range(2):
        assert h.call("gate_close", h.stream, gate) == OK
        assert h.call("gate_close", h.stream, gate) == INVALID
        h.call("event_record", h.stream, begin)
        assert h.call("flush", h.stream) == OK
        h.call("event_record", h.stream, end)
        assert h.call("synchronize", h.stream, SHORT) == TIMEOUT
        assert h.elapsed(begin, end)[0] != OK
        assert h.call("gate_open", gate) == OK and h.call("gate_open", gate) == OK
        assert h.call("synchronize", h.stream, FOREVER) == OK
        status, ns = h.elapsed(begin, end)
        assert status == OK and ns > 0
    h.call("gate_close", h.stream, gate)
    h.call("launch_empty", h.stream)
    room = ctypes.c_uint64()
    h.call("allocate", ctypes.c_size_t(64), ctypes.byref(room))
    assert h.call("copy_in", room, b"x" * 64, ctypes.c_size_t(64)) == INVALID  # would wait for ever
    h.call("gate_destroy", gate)  # lets go what it holds
    assert h.call("synchronize", None, FOREVER) == OK
    assert h.call("free", room) == OK


def test_events_are_places_between_commands(loaded: Loaded) -> None:
    h = Handles(loaded)
    first, second, third = (h.make("event_create") for _ in range(3))
    h.call("event_record", h.stream, first)
    h.call("event_record", h.stream, second)
    assert h.elapsed(first, second) == (OK, 0)  # nothing between them
    assert h.elapsed(second, third)[0] == INVALID
    h.call("launch_empty", h.stream)
    h.call("flush", h.stream)
    h.call("event_record", h.stream, third)
    h.call("synchronize", None, FOREVER)
    (_, whole), (_, same) = h.elapsed(first, third), h.elapsed(second, third)
    assert whole == same > 0
    assert h.elapsed(third, first)[0] == INVALID
    for event in (first, second, third):
        h.call("event_destroy", event)


def test_streams(loaded: Loaded) -> None:
    h = Handles(loaded)
    own = h.make("stream_create")
    handle = h.table.stream_native(h.device, own)
    again = h.make("stream_wrap", ctypes.c_uint64(handle))
    assert h.call("launch_empty", again) == OK and h.call("synchronize", again, FOREVER) == OK
    h.call("stream_destroy", own)
    assert h.call("synchronize", None, FOREVER) == OK


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_the_loop_times_it(loaded: Loaded, cache: str) -> None:
    call = loaded.prepared(20_000)
    options = Options(budget_s=0.3, min_samples=5, max_samples=20, warm_up_s=0.01, cache=cache)  # type: ignore[arg-type]
    timing = measure(loaded.device, [Contender("work", [call.call])], options).timings[0]
    assert "queued behind a closed gate" in timing.mode and (cache == "warm" or "caches flushed" in timing.mode)
    assert (timing.samples_us > 0).all() and timing.empty_us is not None and timing.empty_us > 0
    assert np.allclose(call.outputs[0], 2)


def test_what_there_is_not(loaded: Loaded) -> None:
    with pytest.raises(native.DriverError) as caught:
        loaded.device.health()
    assert caught.value.kind == "unsupported"
    kernel = loaded.executable.kernels[0]
    with pytest.raises(native.DriverError) as caught:
        loaded.device.call([native.LaunchSpec(kernel, (1, 1, 1), (1, 1, 1), [], cluster=(2, 1, 1))])()
    assert caught.value.kind == "unsupported"
    assert loaded.table.calls["capture_begin"] is None and UNSUPPORTED < OK


@needs_opencl
def test_a_program_for_another_device_is_refused() -> None:
    made = Loaded("opencl")
    with pytest.raises(native.DriverError, match="built for some other CPU"):
        made.device.load(binaries.pack("some other CPU", b"..."))
    with pytest.raises(native.DriverError, match="clCreateProgramWithBinary"):
        made.device.load(b"nothing that a driver knows")


@needs_opencl
def test_the_systems_loader_stays_out_of_the_process() -> None:
    """SYCL brings a loader of its own, and two of them in one process do not agree."""
    script = (
        "from portakern.registry import registry\n"
        "from portakern.backends.sycl.opencl.platforms import intel_library\n"
        "device = registry().languages['opencl'].runtime.device(registry().target('opencl:cpu'))\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert 'libintelocl' in maps or intel_library() is None\n"
        "assert 'libOpenCL' not in maps or intel_library() is None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
