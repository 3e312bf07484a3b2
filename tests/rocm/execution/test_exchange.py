"""What moves between lanes in the AMD machine: DPP, SDWA, permutes, lanes and scalars."""

from __future__ import annotations

import re

import numpy as np
import pytest

from portakern.backends.rocm.amdgcn.execution.program import native
from tests.rocm.execution.lanes_bench import ALL, CDNA, RDNA, execute, lanes_of

Array = np.ndarray


def source(control: str, lane: int, lanes: int) -> int | None:
    """The lane that ``lane`` reads; ``None`` outside the pattern (CDNA3 ISA 13.3.9 "DPP", RDNA3 ISA 7.6 "DPP16")."""
    name, _, value = control.partition(":")
    row, place = lane // 16 * 16, lane % 16
    if name == "quad_perm":
        return lane // 4 * 4 + [int(x) for x in value.strip("[]").split(",")][lane % 4]
    if name == "row_shl":
        return lane + int(value) if place + int(value) < 16 else None
    if name == "row_shr":
        return lane - int(value) if place >= int(value) else None
    if name == "row_ror":
        return row + (place - int(value)) % 16
    if name == "row_mirror":
        return row + 15 - place
    if name == "row_half_mirror":
        return lane // 8 * 8 + 7 - lane % 8
    if name in ("row_share", "row_newbcast"):
        return row + int(value)
    if name == "row_xmask":
        return row + (place ^ int(value))
    if name == "row_bcast":
        return (row - 1 if row else None) if value == "15" else (31 if lane >= 32 else None)
    if name == "wave_shl":
        return lane + 1 if lane + 1 < lanes else None
    assert name == "wave_shr"
    return lane - 1 if lane else None


_EVERYWHERE = ("quad_perm:[1,0,3,2]", "quad_perm:[2,2,0,3]", "row_shl:1", "row_shl:15", "row_shr:4", "row_shr:8", "row_ror:5",
               "row_mirror", "row_half_mirror")  # fmt: skip
_CDNA = ("row_bcast:15", "row_bcast:31", "wave_shl:1", "wave_shr:1", "row_newbcast:3")
_RDNA = ("row_share:7", "row_xmask:1", "row_xmask:10")


@pytest.mark.parametrize("control", (*_EVERYWHERE, *_CDNA, *_RDNA))
def test_dpp(control: str) -> None:
    """Lanes outside the pattern, masked rows and banks, inactive sources: they keep the old value, or get 0 by bound_ctrl."""
    rng = np.random.default_rng(3)
    targets = ALL if control in _EVERYWHERE else CDNA if control in _CDNA else RDNA
    for isa in targets:
        lanes = lanes_of(isa)
        x, old = rng.permutation(1000)[:lanes].astype(np.uint32), np.full(lanes, 7777, np.uint32)
        for rows, banks, zero in ((15, 15, True), (15, 15, False), (0b1010, 0b0111, False), (0b0101, 0b1110, True)):
            active = rng.random(lanes) < 0.8
            mask = sum(1 << n for n in range(lanes) if active[n])
            body = f"s_mov_b32 exec_lo, 0x{mask & 0xFFFFFFFF:x}\n"
            body += f"s_mov_b32 exec_hi, 0x{mask >> 32:x}\n" if lanes == 64 else ""
            body += f"v_mov_b32_dpp v2, v1 {control} row_mask:0x{rows:x} bank_mask:0x{banks:x}" + " bound_ctrl:1" * zero
            (found,) = execute(isa, body, {1: x, 2: old}, [2])
            expected = old.copy()
            for lane in range(lanes):
                if not active[lane] or not rows >> lane // 16 & 1 or not banks >> lane // 4 % 4 & 1:
                    continue
                from_ = source(control, lane, lanes)
                if from_ is not None and active[from_]:
                    expected[lane] = x[from_]
                elif zero:
                    expected[lane] = 0
            np.testing.assert_array_equal(found, expected, f"{control} on {isa}: rows {rows:x} banks {banks:x} {zero}")


def test_dpp_in_arithmetic() -> None:
    x = np.arange(64, dtype=np.float32)
    body = "v_add_f32_dpp v2, v1, v1 row_ror:8 row_mask:0xf bank_mask:0xf"
    (found,) = execute("gfx942", body, {1: x.view(np.uint32)}, [2])
    rotated = x.reshape(4, 16)[:, (np.arange(16) - 8) % 16].reshape(-1)
    np.testing.assert_array_equal(found.view(np.float32), x + rotated)


def test_dpp8() -> None:
    x = np.arange(32, dtype=np.uint32)
    for isa in RDNA:
        (found,) = execute(isa, "v_mov_b32_dpp v2, v1 dpp8:[7,0,1,1,4,3,2,6]", {1: x}, [2])
        np.testing.assert_array_equal(found, x.reshape(4, 8)[:, [7, 0, 1, 1, 4, 3, 2, 6]].reshape(-1))


def test_a_pattern_of_another_generation_is_refused() -> None:
    with pytest.raises(native().Fault, match="DPP"):
        execute("gfx942", "v_mov_b32_dpp v2, v1 row_xmask:1 row_mask:0xf bank_mask:0xf", {1: np.zeros(64, np.uint32)}, [2])


_SELECT = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16),
           "DWORD": (0, 32)}  # fmt: skip


@pytest.mark.parametrize("unused", ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
def test_sdwa(unused: str) -> None:
    """Parts of the sources and of the destination (CDNA3 ISA 13.3.8)."""
    rng = np.random.default_rng(5)
    for part, (shift, width) in _SELECT.items():
        for taken, (low, size) in _SELECT.items():
            a, b, old = (rng.integers(0, 2**32, 64, dtype=np.uint64).astype(np.uint32) for _ in range(3))
            body = f"v_add_u32_sdwa v3, sext(v1), v2 dst_sel:{part} dst_unused:{unused} src0_sel:{taken} src1_sel:WORD_1"
            (found,) = execute("gfx942", body, {1: a, 2: b, 3: old}, [3])
            field = (a.astype(np.int64) >> low) & ((1 << size) - 1)
            signed = np.where(field >> (size - 1) & 1, field - (1 << size), field)
            total = (signed + (b >> np.uint32(16))) & 0xFFFFFFFF
            put = total & ((1 << width) - 1)
            if unused == "UNUSED_PRESERVE":
                expected = (old.astype(np.int64) & ~(((1 << width) - 1) << shift)) | put << shift
            elif unused == "UNUSED_SEXT":
                expected = np.where(put >> (width - 1) & 1, put - (1 << width), put) << shift
            else:
                expected = put << shift
            np.testing.assert_array_equal(found, (expected & 0xFFFFFFFF).astype(np.uint32), f"{part} {taken} {unused}")


def test_lanes_and_scalars() -> None:
    for isa in ALL:
        lanes = lanes_of(isa)
        x, old = np.arange(100, 100 + lanes, dtype=np.uint32), np.zeros(lanes, np.uint32)
        body = "v_readlane_b32 s20, v1, 5\nv_writelane_b32 v2, s20, 9\ns_mov_b32 exec_lo, 0xf0\n"
        body += "s_mov_b32 exec_hi, 0\n" if lanes == 64 else ""
        body += "v_readfirstlane_b32 s21, v1\n"
        body += "s_mov_b64 exec, -1\n" if lanes == 64 else "s_mov_b32 exec_lo, -1\n"
        body += "v_mov_b32_e32 v3, s21"
        written, first = execute(isa, body, {1: x, 2: old}, [2, 3])
        expected = old.copy()
        expected[9] = 105
        np.testing.assert_array_equal(written, expected)
        assert np.all(first == 104)


def test_permlane16() -> None:
    """Sixteen selectors of 4 bits in two scalars; the x form reads the other row (RDNA3 ISA 16.12)."""
    x = np.arange(32, dtype=np.uint32)
    selectors = [15, 3, 0, 7, 8, 1, 2, 4, 5, 6, 9, 10, 11, 12, 13, 14]
    low, high = (sum(s << 4 * n for n, s in enumerate(part)) for part in (selectors[:8], selectors[8:]))
    for isa in RDNA:
        for name, flip in (("v_permlane16_b32", 0), ("v_permlanex16_b32", 1)):
            body = f"s_mov_b32 s20, 0x{low:x}\ns_mov_b32 s21, 0x{high:x}\n{name} v2, v1, s20, s21"
            (found,) = execute(isa, body, {1: x}, [2])
            np.testing.assert_array_equal(found, x.reshape(2, 16)[[flip, 1 - flip]][:, selectors].reshape(-1))


@pytest.mark.parametrize("rows", [16, 32])
def test_row_swaps(rows: int) -> None:
    """CDNA4 ISA 12.8: the odd rows of the first register change places with the even rows of the second."""
    a, b = np.arange(64, dtype=np.uint32), np.arange(100, 164, dtype=np.uint32)
    found = execute("gfx950", f"v_permlane{rows}_swap_b32_e32 v1, v2", {1: a, 2: b}, [1, 2])
    first, second = a.copy().reshape(-1, rows), b.copy().reshape(-1, rows)
    odd = first[1::2].copy()
    first[1::2] = second[0::2]
    second[0::2] = odd
    np.testing.assert_array_equal(found, [first.reshape(-1), second.reshape(-1)])


def test_undefined_values_follow_dpp() -> None:
    """A lane that reads an undefined one is undefined; one that does not is fine (reported when it is stored)."""
    body = "s_mov_b64 exec, 1\nv_mov_b32_e32 v5, 3\ns_mov_b64 exec, -1\n"
    ok = body + "v_mov_b32_dpp v2, v5 quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf\ns_mov_b64 exec, 15\nv_mov_b32_e32 v1, v2"
    (found,) = execute("gfx942", ok, {1: np.zeros(64, np.uint32)}, [1])
    assert found[:4].tolist() == [3, 3, 3, 3]
    bad = body + "v_mov_b32_dpp v2, v5 quad_perm:[1,0,0,0] row_mask:0xf bank_mask:0xf\ns_mov_b64 exec, 15\nv_mov_b32_e32 v1, v2"
    with pytest.raises(native().Fault) as caught:
        execute("gfx942", bad, {1: np.zeros(64, np.uint32)}, [1])
    assert re.search("undefined|uninitialised", str(caught.value))
