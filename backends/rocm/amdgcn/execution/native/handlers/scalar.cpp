// Scalar arithmetic (SOP1, SOP2, SOPK, SOPC). Undefinedness is followed bit by bit through logic, as lane masks need.
#include "../half.hpp"
#include "../registry.hpp"
#include "../scalar.hpp"

#include <cmath>
#include <cstring>

namespace machine {
namespace {

constexpr uint64_t kAll = ~uint64_t(0);

struct Bits {
    uint64_t value, undefined;
};

template <int W>
constexpr uint64_t kWidth = W == 64 ? kAll : 0xffffffffu;

template <int W>
Bits in(const Wave &w, const Operand &o) {
    const uint64_t value = W == 64 ? read_scalar64(w, o) : read_scalar(w, o);
    if (o.kind != kScalar) return {value, 0};
    if (o.reg == uint32_t(kScc)) return {value, w.undefined_scc ? kAll : 0};
    if (o.reg == uint32_t(kVccz)) return {value, w.undefined_s[kVcc] | (w.lanes == 64 ? w.undefined_s[kVcc + 1] : 0) ? kAll : 0};
    if (o.reg == uint32_t(kExecz)) return {value, 0};
    return {value, w.undefined_s[o.reg] | (W == 64 && o.reg != uint32_t(kNull) ? uint64_t(w.undefined_s[o.reg + 1]) << 32 : 0)};
}

template <int W>
void out(Wave &w, const Operand &o, Bits x) {
    if (o.reg == uint32_t(kNull)) return;
    w.s[o.reg] = uint32_t(x.value);
    w.undefined_s[o.reg] = uint32_t(x.undefined);
    if (W == 64) {
        w.s[o.reg + 1] = uint32_t(x.value >> 32);
        w.undefined_s[o.reg + 1] = uint32_t(x.undefined >> 32);
    }
}

void set_scc(Wave &w, bool value, bool undefined) {
    w.scc = value;
    w.undefined_scc = undefined;
}

// SCC of logic: the result is not zero. A defined bit that is set decides it.
template <int W>
void scc_nonzero(Wave &w, Bits x) {
    const uint64_t known = x.value & ~x.undefined & kWidth<W>;
    set_scc(w, (x.value & kWidth<W>) != 0, (x.undefined & kWidth<W>) != 0 && known == 0);
}

Bits and_(Bits a, Bits b) {
    return {a.value & b.value, (a.undefined & b.undefined) | (a.undefined & b.value) | (b.undefined & a.value)};
}
Bits not_(Bits a) { return {~a.value, a.undefined}; }
Bits or_(Bits a, Bits b) { return not_(and_(not_(a), not_(b))); }
Bits xor_(Bits a, Bits b) { return {a.value ^ b.value, a.undefined | b.undefined}; }
Bits andn2(Bits a, Bits b) { return and_(a, not_(b)); }
Bits orn2(Bits a, Bits b) { return or_(a, not_(b)); }
Bits andn1(Bits a, Bits b) { return and_(not_(a), b); }
Bits orn1(Bits a, Bits b) { return or_(not_(a), b); }
Bits nand(Bits a, Bits b) { return not_(and_(a, b)); }
Bits nor(Bits a, Bits b) { return not_(or_(a, b)); }
Bits xnor(Bits a, Bits b) { return not_(xor_(a, b)); }

template <int W, Bits (*F)(Bits, Bits)>
void logic(Wave &w, const Op &op) {
    const Bits r = F(in<W>(w, op.s[0]), in<W>(w, op.s[1]));
    out<W>(w, op.d[0], r);
    scc_nonzero<W>(w, r);
}

template <int W, Bits (*F)(Bits, Bits)>
void saveexec(Wave &w, const Op &op) {
    Operand exec{};
    exec.kind = kScalar;
    exec.reg = kExec;
    const Bits old = in<W>(w, exec), r = F(in<W>(w, op.s[0]), old);
    out<W>(w, op.d[0], old);
    out<W>(w, exec, r);
    scc_nonzero<W>(w, r);
}

// Arithmetic: one undefined bit makes all of the result undefined. F(a, b, scc) -> result; it may change scc.
enum class Scc { kKept, kSet, kNonzero };

template <int W, Scc S, class F>
void binary(Wave &w, const Op &op, F f, bool reads_scc = false) {
    const Bits a = in<W>(w, op.s[0]), b = in<W>(w, op.s[1]);
    const bool undefined = (a.undefined | b.undefined) & kWidth<W> || (reads_scc && w.undefined_scc);
    bool scc = w.scc;
    const uint64_t r = f(a.value, b.value, scc);
    // Sums and products of 64 bits: the lower half of the result depends on lower halves only.
    const bool low = uint32_t(a.undefined | b.undefined) != 0;
    out<W>(w, op.d[0], {r, !undefined ? 0 : W == 64 && !low ? kAll << 32 : kAll});
    if (S == Scc::kNonzero) scc = (r & kWidth<W>) != 0;
    if (S != Scc::kKept) set_scc(w, scc, undefined);
}

// Shift amounts are 32 bits wide whatever is shifted; a defined amount moves undefined bits along.
template <int W, class F>
void shift(Wave &w, const Op &op, F f) {
    const Bits a = in<W>(w, op.s[0]), b = in<32>(w, op.s[1]);
    const unsigned by = unsigned(b.value) & (W - 1);
    const Bits r{f(a.value & kWidth<W>, by), uint32_t(b.undefined) ? kAll : f(a.undefined & kWidth<W>, by)};
    out<W>(w, op.d[0], r);
    scc_nonzero<W>(w, r);
}

template <int WIn, int WOut, Scc S = Scc::kKept, class F>
void unary(Wave &w, const Op &op, F f) {
    const Bits a = in<WIn>(w, op.s[0]);
    const bool undefined = a.undefined & kWidth<WIn>;
    const uint64_t r = f(a.value);
    out<WOut>(w, op.d[0], {r, undefined ? kAll : 0});
    if (S == Scc::kNonzero) set_scc(w, (r & kWidth<WOut>) != 0, undefined);
}

template <int W, class F>
void compare(Wave &w, const Op &op, F f) {
    const Bits a = in<W>(w, op.s[0]), b = in<W>(w, op.s[1]);
    set_scc(w, f(a.value, b.value), (a.undefined | b.undefined) & kWidth<W>);
}

float f32(uint64_t x) {
    const uint32_t low = uint32_t(x);
    float y;
    std::memcpy(&y, &low, 4);
    return y;
}

uint64_t u32(float x) {
    uint32_t y;
    std::memcpy(&y, &x, 4);
    return y;
}

uint64_t bfe_u(uint64_t a, unsigned offset, unsigned width) {
    if (!width) return 0;
    const uint64_t shifted = a >> offset;
    return width >= 64 ? shifted : shifted & ((uint64_t(1) << width) - 1);
}

uint64_t bfe_i(uint64_t a, unsigned offset, unsigned width) {
    const uint64_t r = bfe_u(a, offset, width);
    return width && width < 64 && r >> (width - 1) & 1 ? r | kAll << width : r;
}

template <int W>
void cselect(Wave &w, const Op &op) {
    const Bits a = in<W>(w, op.s[0]), b = in<W>(w, op.s[1]);
    Bits r = w.scc ? a : b;
    if (w.undefined_scc) r.undefined = kAll;
    out<W>(w, op.d[0], r);
}

template <int W>
void mov(Wave &w, const Op &op) {
    out<W>(w, op.d[0], in<W>(w, op.s[0]));
}

template <int W>
void cmov(Wave &w, const Op &op) {
    if (w.undefined_scc) return out<W>(w, op.d[0], {in<W>(w, op.s[0]).value, kAll});
    if (w.scc) mov<W>(w, op);
}

template <int W>
void not_op(Wave &w, const Op &op) {
    const Bits r = not_(in<W>(w, op.s[0]));
    out<W>(w, op.d[0], r);
    scc_nonzero<W>(w, r);
}

template <int W, bool Signed>
void bfe(Wave &w, const Op &op) {
    const Bits a = in<W>(w, op.s[0]), b = in<32>(w, op.s[1]);
    const unsigned offset = unsigned(b.value) & (W - 1), width = unsigned(b.value >> 16) & 0x7f;
    const uint64_t x = a.value & kWidth<W>;
    const unsigned fits = width > W - offset ? W - offset : width;
    const uint64_t r = Signed ? bfe_i(x, offset, fits) : bfe_u(x, offset, fits);
    const bool undefined = uint32_t(b.undefined) || bfe_u(a.undefined & kWidth<W>, offset, fits);
    out<W>(w, op.d[0], {r, undefined ? kAll : 0});
    set_scc(w, (r & kWidth<W>) != 0, undefined);
}

template <int W>
void bfm(Wave &w, const Op &op) {
    binary<W, Scc::kKept>(w, op, [](uint64_t a, uint64_t b, bool &) {
        return ((uint64_t(1) << (a & (W - 1))) - 1) << (b & (W - 1));
    });
}

template <int N>
void lshl_add(Wave &w, const Op &op) {
    binary<32, Scc::kSet>(w, op, [](uint64_t a, uint64_t b, bool &scc) {
        const uint64_t r = (uint64_t(uint32_t(a)) << N) + uint32_t(b);
        scc = r >> 32 != 0;
        return r;
    });
}

template <bool HighA, bool HighB>
void pack(Wave &w, const Op &op) {
    binary<32, Scc::kKept>(w, op, [](uint64_t a, uint64_t b, bool &) {
        return (HighA ? a >> 16 & 0xffff : a & 0xffff) | (HighB ? b & 0xffff0000u : b << 16 & 0xffff0000u);
    });
}

uint64_t add_carry(uint64_t a, uint64_t b, bool carry, bool &out_carry) {
    const uint64_t r = uint64_t(uint32_t(a)) + uint32_t(b) + carry;
    out_carry = r >> 32 & 1;
    return r;
}

uint64_t sub_borrow(uint64_t a, uint64_t b, bool borrow, bool &out_borrow) {
    out_borrow = uint64_t(uint32_t(b)) + borrow > uint32_t(a);
    return uint32_t(a) - uint32_t(b) - borrow;
}

uint64_t add_signed(uint64_t a, uint64_t b, bool &overflow) {
    int32_t r;
    overflow = __builtin_add_overflow(int32_t(uint32_t(a)), int32_t(uint32_t(b)), &r);
    return uint32_t(r);
}

uint64_t sub_signed(uint64_t a, uint64_t b, bool &overflow) {
    int32_t r;
    overflow = __builtin_sub_overflow(int32_t(uint32_t(a)), int32_t(uint32_t(b)), &r);
    return uint32_t(r);
}

template <int W>
void count_ones(Wave &w, const Op &op) {
    unary<W, 32, Scc::kNonzero>(w, op, [](uint64_t a) { return uint64_t(__builtin_popcountll(a & kWidth<W>)); });
}

template <int W>
void count_zeros(Wave &w, const Op &op) {
    unary<W, 32, Scc::kNonzero>(w, op, [](uint64_t a) { return uint64_t(W - __builtin_popcountll(a & kWidth<W>)); });
}

// The lowest one, or -1.
template <int W>
void first_one(Wave &w, const Op &op) {
    unary<W, 32>(w, op, [](uint64_t a) { return a & kWidth<W> ? uint64_t(__builtin_ctzll(a)) : kAll; });
}

// Zeros above the highest one, or -1.
template <int W>
void leading_zeros(Wave &w, const Op &op) {
    unary<W, 32>(w, op, [](uint64_t a) {
        const uint64_t x = a & kWidth<W>;
        return x ? uint64_t(__builtin_clzll(x) - (64 - W)) : kAll;
    });
}

// Bits above the highest one that differs from the sign, or -1.
template <int W>
void sign_run(Wave &w, const Op &op) {
    unary<W, 32>(w, op, [](uint64_t a) {
        const uint64_t x = (a >> (W - 1) & 1 ? ~a : a) & kWidth<W>;
        return x ? uint64_t(__builtin_clzll(x) - (64 - W)) : kAll;
    });
}

void bitset(Wave &w, const Op &op, bool value) {
    const Bits a = in<32>(w, op.s[0]), old = in<32>(w, op.s[1]);
    const uint64_t bit = uint64_t(1) << (a.value & 31);
    const Bits r{value ? old.value | bit : old.value & ~bit, uint32_t(a.undefined) ? kAll : old.undefined & ~bit};
    out<32>(w, op.d[0], r);
}

void bitcmp(Wave &w, const Op &op, int width, bool value) {
    const Bits a = width == 64 ? in<64>(w, op.s[0]) : in<32>(w, op.s[0]), b = in<32>(w, op.s[1]);
    const unsigned at = unsigned(b.value) & unsigned(width - 1);
    set_scc(w, (a.value >> at & 1) == value, uint32_t(b.undefined) || (a.undefined >> at & 1));
}

// IEEE 754 compares: kLess | kEqual | kGreater | kUnordered say when it is true.
enum { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };
template <int When>
bool compared(float x, float y) {
    const int is = x != x || y != y ? kUnordered : x < y ? kLess : x > y ? kGreater : kEqual;
    return (When & is) != 0;
}

float single(const Wave &, uint64_t a) { return f32(a); }
float half(const Wave &w, uint64_t a) { return f16_value(w, uint32_t(a)); }
uint64_t to_half(const Wave &w, float x) { return f16_rounded(w, x); }

template <int When, float (*Read)(const Wave &, uint64_t)>
void compare_floats(Wave &w, const Op &op) {
    compare<32>(w, op, [&w](uint64_t a, uint64_t b) { return compared<When>(Read(w, a), Read(w, b)); });
}

// An operation on two values of one type: f32, or f16 in the low half of a register, whose high half becomes zero.
template <class F>
void float2(Wave &w, const Op &op, F f) {
    binary<32, Scc::kKept>(w, op, [f](uint64_t a, uint64_t b, bool &) { return u32(f(f32(a), f32(b))); });
}

template <class F>
void half2(Wave &w, const Op &op, F f) {
    binary<32, Scc::kKept>(w, op, [f, &w](uint64_t a, uint64_t b, bool &) { return to_half(w, f(half(w, a), half(w, b))); });
}

template <class F>
void half1(Wave &w, const Op &op, F f) {
    unary<32, 32>(w, op, [f, &w](uint64_t a) { return to_half(w, f(half(w, a))); });
}

// Sources: a, b and what is added, which is the destination of s_fmac.
template <class F>
void fused(Wave &w, const Op &op, F f) {
    const Bits a = in<32>(w, op.s[0]), b = in<32>(w, op.s[1]), c = in<32>(w, op.s[2]);
    const bool undefined = uint32_t(a.undefined | b.undefined | c.undefined);
    out<32>(w, op.d[0], {f(a.value, b.value, c.value), undefined ? kAll : 0});
}

uint64_t float_to_unsigned(uint64_t a) {
    const float x = std::trunc(f32(a));
    return x != x || x <= 0 ? 0 : x >= 4294967296.0f ? 0xffffffffu : uint64_t(x);
}

uint64_t float_to_signed(uint64_t a) {
    const float x = std::trunc(f32(a));
    return x != x ? 0 : x >= 2147483648.0f ? 0x7fffffffu : x <= -2147483648.0f ? 0x80000000u : uint32_t(int32_t(x));
}

float minimum(float a, float b) {  // IEEE 754-2019 minimum: NaN wins, -0 is below +0
    if (a != a || b != b) return __builtin_nanf("");
    return a < b || (a == b && std::signbit(a)) ? a : b;
}

float maximum(float a, float b) {
    if (a != a || b != b) return __builtin_nanf("");
    return a > b || (a == b && !std::signbit(a)) ? a : b;
}

float min_num(float a, float b) { return a != a ? b : b != b ? a : minimum(a, b); }
float max_num(float a, float b) { return a != a ? b : b != b ? a : maximum(a, b); }

}  // namespace

void register_scalar_once(Adder &add) {
#define LOGIC(name, f)                   \
    add("s_" #name "_b32", logic<32, f>); \
    add("s_" #name "_b64", logic<64, f>)
    LOGIC(and, and_);
    LOGIC(or, or_);
    LOGIC(xor, xor_);
    LOGIC(andn2, andn2);
    LOGIC(orn2, orn2);
    LOGIC(nand, nand);
    LOGIC(nor, nor);
    LOGIC(xnor, xnor);
#define SAVEEXEC(name, f)                            \
    add("s_" #name "_saveexec_b32", saveexec<32, f>); \
    add("s_" #name "_saveexec_b64", saveexec<64, f>)
    SAVEEXEC(and, and_);
    SAVEEXEC(or, or_);
    SAVEEXEC(xor, xor_);
    SAVEEXEC(andn1, andn1);
    SAVEEXEC(andn2, andn2);
    SAVEEXEC(orn1, orn1);
    SAVEEXEC(orn2, orn2);
    SAVEEXEC(nand, nand);
    SAVEEXEC(nor, nor);
    SAVEEXEC(xnor, xnor);
#define BOTH(name, f)           \
    add("s_" name "_b32", f<32>); \
    add("s_" name "_b64", f<64>)
    BOTH("mov", mov);
    BOTH("cmov", cmov);
    BOTH("not", not_op);
    BOTH("cselect", cselect);
    BOTH("bfm", bfm);
    add("s_bcnt1_i32_b32", count_ones<32>);
    add("s_bcnt1_i32_b64", count_ones<64>);
    add("s_bcnt0_i32_b32", count_zeros<32>);
    add("s_bcnt0_i32_b64", count_zeros<64>);
    add("s_ff1_i32_b32", first_one<32>);
    add("s_ff1_i32_b64", first_one<64>);
    add("s_flbit_i32_b32", leading_zeros<32>);
    add("s_flbit_i32_b64", leading_zeros<64>);
    add("s_flbit_i32", sign_run<32>);
    add("s_flbit_i32_i64", sign_run<64>);
    add("s_bfe_u32", bfe<32, false>);
    add("s_bfe_i32", bfe<32, true>);
    add("s_bfe_u64", bfe<64, false>);
    add("s_bfe_i64", bfe<64, true>);
    add("s_lshl1_add_u32", lshl_add<1>);
    add("s_lshl2_add_u32", lshl_add<2>);
    add("s_lshl3_add_u32", lshl_add<3>);
    add("s_lshl4_add_u32", lshl_add<4>);
    add("s_pack_ll_b32_b16", pack<false, false>);
    add("s_pack_lh_b32_b16", pack<false, true>);
    add("s_pack_hl_b32_b16", pack<true, false>);
    add("s_pack_hh_b32_b16", pack<true, true>);
#define OP(name, ...) add(name, [](Wave &w, const Op &op) { __VA_ARGS__; })
    OP("s_brev_b32", unary<32, 32>(w, op, [](uint64_t a) {
           uint64_t r = 0;
           for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
           return r;
       }));
    OP("s_brev_b64", unary<64, 64>(w, op, [](uint64_t a) {
           uint64_t r = 0;
           for (int i = 0; i < 64; ++i) r |= (a >> i & 1) << (63 - i);
           return r;
       }));
    OP("s_sext_i32_i8", unary<32, 32>(w, op, [](uint64_t a) { return uint64_t(int64_t(int8_t(a))); }));
    OP("s_sext_i32_i16", unary<32, 32>(w, op, [](uint64_t a) { return uint64_t(int64_t(int16_t(a))); }));
    OP("s_abs_i32", unary<32, 32, Scc::kNonzero>(w, op, [](uint64_t a) {
           return uint64_t(int32_t(a) < 0 ? 0 - uint32_t(a) : uint32_t(a));
       }));
    OP("s_bitset0_b32", bitset(w, op, false));
    OP("s_bitset1_b32", bitset(w, op, true));
    OP("s_bitcmp0_b32", bitcmp(w, op, 32, false));
    OP("s_bitcmp1_b32", bitcmp(w, op, 32, true));
    OP("s_bitcmp0_b64", bitcmp(w, op, 64, false));
    OP("s_bitcmp1_b64", bitcmp(w, op, 64, true));
#define BINARY(name, width, kind, ...) \
    OP(name, (binary<width, Scc::kind>(w, op, [](uint64_t a, uint64_t b, [[maybe_unused]] bool &scc) { return uint64_t(__VA_ARGS__); })))
    BINARY("s_add_u32", 32, kSet, add_carry(a, b, false, scc));
    BINARY("s_sub_u32", 32, kSet, sub_borrow(a, b, false, scc));
    BINARY("s_add_i32", 32, kSet, add_signed(a, b, scc));
    BINARY("s_sub_i32", 32, kSet, sub_signed(a, b, scc));
    OP("s_addc_u32",
       (binary<32, Scc::kSet>(w, op, [](uint64_t a, uint64_t b, bool &scc) { return add_carry(a, b, scc, scc); }, true)));
    OP("s_subb_u32",
       (binary<32, Scc::kSet>(w, op, [](uint64_t a, uint64_t b, bool &scc) { return sub_borrow(a, b, scc, scc); }, true)));
    BINARY("s_add_nc_u64", 64, kKept, a + b);
    BINARY("s_sub_nc_u64", 64, kKept, a - b);
    BINARY("s_mul_u64", 64, kKept, a * b);
    BINARY("s_mul_i32", 32, kKept, uint32_t(a) * uint32_t(b));
    BINARY("s_mul_hi_u32", 32, kKept, uint64_t(uint32_t(a)) * uint32_t(b) >> 32);
    BINARY("s_mul_hi_i32", 32, kKept, uint64_t(int64_t(int32_t(a)) * int32_t(b)) >> 32);
    // SCC of min and max: the first operand was taken.
    BINARY("s_min_i32", 32, kSet, (scc = int32_t(a) < int32_t(b), scc ? a : b));
    BINARY("s_max_i32", 32, kSet, (scc = int32_t(a) > int32_t(b), scc ? a : b));
    BINARY("s_min_u32", 32, kSet, (scc = uint32_t(a) < uint32_t(b), scc ? a : b));
    BINARY("s_max_u32", 32, kSet, (scc = uint32_t(a) > uint32_t(b), scc ? a : b));
    BINARY("s_absdiff_i32", 32, kNonzero, int32_t(a) > int32_t(b) ? uint32_t(a) - uint32_t(b) : uint32_t(b) - uint32_t(a));
    OP("s_lshl_b32", shift<32>(w, op, [](uint64_t a, unsigned n) { return a << n; }));
    OP("s_lshr_b32", shift<32>(w, op, [](uint64_t a, unsigned n) { return a >> n; }));
    OP("s_ashr_i32", shift<32>(w, op, [](uint64_t a, unsigned n) { return uint64_t(uint32_t(int32_t(a) >> n)); }));
    OP("s_lshl_b64", shift<64>(w, op, [](uint64_t a, unsigned n) { return a << n; }));
    OP("s_lshr_b64", shift<64>(w, op, [](uint64_t a, unsigned n) { return a >> n; }));
    OP("s_ashr_i64", shift<64>(w, op, [](uint64_t a, unsigned n) { return uint64_t(int64_t(a) >> n); }));
#define COMPARE(name, type, sign)                                                                                     \
    OP(name, compare<32>(w, op, [](uint64_t a, uint64_t b) { return type(a) sign type(b); }))
    COMPARE("s_cmp_eq_i32", int32_t, ==);
    COMPARE("s_cmp_lg_i32", int32_t, !=);
    COMPARE("s_cmp_gt_i32", int32_t, >);
    COMPARE("s_cmp_ge_i32", int32_t, >=);
    COMPARE("s_cmp_lt_i32", int32_t, <);
    COMPARE("s_cmp_le_i32", int32_t, <=);
    COMPARE("s_cmp_eq_u32", uint32_t, ==);
    COMPARE("s_cmp_lg_u32", uint32_t, !=);
    COMPARE("s_cmp_gt_u32", uint32_t, >);
    COMPARE("s_cmp_ge_u32", uint32_t, >=);
    COMPARE("s_cmp_lt_u32", uint32_t, <);
    COMPARE("s_cmp_le_u32", uint32_t, <=);
    OP("s_cmp_eq_u64", compare<64>(w, op, [](uint64_t a, uint64_t b) { return a == b; }));
    OP("s_cmp_lg_u64", compare<64>(w, op, [](uint64_t a, uint64_t b) { return a != b; }));
#define COMPARE_FLOATS(name, when)                              \
    add("s_cmp_" name "_f32", compare_floats<(when), single>); \
    add("s_cmp_" name "_f16", compare_floats<(when), half>)
    COMPARE_FLOATS("lt", kLess);
    COMPARE_FLOATS("eq", kEqual);
    COMPARE_FLOATS("le", kLess | kEqual);
    COMPARE_FLOATS("gt", kGreater);
    COMPARE_FLOATS("lg", kLess | kGreater);
    COMPARE_FLOATS("ge", kGreater | kEqual);
    COMPARE_FLOATS("o", kLess | kEqual | kGreater);
    COMPARE_FLOATS("u", kUnordered);
    COMPARE_FLOATS("nge", kLess | kUnordered);
    COMPARE_FLOATS("nlg", kEqual | kUnordered);
    COMPARE_FLOATS("ngt", kLess | kEqual | kUnordered);
    COMPARE_FLOATS("nle", kGreater | kUnordered);
    COMPARE_FLOATS("neq", kLess | kGreater | kUnordered);
    COMPARE_FLOATS("nlt", kGreater | kEqual | kUnordered);
#undef COMPARE_FLOATS
#define FLOATS(name, ...)                                                             \
    OP("s_" name "_f32", float2(w, op, [](float a, float b) { return __VA_ARGS__; })); \
    OP("s_" name "_f16", half2(w, op, [](float a, float b) { return __VA_ARGS__; }))
    FLOATS("add", a + b);
    FLOATS("sub", a - b);
    FLOATS("mul", a * b);
    FLOATS("minimum", minimum(a, b));
    FLOATS("maximum", maximum(a, b));
    FLOATS("min_num", min_num(a, b));
    FLOATS("max_num", max_num(a, b));
#undef FLOATS
    // s_fmaak_f32 is also s_fmamk_f32, whose constant stands in the middle of the text.
    for (const char *name : {"s_fmac_f32", "s_fmaak_f32"})
        OP(name, fused(w, op, [](uint64_t a, uint64_t b, uint64_t c) { return u32(std::fma(f32(a), f32(b), f32(c))); }));
    OP("s_fmac_f16", fused(w, op, [&w](uint64_t a, uint64_t b, uint64_t c) {
           return to_half(w, f16_fma(half(w, a), half(w, b), half(w, c)));
       }));
    OP("s_cvt_f32_u32", unary<32, 32>(w, op, [](uint64_t a) { return u32(float(uint32_t(a))); }));
    OP("s_cvt_f32_i32", unary<32, 32>(w, op, [](uint64_t a) { return u32(float(int32_t(a))); }));
    OP("s_cvt_u32_f32", unary<32, 32>(w, op, float_to_unsigned));
    OP("s_cvt_i32_f32", unary<32, 32>(w, op, float_to_signed));
    OP("s_cvt_f32_f16", unary<32, 32>(w, op, [&w](uint64_t a) { return u32(half(w, a)); }));
    OP("s_cvt_hi_f32_f16", unary<32, 32>(w, op, [&w](uint64_t a) { return u32(half(w, a >> 16)); }));
    OP("s_cvt_f16_f32", unary<32, 32>(w, op, [&w](uint64_t a) { return to_half(w, f32(a)); }));
    OP("s_cvt_pk_rtz_f16_f32", (binary<32, Scc::kKept>(w, op, [](uint64_t a, uint64_t b, bool &) {
           const auto cut = [](uint64_t x) { return uint64_t(f16_from_f32(uint32_t(x), Round::to_zero)); };
           return cut(a) | cut(b) << 16;
       })));
#define ROUNDED(name, f)                                                                  \
    OP("s_" name "_f32", unary<32, 32>(w, op, [](uint64_t a) { return u32(f(f32(a))); })); \
    OP("s_" name "_f16", half1(w, op, [](float a) { return f(a); }))
    ROUNDED("rndne", std::nearbyint);
    ROUNDED("trunc", std::trunc);
    ROUNDED("floor", std::floor);
    ROUNDED("ceil", std::ceil);
#undef ROUNDED
}

}  // namespace machine
