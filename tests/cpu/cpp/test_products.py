"""Products in C++ on processors with fewer features than this one has, pixels as rows, and sums that need no zeros."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.backends.cpu.cpp.emitter import CppEmitter
from portakern.backends.cpu.cpp.toolchain import FLAGS, CppToolchain, find_compiler
from portakern.errors import CompileError
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Op
from portakern.ir.program import Program
from portakern.ir.tile import Axis, BufferType, Dot
from portakern.registry import registry
from portakern.tools.process import run_tool
from tests.cpu.cpp.test_kernels import program, run

LACKING = ("", "-mno-avx512bf16", "-mno-avx512f", "-mno-avx")
"""What the compiler is told that the processor has not: -march=native would use all of it."""

KINDS = [("mk", "kn", "bf16"), ("km", "nk", "bf16"), ("mk", "nk", "f32"), ("km", "kn", "f16")]

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the features are those of x86-64")


def product(lhs: str, rhs: str, dtype: str, m: int, n: int, k: int) -> Program:
    extent = {"m": m, "n": n, "k": k}
    axes = (Axis("m", "grid", m, 21), Axis("n", "grid", n, 48), Axis("k", "loop", k, 20))
    a, w = (Arg(x, BufferType(tuple(extent[i] for i in dims), dtype)) for x, dims in (("a", lhs), ("w", rhs)))
    c = Arg("c", BufferType((m, n), "f32"))
    b = Builder(axes)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        return (b.add(Dot(b.load(a, list(lhs), pad=0.0), b.load(w, list(rhs), pad=0.0), carried[0], "k")),)

    (acc,) = b.loop("k", [("acc", b.full(0.0, "f32", b.dims("m", "n")))], step)
    b.store(acc, c, ["m", "n"])
    return program("product", axes, b, [(a, "input"), (w, "input"), (c, "output")])


@on_x86
@pytest.mark.parametrize("lacking", LACKING)
@pytest.mark.parametrize(("lhs", "rhs", "dtype"), KINDS)
def test_a_processor_without(lacking: str, lhs: str, rhs: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ragged in all; by turns also a single row, and whole tiles."""
    command = find_compiler().command
    monkeypatch.setenv("PORTAKERN_CXX", " ".join([*command, lacking]))
    turn = (LACKING.index(lacking) + KINDS.index((lhs, rhs, dtype))) % 4
    for m, n, k in ((45, 51, 37), *{0: [(1, 16, 1)], 2: [(64, 100, 40)]}.get(turn, [])):
        p = product(lhs, rhs, dtype, m, n, k)
        try:
            got = run(p)
        except CompileError as error:
            pytest.skip(f"this compiler does not take {lacking}: {error.message.splitlines()[0]}")
        left = got["a"].astype(np.float64).T if lhs == "km" else got["a"].astype(np.float64)
        right = got["w"].astype(np.float64).T if rhs == "nk" else got["w"].astype(np.float64)
        assert np.abs(got["c"] - left @ right).max() < 2e-5, (m, n, k)


@on_x86
def test_the_instruction_is_used_where_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    target = registry().target("cpp:cpu")
    source = registry().language("cpp").emitter.emit(product("mk", "kn", "bf16", 64, 64, 64), target)
    prints = set()
    for lacking in ("", "-mno-avx512bf16"):
        monkeypatch.setenv("PORTAKERN_CXX", " ".join([*find_compiler(None).command, lacking]))
        assembly = CppToolchain().compile(source).assembly or ""
        assert not (lacking and "vdpbf16ps" in assembly)
        prints.add(CppToolchain().fingerprint(target))
    assert len(prints) == 2, "a build for fewer features is another one in the cache"


PANELS = """
#include <cstdio>
#include <cstring>
#include "pk/dot.hpp"
#include "pk/pixels.hpp"

template <class T, bool a_turned, bool b_turned> float worst() {
    using Acc = pk::Dense<13, 40>;
    static pk::PanelA<T, a_turned ? 24 : 13, a_turned ? 13 : 24, a_turned> a;
    static pk::PanelB<T, b_turned ? 40 : 24, b_turned ? 24 : 40, b_turned> b;
    memset(static_cast<void*>(&a.value), 0xff, sizeof a.value);  // NaN
    memset(static_cast<void*>(&b.value), 0xff, sizeof b.value);
    static T w[24 * 40];
    for (T& x : w) x = T(1.0f);
    // The left operand is whole and zero from the fifth element on, the right one ends there.
    auto x = pk::fill<T, pk::Dense<a_turned ? 24 : 13, a_turned ? 13 : 24>>(T(0.0f));
    for (int i = 0; i < 13; ++i)
        for (int k = 0; k < 5; ++k) x.value[a_turned ? k * 13 + i : i * 24 + k] = T(1.0f);
    pk::put(a, x);
    pk::stage(b, w, b_turned ? 24 : 40, 1, b_turned ? 37 : 5, b_turned ? 5 : 37);
    auto acc = pk::sums<float, Acc>();
    memset(static_cast<void*>(&acc.value), 0xff, sizeof acc.value);
    pk::dot(acc, a, b);
    float off = 0;
    for (int i = 0; i < 13; ++i)
        for (int j = 0; j < 37; ++j) off = acc.at(i, j) == 5.0f ? off : 1;
    return off;
}
template <class T> float all() {
    return worst<T, false, false>() + worst<T, true, false>() + worst<T, false, true>() + worst<T, true, true>();
}
int main() { return all<float>() + all<pk::bf16>() + all<pk::f16>() > 0; }
"""


@pytest.mark.parametrize("lacks", [0, 1])
def test_what_a_panel_held_before_takes_no_part(tmp_path: Path, lacks: int) -> None:
    """A left operand that was computed is whole, a right one that is loaded ends with its array; NaN lies behind that."""
    (tmp_path / "panels.cpp").write_text(PANELS)
    c, folder = find_compiler(), CppEmitter.headers
    assert folder is not None
    lacking = LACKING[lacks] if platform.machine() == "x86_64" else ""
    command = [*c.command, *FLAGS, *c.extra, *lacking.split(), "-I", str(folder.parent), "panels.cpp", "-o", "panels"]
    assert run_tool(command, timeout_s=300, cwd=tmp_path).ok
    assert run_tool([str(tmp_path / "panels")], timeout_s=60).ok, lacking


@pytest.mark.quick
@pytest.mark.parametrize(("k", "begins"), [(64, "pk::sums<float, Acc>()"), (pk.dynamic, "pk::fill<float, Acc>(0.0f)")])
def test_sums_begin_with_the_first_product_that_surely_comes(k: Any, begins: str) -> None:
    assert f"auto acc = {begins};" in pk.build("matmul", target="cpp:cpu", dtype="f32", M=64, N=64, K=k).source


@pytest.mark.quick
def test_rows_that_only_a_number_picks_have_their_header() -> None:
    """A scan's step stages the row of its number, of an array with open dims, and takes no coordinate apart."""

    @pk.operator
    def op(y: pk.Tensor["N", 64, "B"], w: pk.Tensor["B", 1]):
        def step(h: Any, x: Any) -> Any:
            return pk.tanh(x @ w + h), pk.tanh(x @ w)

        return pk.scan(step, pk.zeros((64, 1), y.dtype), y[:1])[1]

    text = pk.build(op, target="cpp:cpu", dtype="f16", N=pk.dynamic, B=pk.dynamic).source
    assert ("pk::along(" in text) == ('#include "pk/pixels.hpp"' in text)
    assert "pk::along(" in text, "the case has lost what it is about"


def test_pixels_of_a_convolution_are_one_axis() -> None:
    """Nothing is padded before: rows outside are lines of zeros."""
    dims: dict[str, Any] = {"N": 2, "H": 9, "W": 7, "C": 16, "O": 10, "stride": 2}
    for dtype in ("f32", "f16"):
        built = pk.build("conv2d", target="cpp:cpu", dtype=dtype, **dims)
        assert "pk::part<" in built.source and "pk::Buffer" not in built.source
        draw = np.random.default_rng(0)
        x, w = (draw.standard_normal(s).astype(dtype.replace("f", "float")) for s in ((2, 9, 7, 16), (3, 3, 16, 10)))
        got = built(x, w).astype(np.float64)
        padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
        want = sum(np.einsum("nhwc,co->nhwo", padded[:, i : i + 9 : 2, j : j + 7 : 2], w[i, j].astype(np.float64))
                   for i in range(3) for j in range(3))  # fmt: skip
        assert np.abs(got - want).max() < (1e-4 if dtype == "f32" else 3e-2)
