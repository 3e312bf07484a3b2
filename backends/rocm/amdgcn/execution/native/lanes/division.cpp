// The instructions that division is built from: operands are scaled so that the steps between them neither overflow nor
// underflow, and the quotient is mended afterwards.
//
// Sources: CDNA3 ISA and RDNA3/RDNA4 ISA, V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP for F32 and F64 and V_DIV_FIXUP_F16.
#include "../half.hpp"

namespace {

using u32 = uint32_t;
using u64 = uint64_t;

// What differs between the two formats.
struct Single {
    using Value = float;
    using Bits = u32;
    static constexpr int mantissa = 23, most = 255, far = 96, tiny = 23, step = 64, least = -150;
};
struct Double {
    using Value = double;
    using Bits = u64;
    static constexpr int mantissa = 52, most = 2047, far = 768, tiny = 53, step = 128, least = -1075;
};

template <class T> inline int exponent(typename T::Value x) {
    return int(as_bits(x) >> T::mantissa) & T::most;
}
template <class T> inline bool is_denormal(typename T::Value x) { return exponent<T>(x) == 0 && x != 0; }
template <class T> inline typename T::Value power(int n) {
    return bits_as<typename T::Value>(typename T::Bits(n + T::most / 2) << T::mantissa);
}
template <class T> inline typename T::Value not_a_number() {
    // The guides write this NaN with its sign set (V_DIV_FIXUP_F32: 0xffc00000).
    return bits_as<typename T::Value>(~typename T::Bits(0) << (T::mantissa - 1));
}

template <class T> struct Scaled {
    typename T::Value value;
    bool flag;  // v_div_fmas will scale the quotient
};

// `x` is the denominator or numerator, which is to be scaled.
template <class T> inline Scaled<T> div_scale(typename T::Value x, typename T::Value denominator, typename T::Value numerator) {
    using Value = typename T::Value;
    const Value up = x * power<T>(T::step);
    if (numerator == 0 || denominator == 0) return {not_a_number<T>(), false};
    if (exponent<T>(numerator) - exponent<T>(denominator) >= T::far) return {x == denominator ? up : x, true};
    if (is_denormal<T>(denominator)) return {up, false};
    const bool small_reciprocal = is_denormal<T>(Value(1) / denominator);
    const bool small_quotient = is_denormal<T>(numerator / denominator);
    const Value down = x * power<T>(-T::step);
    // The guides scale such a denominator up, out of range; that it goes down is what gives the right quotient.
    if (small_reciprocal && small_quotient) return {x == denominator ? down : x, true};
    if (small_reciprocal) return {down, false};
    if (small_quotient) return {x == numerator ? up : x, true};
    return {exponent<T>(numerator) <= T::tiny ? up : x, false};
}

template <class T> inline typename T::Value quiet(typename T::Value x) {
    return bits_as<typename T::Value>(as_bits(x) | typename T::Bits(1) << (T::mantissa - 1));
}

// The quotient with its sign and with all that no arithmetic on scaled operands gets right.
template <class T> inline typename T::Value div_fixup(typename T::Value quotient, typename T::Value denominator,
                                                      typename T::Value numerator) {
    using Value = typename T::Value;
    using Bits = typename T::Bits;
    constexpr Bits sign_bit = Bits(1) << (sizeof(Bits) * 8 - 1);
    constexpr Bits infinity = Bits(T::most) << T::mantissa;
    const Bits sign = (as_bits(denominator) ^ as_bits(numerator)) & sign_bit;
    const auto with_sign = [&](Bits magnitude) { return bits_as<Value>(Bits(sign | magnitude)); };
    const Bits d = as_bits(denominator) & ~sign_bit, n = as_bits(numerator) & ~sign_bit;
    if (n > infinity) return quiet<T>(numerator);
    if (d > infinity) return quiet<T>(denominator);
    if ((d == 0 && n == 0) || (d == infinity && n == infinity)) return not_a_number<T>();
    if (d == 0 || n == infinity) return with_sign(infinity);
    if (d == infinity || n == 0) return with_sign(0);
    if (exponent<T>(numerator) - exponent<T>(denominator) < T::least) return with_sign(0);  // UNDERFLOW
    // Steps that overflowed have left a NaN (OVERFLOW of the guides).
    return with_sign(quotient != quotient ? infinity : as_bits(quotient) & ~sign_bit);
}

void v_div_scale_f32(Wave &w, const Op &op) {
    const u32 *x = operand(w, op, 0), *d = operand(w, op, 1), *n = operand(w, op, 2);
    u32 *r = w.result[0], *flags = w.result[1];
    in_f32_mode(w, [&] {
        PK_LANES(i, w) {
            const auto s = div_scale<Single>(as_float(x[i]), as_float(d[i]), as_float(n[i]));
            r[i] = as_bits(s.value);
            flags[i] = s.flag ? ~0u : 0u;
        }
    });
    const u64 mask = top_bits(w, flags) & exec_of(w);
    finish_f32(w, op, r);
    write_lane_mask(w, op.d[1], mask);
}

void v_div_scale_f64(Wave &w, const Op &op) {
    const Wide x = wide_operand(w, op, 0), d = wide_operand(w, op, 1), n = wide_operand(w, op, 2);
    u32 *flags = w.result[2];
    in_f64_mode(w, [&] {
        PK_LANES(i, w) {
            const auto s = div_scale<Double>(as_double(x[i]), as_double(d[i]), as_double(n[i]));
            set_wide(w, i, as_bits(s.value));
            flags[i] = s.flag ? ~0u : 0u;
        }
    });
    const u64 mask = top_bits(w, flags) & exec_of(w);
    finish_wide(w, op);
    write_lane_mask(w, op.d[1], mask);
}

inline u64 vcc_of(const Wave &w) { return w.s[kVcc] | (w.lanes == 64 ? u64(w.s[kVcc + 1]) << 32 : 0); }

// What v_div_scale scaled is taken back: the quotient was made small where it is large (its third operand, the quotient so far,
// says which), and large where it is small. The guides write 2^32 and 2^64 here, which undoes no scaling of theirs; the
// factors are those of v_div_scale, as the instruction was measured to use (tinygrad, test/amd/hw/test_vop3.py).
void v_div_fmas_f32(Wave &w, const Op &op) {
    const u32 *a = operand(w, op, 0), *b = operand(w, op, 1), *c = operand(w, op, 2);
    const u64 chosen = vcc_of(w);
    u32 *r = w.result[0];
    in_f32_mode(w, [&] {
        PK_LANES(i, w) {
            const float x = as_float(a[i]), y = as_float(b[i]), z = as_float(c[i]);
            // Scaled before it is rounded, so that a denormal quotient is rounded once.
            const double wide = __builtin_fma(double(x), double(y), double(z)) * (exponent<Single>(z) > 127 ? 0x1p64 : 0x1p-64);
            r[i] = as_bits(chosen >> i & 1 ? float(wide) : __builtin_fmaf(x, y, z));
        }
    });
    finish_f32(w, op, r);
}

void v_div_fmas_f64(Wave &w, const Op &op) {
    const Wide a = wide_operand(w, op, 0), b = wide_operand(w, op, 1), c = wide_operand(w, op, 2);
    const u64 chosen = vcc_of(w);
    in_f64_mode(w, [&] {
        PK_LANES(i, w) {
            const double x = __builtin_fma(as_double(a[i]), as_double(b[i]), as_double(c[i]));
            const double factor = exponent<Double>(as_double(c[i])) > 1023 ? 0x1p128 : 0x1p-128;
            set_wide(w, i, as_bits(chosen >> i & 1 ? x * factor : x));
        }
    });
    finish_wide(w, op);
}

void v_div_fixup_f32(Wave &w, const Op &op) {
    const u32 *q = operand(w, op, 0), *d = operand(w, op, 1), *n = operand(w, op, 2);
    u32 *r = w.result[0];
    PK_LANES(i, w) r[i] = as_bits(div_fixup<Single>(as_float(q[i]), as_float(d[i]), as_float(n[i])));
    finish_f32(w, op, r);
}

void v_div_fixup_f64(Wave &w, const Op &op) {
    const Wide q = wide_operand(w, op, 0), d = wide_operand(w, op, 1), n = wide_operand(w, op, 2);
    PK_LANES(i, w) set_wide(w, i, as_bits(div_fixup<Double>(as_double(q[i]), as_double(d[i]), as_double(n[i]))));
    finish_wide(w, op);
}

// f16 has no underflow clause: its quotients are computed in f32.
void v_div_fixup_f16(Wave &w, const Op &op) {
    const u32 *q = operand(w, op, 0), *d = operand(w, op, 1), *n = operand(w, op, 2);
    u32 *r = w.result[0];
    PK_LANES(i, w) {
        const float x = div_fixup<Single>(f16_value(w, q[i]), f16_value(w, d[i]), f16_value(w, n[i]));
        r[i] = f16_rounded(w, f16_shaped(w, op, x));
    }
    finish_half(w, op, r, Upper::keep);
}

}  // namespace

#define ADD(name) add(#name, name);

HANDLERS(division) {
    ADD(v_div_scale_f32) ADD(v_div_scale_f64) ADD(v_div_fmas_f32) ADD(v_div_fmas_f64)
    ADD(v_div_fixup_f32) ADD(v_div_fixup_f64) ADD(v_div_fixup_f16)
}
