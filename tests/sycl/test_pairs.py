"""Products of bf16 in pairs and operands that lie turned round, with vdpbf16ps and on a processor that has none."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from portakern.backends.sycl.opencl import features
from portakern.backends.sycl.opencl.pairs import MACRO
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program, verify_program
from portakern.ir.schedule import Schedule
from portakern.ir.tile import Axis, BufferType, Dot, Kernel
from tests.sycl.running import compiled, run_checked
from tests.sycl.targets import language, needs_opencl, needs_sycl, target

EXTENT = {"m": 45, "n": 51, "k": 37}  # rows, columns and an element of k that are left over
EVEN = {"m": 16, "n": 96, "k": 64}  # words along k are as many as bytes between two words of a turned row
LANGUAGES = [pytest.param("opencl", marks=needs_opencl), pytest.param("sycl", marks=needs_sycl)]


def product(lhs: str, rhs: str, dtype: str, tile_k: int, extent: Mapping[str, int] = EXTENT) -> Program:
    """The product of operands that are stored as their letters say."""
    axes = (Axis("m", "grid", extent["m"], 16), Axis("n", "grid", extent["n"], 48), Axis("k", "loop", extent["k"], tile_k))
    a, w = (Arg(x, BufferType(tuple(extent[i] for i in dims), dtype)) for x, dims in (("a", lhs), ("w", rhs)))
    c = Arg("c", BufferType((extent["m"], extent["n"]), "f32"))
    b = Builder(axes)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        return (b.add(Dot(b.load(a, list(lhs), pad=0.0), b.load(w, list(rhs), pad=0.0), carried[0], "k")),)

    (acc,) = b.loop("k", [("acc", b.full(0.0, "f32", b.dims("m", "n")))], step)
    b.store(acc, c, ["m", "n"])
    arrays = tuple(Array(x.name, x.of, role) for x, role in ((a, "input"), (w, "input"), (c, "output")))  # type: ignore[arg-type]
    schedule = Schedule(tuple((x.name, x.tile) for x in axes), warps=1)
    kernel = Kernel("product", Block((a, w, c), b.ops), "contraction", axes, schedule)
    made = Program("product", arrays, (kernel,))
    verify_program(made)
    return made


@pytest.mark.parametrize(("lhs", "rhs"), [("mk", "kn"), ("km", "kn"), ("mk", "nk"), ("km", "nk")])
@pytest.mark.parametrize(("dtype", "tile_k"), [("bf16", 24), ("bf16", 40), ("f32", 24)])
@pytest.mark.parametrize("name", LANGUAGES)
def test_operands_lie_as_they_did_in_memory(name: str, dtype: str, lhs: str, rhs: str, tile_k: int) -> None:
    run_checked(language(name), target(f"{name}:cpu"), product(lhs, rhs, dtype, tile_k), {})


@pytest.mark.parametrize("name", LANGUAGES)
def test_equal_numbers_are_kept_apart(name: str) -> None:
    """An instruction that counts one of them down must not change the other."""
    run_checked(language(name), target(f"{name}:cpu"), product("km", "kn", "bf16", 64, EVEN), {})


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_processor_without_the_instruction(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "flags", frozenset)
    p = product("mk", "nk", "bf16", 40)
    built = compiled(language(name), target(f"{name}:cpu"), p)
    run_checked(language(name), target(f"{name}:cpu"), p, {}, built=built)


@pytest.mark.quick
def test_what_a_text_does_not_ask_about_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "flags", lambda: frozenset({"avx512_bf16"}))
    assert features.named("nothing of it") == ()
    assert features.named(f"#ifdef {MACRO}") == (f"-D{MACRO}",)
    monkeypatch.setattr(features, "flags", frozenset)
    assert features.named(f"#ifdef {MACRO}") == () == features.options(f"#ifdef {MACRO}")


@pytest.mark.quick
def test_operands_that_are_loaded_along_k_are_not_scattered() -> None:
    """Each operand is stored to its array by whole vectors, whichever way it lies."""
    for lhs, rhs in (("km", "kn"), ("mk", "nk"), ("km", "nk")):
        for name in ("opencl", "sycl"):
            text = language(name).emitter.emit(product(lhs, rhs, "bf16", 40), target(f"{name}:cpu")).text
            assert ".s1" not in text, (lhs, rhs, name)


