"""Choosing the compiler, its errors, foreign kernels, schedules and devices."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from portakern.backends.rocm import toolchain
from portakern.backends.rocm.adopt import adopt
from portakern.backends.rocm.schedules import schedules
from portakern.backends.rocm.toolchain import OVERRIDE, HipToolchain, choose
from portakern.emit.launches import parse_launches
from portakern.errors import CompileError, ToolMissing, UsageError
from portakern.ir.schedule import Nest, NestAxis
from portakern.ir.size import Sym
from tests.rocm.helpers import ISAS, kernel, needs_clang, run, target
from tests.samples import add_bias

FOREIGN = """#include "pk/device.h"
// portakern launch: kernel=bias_relu grid=((M*1000 + 255) // 256, 1, 1) block=(256, 1, 1) shared=0 args=(x, b, y, M)
extern "C" __global__ void bias_relu(const float* x, const float* b, float* y, int64_t M) {
  const int64_t i = int64_t(blockIdx.x) * 256 + threadIdx.x;
  if (i >= M * 1000) return;
  const float v = x[i] + b[i % 1000];
  y[i] = v > 0 || v != v ? v : 0;
}
"""


def test_a_compiler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERRIDE, "/nowhere/clang")
    with pytest.raises(ToolMissing, match="/nowhere/clang"):
        choose("gfx942")
    assert not HipToolchain().available(target("gfx942"))


def test_a_broken_kernel_is_a_compile_error_with_the_log() -> None:
    needs_clang()
    source = kernel("gfx942", 'extern "C" __attribute__((global)) void kernel() { no_such_word(); }', {}, {})
    with pytest.raises(CompileError, match="no_such_word") as error:
        HipToolchain().compile(source)
    assert "no_such_word" in error.value.log


def test_too_much_lds_is_a_compile_error() -> None:
    needs_clang()
    text = (
        '#include "pk/device.h"\nextern "C" __global__ void kernel(int* y) {\n  __shared__ int s[40000];\n'
        "  s[threadIdx.x] = 1; pk::sync(); *y = s[blockIdx.x];\n}\n"
    )
    with pytest.raises(CompileError, match="local memory"):
        HipToolchain().compile(kernel("gfx942", text, {}, {"y": ((1,), "i32")}))
    HipToolchain().compile(kernel("gfx950", text, {}, {"y": ((1,), "i32")}))  # which has 160 KB


def test_a_foreign_kernel_is_launched_as_its_comment_says() -> None:
    program = add_bias(Sym.named("M"), dtype="f32")
    source = adopt(FOREIGN, None, program, target("gfx942"))
    assert source.entry == "bias_relu" and source.launches[0].block == (256, 1, 1)
    needs_clang()
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((7, 1000)).astype("f4"), rng.standard_normal(1000).astype("f4")
    assert (run(source, x, b, M=7) == np.maximum(x + b, 0)).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("// portakern launch:", "//", "nowhere"),
        ("args=(x, b, y, M)", "args=(x, bias, y, M)", "bias"),
        ("kernel=bias_relu", "kernel=other", "other"),
        ("block=(256, 1, 1)", "block=(4096, 1, 1)", "4096"),
        ("grid=((M*1000 + 255) // 256, 1, 1)", "grid=(K, 1, 1)", "K"),
        ("grid=((M*1000 + 255) // 256, 1, 1)", "grid=(M/2, 1, 1)", "line 2"),
    ],
)
def test_a_foreign_kernel_that_does_not_say_how_it_is_called_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        adopt(FOREIGN.replace(old, new), None, add_bias(Sym.named("M"), dtype="f32"), target("gfx942"))


def test_emitted_launch_comments_read_back() -> None:
    from portakern.backends.rocm.emitter import HipEmitter
    from tests.samples import all_samples

    for program in all_samples().values():
        source = HipEmitter().emit(program, target("gfx942"))
        assert parse_launches(source.text) == source.launches


NESTS = {
    "elementwise": Nest("elementwise", (NestAxis("i", "parallel", 1000), NestAxis("j", "parallel", 3, True)), "bf16", "f32"),
    "transpose": Nest(
        "transpose", (NestAxis("b", "parallel", 2), NestAxis("i", "target", 70), NestAxis("j", "source", 45)), "f32", "f32"
    ),
    "rows": Nest("rows", (NestAxis("i", "parallel", 100), NestAxis("j", "reduced", 1001, True)), "bf16", "f32", live=3),
    "long": Nest("rows", (NestAxis("i", "parallel", 2), NestAxis("j", "reduced", 300_000, True)), "f32", "f32", live=3),
    "columns": Nest("rows", (NestAxis("i", "reduced", 100), NestAxis("j", "parallel", 77, True)), "f32", "f32"),
    "contraction": Nest(
        "contraction", (NestAxis("m", "m", 1), NestAxis("n", "n", 4096), NestAxis("k", "k", 4096)), "bf16", "f32", dots="bf16"
    ),
    "contraction_f32": Nest(
        "contraction",
        (NestAxis("m", "m", Sym.named("M")), NestAxis("n", "n", 64), NestAxis("k", "k", 7)),
        "f32",
        "f32",
        dots="f32",
    ),
    "attention": Nest(
        "attention",
        (NestAxis("m", "m", 77), NestAxis("n", "n", 500), NestAxis("k", "k", 128), NestAxis("d", "d", 128)),
        "bf16",
        "f32",
        dots="bf16",
    ),
    "attention_f32": Nest(
        "attention",
        (NestAxis("m", "m", 1), NestAxis("n", "n", 50), NestAxis("k", "k", 256), NestAxis("d", "d", 256)),
        "f32",
        "f32",
        dots="f32",
    ),
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NESTS)
def test_every_nest_has_schedules_that_respect_the_device(name: str, isa: str) -> None:
    nest, device = NESTS[name], target(isa).device
    found = schedules(nest, device)
    assert found and len(set(found)) == len(found)
    for s in found:
        threads = s.warps * device.count("subgroup")
        assert threads <= device.count("threads_per_block") and s.stages in (1, 2)
        wide = [a for a in nest.axes if s.tile(a.name) > 1]
        assert nest.family not in ("elementwise", "transpose", "rows") or len(wide) <= 2
        for a in nest.axes:
            assert s.tile(a.name) & (s.tile(a.name) - 1) == 0
            if a.role in ("m", "n", "k", "d"):
                assert s.tile(a.name) >= 16


def test_a_product_is_its_instruction_sets_with_the_figures_of_the_product() -> None:
    mi300x = target("mi300x").device
    assert (mi300x.isa, mi300x.value("bandwidth"), mi300x.count("units")) == ("gfx942", 5.3e12, 304)
    # Peak figures follow from units, clock and the rate of a unit: 2048 FLOP a clock in f16 on CDNA 3, 4096 on CDNA 4.
    for product, rate in (
        ("mi210", 1024),
        ("mi250x", 1024),
        ("mi300x", 2048),
        ("mi300a", 2048),
        ("mi325x", 2048),
        ("mi355x", 4096),
        ("rx7900xtx", 1024),
        ("rx9070xt", 2048),
    ):
        d = target(product).device
        assert d.value("peak_f16") == pytest.approx(d.value("units") * d.value("clock") * rate, rel=0.01)


@pytest.mark.parametrize("isa", ISAS)
def test_what_a_unit_holds_is_consistent(isa: str) -> None:
    d = target(isa).device
    assert d.count("threads_per_unit") == d.count("simds_per_unit") * d.count("waves_per_simd") * d.count("subgroup")
    assert d.count("registers_per_unit") % (d.count("simds_per_unit") * d.count("subgroup")) == 0
    assert replace(d).default_product


def test_line_information_changes_no_machine_code_and_names_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator and reports say lines; a binary must not hang on the folder in which it was made."""
    needs_clang()
    text = '#include "pk/device.h"\nextern "C" __global__ void kernel(int* y) {\n  y[threadIdx.x] = 7 * blockIdx.x;\n}\n'
    source = kernel("gfx942", text, {}, {"y": ((1,), "i32")})
    flags, built = toolchain.FLAGS, []
    for some in (flags, flags, tuple(f for f in flags if "-g" not in f[:2] and "debug" not in f)):
        built.append(toolchain._build(choose("gfx942"), source, some, "gfx942"))
    assert built[0] == built[1]
    assert "kernel.hip:3" in built[0][1] and ".debug_info" not in built[0][1] and ".loc" not in built[2][1]
    def code(made: bytes) -> list[bytes]:
        return [s.data() for s in ELFFile(io.BytesIO(made)).iter_sections() if s.name == ".text"]

    assert code(built[0][0]) == code(built[2][0]) != []
