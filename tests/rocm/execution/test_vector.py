"""Vector instructions of the AMD machine against numpy, on random and on special values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.rocm.execution.lanes_bench import ALL, CDNA, RDNA, execute, f32_values, lanes_of, near_one, same_floats

pytestmark = pytest.mark.quick

Array = np.ndarray
ROUNDS = 6


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def f32(x: Array) -> Array:
    return x.view(np.float32)


def words(rng: np.random.Generator, lanes: int) -> Array:
    special = np.array([0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x10000, 0xFFFFFF, 0x800000], np.uint32)
    plain = rng.integers(0, 2**32, lanes, dtype=np.uint64).astype(np.uint32)
    return np.where(rng.random(lanes) < 0.3, rng.choice(special, lanes), plain)


def u64(x: Array) -> Array:
    return x.astype(np.uint64)


def i64(x: Array) -> Array:
    return x.view(np.int32).astype(np.int64)


def low32(x: Array) -> Array:
    return x.astype(np.uint64).astype(np.uint32) if x.dtype != np.int64 else (x & 0xFFFFFFFF).astype(np.uint32)


def s24(x: Array) -> Array:
    return ((x << np.uint32(8)).view(np.int32) >> 8).astype(np.int64)


# ---- integers --------------------------------------------------------------------------------------------------------

INTEGER: dict[str, tuple[tuple[str, ...], Callable[..., Array]]] = {
    "v_and_b32_e32": (ALL, lambda a, b: a & b),
    "v_or_b32_e32": (ALL, lambda a, b: a | b),
    "v_xor_b32_e32": (ALL, lambda a, b: a ^ b),
    "v_lshlrev_b32_e32": (ALL, lambda a, b: b << (a & np.uint32(31))),
    "v_lshrrev_b32_e32": (ALL, lambda a, b: b >> (a & np.uint32(31))),
    "v_ashrrev_i32_e32": (ALL, lambda a, b: (b.view(np.int32) >> (a & np.uint32(31)).astype(np.int32)).view(np.uint32)),
    "v_min_i32_e32": (ALL, lambda a, b: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32)),
    "v_max_u32_e32": (ALL, np.maximum),
    "v_mul_lo_u32": (ALL, lambda a, b: low32(u64(a) * u64(b))),
    "v_mul_hi_u32": (ALL, lambda a, b: low32((u64(a) * u64(b)) >> np.uint64(32))),
    "v_mul_hi_i32": (ALL, lambda a, b: low32((i64(a) * i64(b)) >> 32)),
    "v_mul_u32_u24_e32": (ALL, lambda a, b: low32(u64(a & np.uint32(0xFFFFFF)) * u64(b & np.uint32(0xFFFFFF)))),
    "v_mul_i32_i24_e32": (ALL, lambda a, b: low32(s24(a) * s24(b))),
    "v_add_u32_e32": (CDNA, lambda a, b: a + b),
    "v_sub_u32_e32": (CDNA, lambda a, b: a - b),
    "v_subrev_u32_e32": (CDNA, lambda a, b: b - a),
    "v_add_nc_u32_e32": (RDNA, lambda a, b: a + b),
    "v_subrev_nc_u32_e32": (RDNA, lambda a, b: b - a),
    "v_add3_u32": (ALL, lambda a, b, c: a + b + c),
    "v_lshl_add_u32": (ALL, lambda a, b, c: (a << (b & np.uint32(31))) + c),
    "v_lshl_or_b32": (ALL, lambda a, b, c: (a << (b & np.uint32(31))) | c),
    "v_and_or_b32": (ALL, lambda a, b, c: (a & b) | c),
    "v_or3_b32": (ALL, lambda a, b, c: a | b | c),
    "v_bfi_b32": (ALL, lambda a, b, c: (a & b) | (~a & c)),
    "v_bfe_u32": (ALL, lambda a, b, c: a >> (b & np.uint32(31)) & ((np.uint32(1) << (c & np.uint32(31))) - np.uint32(1))),
    "v_alignbit_b32": (ALL, lambda a, b, c: low32((u64(a) << np.uint64(32) | u64(b)) >> u64(c & np.uint32(31)))),
    "v_mad_u32_u24": (ALL, lambda a, b, c: low32(u64(a & np.uint32(0xFFFFFF)) * u64(b & np.uint32(0xFFFFFF)) + u64(c))),
    "v_mad_i32_i24": (ALL, lambda a, b, c: low32(s24(a) * s24(b) + i64(c))),
    "v_med3_i32": (ALL, lambda a, b, c: np.sort([i64(a), i64(b), i64(c)], axis=0)[1].astype(np.int32).view(np.uint32)),
    "v_med3_u32": (ALL, lambda a, b, c: np.sort([a, b, c], axis=0)[1]),
    "v_not_b32_e32": (ALL, lambda a: ~a),
    "v_bfrev_b32_e32": (ALL, lambda a: np.array([int(f"{x:032b}"[::-1], 2) for x in a], np.uint32)),
}  # fmt: skip


@pytest.mark.parametrize("mnemonic", INTEGER)
def test_integer(mnemonic: str, rng: np.random.Generator) -> None:
    targets, model = INTEGER[mnemonic]
    sources = model.__code__.co_argcount if hasattr(model, "__code__") else 2
    for isa in targets:
        for _ in range(ROUNDS):
            inputs = {n + 1: words(rng, lanes_of(isa)) for n in range(sources)}
            (found,) = execute(isa, f"{mnemonic} v9, {', '.join(f'v{n}' for n in inputs)}", inputs, [9])
            np.testing.assert_array_equal(found, model(*inputs.values()), f"{mnemonic} on {isa}")


def test_perm(rng: np.random.Generator) -> None:
    """Bytes from {a, b}, sign copies for selectors 8 to 11, zeros for 12, ones above (CDNA3 ISA 12.11, V_PERM_B32)."""

    def byte(a: int, b: int, select: int) -> int:
        data = a << 32 | b
        if select >= 13:
            return 0xFF
        if select == 12:
            return 0
        if select >= 8:
            return 0xFF * (data >> (16 * (select - 8) + 15) & 1)
        return data >> 8 * select & 0xFF

    for isa in ALL:
        a, b = words(rng, lanes_of(isa)), words(rng, lanes_of(isa))
        selectors = rng.integers(0, 16, (lanes_of(isa), 4)).astype(np.uint8).view(np.uint32).reshape(-1)
        (found,) = execute(isa, "v_perm_b32 v9, v1, v2, v3", {1: a, 2: b, 3: selectors}, [9])
        expected = [sum(byte(int(x), int(y), int(s) >> 8 * n & 0xFF) << 8 * n for n in range(4))
                    for x, y, s in zip(a, b, selectors, strict=True)]  # fmt: skip
        np.testing.assert_array_equal(found, np.array(expected, np.uint32))


def test_carries(rng: np.random.Generator) -> None:
    """A 64-bit sum in two instructions, through the carry a lane."""
    for isa in ALL:
        lanes = lanes_of(isa)
        low, high = [words(rng, lanes) for _ in range(2)], [words(rng, lanes) for _ in range(2)]
        vcc = "vcc" if isa in CDNA else "vcc_lo"
        names = {"gfx90a": ("v_add_co_u32_e32", "v_addc_co_u32_e32")} | dict.fromkeys(
            CDNA, ("v_add_co_u32_e32", "v_addc_co_u32_e32")
        )
        first, second = names.get(isa, ("v_add_co_u32", "v_add_co_ci_u32_e32"))
        body = f"{first} v5, {vcc}, v1, v2\n{second} v6, {vcc}, v3, v4, {vcc}"
        a, b = execute(isa, body, {1: low[0], 2: low[1], 3: high[0], 4: high[1]}, [5, 6])
        expected = (u64(low[0]) | u64(high[0]) << np.uint64(32)) + (u64(low[1]) | u64(high[1]) << np.uint64(32))
        np.testing.assert_array_equal(u64(a) | u64(b) << np.uint64(32), expected)


def test_wide_shifts_and_sums(rng: np.random.Generator) -> None:
    for isa in ("gfx942", "gfx950"):
        x, by, y = [words(rng, 64) for _ in range(2)], words(rng, 64), [words(rng, 64) for _ in range(2)]
        inputs = {2: x[0], 3: x[1], 4: by, 6: y[0], 7: y[1]}
        a = execute(isa, "v_lshl_add_u64 v[8:9], v[2:3], v4, v[6:7]", inputs, [8, 9])
        value = u64(x[0]) | u64(x[1]) << np.uint64(32)
        addend = u64(y[0]) | u64(y[1]) << np.uint64(32)
        np.testing.assert_array_equal(u64(a[0]) | u64(a[1]) << np.uint64(32), (value << u64(by & np.uint32(7))) + addend)
        a = execute(isa, "v_lshlrev_b64 v[8:9], v4, v[2:3]", inputs, [8, 9])
        np.testing.assert_array_equal(u64(a[0]) | u64(a[1]) << np.uint64(32), value << u64(by & np.uint32(63)))


# ---- f32 -------------------------------------------------------------------------------------------------------------


def number(x: Array, y: Array, pick: Callable[..., Array]) -> Array:
    """The number where one is NaN, zeros ordered by sign."""
    a, b = f32(x), f32(y)
    tie = (a == 0) & (b == 0)
    zero = (x & y) if pick is np.fmax else (x | y)
    return np.where(tie, f32(zero.astype(np.uint32)), pick(a, b))


def propagating(x: Array, y: Array, pick: Callable[..., Array]) -> Array:
    result = number(x, y, pick)
    return np.where(np.isnan(f32(x)) | np.isnan(f32(y)), np.float32(np.nan), result)


FLOAT: dict[str, tuple[tuple[str, ...], Callable[..., Array]]] = {
    "v_add_f32_e32": (ALL, lambda a, b: f32(a) + f32(b)),
    "v_sub_f32_e32": (ALL, lambda a, b: f32(a) - f32(b)),
    "v_subrev_f32_e32": (ALL, lambda a, b: f32(b) - f32(a)),
    "v_mul_f32_e32": (ALL, lambda a, b: f32(a) * f32(b)),
    "v_floor_f32_e32": (ALL, lambda a: np.floor(f32(a))),
    "v_ceil_f32_e32": (ALL, lambda a: np.ceil(f32(a))),
    "v_trunc_f32_e32": (ALL, lambda a: np.trunc(f32(a))),
    "v_rndne_f32_e32": (ALL, lambda a: np.rint(f32(a))),
    "v_maximum_f32": (("gfx1201",), lambda a, b: propagating(a, b, np.fmax)),
    "v_minimum_f32": (("gfx1201",), lambda a, b: propagating(a, b, np.fmin)),
    "v_max_num_f32_e32": (("gfx1201",), lambda a, b: number(a, b, np.fmax)),
    "v_min_num_f32_e32": (("gfx1201",), lambda a, b: number(a, b, np.fmin)),
}


@pytest.mark.parametrize("mnemonic", FLOAT)
def test_float(mnemonic: str, rng: np.random.Generator) -> None:
    targets, model = FLOAT[mnemonic]
    for isa in targets:
        for _ in range(ROUNDS):
            inputs = {n + 1: f32_values(rng, lanes_of(isa)) for n in range(model.__code__.co_argcount)}
            (found,) = execute(isa, f"{mnemonic} v9, {', '.join(f'v{n}' for n in inputs)}", inputs, [9])
            with np.errstate(all="ignore"):
                expected = model(*inputs.values())
            assert same_floats(f32(found), expected.astype(np.float32)), f"{mnemonic} on {isa}"


def test_max_quiets_signaling_nan_in_ieee_mode() -> None:
    """CDNA3 ISA 12.8, V_MAX_F32: a signaling NaN comes out quiet where MODE.IEEE is set; otherwise the number wins."""
    one, signaling = np.full(64, 0x3F800000, np.uint32), np.full(64, 0x7F800001, np.uint32)
    for ieee, expected in ((1, 0x7FC00001), (0, 0x3F800000)):
        options = f"\t\t.amdhsa_ieee_mode {ieee}\n"
        for operands in ("v1, v2", "v2, v1"):
            (found,) = execute("gfx942", f"v_max_f32_e32 v3, {operands}", {1: one, 2: signaling}, [3], options)
            assert np.all(found == expected)
    (found,) = execute("gfx942", "v_max_f32_e32 v3, v1, v2", {1: one, 2: np.full(64, 0x7FC00000, np.uint32)}, [3])
    assert np.all(found == 0x3F800000)


def exact_fma(a: Array, b: Array, c: Array) -> Array:
    """Single rounding by exact rational arithmetic."""
    from fractions import Fraction

    out = np.empty(a.shape, np.float32)
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) for x in (a, b, c)]
    for n, (x, y, z) in enumerate(zip(*wide, strict=True)):
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)) or 0 in (x, y, z):
            with np.errstate(all="ignore"):
                out[n] = np.float32(x * y + z)
            continue
        out[n] = nearest_f32(Fraction(x) * Fraction(y) + Fraction(z))
    return out


def nearest_f32(value) -> np.float32:  # type: ignore[no-untyped-def]
    from fractions import Fraction

    if value == 0:
        return np.float32(0)
    magnitude = abs(value)
    exponent = max(magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 1, -126)
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** (exponent - 23)
    whole, rest = divmod(magnitude, step)
    whole += rest * 2 > step or (rest * 2 == step and whole % 2 == 1)
    found = whole * step
    if found >= Fraction(2) ** 128:
        return np.float32(np.inf if value > 0 else -np.inf)
    return np.float32(np.copysign(float(found), float(value > 0) - 0.5))


def test_fma_rounds_once(rng: np.random.Generator) -> None:
    for isa in ALL:
        for _ in range(ROUNDS):
            lanes = lanes_of(isa)
            a, b, c = (f32_values(rng, lanes) for _ in range(3))
            # Cancelling sums, where two roundings would show.
            with np.errstate(all="ignore"):
                c[::3] = (-(f32(a) * f32(b))).view(np.uint32)[::3]
            (found,) = execute(isa, "v_fma_f32 v9, v1, v2, v3", {1: a, 2: b, 3: c}, [9])
            assert same_floats(f32(found), exact_fma(f32(a), f32(b), f32(c)))
            (found,) = execute(isa, "v_fmac_f32_e32 v3, v1, v2", {1: a, 2: b, 3: c}, [3])
            assert same_floats(f32(found), exact_fma(f32(a), f32(b), f32(c)))
            (found,) = execute(isa, "v_fmamk_f32 v9, v1, 0x40490fdb, v3", {1: a, 3: c}, [9])
            pi = np.full(lanes, np.float32(np.pi))
            assert same_floats(f32(found), exact_fma(f32(a), pi, f32(c)))


def test_packed_f32(rng: np.random.Generator) -> None:
    """op_sel picks the register of a pair for the lower result, op_sel_hi for the upper, neg_* their signs."""
    for isa in CDNA:
        v = {n: near_one(rng, 64) for n in range(2, 8)}
        body = "v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[6:7] op_sel:[1,0,0] op_sel_hi:[0,1,1] neg_lo:[0,0,1] neg_hi:[1,0,0]"
        low, high = execute(isa, body, v, [8, 9])
        assert same_floats(f32(low), exact_fma(f32(v[3]), f32(v[4]), -f32(v[6])))
        assert same_floats(f32(high), exact_fma(-f32(v[2]), f32(v[5]), f32(v[7])))
        low, high = execute(isa, "v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel_hi:[1,0]", v, [8, 9])
        assert same_floats(f32(low), f32(v[2]) * f32(v[4])) and same_floats(f32(high), f32(v[3]) * f32(v[4]))
        low, high = execute(isa, "v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]", v, [8, 9])
        np.testing.assert_array_equal([low, high], [v[3], v[4]])


# ---- modifiers -------------------------------------------------------------------------------------------------------


def test_source_modifiers(rng: np.random.Generator) -> None:
    for isa in ALL:
        a, b = f32_values(rng, lanes_of(isa)), f32_values(rng, lanes_of(isa))
        (found,) = execute(isa, "v_add_f32_e64 v9, -v1, |v2|", {1: a, 2: b}, [9])
        with np.errstate(all="ignore"):
            assert same_floats(f32(found), np.abs(f32(b)) - f32(a))
        (found,) = execute(isa, "v_mul_f32_e64 v9, -|v1|, v2", {1: a, 2: b}, [9])
        with np.errstate(all="ignore"):
            assert same_floats(f32(found), -np.abs(f32(a)) * f32(b))


def test_output_modifiers(rng: np.random.Generator) -> None:
    for isa in ALL:
        a, b = near_one(rng, lanes_of(isa)), near_one(rng, lanes_of(isa))
        total = f32(a) + f32(b)
        for text, factor in (("mul:2", 2), ("mul:4", 4), ("div:2", 0.5)):
            (found,) = execute(isa, f"v_add_f32_e64 v9, v1, v2 {text}", {1: a, 2: b}, [9])
            assert same_floats(f32(found), (total * np.float32(factor)).astype(np.float32))
        (found,) = execute(isa, "v_add_f32_e64 v9, v1, v2 clamp", {1: a, 2: b}, [9])
        np.testing.assert_array_equal(f32(found), np.clip(total, 0, 1))
        nan = np.full(lanes_of(isa), 0x7FC00000, np.uint32)
        (found,) = execute(isa, "v_add_f32_e64 v9, v1, v2 clamp", {1: a, 2: nan}, [9])
        assert np.all(found == 0)


def test_integer_clamp_saturates() -> None:
    a, b = np.full(64, 0xFFFFFFF0, np.uint32), np.full(64, 0x20, np.uint32)
    (found,) = execute("gfx942", "v_add_u32_e64 v9, v1, v2 clamp", {1: a, 2: b}, [9])
    assert np.all(found == 0xFFFFFFFF)
    (found,) = execute("gfx942", "v_sub_u32_e64 v9, v2, v1 clamp", {1: a, 2: b}, [9])
    assert np.all(found == 0)
    (found,) = execute("gfx942", "v_add_i32 v9, v1, v2 clamp", {1: np.full(64, 0x7FFFFFFF, np.uint32), 2: b}, [9])
    assert np.all(found == 0x7FFFFFFF)


def test_inactive_lanes_keep_their_values(rng: np.random.Generator) -> None:
    for isa in ALL:
        lanes = lanes_of(isa)
        a, b, old = (near_one(rng, lanes) for _ in range(3))
        mask = int(rng.integers(0, 2**32)) | 1
        body = f"s_mov_b32 exec_lo, 0x{mask:x}\nv_add_f32_e32 v3, v1, v2"
        if lanes == 64:
            body = f"s_mov_b32 exec_hi, 0x{~mask & 0xFFFFFFFF:x}\n" + body
        (found,) = execute(isa, body, {1: a, 2: b, 3: old}, [3])
        active = np.array([(mask >> n if n < 32 else ~mask >> (n - 32)) & 1 for n in range(lanes)], bool)
        np.testing.assert_array_equal(found, np.where(active, (f32(a) + f32(b)).view(np.uint32), old))


# ---- rounding and denormals ------------------------------------------------------------------------------------------


def test_mode_rounds_f32(rng: np.random.Generator) -> None:
    """MODE.round of f32: 1 up, 2 down, 3 towards zero (RDNA3 ISA 3.3)."""
    for isa in ("gfx942", "gfx1100"):
        a, b = near_one(rng, lanes_of(isa)), near_one(rng, lanes_of(isa))
        exact = f32(a).astype(np.float64) * f32(b)  # products of f32 are exact in f64
        nearest = exact.astype(np.float32)
        down = np.where(nearest > exact, np.nextafter(nearest, np.float32(-np.inf)), nearest)
        up = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
        for mode, expected in ((0, nearest), (1, up), (2, down), (3, np.where(exact > 0, down, up))):
            options = f"\t\t.amdhsa_float_round_mode_32 {mode}\n"
            (found,) = execute(isa, "v_mul_f32_e32 v3, v1, v2", {1: a, 2: b}, [3], options)
            np.testing.assert_array_equal(f32(found), expected)


def test_mode_flushes_f32() -> None:
    """MODE.denorm of f32: bit 0 lets denormals in, bit 1 out (CDNA3 ISA 3.4)."""
    tiny = np.full(64, 0x00400000, np.uint32)  # 2^-127
    two, half = np.full(64, 0x40000000, np.uint32), np.full(64, 0x3F000000, np.uint32)
    smallest = np.full(64, 0x00800000, np.uint32)
    for mode, of_input, of_output in ((0, 0, 0), (1, 0x800000, 0), (2, 0, 0x400000), (3, 0x800000, 0x400000)):
        options = f"\t\t.amdhsa_float_denorm_mode_32 {mode}\n"
        body = "v_mul_f32_e32 v5, v1, v2\nv_mul_f32_e32 v6, v3, v4"
        a, b = execute("gfx942", body, {1: tiny, 2: two, 3: smallest, 4: half}, [5, 6], options)
        assert np.all(a == of_input) and np.all(b == of_output), mode


# ---- compares and selects --------------------------------------------------------------------------------------------

_ORDER: dict[str, Callable[[Array, Array], Array]] = {
    "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b), "ge": lambda a, b: a >= b, "o": lambda a, b: (a == a) & (b == b),
    "u": lambda a, b: (a != a) | (b != b), "nge": lambda a, b: ~(a >= b), "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b), "nle": lambda a, b: ~(a <= b), "neq": lambda a, b: ~(a == b), "nlt": lambda a, b: ~(a < b),
}  # fmt: skip


@pytest.mark.parametrize("relation", _ORDER)
def test_float_compares_and_select(relation: str, rng: np.random.Generator) -> None:
    for isa in ALL:
        a, b = f32_values(rng, lanes_of(isa)), f32_values(rng, lanes_of(isa))
        b[::4] = a[::4]
        mask = "s[20:21]" if isa in CDNA else "s20"
        body = f"v_cmp_{relation}_f32_e64 {mask}, v1, v2\nv_cndmask_b32_e64 v3, 0, 1, {mask}"
        (found,) = execute(isa, body, {1: a, 2: b}, [3])
        np.testing.assert_array_equal(found, _ORDER[relation](f32(a), f32(b)).astype(np.uint32), f"{relation} {isa}")


def test_integer_compares(rng: np.random.Generator) -> None:
    views = {"i32": np.int32, "u32": np.uint32}
    for isa in ALL:
        vcc = "vcc" if isa in CDNA else "vcc_lo"
        for kind, view in views.items():
            for relation in ("lt", "eq", "le", "gt", "ge"):
                a, b = words(rng, lanes_of(isa)), words(rng, lanes_of(isa))
                b[::4] = a[::4]
                body = f"v_cmp_{relation}_{kind}_e32 {vcc}, v1, v2\nv_cndmask_b32_e32 v3, v1, v2, {vcc}"
                (found,) = execute(isa, body, {1: a, 2: b}, [3])
                np.testing.assert_array_equal(found, np.where(_ORDER[relation](a.view(view), b.view(view)), b, a))


def test_class() -> None:
    """One bit a class (CDNA3 ISA 12.10, V_CMP_CLASS_F32): the value must be in exactly the class named."""
    samples = [0x7F800001, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0, 1, 0x3F800000, 0x7F800000]
    for bit in range(10):
        a = np.array([samples[n % 10] for n in range(64)], np.uint32)
        body = "v_cmp_class_f32_e64 s[20:21], v1, v2\nv_cndmask_b32_e64 v3, 0, 1, s[20:21]"
        (found,) = execute("gfx942", body, {1: a, 2: np.full(64, 1 << bit, np.uint32)}, [3])
        np.testing.assert_array_equal(found, np.array([n % 10 == bit for n in range(64)], np.uint32))


def test_compare_writes_exec(rng: np.random.Generator) -> None:
    for isa in RDNA:
        a, old = words(rng, 32), words(rng, 32)
        (found,) = execute(isa, "v_cmpx_gt_u32_e32 0x7fffffff, v1\nv_mov_b32_e32 v2, 1", {1: a, 2: old}, [2])
        np.testing.assert_array_equal(found, np.where(a < 0x7FFFFFFF, 1, old))


# ---- division --------------------------------------------------------------------------------------------------------


def test_division_is_correctly_rounded(rng: np.random.Generator) -> None:
    """The sequence that clang emits for a / b rounds to nearest, over the whole range and for special values."""
    for isa in ALL:
        mask, vcc = ("s[20:21]", "vcc") if isa in CDNA else ("s20", "vcc_lo")
        body = f"""
            v_div_scale_f32 v3, {mask}, v2, v2, v1
            v_rcp_f32_e32 v4, v3
            v_div_scale_f32 v5, {vcc}, v1, v2, v1
            v_fma_f32 v6, -v3, v4, 1.0
            v_fmac_f32_e32 v4, v6, v4
            v_mul_f32_e32 v6, v5, v4
            v_fma_f32 v7, -v3, v6, v5
            v_fmac_f32_e32 v6, v7, v4
            v_fma_f32 v3, -v3, v6, v5
            v_div_fmas_f32 v3, v3, v4, v6
            v_div_fixup_f32 v3, v3, v2, v1"""
        for _ in range(ROUNDS * 3):
            a, b = f32_values(rng, lanes_of(isa)), f32_values(rng, lanes_of(isa))
            (found,) = execute(isa, body, {1: a, 2: b}, [3])
            with np.errstate(all="ignore"):
                expected = f32(a) / f32(b)
            assert same_floats(f32(found), expected), isa


# ---- transcendental functions ----------------------------------------------------------------------------------------

_FUNCTIONS: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "exp": (np.exp2, -140, 140), "log": (np.log2, 1e-30, 1e30), "rcp": (lambda x: 1 / x, -1e30, 1e30),
    "rsq": (lambda x: 1 / np.sqrt(x), 1e-30, 1e30), "sqrt": (np.sqrt, 0, 1e30),
    "sin": (lambda x: np.sin(2 * np.pi * (x - np.rint(x))), -256, 256),
    "cos": (lambda x: np.cos(2 * np.pi * (x - np.rint(x))), -256, 256),
}  # fmt: skip


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_transcendental_within_bound(name: str, rng: np.random.Generator) -> None:
    """Within 1 ulp, denormals flushed (RDNA3 ISA 16.8); sine and cosine, without a bound there, within 1 ulp of 1."""
    function, low, high = _FUNCTIONS[name]
    for isa in ALL:
        for _ in range(ROUNDS):
            lanes = lanes_of(isa)
            x = rng.uniform(low, high, lanes).astype(np.float32)
            x[::2] = np.clip(rng.uniform(0.01, 4, lanes)[::2], low, high)
            (found,) = execute(isa, f"v_{name}_f32_e32 v2, v1", {1: x.view(np.uint32)}, [2])
            with np.errstate(all="ignore"):
                exact = function(x.astype(np.float64))
            unit = np.spacing(np.maximum(np.abs(exact), 2.0**-126 if name not in ("sin", "cos") else 1.0).astype(np.float32))
            expected = np.where(np.abs(exact) < 2.0**-126, 0, exact)
            assert np.all((np.abs(f32(found) - expected) <= unit) | (f32(found) == expected.astype(np.float32))), (name, isa)


def test_transcendental_special_values() -> None:
    zero, one, inf, nan = 0.0, 1.0, np.inf, np.nan
    cases = {
        "exp": [(zero, one), (-inf, zero), (inf, inf), (nan, nan), (-127.0, zero), (128.0, inf)],
        "log": [(zero, -inf), (-0.0, -inf), (-one, nan), (inf, inf), (nan, nan), (1e-40, -inf), (8.0, 3.0)],
        "rcp": [(zero, inf), (-0.0, -inf), (inf, zero), (-inf, -0.0), (1e-40, inf), (3e38, zero)],
        "rsq": [(zero, inf), (4.0, 0.5), (-one, nan), (inf, zero)],
        "sqrt": [(zero, zero), (-0.0, -0.0), (4.0, 2.0), (-one, nan), (inf, inf)],
        "sin": [(zero, zero), (0.25, one), (inf, nan), (300.25, zero)],
        "cos": [(zero, one), (0.5, -one), (inf, nan), (300.25, one)],
    }
    for name, pairs in cases.items():
        given = np.array([pairs[n % len(pairs)][0] for n in range(64)], np.float32)
        expected = np.array([pairs[n % len(pairs)][1] for n in range(64)], np.float32)
        (found,) = execute("gfx942", f"v_{name}_f32_e32 v2, v1", {1: given.view(np.uint32)}, [2])
        assert same_floats(f32(found), expected), name


# ---- integers of 16 bits ---------------------------------------------------------------------------------------------

GFX9 = ("gfx90a", "gfx942", "gfx950")

THREE_HALVES: dict[str, tuple[tuple[str, ...], Callable[..., Array]]] = {
    "v_min3_u16": (ALL, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_max3_u16": (ALL, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "v_med3_u16": (ALL, lambda a, b, c: np.sort(np.stack([a, b, c]), axis=0)[1]),
    "v_min3_i16": (ALL, lambda a, b, c: np.minimum(np.minimum(s16(a), s16(b)), s16(c))),
    "v_max3_i16": (ALL, lambda a, b, c: np.maximum(np.maximum(s16(a), s16(b)), s16(c))),
    "v_med3_i16": (ALL, lambda a, b, c: np.sort(np.stack([s16(a), s16(b), s16(c)]), axis=0)[1]),
    "v_mad_legacy_u16": (GFX9, lambda a, b, c: a * b + c),
    "v_mad_legacy_i16": (GFX9, lambda a, b, c: a * b + c),
}


def s16(x: Array) -> Array:
    return x.astype(np.uint16).view(np.int16)


@pytest.mark.parametrize("name", THREE_HALVES)
def test_three_values_of_16_bits(name: str, rng: np.random.Generator) -> None:
    isas, expected = THREE_HALVES[name]
    for isa in isas:
        a, b, c, before = (words(rng, lanes_of(isa)) for _ in range(4))
        (low,) = execute(isa, f"{name} v1, v2, v3, v4", {1: before, 2: a, 3: b, 4: c}, [1])
        want = expected(a & np.uint32(0xFFFF), b & np.uint32(0xFFFF), c & np.uint32(0xFFFF)).astype(np.uint16)
        np.testing.assert_array_equal(low.astype(np.uint16), want, f"{name} on {isa}")
        kept = np.zeros_like(before) if "legacy" in name else before >> 16
        np.testing.assert_array_equal(low >> 16, kept, f"the upper half that {name} leaves on {isa}")
