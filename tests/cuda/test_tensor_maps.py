"""Tensor maps: what is handed to the driver's encoder, in its order and units, and what is said where it refuses."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest
from portakern.backends.cuda import tensor_maps

from portakern.backend import TensorMap
from portakern.errors import RuntimeFault
from portakern.ir.size import Sym
from portakern.registry import registry
from tests.cuda.variants import all_variants


class Encoder:
    """Writes its arguments into the map."""

    status = 0

    def __call__(self, place: Any, dtype: Any, rank: Any, address: Any, dims: Any, strides: Any, box: Any, steps: Any,
                 *enums: Any) -> int:  # fmt: skip
        assert place.value % 64 == 0
        n = rank.value
        self.seen = (dtype.value, address.value, list(dims[:n]), list(strides[: n - 1]), list(box[:n]), list(steps[:n]),
                     [x.value for x in enums])  # fmt: skip
        ctypes.memset(place, 0x5A, 128)
        return self.status


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Encoder:
    made = Encoder()
    monkeypatch.setattr(tensor_maps, "_function", lambda: made)
    return made


def test_dims_go_innermost_first_and_strides_in_bytes(encoder: Encoder) -> None:
    made = tensor_maps.encode(0x1000, "bf16", (4, 300, 4096), (300 * 4096, 4096, 1), (1, 64, 32), 64)
    assert made == b"\x5a" * 128
    assert encoder.seen == (9, 0x1000, [4096, 300, 4], [8192, 2457600], [32, 64, 1], [1, 1, 1], [0, 2, 2, 0])


def test_a_map_follows_the_array_and_the_open_dims(encoder: Encoder) -> None:
    language, target = registry().language("cuda"), registry().target("cuda:sm_90a")
    source = language.emitter.emit(all_variants()["softmax_open"], target)
    m = Sym.named("M")
    (launch,) = source.launches
    described = TensorMap("x_map", "x", (m, 1000), (1000, 1), (8, 64))
    made = tensor_maps.descriptors(replace(source, launches=(replace(launch, maps=(described,)),)))
    assert made["x_map"]({"x": 0x2000, "y": 0x9000}, {"M": 11}) == b"\x5a" * 128
    assert encoder.seen[:5] == (9, 0x2000, [1000, 11], [2000], [64, 8])


def test_a_place_is_kept_where_no_address_is_known(encoder: Encoder) -> None:
    assert tensor_maps.encode(0, "f32", (8, 8), (8, 1), (4, 4), 0) == bytes(128) and not hasattr(encoder, "seen")


def test_what_the_driver_refuses_is_told_with_the_array(encoder: Encoder) -> None:
    encoder.status = 1
    with pytest.raises(RuntimeFault, match=r"bf16\[8, 1001\] with strides \[1001, 1\] at 0x1000.*returned 1"):
        tensor_maps.encode(0x1000, "bf16", (8, 1001), (1001, 1), (8, 64), 128)
