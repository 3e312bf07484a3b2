"""Traces in the format of jax's profiler, read by jax's own reader."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("jax")

from portakern.backends.tpu.run.trace import Trace, read
from tests.tpu.run.helpers import STANDIN

SPEC = importlib.util.spec_from_file_location("xspace", STANDIN / "xspace.py")
assert SPEC is not None and SPEC.loader is not None
xspace = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(xspace)


def found(folder: Path, *spaces: bytes) -> Trace:
    place = folder / "plugins" / "profile" / "2026_11_27"
    place.mkdir(parents=True)
    (place / "host.xplane.pb").write_bytes(b"".join(spaces))
    trace = Trace()
    read(folder, 1, trace)
    return trace


def test_programs_are_read_in_the_order_of_their_beginning(tmp_path: Path):
    runs = [("jit_softmax(17)", 5000.0, 1500.0), ("jit_xla(4)", 2000.0, 250.0), ("jit_softmax(17)", 9000.0, 1400.0)]
    other = xspace.device_plane("/device:TPU:0", [("jit_other(1)", 1.0, 1.0)])
    trace = found(tmp_path, xspace.device_plane("/host:CPU", []), other, xspace.device_plane("/device:TPU:1", runs))
    assert trace.runs is not None
    assert [r.name for r in trace.runs] == ["jit_xla(4)", "jit_softmax(17)", "jit_softmax(17)"]
    assert [r.duration_ns for r in trace.runs] == pytest.approx([250.0, 1500.0, 1400.0])
    assert trace.runs[1].start_ns - trace.runs[0].start_ns == pytest.approx(3000)


def test_a_trace_without_the_device_says_what_it_has(tmp_path: Path):
    trace = found(tmp_path, xspace.device_plane("/host:CPU", [("a", 1.0, 1.0)]), xspace.device_plane("/device:TPU:0", []))
    assert trace.runs is None and trace.planes == ("/host:CPU", "/device:TPU:0")


def test_only_the_line_of_modules_counts(tmp_path: Path):
    ops = xspace.device_plane("/device:TPU:1", [("fusion.1", 1.0, 1.0)], line="XLA Ops")
    trace = found(tmp_path, ops)
    assert trace.runs == []
