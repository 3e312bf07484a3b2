"""Runs a few instructions on register contents of a test's choice, in the AMD machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from portakern.backends.rocm.amdgcn.execution.program import Code, load, native
from portakern.backends.rocm.amdgcn.isa import GENERATIONS

CDNA = ("gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1100", "gfx1201")
ALL = (*CDNA, *RDNA)


def lanes_of(isa: str) -> int:
    return 64 if isa in CDNA else 32


@cache
def _kernel(isa: str, body: str, inputs: tuple[int, ...], outputs: tuple[int, ...], options: str) -> Code:
    lanes = lanes_of(isa)
    gfx12, gfx11 = isa == "gfx1201", isa in RDNA
    dword = "b32" if gfx11 else "dword"
    wait_scalar = "s_wait_kmcnt 0x0" if gfx12 else "s_waitcnt lgkmcnt(0)"
    wait_vector = "s_wait_loadcnt 0x0" if gfx12 else "s_waitcnt vmcnt(0)"
    scalars = "s_load_b128" if gfx11 else "s_load_dwordx4"
    add = "v_add_nc_u32_e32" if gfx11 else "v_add_u32_e32"
    assert all(r < 240 or 256 <= r < 512 for r in (*inputs, *outputs)), "v240 is the address"

    def name(r: int) -> str:
        return f"v{r}" if r < 256 else f"a{r - 256}"

    lines = [f'\t.amdgcn_target "amdgcn-amd-amdhsa--{isa}"', "\t.text", "bench:", f"\t{scalars} s[4:7], s[0:1], 0x0",
             "\tv_lshlrev_b32_e32 v240, 2, v0", f"\t{wait_scalar}", "\tv_mov_b32_e32 v241, v240"]  # fmt: skip
    for r in inputs:
        lines += [f"\tglobal_load_{dword} {name(r)}, v241, s[4:5]", f"\t{add} v241, {4 * lanes}, v241"]
    lines += [f"\t{wait_vector}", body, "\ts_mov_b64 exec, -1" if lanes == 64 else "\ts_mov_b32 exec_lo, -1"]
    for r in outputs:
        lines += [f"\tglobal_store_{dword} v240, {name(r)}, s[6:7]", f"\t{add} v240, {4 * lanes}, v240"]
    wave = "" if lanes == 64 else "\t\t.amdhsa_wavefront_size32 1\n"
    lines += ["\ts_endpgm", "\t.amdhsa_kernel bench", "\t\t.amdhsa_kernarg_size 16", "\t\t.amdhsa_user_sgpr_count 2",
              "\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1", "\t\t.amdhsa_next_free_vgpr 512",
              "\t\t.amdhsa_next_free_sgpr 100", "\t\t.amdhsa_float_denorm_mode_32 3",
              "\t\t.amdhsa_float_denorm_mode_16_64 3", wave + options + "\t.end_amdhsa_kernel", ""]  # fmt: skip
    return load("\n".join(lines), "bench")


def execute(
    isa: str, body: str, inputs: Mapping[int, np.ndarray], outputs: Sequence[int], options: str = ""
) -> list[np.ndarray]:
    """Registers after ``body``: ``inputs`` are 32-bit arrays of a value a lane by register number (256 and above: AGPRs),
    ``options`` further lines of the kernel's descriptor.  s10 to s90 and v242 on are free."""
    lanes = lanes_of(isa)
    code = _kernel(isa, body, tuple(inputs), tuple(outputs), options)
    given = np.concatenate([np.ascontiguousarray(x).view(np.uint32) for x in inputs.values()] or [np.zeros(lanes, np.uint32)])
    assert given.size == lanes * max(1, len(inputs))
    found = np.zeros(lanes * len(outputs), np.uint32)
    arguments = np.array([given.ctypes.data, found.ctypes.data], np.uint64)
    regions = [(a.ctypes.data, a.ctypes.data + a.nbytes, 0, a is found, "array") for a in (given, found, arguments)]
    native().run(code.program, (1, 1, 1), (lanes, 1, 1), arguments.ctypes.data, 0, regions, 0, 10**6, 0, 1)
    return [found[n * lanes : (n + 1) * lanes].copy() for n in range(len(outputs))]


def generation(isa: str) -> int:
    return GENERATIONS[isa]


# ---- values that matter ----------------------------------------------------------------------------------------------------

F32_SPECIAL = np.array(
    [0x0, 0x80000000, 0x1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x80800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF,
     0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x3F800001, 0x3F7FFFFF, 0x4B000000, 0x4B800001,
     0x3F000000, 0x3FC00000, 0x40200000, 0x4F000000, 0xCF000000, 0x4F800000, 0x33800000, 0x477FE000, 0x477FF000, 0x387FC000,
     0x33000000], np.uint32)  # fmt: skip
"""Zeros, denormals, powers of two, infinities, NaNs (quiet and signaling), ties, and the edges of f16 and integers."""


def f32_values(rng: np.random.Generator, lanes: int) -> np.ndarray:
    """Half of the lanes special, half of them random bits, in random order."""
    special = rng.choice(F32_SPECIAL, lanes // 2)
    plain = rng.integers(0, 2**32, lanes - lanes // 2, dtype=np.uint64).astype(np.uint32)
    return rng.permutation(np.concatenate([special, plain]))


def near_one(rng: np.random.Generator, lanes: int, low: float = -8.0, high: float = 8.0) -> np.ndarray:
    return rng.uniform(low, high, lanes).astype(np.float32).view(np.uint32)


def same_floats(found: np.ndarray, expected: np.ndarray) -> bool:
    """Bit by bit, save that any NaN is as good as another."""
    nan = np.isnan(expected)
    bits = f"u{expected.dtype.itemsize}"
    return bool(np.all(np.where(nan, np.isnan(found), found.view(bits) == expected.view(bits))))
