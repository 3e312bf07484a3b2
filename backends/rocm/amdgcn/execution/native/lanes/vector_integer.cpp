// Integer arithmetic and bit operations of VOP1, VOP2 and VOP3 on lanes of 32 and 64 bits.
//
// Sources: CDNA3 ISA and RDNA3/RDNA4 ISA, the entry of each instruction. Integer results saturate
// under VOP3's clamp (CDNA3 ISA, "Output modifiers").
#include "../half.hpp"
#include "../modifiers.hpp"

namespace {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

inline u32 low24(u32 x) { return x & 0xffffff; }
inline i32 signed24(u32 x) { return i32(x << 8) >> 8; }
inline u32 saturate_i32(i64 x) { return u32(i32(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x)); }
inline u32 saturate_u32(i64 x) { return x < 0 ? 0u : x > 0xffffffff ? ~0u : u32(x); }

inline u32 reversed(u32 x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}

inline u32 population(u32 x) {
    x -= x >> 1 & 0x55555555;
    x = (x & 0x33333333) + (x >> 2 & 0x33333333);
    return ((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

inline u32 leading_zeros(u32 x) { return x ? u32(__builtin_clz(x)) : ~0u; }
inline u32 trailing_zeros(u32 x) { return x ? u32(__builtin_ctz(x)) : ~0u; }

// Bits a sign is repeated in at the top, and -1 for 0 and -1.
inline u32 sign_run(u32 x) { return x == 0 || x == ~0u ? ~0u : u32(__builtin_clz(i32(x) < 0 ? ~x : x)); }

inline u32 bit_field(u32 x, u32 offset, u32 width) {
    offset &= 31, width &= 31;
    return x >> offset & ((1u << width) - 1);
}
inline u32 signed_bit_field(u32 x, u32 offset, u32 width) {
    offset &= 31, width &= 31;
    if (width == 0) return 0;
    const u32 taken = offset + width < 32 ? width : 32 - offset;  // what would come from above the top is the sign
    return u32(i32(x << (32 - offset - taken)) >> (32 - taken));
}

// One byte of a v_perm: 0-7 from {a, b}, 8-11 sign copies of the halves' tops, 12 zeros, from 13 on ones.
inline u32 permuted_byte(u64 data, u32 select) {
    if (select < 8) return u32(data >> 8 * select) & 0xff;
    if (select < 12) return data >> (16 * (select - 8) + 15) & 1 ? 0xff : 0;
    return select == 12 ? 0 : 0xff;
}
inline u32 permuted(u32 a, u32 b, u32 selectors) {
    const u64 data = u64(a) << 32 | b;
    u32 r = 0;
    for (int n = 0; n < 4; ++n) r |= permuted_byte(data, selectors >> 8 * n & 0xff) << 8 * n;
    return r;
}

inline u32 absolute_difference(u32 a, u32 b) { return a > b ? a - b : b - a; }
inline u32 byte_differences(u32 a, u32 b) {
    u32 sum = 0;
    for (int n = 0; n < 32; n += 8) sum += absolute_difference(a >> n & 0xff, b >> n & 0xff);
    return sum;
}

inline u32 short_differences(u32 a, u32 b) {
    return absolute_difference(a & 0xffff, b & 0xffff) + absolute_difference(a >> 16, b >> 16);
}
// Bytes of b that are 0 do not count.
inline u32 masked_byte_differences(u32 a, u32 b) {
    u32 sum = 0;
    for (int n = 0; n < 32; n += 8)
        if (b >> n & 0xff) sum += absolute_difference(a >> n & 0xff, b >> n & 0xff);
    return sum;
}
// Means of bytes, rounded up where c has a bit.
inline u32 byte_means(u32 a, u32 b, u32 c) {
    u32 r = 0;
    for (int n = 0; n < 32; n += 8) r |= ((a >> n & 0xff) + (b >> n & 0xff) + (c >> n & 1)) >> 1 << n;
    return r;
}

inline u32 middle_i32(i32 a, i32 b, i32 c) {
    const i32 low = a < b ? a : b, high = a < b ? b : a;
    return u32(c < low ? low : c > high ? high : c);
}
inline u32 middle_u32(u32 a, u32 b, u32 c) {
    const u32 low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

#define UNARY(name, value) \
    void name(Wave &w, const Op &op) { bits_1(w, op, [](u32 a) -> u32 { return value; }); }
#define BINARY(name, value) \
    void name(Wave &w, const Op &op) { bits_2(w, op, [](u32 a, u32 b) -> u32 { return value; }); }
#define TERNARY(name, value) \
    void name(Wave &w, const Op &op) { bits_3(w, op, [](u32 a, u32 b, u32 c) -> u32 { return value; }); }
// `wide` is the result in 64 bits, which `saturate` brings into range where the instruction is clamped.
#define BINARY_SATURATING(name, wide, saturate)                                           \
    void name(Wave &w, const Op &op) {                                                    \
        if (op.m.clamp)                                                                   \
            bits_2(w, op, [](u32 a, u32 b) -> u32 { return saturate(wide); });            \
        else                                                                              \
            bits_2(w, op, [](u32 a, u32 b) -> u32 { return u32(wide); });                 \
    }
#define TERNARY_SATURATING(name, wide, saturate)                                          \
    void name(Wave &w, const Op &op) {                                                    \
        if (op.m.clamp)                                                                   \
            bits_3(w, op, [](u32 a, u32 b, u32 c) -> u32 { return saturate(wide); });     \
        else                                                                              \
            bits_3(w, op, [](u32 a, u32 b, u32 c) -> u32 { return u32(wide); });          \
    }

UNARY(v_mov_b32, a)
UNARY(v_not_b32, ~a)
UNARY(v_bfrev_b32, reversed(a))
UNARY(v_ffbh_u32, leading_zeros(a))
UNARY(v_ffbl_b32, trailing_zeros(a))
UNARY(v_ffbh_i32, sign_run(a))
UNARY(v_prng_b32, a << 1 ^ (a >> 31 ? 0xc5u : 0u))

BINARY(v_and_b32, a & b)
BINARY(v_or_b32, a | b)
BINARY(v_xor_b32, a ^ b)
BINARY(v_xnor_b32, ~(a ^ b))
BINARY(v_lshlrev_b32, b << (a & 31))
BINARY(v_lshrrev_b32, b >> (a & 31))
BINARY(v_ashrrev_i32, u32(i32(b) >> (a & 31)))
BINARY(v_bfm_b32, ((1u << (a & 31)) - 1) << (b & 31))
BINARY(v_bcnt_u32_b32, population(a) + b)
BINARY(v_min_i32, i32(a) < i32(b) ? a : b)
BINARY(v_max_i32, i32(a) < i32(b) ? b : a)
BINARY(v_min_u32, a < b ? a : b)
BINARY(v_max_u32, a < b ? b : a)
BINARY(v_mul_lo_u32, a * b)
BINARY(v_mul_hi_u32, u32(u64(a) * b >> 32))
BINARY(v_mul_hi_i32, u32(u64(i64(i32(a)) * i32(b)) >> 32))
BINARY(v_mul_u32_u24, low24(a) * low24(b))
BINARY(v_mul_hi_u32_u24, u32(u64(low24(a)) * low24(b) >> 32))
BINARY(v_mul_i32_i24, u32(i64(signed24(a)) * signed24(b)))
BINARY(v_mul_hi_i32_i24, u32(u64(i64(signed24(a)) * signed24(b)) >> 32))
BINARY_SATURATING(v_add_u32, i64(a) + i64(b), saturate_u32)
BINARY_SATURATING(v_sub_u32, i64(a) - i64(b), saturate_u32)
BINARY_SATURATING(v_subrev_u32, i64(b) - i64(a), saturate_u32)
BINARY_SATURATING(v_add_i32, i64(i32(a)) + i32(b), saturate_i32)
BINARY_SATURATING(v_sub_i32, i64(i32(a)) - i32(b), saturate_i32)

TERNARY(v_add3_u32, a + b + c)
TERNARY(v_add_lshl_u32, (a + b) << (c & 31))
TERNARY(v_lshl_add_u32, (a << (b & 31)) + c)
TERNARY(v_lshl_or_b32, (a << (b & 31)) | c)
TERNARY(v_and_or_b32, (a & b) | c)
TERNARY(v_or3_b32, a | b | c)
TERNARY(v_xor3_b32, a ^ b ^ c)
TERNARY(v_xad_u32, (a ^ b) + c)
TERNARY(v_bfi_b32, (a & b) | (~a & c))
TERNARY(v_bfe_u32, bit_field(a, b, c))
TERNARY(v_bfe_i32, signed_bit_field(a, b, c))
TERNARY(v_alignbit_b32, u32((u64(a) << 32 | b) >> (c & 31)))
TERNARY(v_alignbyte_b32, u32((u64(a) << 32 | b) >> 8 * (c & 3)))
TERNARY(v_perm_b32, permuted(a, b, c))
TERNARY(v_min3_i32, u32(middle_i32(INT32_MIN, middle_i32(INT32_MIN, i32(a), i32(b)), i32(c))))
TERNARY(v_max3_i32, u32(middle_i32(INT32_MAX, middle_i32(INT32_MAX, i32(a), i32(b)), i32(c))))
TERNARY(v_med3_i32, middle_i32(i32(a), i32(b), i32(c)))
TERNARY(v_min3_u32, middle_u32(0, middle_u32(0, a, b), c))
TERNARY(v_max3_u32, middle_u32(~0u, middle_u32(~0u, a, b), c))
TERNARY(v_med3_u32, middle_u32(a, b, c))
TERNARY(v_minmax_i32, u32(middle_i32(INT32_MAX, middle_i32(INT32_MIN, i32(a), i32(b)), i32(c))))
TERNARY(v_maxmin_i32, u32(middle_i32(INT32_MIN, middle_i32(INT32_MAX, i32(a), i32(b)), i32(c))))
TERNARY(v_minmax_u32, middle_u32(~0u, middle_u32(0, a, b), c))
TERNARY(v_maxmin_u32, middle_u32(0, middle_u32(~0u, a, b), c))
TERNARY_SATURATING(v_sad_u32, i64(absolute_difference(a, b)) + c, saturate_u32)
TERNARY_SATURATING(v_sad_u8, i64(byte_differences(a, b)) + c, saturate_u32)
TERNARY_SATURATING(v_sad_u16, i64(short_differences(a, b)) + c, saturate_u32)
TERNARY_SATURATING(v_sad_hi_u8, (i64(byte_differences(a, b)) << 16) + c, saturate_u32)
TERNARY_SATURATING(v_msad_u8, i64(masked_byte_differences(a, b)) + c, saturate_u32)
TERNARY(v_lerp_u8, byte_means(a, b, c))
TERNARY_SATURATING(v_mad_u32_u24, i64(low24(a)) * low24(b) + c, saturate_u32)
TERNARY_SATURATING(v_mad_i32_i24, i64(signed24(a)) * signed24(b) + i32(c), saturate_i32)
TERNARY_SATURATING(v_mad_u32_u16, i64(a & 0xffff) * (b & 0xffff) + c, saturate_u32)
TERNARY_SATURATING(v_mad_i32_i16, i64(int16_t(a)) * int16_t(b) + i32(c), saturate_i32)

// Any function of three bits, its truth table spread over omod and neg in the encoding, an own modifier in the text
// (CDNA4 ISA, V_BITOP3_B32 and _B16). Bit 4a + 2b + c of the table is the result for bits a, b, c.
inline u32 by_table(u32 table, u32 a, u32 b, u32 c) {
    u32 x = 0;
    for (u32 n = 0; n < 8; ++n) {
        const u32 term = (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
        x |= table >> n & 1 ? term : 0;
    }
    return x;
}
void v_bitop3_b32(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1), *c = operand(w, op, 2);
    const u32 table = op.m.extra;
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = by_table(table, a[i], b[i], c[i]);
    finish_bits(w, op, r);
}
void v_bitop3_b16(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1), *c = operand(w, op, 2);
    const u32 table = op.m.extra;
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = by_table(table, a[i], b[i], c[i]) & 0xffff;
    finish_half(w, op, r, Upper::keep);
}

// ---- carries: d[1] is the carry out a lane, the last source the carry in where there is one --------------------------------

template <class F> inline void with_carry(Wave &w, const Op &op, u32 saturated, F f) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    const u64 in = op.sources > 2 ? read_lane_mask(w, op.s[2]) : 0;
    u32 *r = w.result[0], *flags = w.result[1], *carry = w.result[2];
    PK_LANES(i, w) carry[i] = u32(in >> i) & 1;
    PK_LANES(i, w) {
        const u64 wide = f(a[i], b[i], carry[i]);
        r[i] = u32(wide);
        flags[i] = u32(wide >> 32) & 1;
    }
    if (op.m.clamp)
        PK_LANES(i, w) r[i] = flags[i] ? saturated : r[i];
    const u64 out = pack(w, flags) & exec_of(w);
    finish_bits(w, op, r);
    write_lane_mask(w, op.d[1], out);
}

// Bit 32 of a difference is its borrow.
void v_add_co_u32(Wave &w, const Op &op) {
    with_carry(w, op, ~0u, [](u32 a, u32 b, u32 c) { return u64(a) + b + c; });
}
void v_sub_co_u32(Wave &w, const Op &op) {
    with_carry(w, op, 0, [](u32 a, u32 b, u32 c) { return u64(a) - b - c; });
}
void v_subrev_co_u32(Wave &w, const Op &op) {
    with_carry(w, op, 0, [](u32 a, u32 b, u32 c) { return u64(b) - a - c; });
}

// One bit a lane: the source was never written there, or computed from what was not.
u64 undefined_lanes(const Wave &w, const Operand &o) {
    if (o.kind == kVector) return w.undefined_v[o.reg];
    return o.kind == kScalar && w.undefined_s[o.reg] ? ~u64(0) : 0;
}

// Selects by a mask a lane: the third source. What is not selected may be undefined.
void v_cndmask_b32(Wave &w, const Op &op) {
    const u64 by = read_lane_mask(w, op.s[2]);
    u64 undefined = (undefined_lanes(w, op.s[1]) & by) | (undefined_lanes(w, op.s[0]) & ~by);
    if (op.s[2].kind == kScalar)
        undefined |= w.undefined_s[op.s[2].reg] | (w.lanes == 64 ? u64(w.undefined_s[op.s[2].reg + 1]) << 32 : 0);
    Marks &mark = w.undefined_v[op.d[0].reg];
    mark = (mark & ~exec_of(w)) | (undefined & exec_of(w));
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    const u64 chosen = read_lane_mask(w, op.s[2]);
    const u32 half[2] = {u32(chosen), u32(chosen >> 32)};
    // What is not chosen may be undefined. (DPP has moved the first source's marks already.)
    if (!op.m.dpp_kind) {
        const u64 undefined = (undefined_source(w, op, 0) & ~chosen) | (undefined_source(w, op, 1) & chosen);
        set_undefined_lanes(w, op, undefined | undefined_source(w, op, 2), exec_of(w));
    }
    u32 *r = w.result[0];
    for (int h = 0; h < w.lanes / 32; ++h)
        for (int i = 0; i < 32; ++i) r[32 * h + i] = half[h] >> i & 1 ? b[32 * h + i] : a[32 * h + i];
    finish_bits(w, op, r);
}

// ---- 64 bits a lane ----------------------------------------------------------------------------------------------------------

void v_mov_b64(Wave &w, const Op &op) {
    const Wide a = wide_operand(w, op, 0);
    PK_LANES(i, w) set_wide(w, i, a[i]);
    finish_wide(w, op);
}

template <class F> inline void shift_wide(Wave &w, const Op &op, F f) {
    const u32 *by = operand(w, op, 0);
    const Wide x = wide_operand(w, op, 1);
    PK_LANES(i, w) set_wide(w, i, f(x[i], by[i] & 63));
    finish_wide(w, op);
}

void v_lshlrev_b64(Wave &w, const Op &op) { shift_wide(w, op, [](u64 x, u32 n) { return x << n; }); }
void v_lshrrev_b64(Wave &w, const Op &op) { shift_wide(w, op, [](u64 x, u32 n) { return x >> n; }); }
void v_ashrrev_i64(Wave &w, const Op &op) { shift_wide(w, op, [](u64 x, u32 n) { return u64(i64(x) >> n); }); }

void v_lshl_add_u64(Wave &w, const Op &op) {
    const Wide x = wide_operand(w, op, 0), sum = wide_operand(w, op, 2);
    const u32 *by = operand(w, op, 1);
    PK_LANES(i, w) set_wide(w, i, (x[i] << (by[i] & 7)) + sum[i]);
    finish_wide(w, op);
}

// A product of 32 bits added to 64, with a carry out a lane.
template <class F> inline void multiply_add_wide(Wave &w, const Op &op, F f) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1);
    const Wide c = wide_operand(w, op, 2);
    u32 *flags = w.result[2];
    PK_LANES(i, w) {
        u64 sum;
        flags[i] = f(a[i], b[i], c[i], &sum);
        set_wide(w, i, sum);
    }
    const u64 out = pack(w, flags) & exec_of(w);
    finish_wide(w, op);
    write_lane_mask(w, op.d[1], out);
}

void v_mad_u64_u32(Wave &w, const Op &op) {
    multiply_add_wide(w, op, [](u32 a, u32 b, u64 c, u64 *sum) {
        *sum = u64(a) * b + c;
        return u32(*sum < c);
    });
}
// The 65-bit sum of sign-extended operands; its top bit is the carry (CDNA3 ISA, V_MAD_I64_I32).
void v_mad_i64_i32(Wave &w, const Op &op) {
    multiply_add_wide(w, op, [](u32 a, u32 b, u64 c, u64 *sum) {
        const i64 product = i64(i32(a)) * i32(b);
        *sum = u64(product) + c;
        const u32 carry = u32(*sum < c);
        return (carry + u32(product < 0) + u32(i64(c) < 0)) & 1;
    });
}

// ---- lane numbers -----------------------------------------------------------------------------------------------------------

// Counts the mask's bits below each lane: the first 32 lanes, or those above them.
void v_mbcnt_lo_u32_b32(Wave &w, const Op &op) {
    const u32 *mask = operand(w, op, 0), *add = operand(w, op, 1);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = population(i < 32 ? mask[i] & ((1u << i) - 1) : mask[i]) + add[i];
    finish_bits(w, op, r);
}
void v_mbcnt_hi_u32_b32(Wave &w, const Op &op) {
    const u32 *mask = operand(w, op, 0), *add = operand(w, op, 1);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = population(i < 32 ? 0 : mask[i] & ((1u << (i - 32)) - 1)) + add[i];
    finish_bits(w, op, r);
}

void v_nop(Wave &, const Op &) {}

}  // namespace

#define ADD(name) add(#name, name);

HANDLERS(vector_integer) {
    ADD(v_nop) ADD(v_mov_b32) ADD(v_not_b32) ADD(v_bfrev_b32) ADD(v_ffbh_u32) ADD(v_ffbl_b32) ADD(v_ffbh_i32)
    add("v_clz_i32_u32", v_ffbh_u32);
    add("v_ctz_i32_b32", v_ffbl_b32);
    add("v_cls_i32", v_ffbh_i32);
    ADD(v_and_b32) ADD(v_or_b32) ADD(v_xor_b32) ADD(v_xnor_b32) ADD(v_lshlrev_b32) ADD(v_lshrrev_b32) ADD(v_ashrrev_i32)
    ADD(v_bfm_b32) ADD(v_bcnt_u32_b32) ADD(v_min_i32) ADD(v_max_i32) ADD(v_min_u32) ADD(v_max_u32) ADD(v_mul_lo_u32)
    ADD(v_mul_hi_u32) ADD(v_mul_hi_i32) ADD(v_mul_u32_u24) ADD(v_mul_hi_u32_u24) ADD(v_mul_i32_i24) ADD(v_mul_hi_i32_i24)
    ADD(v_add_u32) ADD(v_sub_u32) ADD(v_subrev_u32) ADD(v_add_i32) ADD(v_sub_i32)
    add("v_add_nc_u32", v_add_u32);
    add("v_sub_nc_u32", v_sub_u32);
    add("v_subrev_nc_u32", v_subrev_u32);
    add("v_add_nc_i32", v_add_i32);
    add("v_sub_nc_i32", v_sub_i32);
    ADD(v_add3_u32) ADD(v_add_lshl_u32) ADD(v_lshl_add_u32) ADD(v_lshl_or_b32) ADD(v_and_or_b32) ADD(v_or3_b32)
    ADD(v_xor3_b32) ADD(v_xad_u32) ADD(v_bfi_b32) ADD(v_bfe_u32) ADD(v_bfe_i32) ADD(v_alignbit_b32) ADD(v_alignbyte_b32)
    ADD(v_perm_b32) ADD(v_min3_i32) ADD(v_max3_i32) ADD(v_med3_i32) ADD(v_min3_u32) ADD(v_max3_u32) ADD(v_med3_u32)
    ADD(v_minmax_i32) ADD(v_maxmin_i32) ADD(v_minmax_u32) ADD(v_maxmin_u32) ADD(v_sad_u32) ADD(v_sad_u8)
    ADD(v_sad_u16) ADD(v_sad_hi_u8) ADD(v_msad_u8) ADD(v_lerp_u8) ADD(v_prng_b32)
    ADD(v_mad_u32_u24) ADD(v_mad_i32_i24) ADD(v_mad_u32_u16) ADD(v_mad_i32_i16) ADD(v_bitop3_b32) ADD(v_bitop3_b16)
    ADD(v_add_co_u32) ADD(v_sub_co_u32) ADD(v_subrev_co_u32)
    add("v_addc_co_u32", v_add_co_u32);
    add("v_subb_co_u32", v_sub_co_u32);
    add("v_subbrev_co_u32", v_subrev_co_u32);
    add("v_add_co_ci_u32", v_add_co_u32);
    add("v_sub_co_ci_u32", v_sub_co_u32);
    add("v_subrev_co_ci_u32", v_subrev_co_u32);
    ADD(v_cndmask_b32) ADD(v_mov_b64) ADD(v_lshlrev_b64) ADD(v_lshrrev_b64) ADD(v_ashrrev_i64) ADD(v_lshl_add_u64)
    ADD(v_mad_u64_u32) ADD(v_mad_i64_i32)
    add("v_mad_co_u64_u32", v_mad_u64_u32);
    add("v_mad_co_i64_i32", v_mad_i64_i32);
    ADD(v_mbcnt_lo_u32_b32) ADD(v_mbcnt_hi_u32_b32)
    add("v_accvgpr_read_b32", v_mov_b32);
    add("v_accvgpr_write_b32", v_mov_b32);
    add("v_accvgpr_mov_b32", v_mov_b32);
}
