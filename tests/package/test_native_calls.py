"""Devices and prepared calls of the native core: on the host's own driver, and on a device made of arithmetic."""

from __future__ import annotations

import ctypes
import gc
import shutil
import struct
import subprocess
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from portakern import native
from portakern.errors import PortakernError
from portakern.native import CopySpec, FillSpec, LaunchSpec, pointer, raw, scalar
from tests.timing.fake import Fake

pytestmark = pytest.mark.quick

ONE = (1, 1, 1)

KERNELS = """#include <cstdint>
#include <stdexcept>
extern "C" {
void axpy(const float *x, float *y, float a, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] += a * x[i]; }
void nothing() {}
void boom() { throw std::runtime_error("the kernel threw this"); }
void many(double *out, float f0, int64_t a, int8_t b, int16_t c, uint8_t d, bool e, int64_t f, int64_t g, double f1, int32_t h,
          int64_t i, float f2, int64_t j, int64_t k, int64_t l, int64_t m, int64_t n, uint32_t o, double f3) {
    *out = double(f0) + 2 * a + 3 * b + 4 * c + 5 * d + 6 * e + 7 * f + 8 * g + 9 * f1 + 10 * h + 11 * i + 12 * f2 + 13 * j +
           14 * k + 15 * l + 16 * m + 17 * n + 18.0 * o + 19 * f3;
}
}"""


COUNTS = (1, 6, 7, 16, 17, 64, 65, 256, 257, 1024)
"""Numbers of pointers and integers on both sides of those that the host's driver has a prototype for."""


def weighted(count: int) -> str:
    """A function of ``count`` pointers and integers, each of which counts by its place."""
    taken = ", ".join(["int64_t *out", *(f"int64_t a{n}" for n in range(1, count))])
    total = " + ".join(["int64_t(0)", *(f"{n} * a{n}" for n in range(1, count))])
    return f'extern "C" void weighted{count}({taken}) {{ *out = {total}; }}'


@pytest.fixture(scope="module")
def host() -> native.Device:
    return native.open_device("host")


@pytest.fixture(scope="module")
def module(host: native.Device, tmp_path_factory: pytest.TempPathFactory) -> native.Module:
    folder = tmp_path_factory.mktemp("kernels")
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    assert compiler is not None, "portakern was built, so a C++ compiler should be on PATH"
    (folder / "kernels.cpp").write_text("\n".join([KERNELS, *map(weighted, COUNTS)]))
    path = folder / "libkernels.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", path, folder / "kernels.cpp"], check=True, timeout=60)
    return host.load(str(path).encode())


def axpy(host: native.Device, module: native.Module, x: np.ndarray, y: np.ndarray, a: float) -> native.Call:
    args = [pointer(x.ctypes.data), pointer(y.ctypes.data), scalar("f32", a), scalar("i64", x.size)]
    return host.call([LaunchSpec(module.kernel("axpy"), ONE, ONE, args)])


# ---- the device


def test_a_device_is_one_object_while_it_lives(host: native.Device):
    assert native.open_device("host") is host
    assert (host.driver, host.ordinal) == ("host", 0)


def test_the_hosts_facts_are_those_of_the_machine(host: native.Device):
    facts = host.facts
    assert facts.name and facts.blocking and facts.host_memory
    assert facts.memory_bytes is not None and facts.memory_bytes > 1 << 28
    assert facts.cache_bytes is None or facts.flush_bytes == 2 * facts.cache_bytes
    assert facts.units is not None and facts.units >= 1
    assert facts.bus_bits is None, "what is not known is None"


def test_a_device_that_is_not_there_is_an_error():
    with pytest.raises(native.DriverError) as caught:
        native.open_device("host", 7)
    assert caught.value.kind == "no-device" and "number 0" in caught.value.message and caught.value.hint
    with pytest.raises(PortakernError, match="no driver is named 'abacus'"):
        native.open_device("abacus")


def test_memory_is_allocated_filled_and_copied(host: native.Device):
    a, b = host.allocate(64), host.allocate(64)
    data, back = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    host.copy_in(a, data.ctypes.data, 64)
    host.fill(b, 0xFF, 64)
    host.copy(b, a, 32)
    host.copy_out(back.ctypes.data, b, 64)
    host.free(a)
    host.free(b)
    assert back.tolist() == [*range(8), *[-1] * 8]


# ---- prepared calls


def test_a_call_runs_with_its_arguments(host: native.Device, module: native.Module):
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    call = axpy(host, module, x, y, 0.5)
    call()
    call(stream=0)
    assert y.tolist() == [1 + i for i in range(5)]
    assert len(call) == 1 and call.pointers == [x.ctypes.data, y.ctypes.data]


def test_pointers_are_replaced_and_stay_replaced(host: native.Device, module: native.Module):
    x, y, z = np.ones(3, np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)
    call = axpy(host, module, x, y, 1)
    call(0, [x.ctypes.data, z.ctypes.data])
    call()
    assert (y.sum(), z.sum()) == (0, 6)
    call.rebind([(1, y.ctypes.data)])
    call()
    assert (y.sum(), z.sum()) == (3, 6)
    with pytest.raises(ValueError, match="2 pointers, 1 were given"):
        call(0, [1])
    with pytest.raises(IndexError, match="slot 2"):
        call.rebind([(0, 1), (2, 1)])
    assert call.pointers == [x.ctypes.data, y.ctypes.data], "a refused call changes nothing"


def test_arguments_of_all_kinds_arrive(host: native.Device, module: native.Module):
    """Integers and floating-point values travel in registers of their own and on the stack, small ones are extended."""
    values = [("f32", 0.5), ("i64", 1 << 40), ("i8", -2), ("i16", -3), ("u8", 250), ("bool", True), ("i64", -5), ("i64", 6),
              ("f64", 0.25), ("i32", -7), ("i64", 8), ("f32", 1.5), ("i64", 9), ("i64", -10), ("i64", 11), ("i64", 12),
              ("i64", 13), ("u32", 4_000_000_000), ("f64", -0.125)]  # fmt: skip
    out = np.zeros(1)
    args = [pointer(out.ctypes.data), *(scalar(dtype, value) for dtype, value in values)]
    host.call([LaunchSpec(module.kernel("many"), ONE, ONE, args)])()
    assert out[0] == sum(i * float(value) for i, (_, value) in enumerate(values, 1))


@pytest.mark.parametrize("count", COUNTS)
def test_as_many_arguments_arrive_as_a_model_has_weights(host: native.Device, module: native.Module, count: int):
    out = np.full(1, -1)
    args = [pointer(out.ctypes.data), *(scalar("i64", 3 * n) for n in range(1, count))]
    host.call([LaunchSpec(module.kernel(f"weighted{count}"), ONE, ONE, args)])()
    assert out[0] == sum(3 * n * n for n in range(1, count))


@pytest.mark.parametrize("args", [[scalar("f64", 0)] * 9, [scalar("i64", 0)] * 1025], ids=["floats", "integers"])
def test_more_arguments_than_can_be_passed_are_refused(host: native.Device, module: native.Module, args: list[Any]):
    call = host.call([LaunchSpec(module.kernel("nothing"), ONE, ONE, args)])
    with pytest.raises(native.DriverError) as caught:
        call()
    assert caught.value.kind == "unsupported"


def test_a_kernel_that_throws_is_an_error_with_its_words(host: native.Device, module: native.Module):
    with pytest.raises(native.DriverError, match="host launch: the kernel threw this"):
        host.call([LaunchSpec(module.kernel("boom"), ONE, ONE, [])])()


def test_functions_are_found_by_name_or_address(host: native.Device, module: native.Module):
    with pytest.raises(native.DriverError, match="no function nowhere"):
        module.kernel("nowhere")
    seen = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64)(seen.append)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    host.call([LaunchSpec(host.load(b"").kernel(hex(address)), ONE, ONE, [scalar("i64", 42)])])()
    assert seen == [42]


def test_copies_and_fills_are_steps_whose_targets_are_slots():
    fake = Fake()
    launch = LaunchSpec(fake.device.load(b"").kernel("k"), ONE, ONE, [scalar("i64", 5), pointer(30)])
    call = fake.device.call([FillSpec(10, 7, 64), CopySpec(20, 99, 32), launch])
    call()
    assert fake.log.endswith("fill7x64 copy32 k ")
    assert call.pointers == [10, 20, 30]


def test_a_call_of_nothing_does_nothing(host: native.Device):
    call = host.call([])
    call()
    assert call.pointers == []


def test_a_call_keeps_what_it_needs(module: native.Module):
    fake = Fake()
    call = fake.call()
    fake.device.synchronize()
    kept = np.zeros(3)
    gone = weakref.ref(kept)
    call.keep(kept, [1])
    del kept
    gc.collect()
    assert gone() is not None
    del fake  # module, kernel and device live in the call
    call()
    del call
    gc.collect()
    assert gone() is None


def test_a_call_that_keeps_what_refers_to_it_is_collected():
    fake = Fake()

    class Holder:
        call: native.Call

    holder = Holder()
    holder.call = fake.call()
    holder.call.keep(holder)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_calls_of_a_blocking_device_let_other_threads_run(host: native.Device):
    """The function waits for another Python thread: with the lock held it would wait for ever."""
    wait = ctypes.CDLL(None).usleep
    address = ctypes.cast(wait, ctypes.c_void_p).value
    assert address is not None
    call = host.call([LaunchSpec(host.load(b"").kernel(hex(address)), ONE, ONE, [scalar("u32", 200_000)])])
    ticks: list[int] = []
    running = threading.Thread(target=call)
    running.start()
    while running.is_alive():
        ticks.append(native.now_ns())
    assert len(ticks) > 10


def test_a_stream_is_wrapped_once_and_may_be_ours():
    fake = Fake()
    call = fake.call()
    stream = fake.device.stream()
    assert stream.handle == 0x77
    for _ in range(3):
        call(5)
        call(stream)
    assert fake.log.count("wrap5") == 1
    del stream
    assert fake.log.endswith("unstream ")


def test_kernels_of_another_device_are_refused(host: native.Device, module: native.Module):
    with pytest.raises(ValueError, match="another device"):
        Fake().device.call([LaunchSpec(module.kernel("nothing"), ONE, ONE, [])])


def test_a_driver_that_only_looks_for_devices_cannot_be_opened():
    with pytest.raises(native.DriverError) as caught:
        native.open_device("level_zero")
    assert caught.value.kind in ("unsupported", "no-device")


# ---- arguments


@pytest.mark.parametrize(("dtype", "value", "data"), [
    ("i32", -1, b"\xff\xff\xff\xff"), ("u8", 255, b"\xff"), ("bool", 2, b"\x01"), ("f16", 1.0, b"\x00\x3c"),
    ("bf16", 1.0, b"\x80\x3f"), ("bf16", 1.00390625, b"\x80\x3f"), ("bf16", 1.01171875, b"\x82\x3f"),
    ("bf16", float("nan"), b"\xc0\x7f"), ("f64", 0.5, struct.pack("<d", 0.5))])  # fmt: skip
def test_scalars_are_packed_as_kernels_take_them(dtype: str, value: float, data: bytes):
    assert scalar(dtype, value).data == data


def test_scalars_out_of_range_are_refused():
    with pytest.raises(PortakernError, match="256 is no u8"):
        scalar("u8", 256)
    with pytest.raises(PortakernError, match="no q7 by value"):
        scalar("q7", 1)
    assert raw(b"x" * 128).data == b"x" * 128
