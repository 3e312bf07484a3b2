"""Tensor maps: what is handed to the driver's encoder, in its order and units, and what is said where it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from portakern import native
from portakern.backend import Pixels, TensorMap
from portakern.errors import RuntimeFault
from portakern.ir.size import Sym
from portakern.launch import tensor_maps
from portakern.registry import registry
from tests.cuda.standin import Standin, standin
from tests.cuda.variants import all_variants

pytestmark = pytest.mark.quick

MADE = b"\x5a" * 128
"""What the stand-in encodes everything as."""


@pytest.fixture
def cuda() -> Iterator[Standin]:
    made = standin()
    yield made
    made.fail("", 0)


@pytest.fixture
def device(cuda: Standin) -> native.Device:
    opened = native.open_device("cuda", path=cuda.path)
    cuda.journal()
    return opened


def asked(cuda: Standin) -> list[str]:
    return [x for x in cuda.journal() if x.startswith("cuTensorMapEncodeTiled")]


def test_dims_go_innermost_first_and_strides_in_bytes(cuda: Standin, device: native.Device) -> None:
    made = tensor_maps.encode(device, 0x1000, "bf16", (4, 300, 4096), (300 * 4096, 4096, 1), (1, 64, 32), 64)
    assert made == MADE
    # shape:box:step of each dim, then strides; not interleaved, swizzle of 64, fetched by 128 bytes, zeros outside
    assert asked(cuda) == ["cuTensorMapEncodeTiled 9 1000 4096:32:1 300:64:1 4:1:1 +8192 +2457600 enums 0 2 2 0"]


@pytest.mark.parametrize(("dtype", "number", "bytes_"), [("f8e4m3", 0, 1), ("f16", 6, 2), ("f32", 7, 4), ("i64", 5, 8)])
def test_types_are_the_drivers(cuda: Standin, device: native.Device, dtype: str, number: int, bytes_: int) -> None:
    tensor_maps.encode(device, 0x1000, dtype, (16, 32), (32, 1), (8, 8), 0)
    assert asked(cuda) == [f"cuTensorMapEncodeTiled {number} 1000 32:8:1 16:8:1 +{32 * bytes_} enums 0 0 2 0"]


def test_images_have_corners_and_steps_of_their_spatial_dims(cuda: Standin, device: native.Device) -> None:
    walk = Pixels(lower=(-1, -2), upper=(0, -3), steps=(2, 1))
    tensor_maps.encode(device, 0x1000, "bf16", (5, 9, 11, 32), (9 * 11 * 32, 11 * 32, 32, 1), (1, 1, 128, 64), 128, walk)
    (line,) = [x for x in cuda.journal() if x.startswith("cuTensorMapEncodeIm2col")]
    assert line == ("cuTensorMapEncodeIm2col 9 1000 32:1 11:1 9:2 5:1 +64 +704 +6336 -2..-3 -1..0 of 128 x 64 enums 0 3 2 0")


def test_corners_are_of_the_spatial_dims_alone(device: native.Device) -> None:
    with pytest.raises(ValueError, match="between the first and the last"):
        walk = Pixels((0, 0), (0, 0), (1, 1))
        tensor_maps.encode(device, 0x1000, "bf16", (5, 9, 32), (9 * 32, 32, 1), (1, 128, 64), 128, walk)


def test_a_map_follows_the_array_and_the_open_dims(cuda: Standin, device: native.Device) -> None:
    language, target = registry().language("cuda"), registry().target("cuda:sm_90a")
    source = language.emitter.emit(all_variants()["softmax_open"], target)
    m = Sym.named("M")
    (launch,) = source.launches
    described = TensorMap("x_map", "x", (m, 1000), (1000, 1), (8, 64))
    (made,) = tensor_maps.descriptors(replace(source, launches=(replace(launch, maps=(described,)),)), device)
    assert made["x_map"]({"x": 0x2000, "y": 0x9000}, {"M": 11}) == MADE
    assert asked(cuda)[0].startswith("cuTensorMapEncodeTiled 9 2000 1000:64:1 11:8:1 +2000 ")


def test_a_place_is_kept_where_no_address_is_known(cuda: Standin, device: native.Device) -> None:
    assert tensor_maps.encode(device, 0, "f32", (8, 8), (8, 1), (4, 4), 0) == bytes(128) and asked(cuda) == []


def test_what_the_driver_refuses_is_told_with_the_array(cuda: Standin, device: native.Device) -> None:
    cuda.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(RuntimeFault, match=r"bf16\[8, 1001\] with strides \[1001, 1\] at 0x1000.*\(1\) cuTensorMapEncodeTiled"):
        tensor_maps.encode(device, 0x1000, "bf16", (8, 1001), (1001, 1), (8, 64), 128)


def test_what_no_map_can_be_is_refused_before_the_driver(cuda: Standin, device: native.Device) -> None:
    with pytest.raises(RuntimeFault, match="side by side"):
        tensor_maps.encode(device, 0x1000, "f32", (8, 8), (16, 2), (4, 4), 0)
    with pytest.raises(RuntimeFault, match="swizzles of 48 bytes"):
        tensor_maps.encode(device, 0x1000, "f32", (8, 8), (8, 1), (4, 4), 48)
    with pytest.raises(RuntimeFault, match="6 dims"):
        tensor_maps.encode(device, 0x1000, "f32", (1,) * 6, (1,) * 6, (1,) * 6, 0)
    assert asked(cuda) == []


def test_an_old_driver_has_none() -> None:
    device = native.open_device("cuda", path=standin(old=True).path)
    with pytest.raises(RuntimeFault, match="CUDA 12 or newer"):
        tensor_maps.encode(device, 0x1000, "f32", (8, 8), (8, 1), (4, 4), 0)


def test_other_drivers_say_that_they_have_none() -> None:
    with pytest.raises(RuntimeFault, match="tensor_map"):
        tensor_maps.encode(native.open_device("host"), 0x1000, "f32", (8, 8), (8, 1), (4, 4), 0)


def test_launches_name_their_maps_by_themselves(cuda: Standin, device: native.Device) -> None:
    source = registry().language("cuda").emitter.emit(all_variants()["softmax_open"], registry().target("cuda:sm_90a"))
    (launch,) = source.launches
    twice = [replace(launch, maps=(TensorMap("x_map", "x", (8, n), (n, 1), (8, 64)),)) for n in (1000, 2000)]
    first, second = tensor_maps.descriptors(replace(source, launches=tuple(twice)), device)
    first["x_map"]({"x": 0x2000}, {})
    second["x_map"]({"x": 0x2000}, {})
    assert [line.split()[3] for line in asked(cuda)] == ["1000:64:1", "2000:64:1"]
