"""Conversions and 16-bit arithmetic of the AMD machine against numpy and ml_dtypes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.rocm.execution.lanes_bench import ALL, CDNA, execute, f32_values, lanes_of, near_one, same_floats

ml_dtypes = pytest.importorskip("ml_dtypes")
Array = np.ndarray


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def f32(x: Array) -> Array:
    return x.view(np.float32)


def halves(x: Array) -> Array:
    """The lower 16 bits as f16."""
    return (x & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16)


def half_values(rng: np.random.Generator, lanes: int) -> Array:
    special = np.array(
        [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0x3555], np.uint16
    )
    plain = rng.integers(0, 65536, lanes).astype(np.uint16)
    return np.where(rng.random(lanes) < 0.4, rng.choice(special, lanes), plain).astype(np.uint32)


# ---- f16 and bf16 ----------------------------------------------------------------------------------------------------


def test_f16_from_f32_and_back(rng: np.random.Generator) -> None:
    every = np.arange(65536, dtype=np.uint32)
    for isa in ALL:
        lanes = lanes_of(isa)
        low = ".l" if isa == "gfx1100" else ""
        for start in range(0, 65536, 65536 // 8):  # a part of all f16
            x = every[start : start + lanes]
            (found,) = execute(isa, f"v_cvt_f32_f16_e32 v2, v1{low}", {1: x}, [2])
            assert same_floats(f32(found), halves(x).astype(np.float32))
        for _ in range(8):
            x = f32_values(rng, lanes)
            (found,) = execute(isa, f"v_mov_b32_e32 v2, 0\nv_cvt_f16_f32_e32 v2{low}, v1", {1: x}, [2])
            with np.errstate(all="ignore"):
                assert same_floats(halves(found), f32(x).astype(np.float16)), isa


def test_rounding_of_f16(rng: np.random.Generator) -> None:
    """MODE.round of f16 and f64, and v_cvt_pkrtz, which rounds towards zero whatever MODE says."""
    x = near_one(rng, 64)
    exact = f32(x).astype(np.float64)
    nearest = f32(x).astype(np.float16)
    below = np.where(nearest.astype(np.float64) > exact, np.nextafter(nearest, np.float16(-np.inf)), nearest)
    above = np.where(nearest.astype(np.float64) < exact, np.nextafter(nearest, np.float16(np.inf)), nearest)
    inward = np.where(exact > 0, below, above)
    for mode, expected in enumerate((nearest, above, below, inward)):
        options = f"\t\t.amdhsa_float_round_mode_16_64 {mode}\n"
        (found,) = execute("gfx942", "v_cvt_f16_f32_e32 v2, v1", {1: x}, [2], options)
        np.testing.assert_array_equal(halves(found), expected)
        (found,) = execute("gfx942", "v_cvt_pkrtz_f16_f32 v2, v1, v1", {1: x}, [2], options)
        np.testing.assert_array_equal(halves(found), inward)
        np.testing.assert_array_equal(halves(found >> np.uint32(16)), inward)


def test_bf16_pairs(rng: np.random.Generator) -> None:
    for _ in range(8):
        a, b = f32_values(rng, 64), f32_values(rng, 64)
        (found,) = execute("gfx950", "v_cvt_pk_bf16_f32 v3, v1, v2", {1: a, 2: b}, [3])
        for bits, x in ((found & np.uint32(0xFFFF), a), (found >> np.uint32(16), b)):
            got = bits.astype(np.uint16).view(ml_dtypes.bfloat16)
            with np.errstate(all="ignore"):
                want = f32(x).astype(ml_dtypes.bfloat16)
            assert same_floats(got.astype(np.float32), want.astype(np.float32))


# ---- fp8 and bf8 -----------------------------------------------------------------------------------------------------

_SMALL = {
    ("gfx942", "fp8"): ml_dtypes.float8_e4m3fnuz, ("gfx942", "bf8"): ml_dtypes.float8_e5m2fnuz,
    ("gfx950", "fp8"): ml_dtypes.float8_e4m3fn, ("gfx950", "bf8"): ml_dtypes.float8_e5m2,
    ("gfx1201", "fp8"): ml_dtypes.float8_e4m3fn, ("gfx1201", "bf8"): ml_dtypes.float8_e5m2,
}  # fmt: skip
"""CDNA3 has the FNUZ formats, CDNA4 and RDNA4 those of OCP."""


@pytest.mark.parametrize(("isa", "name"), _SMALL)
def test_small_formats_widen(isa: str, name: str) -> None:
    """All 256 values."""
    dtype, lanes = _SMALL[isa, name], lanes_of(isa)
    for start in range(0, 256, lanes):
        x = np.arange(start, start + lanes, dtype=np.uint32)
        (found,) = execute(isa, f"v_cvt_f32_{name}_e32 v2, v1", {1: x}, [2])
        assert same_floats(f32(found), x.astype(np.uint8).view(dtype).astype(np.float32))


@pytest.mark.parametrize(("isa", "name"), _SMALL)
def test_small_formats_round(isa: str, name: str, rng: np.random.Generator) -> None:
    """Ties, denormals and random values to nearest even; the other half of the register stays."""
    dtype, lanes = _SMALL[isa, name], lanes_of(isa)
    finite = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    finite = np.unique(finite[np.isfinite(finite)])
    middle = (finite[1:] + finite[:-1]) / 2
    around = [np.nextafter(middle, np.float32(side)) for side in (np.inf, -np.inf)]
    values = np.concatenate([finite, middle, *around,
                             rng.normal(0, 50, 512).astype(np.float32)])  # fmt: skip
    values = np.resize(values, -(-values.size // lanes) * lanes)
    old = np.full(lanes, 0xABCD1234, np.uint32)
    for start in range(0, values.size, lanes):
        x = values[start : start + lanes]
        low, high = execute(isa, f"v_cvt_pk_{name}_f32 v3, v1, v2\nv_cvt_pk_{name}_f32 v4, v1, v2 op_sel:[0,0,1]",
                            {1: x.view(np.uint32), 2: (-x).view(np.uint32), 3: old, 4: old}, [3, 4])  # fmt: skip
        expected = x.astype(dtype).view(np.uint8).astype(np.uint32) | (-x).astype(dtype).view(np.uint8).astype(np.uint32) << 8
        np.testing.assert_array_equal(low, expected | np.uint32(0xABCD0000))
        np.testing.assert_array_equal(high, np.uint32(0x1234) | expected << np.uint32(16))


def test_small_formats_overflow() -> None:
    """Beyond the largest number: NaN where the format has no infinity, unless MODE.FP16_OVFL clamps."""
    largest = {("gfx942", "fp8"): 240.0, ("gfx942", "bf8"): 57344.0, ("gfx950", "fp8"): 448.0, ("gfx950", "bf8"): 57344.0}
    for (isa, name), most in largest.items():
        x = np.array([most * 1.5, -most * 1.5, np.inf, np.nan] * 16, np.float32)
        dtype = _SMALL[isa, name]
        body = f"v_mov_b32_e32 v3, 0\nv_cvt_pk_{name}_f32 v3, v1, v1"
        (found,) = execute(isa, body, {1: x.view(np.uint32)}, [3])
        got = (found & np.uint32(0xFF)).astype(np.uint8).view(dtype).astype(np.float32)
        beyond = np.inf if (isa, name) == ("gfx950", "bf8") else np.nan
        assert same_floats(got, np.array([beyond, -beyond, beyond, np.nan] * 16, np.float32)), (isa, name)
        (found,) = execute(isa, body, {1: x.view(np.uint32)}, [3], "\t\t.amdhsa_fp16_overflow 1\n")
        got = (found & np.uint32(0xFF)).astype(np.uint8).view(dtype).astype(np.float32)
        np.testing.assert_array_equal(got[:2], [most, -most])


# ---- integers --------------------------------------------------------------------------------------------------------


def test_integers_and_f32(rng: np.random.Generator) -> None:
    for isa in ALL:
        lanes = lanes_of(isa)
        x = f32_values(rng, lanes)
        x[::3] = (rng.uniform(-5e9, 5e9, lanes).astype(np.float32)).view(np.uint32)[::3]
        with np.errstate(all="ignore"):
            value = np.where(np.isnan(f32(x)), 0, np.trunc(f32(x).astype(np.float64)))
        (found,) = execute(isa, "v_cvt_i32_f32_e32 v2, v1", {1: x}, [2])
        np.testing.assert_array_equal(found.view(np.int32), np.clip(value, -(2.0**31), 2.0**31 - 1).astype(np.int32))
        (found,) = execute(isa, "v_cvt_u32_f32_e32 v2, v1", {1: x}, [2])
        np.testing.assert_array_equal(found, np.clip(value, 0, 2.0**32 - 1).astype(np.uint32))
        n = rng.integers(0, 2**32, lanes, dtype=np.uint64).astype(np.uint32)
        (found,) = execute(isa, "v_cvt_f32_u32_e32 v2, v1", {1: n}, [2])
        np.testing.assert_array_equal(f32(found), n.astype(np.float32))
        (found,) = execute(isa, "v_cvt_f32_i32_e32 v2, v1", {1: n}, [2])
        np.testing.assert_array_equal(f32(found), n.view(np.int32).astype(np.float32))
        (found,) = execute(isa, "v_cvt_f32_ubyte2_e32 v2, v1", {1: n}, [2])
        np.testing.assert_array_equal(f32(found), (n >> np.uint32(16) & np.uint32(255)).astype(np.float32))


def test_f64(rng: np.random.Generator) -> None:
    a, b, c = (rng.normal(0, 1e3, 64) for _ in range(3))
    inputs: dict[int, Array] = {}
    for n, x in enumerate((a, b, c)):
        pairs = x.view(np.uint32).reshape(-1, 2)
        inputs |= {2 + 2 * n: pairs[:, 0].copy(), 3 + 2 * n: pairs[:, 1].copy()}
    for isa in CDNA:
        for text, expected in (("v_add_f64 v[8:9], v[2:3], v[4:5]", a + b), ("v_mul_f64 v[8:9], v[2:3], -v[4:5]", a * -b),
                               ("v_max_f64 v[8:9], v[2:3], v[4:5]", np.maximum(a, b))):  # fmt: skip
            low, high = execute(isa, text, inputs, [8, 9])
            np.testing.assert_array_equal(np.stack([low, high], 1).reshape(-1).view(np.float64), expected)
        low, high = execute(isa, "v_fma_f64 v[8:9], v[2:3], v[4:5], v[6:7]", inputs, [8, 9])
        exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
        np.testing.assert_array_equal(np.stack([low, high], 1).reshape(-1).view(np.float64), exact)
        (found,) = execute(isa, "v_cvt_f32_f64_e32 v8, v[2:3]", inputs, [8])
        np.testing.assert_array_equal(f32(found), a.astype(np.float32))


# ---- f16 arithmetic --------------------------------------------------------------------------------------------------


def single_rounding(exact: list[Fraction]) -> Array:
    """Fractions to f16 by way of the two neighbours, ties to even."""
    out = np.empty(len(exact), np.float16)
    for n, value in enumerate(exact):
        with np.errstate(all="ignore"):
            guess = np.float16(float(value))
        near = [guess, np.nextafter(guess, np.float16(np.inf)), np.nextafter(guess, np.float16(-np.inf))]
        near = [x for x in near if np.isfinite(x)]
        out[n] = (
            min(near, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.uint16)) & 1))
            if np.isfinite(guess)
            else guess
        )
    return out


_F16: dict[str, Callable[[Array, Array], Array]] = {
    "v_add_f16": lambda a, b: a + b, "v_sub_f16": lambda a, b: a - b, "v_mul_f16": lambda a, b: a * b,
}  # fmt: skip


@pytest.mark.parametrize("mnemonic", _F16)
def test_f16_arithmetic(mnemonic: str, rng: np.random.Generator) -> None:
    """Rounded once to f16; the upper half is zero on gfx9 (LLVM, GCNSubtarget::zeroesHigh16BitsOfDest)."""
    for isa in CDNA:
        a, b = half_values(rng, 64), half_values(rng, 64)
        (found,) = execute(isa, f"{mnemonic}_e32 v3, v1, v2", {1: a, 2: b, 3: np.full(64, 0xFFFFFFFF, np.uint32)}, [3])
        with np.errstate(all="ignore"):
            assert same_floats(halves(found), _F16[mnemonic](halves(a), halves(b)))
        assert np.all(found >> np.uint32(16) == 0)


def test_f16_fma_rounds_once(rng: np.random.Generator) -> None:
    for isa in ALL:
        lanes = lanes_of(isa)
        low = [f"v{n}.l" if isa == "gfx1100" else f"v{n}" for n in (9, 1, 2, 3)]
        for _ in range(8):
            a, b, c = (rng.normal(0, 2.0 ** rng.integers(-6, 6), lanes).astype(np.float16) for _ in range(3))
            inputs = {n + 1: x.view(np.uint16).astype(np.uint32) for n, x in enumerate((a, b, c))}
            (found,) = execute(isa, f"v_mov_b32_e32 v9, 0\nv_fma_f16 {', '.join(low)}", inputs, [9])
            exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
            np.testing.assert_array_equal(halves(found), single_rounding(exact))


def test_packed_f16(rng: np.random.Generator) -> None:
    for isa in ALL:
        lanes = lanes_of(isa)
        pairs = [half_values(rng, lanes) | half_values(rng, lanes) << np.uint32(16) for _ in range(2)]
        lo = [halves(x) for x in pairs]
        hi = [halves(x >> np.uint32(16)) for x in pairs]
        with np.errstate(all="ignore"):
            (found,) = execute(isa, "v_pk_mul_f16 v3, v1, v2", {1: pairs[0], 2: pairs[1]}, [3])
            assert same_floats(halves(found), lo[0] * lo[1])
            assert same_floats(halves(found >> np.uint32(16)), hi[0] * hi[1])
            body = "v_pk_add_f16 v3, v1, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1] neg_hi:[1,0]"
            (found,) = execute(isa, body, {1: pairs[0], 2: pairs[1]}, [3])
            assert same_floats(halves(found), hi[0] - lo[1])
            assert same_floats(halves(found >> np.uint32(16)), hi[1] - lo[0])


def test_mixed_precision(rng: np.random.Generator) -> None:
    """op_sel_hi says which sources are f16, op_sel which half of them; mixlo and mixhi write one half."""
    for isa in ALL:
        lanes = lanes_of(isa)
        a = rng.normal(0, 1, lanes).astype(np.float16).view(np.uint16).astype(np.uint32) << np.uint32(16)
        b, c = near_one(rng, lanes), near_one(rng, lanes)
        wide = halves(a >> np.uint32(16)).astype(np.float64)
        exact = wide * f32(b) + f32(c)  # the product has 35 bits: the sum is right but for double rounding in rare cases
        (found,) = execute(isa, "v_fma_mix_f32 v4, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]", {1: a, 2: b, 3: c}, [4])
        np.testing.assert_array_equal(f32(found), exact.astype(np.float32))
        (found,) = execute(isa, "v_fma_mix_f32 v4, v1, 1.0, -v3 op_sel:[1,0,0] op_sel_hi:[1,1,0]", {1: a, 3: c}, [4])
        np.testing.assert_array_equal(f32(found), (wide - f32(c)).astype(np.float32))
        old = np.full(lanes, 0x12345678, np.uint32)
        body = "v_fma_mixlo_f16 v4, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]\n" + body_hi("v5")
        low, high = execute(isa, body, {1: a, 2: b, 3: c, 4: old, 5: old}, [4, 5])
        rounded = exact.astype(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
        np.testing.assert_array_equal(low, rounded | np.uint32(0x12340000))
        np.testing.assert_array_equal(high, rounded << np.uint32(16) | np.uint32(0x5678))


def body_hi(register: str) -> str:
    return f"v_fma_mixhi_f16 {register}, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]"


def test_dot_products(rng: np.random.Generator) -> None:
    a, b = (rng.integers(0, 2**32, 64, dtype=np.uint64).astype(np.uint32) for _ in range(2))
    c = rng.integers(0, 1000, 64).astype(np.uint32)
    bytes_of = [x.view(np.int8).reshape(-1, 4).astype(np.int64) for x in (a, b)]
    (found,) = execute("gfx942", "v_dot4_i32_i8 v4, v1, v2, v3", {1: a, 2: b, 3: c}, [4])
    np.testing.assert_array_equal(found.view(np.int32), (bytes_of[0] * bytes_of[1]).sum(1) + c)
    pairs = [rng.normal(0, 1, (64, 2)).astype(np.float16) for _ in range(2)]
    inputs = {n + 1: x.view(np.uint32).reshape(-1) for n, x in enumerate(pairs)} | {3: near_one(rng, 64)}
    (found,) = execute("gfx942", "v_dot2_f32_f16 v4, v1, v2, v3", inputs, [4])
    exact = (pairs[0].astype(np.float64) * pairs[1]).sum(1) + f32(inputs[3])
    np.testing.assert_allclose(f32(found), exact, rtol=3e-7, atol=3e-7)


# ---- f16 on the scalar unit of RDNA 4 ----------------------------------------------------------------------------------

_TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
        "min_num": np.fmin, "max_num": np.fmax}  # fmt: skip
_ONE = {"rndne": np.rint, "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil}


def test_scalar_f16(rng: np.random.Generator) -> None:
    for a, b in zip(half_values(rng, 24), half_values(rng, 24), strict=True):
        x, y = halves(np.array([a])), halves(np.array([b]))
        wide = int(y.astype(np.float32).view(np.uint32)[0])
        lines = [f"s_mov_b32 s8, {a:#x}", f"s_mov_b32 s9, {b:#x}", f"s_mov_b32 s10, {wide:#x}"]
        want: list[Array] = []

        def gives(text: str, value: Array, lines: list[str] = lines, want: list[Array] = want) -> None:
            lines.extend([text, f"v_mov_b32_e32 v{len(want) + 2}, s11"])
            want.append(value)

        with np.errstate(all="ignore"):
            for name, f in _TWO.items():
                gives(f"s_{name}_f16 s11, s8, s9", f(x, y))
            for name, f in _ONE.items():
                gives(f"s_{name}_f16 s11, s8", f(x))
            exact = x.astype(np.float64) * y.astype(np.float64) + y.astype(np.float64)
            gives("s_mov_b32 s11, s9\ns_fmac_f16 s11, s8, s9", exact.astype(np.float16))
            gives("s_cvt_f16_f32 s11, s10", y)
            for name, true in {"lt": x < y, "nlt": ~(x < y), "eq": x == y, "u": np.isnan(x) | np.isnan(y)}.items():
                gives(f"s_cmp_{name}_f16 s8, s9\ns_cselect_b32 s11, 0x3c00, 0", true.astype(np.float16))
        found = execute("gfx1201", "\n".join(lines), {1: np.zeros(32, np.uint32)}, list(range(2, len(want) + 2)))
        for line, got, value in zip(lines[3::2], found, want, strict=True):
            assert same_floats(halves(got)[:1], value), (line, x, y, halves(got)[:1], value)
            assert not (got >> np.uint32(16)).any(), line


def test_scalar_conversions_of_f16(rng: np.random.Generator) -> None:
    for a in half_values(rng, 16):
        wide = halves(np.array([a])).astype(np.float32)
        body = f"""s_mov_b32 s8, {a:#x}
            s_lshl_b32 s9, s8, 16
            s_cvt_f32_f16 s10, s8
            s_cvt_hi_f32_f16 s11, s9
            s_cvt_pk_rtz_f16_f32 s12, s10, s11
            v_mov_b32_e32 v2, s10
            v_mov_b32_e32 v3, s11
            v_mov_b32_e32 v4, s12"""
        low, high, both = execute("gfx1201", body, {1: np.zeros(32, np.uint32)}, [2, 3, 4])
        assert same_floats(f32(low)[:1], wide) and same_floats(f32(high)[:1], wide)
        for part in (both, both >> np.uint32(16)):
            assert same_floats(halves(part)[:1], halves(np.array([a])))
