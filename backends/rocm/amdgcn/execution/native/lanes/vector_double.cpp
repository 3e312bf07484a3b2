// Arithmetic on f64 (CDNA3 ISA, RDNA3/RDNA4 ISA), under MODE's bits for f16 and f64.
#include "../modifiers.hpp"

namespace {

using u32 = uint32_t;
using u64 = uint64_t;

inline double shaped(const Wave &w, const Op &op, double x) {
    if (op.m.omod) x = op.m.omod == 1 ? x * 2.0 : op.m.omod == 2 ? x * 4.0 : x * 0.5;
    if (op.m.clamp) x = x <= 0.0 ? 0.0 : x > 1.0 ? 1.0 : x != x && w.mode.clamp_nan_to_zero ? 0.0 : x;
    return x;
}

template <int sources, class F> inline void f64_lanes(Wave &w, const Op &op, F f) {
    const Wide a = wide_operand(w, op, 0);
    const Wide b = sources > 1 ? wide_operand(w, op, 1) : a, c = sources > 2 ? wide_operand(w, op, 2) : a;
    in_f64_mode(w, [&] {
        PK_LANES(i, w) set_wide(w, i, as_bits(shaped(w, op, f(as_double(a[i]), as_double(b[i]), as_double(c[i])))));
    });
    finish_wide(w, op);
}

#define F64(name, sources, value)                                                                                           \
    void name(Wave &w, const Op &op) {                                                                                      \
        f64_lanes<sources>(w, op, [](double a, [[maybe_unused]] double b, [[maybe_unused]] double c) { return value; });    \
    }

constexpr u64 kQuiet = u64(1) << 51;
inline bool nan64(double x) { return x != x; }
inline double quiet64(double x) { return as_double(as_bits(x) | kQuiet); }
inline int64_t rank64(double x) {
    const int64_t b = int64_t(as_bits(x));
    return b < 0 ? int64_t(u64(b) ^ 0x7fffffffffffffffull) : b;
}
inline double most(double a, double b) {
    return nan64(a) ? (nan64(b) ? quiet64(a) : b) : nan64(b) ? a : rank64(a) > rank64(b) ? a : b;
}
inline double least(double a, double b) {
    return nan64(a) ? (nan64(b) ? quiet64(a) : b) : nan64(b) ? a : rank64(a) < rank64(b) ? a : b;
}
inline double most_or_nan(double a, double b) { return nan64(a) ? quiet64(a) : nan64(b) ? quiet64(b) : most(a, b); }
inline double least_or_nan(double a, double b) { return nan64(a) ? quiet64(a) : nan64(b) ? quiet64(b) : least(a, b); }

F64(v_add_f64, 2, a + b)
F64(v_mul_f64, 2, a *b)
F64(v_fma_f64, 3, __builtin_fma(a, b, c))
F64(v_max_num_f64, 2, most(a, b))
F64(v_min_num_f64, 2, least(a, b))
F64(v_maximum_f64, 2, most_or_nan(a, b))
F64(v_minimum_f64, 2, least_or_nan(a, b))
F64(v_floor_f64, 1, __builtin_floor(a))
F64(v_ceil_f64, 1, __builtin_ceil(a))
F64(v_trunc_f64, 1, __builtin_trunc(a))
F64(v_rndne_f64, 1, __builtin_roundeven(a))
F64(v_fract_f64, 1, a - __builtin_floor(a))

inline bool signaling64(double x) { return nan64(x) && !(as_bits(x) & kQuiet); }

template <double (*choose)(double, double)> void ieee_choice(Wave &w, const Op &op) {
    const bool ieee = w.mode.ieee;
    f64_lanes<2>(w, op, [ieee](double a, double b, double) {
        return ieee && signaling64(a) ? quiet64(a) : ieee && signaling64(b) ? quiet64(b) : choose(a, b);
    });
}

void v_ldexp_f64(Wave &w, const Op &op) {
    const Wide a = wide_operand(w, op, 0);
    const u32 *n = operand(w, op, 1);
    in_f64_mode(w, [&] {
        for (int i = 0; i < w.lanes; ++i) set_wide(w, i, as_bits(shaped(w, op, __builtin_ldexp(as_double(a[i]), int(n[i])))));
    });
    finish_wide(w, op);
}

void v_frexp_exp_i32_f64(Wave &w, const Op &op) {
    const Wide a = wide_operand(w, op, 0);
    u32 *r = w.result[0];
    for (int i = 0; i < w.lanes; ++i) {
        int e = 0;
        const double x = as_double(a[i]);
        if (x - x == 0.0) __builtin_frexp(x, &e);
        r[i] = u32(e);
    }
    finish_bits(w, op, r);
}

void v_frexp_mant_f64(Wave &w, const Op &op) {
    const Wide a = wide_operand(w, op, 0);
    for (int i = 0; i < w.lanes; ++i) {
        int e = 0;
        const double x = as_double(a[i]);
        set_wide(w, i, as_bits(x - x == 0.0 ? __builtin_frexp(x, &e) : x));
    }
    finish_wide(w, op);
}

}  // namespace

#define ADD(name) add(#name, name);

HANDLERS(vector_double) {
    ADD(v_add_f64) ADD(v_mul_f64) ADD(v_fma_f64)
    add("v_fmac_f64", v_fma_f64);
    add("v_max_f64", ieee_choice<most>);
    add("v_min_f64", ieee_choice<least>);
    ADD(v_max_num_f64) ADD(v_min_num_f64) ADD(v_maximum_f64) ADD(v_minimum_f64)
    ADD(v_floor_f64) ADD(v_ceil_f64) ADD(v_trunc_f64) ADD(v_rndne_f64) ADD(v_fract_f64)
    ADD(v_ldexp_f64) ADD(v_frexp_exp_i32_f64) ADD(v_frexp_mant_f64)
}
