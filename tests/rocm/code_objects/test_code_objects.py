"""Reading AMDGPU code objects, and occupancy against the compiler's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from portakern import _native
from portakern.backends.rocm.amdgcn.code_objects.reader import CodeObject, CodeObjectError, unpack
from portakern.backends.rocm.amdgcn.cost.occupancy import occupancy
from portakern.backends.rocm.emitter import HipEmitter
from portakern.backends.rocm.toolchain import HipToolchain
from tests.rocm.helpers import ISAS, needs_clang, target
from tests.samples import all_samples


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81", b"\xa5ab", b"\x01"], ids=["none", "unknown", "short", "text", "int"])
def test_metadata_that_are_no_map_are_refused(data: bytes) -> None:
    with pytest.raises(CodeObjectError, match="metadata"):
        unpack(data)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" + bytes(100), b"\x7fELF\x02" + bytes(100)])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CodeObjectError, match="no code object"):
        CodeObject(data)


def test_another_machines_file_is_refused() -> None:
    with pytest.raises(CodeObjectError, match="EM_X86_64, not for AMDGPU"):
        CodeObject(Path(_native.__file__).read_bytes())


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_code_object_that_is_cut_short_is_refused(share: float) -> None:
    needs_clang("gfx942")
    whole = HipToolchain().compile(HipEmitter().emit(all_samples()["softmax"], target("gfx942"))).data
    with pytest.raises(CodeObjectError, match="no code object"):
        CodeObject(whole[: int(len(whole) * share)])


@pytest.mark.parametrize("isa", ISAS)
def test_a_compiled_kernel_says_what_it_uses(isa: str) -> None:
    needs_clang(isa)
    binary = HipToolchain().compile(HipEmitter().emit(all_samples()["matmul_bias"], target(isa)))
    code = CodeObject(binary.data)
    assert code.isa == isa
    (use,) = code.kernels.values()
    assert (use.shared_bytes, use.scratch_bytes) == (16384, 0)
    assert use.wave == (64 if isa.startswith("gfx9") else 32) and use.max_threads == 4 * use.wave
    assert use.code_bytes > 1000 and 16 < use.registers <= 256
    assert [(size, kind) for _, size, kind in code.arguments(use.name)] == [(8, "global_buffer")] * 4
    (resources,) = binary.resources
    assert (resources.registers, resources.spills, resources.shared_bytes) == (use.registers, 0, 16384)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", ["softmax", "matmul_bias_f32", "column_sums"])
def test_occupancy_is_the_compilers(isa: str, name: str) -> None:
    needs_clang(isa)
    source = HipEmitter().emit(all_samples()[name], target(isa))
    binary = HipToolchain().compile(source)
    (resources,) = binary.resources
    compilers = int(re.search(r"; Occupancy: (\d+)", binary.assembly or "")[1])  # type: ignore[index]
    waves = target(isa).device.count("waves_per_simd")
    mine = (resources.occupancy or 0) * waves
    # The compiler rounds what LDS allows up to whole waves per SIMD, and counts it by the byte: of gfx950's LDS a block takes
    # multiples of 1280.
    granule = target(isa).device.count("shared_granule")
    most = mine + 1 if (resources.shared_bytes or 0) % granule else mine + 0.99
    assert mine <= compilers <= most, (mine, compilers, resources)


def test_the_limiter_is_named() -> None:
    device = target("gfx942").device
    assert occupancy(device, 256, 64, 32, 0).limiter == "waves"
    assert occupancy(device, 256, 64, 32, 0).share == 1.0
    tight = occupancy(device, 256, 200, 32, 0)
    assert (tight.limiter, tight.share, tight.blocks) == ("registers", 0.25, 2)
    assert occupancy(device, 256, 64, 32, 40_000).limiter == "LDS"
    assert occupancy(device, 128, 16, 16, 0).limiter == "waves"
