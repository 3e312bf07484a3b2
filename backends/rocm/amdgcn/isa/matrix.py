"""Matrix instructions: MFMA of CDNA and WMMA of RDNA (native/lanes/matrix_cdna.cpp, matrix_rdna.cpp, matrix_sparse.cpp).

``passes`` is how long an MFMA takes, in passes of 4 cycles (CDNA3 ISA and its table of matrix instructions; AMD's matrix
instruction calculator gives the same cycles).  gfx90a writes ``32x32x1f32`` where later generations write ``32x32x1_2b_f32``.
"""

from __future__ import annotations

from .form import Form, form

_BROADCAST = "cbsz abid blgp"


def _mfma(m: int, k: int, blocks: int, bits: int) -> str:
    """Operands of an MFMA with 32-bit results: as many registers as a 64th of each matrix fills."""
    factor = max(1, m * k * blocks * bits // 64 // 32)
    result = m * m * blocks // 64
    return f"d:{result} v:{factor} v:{factor} s:{result}"


# m, k, blocks, cycles
_F32 = [(32, 1, 2, 64), (16, 1, 4, 32), (4, 1, 16, 8), (32, 2, 1, 64), (16, 4, 1, 32)]
_HALF = [(32, 4, 2, 64), (16, 4, 4, 32), (4, 4, 16, 8), (32, 8, 1, 32), (16, 16, 1, 16)]
_BF16_NARROW = [(32, 2, 2, 64), (16, 2, 4, 32), (4, 2, 16, 8), (32, 4, 1, 64), (16, 8, 1, 32)]
_I8_GFX90A = [(32, 4, 2, 64), (16, 4, 4, 32), (4, 4, 16, 8), (32, 8, 1, 64), (16, 16, 1, 32)]
_I8 = [(32, 4, 2, 64), (16, 4, 4, 32), (4, 4, 16, 8), (32, 16, 1, 32), (16, 32, 1, 16), (16, 64, 1, 16), (32, 32, 1, 32)]
_SMALL = [(16, 32, 1, 16), (32, 16, 1, 32)]
_HALF_GFX950 = [(16, 32, 1, 16), (32, 16, 1, 32)]


def _cdna() -> dict[str, Form]:
    found: dict[str, Form] = {}

    def add(name: str, m: int, k: int, blocks: int, bits: int, cycles: int, modifiers: str = _BROADCAST) -> None:
        found[name] = form(_mfma(m, k, blocks, bits), unit="matrix", modifiers=modifiers, own_taint=True, passes=cycles // 4)

    def label(m: int, k: int, blocks: int) -> str:
        return f"{m}x{m}x{k}" + (f"_{blocks}b" if blocks > 1 else "")

    for m, k, b, cycles in _F32:
        add(f"v_mfma_f32_{m}x{m}x{k}f32", m, k, b, 32, cycles)
        add(f"v_mfma_f32_{label(m, k, b)}_f32", m, k, b, 32, cycles)
    for m, k, b, cycles in _HALF:
        slower = cycles if b > 1 else 2 * cycles  # gfx90a takes twice as long for one block
        add(f"v_mfma_f32_{m}x{m}x{k}f16", m, k, b, 16, slower)
        add(f"v_mfma_f32_{m}x{m}x{k}bf16_1k", m, k, b, 16, slower)
        add(f"v_mfma_f32_{label(m, k, b)}_f16", m, k, b, 16, cycles)
        add(f"v_mfma_f32_{label(m, k, b)}_bf16", m, k, b, 16, cycles)
    for m, k, b, cycles in _BF16_NARROW:
        add(f"v_mfma_f32_{m}x{m}x{k}bf16", m, k, b, 16, cycles)
    for m, k, b, cycles in _I8_GFX90A:
        add(f"v_mfma_i32_{m}x{m}x{k}i8", m, k, b, 8, cycles)
    for m, k, b, cycles in _I8:
        add(f"v_mfma_i32_{label(m, k, b)}_i8", m, k, b, 8, cycles)
    for m, k, b, cycles in _SMALL:
        for a in ("fp8", "bf8"):
            for y in ("fp8", "bf8"):
                add(f"v_mfma_f32_{m}x{m}x{k}_{a}_{y}", m, k, b, 8, cycles)
    for m, k, b, cycles in _HALF_GFX950:
        add(f"v_mfma_f32_{m}x{m}x{k}_f16", m, k, b, 16, cycles)
        add(f"v_mfma_f32_{m}x{m}x{k}_bf16", m, k, b, 16, cycles)
    for m, k, cycles in ((16, 128, 32), (32, 64, 64)):  # twice as fast where both formats have 6 bits or fewer
        for kind, scales in (("f32", ""), ("scale_f32", " s s")):
            words = f"d:{m * m // 64} v:any v:any s:{m * m // 64}{scales}"
            found[f"v_mfma_{kind}_{m}x{m}x{k}_f8f6f4"] = form(words, "matrix", "", "cbsz blgp op_sel op_sel_hi", own_taint=True,
                                                              passes=cycles // 4)  # fmt: skip
    add("v_mfma_f32_16x16x8_xf32", 16, 8, 1, 32, 16)
    add("v_mfma_f32_32x32x4_xf32", 32, 4, 1, 32, 32)
    for name, result, cycles in (("16x16x4", 8, 32), ("4x4x4", 2, 16)):
        words = f"d:{result} v:2 v:2 s:{result}"
        middle = "_4b" if name == "4x4x4" else ""
        for mnemonic in (f"v_mfma_f64_{name}f64", f"v_mfma_f64_{name}{middle}_f64"):
            found[mnemonic] = form(words, unit="matrix", modifiers="blgp neg", own_taint=True, passes=cycles // 4)
    return found


def _sparse() -> dict[str, Form]:
    """Of A half the depths are held, and one register says which.  LLVM's SISchedule.td: 4 passes, 8 where 32 x 32."""
    found: dict[str, Form] = {}
    small = [f"_{a}_{b}" for a in ("fp8", "bf8") for b in ("fp8", "bf8")]
    for m, deepest, passes in ((16, 64, 4), (32, 32, 8)):
        for k in (deepest // 2, deepest):  # gfx942's and gfx950's
            kinds = [("f32", k, "_f16", 16), ("f32", k, "_bf16", 16), ("i32", 2 * k, "_i8", 8)]
            for result, depth, kind, bits in kinds + [("f32", 2 * k, x, 8) for x in small]:
                held = depth * m * bits // 64 // 32
                words = f"+d:{m * m // 64} v:{held // 2} v:{held} v:1"
                found[f"v_smfmac_{result}_{m}x{m}x{depth}{kind}"] = form(words, "matrix", modifiers="cbsz abid", own_taint=True,
                                                                       passes=passes)  # fmt: skip
    key, signs = "index_key", "index_key neg_lo neg_hi"
    for kind in ("f16", "bf16"):
        found[f"v_swmmac_f32_16x16x32_{kind}"] = found[f"v_swmmac_{kind}_16x16x32_{kind}"] = _swmmac(signs)
    found |= {f"v_swmmac_f32_16x16x32{x}": _swmmac(key) for x in small}
    return found | {f"v_swmmac_i32_16x16x{x}": _swmmac(f"{signs} clamp") for x in ("32_iu8", "32_iu4", "64_iu4")}


def _swmmac(modifiers: str) -> Form:
    return form("+d:any v:any v:any v:1", unit="matrix", modifiers=modifiers, own_taint=True)


def _wmma(modifiers: str) -> Form:
    """Registers an operand differ by generation: gfx11 holds A and B in both halves of the wave, gfx12 in one."""
    return form("d:any v:any v:any s:any", unit="matrix", modifiers=modifiers, own_taint=True)


_SIGNS = "neg_lo neg_hi"

FORMS = {
    **_cdna(),
    **_sparse(),
    **{f"v_wmma_f32_16x16x16_{kind}": _wmma(_SIGNS) for kind in ("f16", "bf16")},
    **{f"v_wmma_f32_16x16x16_{a}_{b}": _wmma(_SIGNS) for a in ("fp8", "bf8") for b in ("fp8", "bf8")},
    **{f"v_wmma_{kind}_16x16x16_{kind}": _wmma(_SIGNS + " op_sel") for kind in ("f16", "bf16")},
    **{f"v_wmma_i32_16x16x{shape}": _wmma("neg_lo neg_hi clamp") for shape in ("16_iu8", "16_iu4", "32_iu4")},
}
