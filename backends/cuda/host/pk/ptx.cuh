// What pk/ptx.cuh says in PTX, as plain C++ after the tables of the PTX ISA: found first on the include path when the
// kernels run on the CPU.
#pragma once
#include "pk/base.cuh"

namespace pk::ptx {

inline int opaque(int x) { return x; }
inline int minus(int a, int x) { return static_cast<int>(static_cast<unsigned>(a) - static_cast<unsigned>(x)); }

inline bool any(bool holds) {
    host::collective(
        [](void* const* lanes) {
            bool some = false;
            for (int lane = 0; lane < host::kLanes; ++lane) some |= *static_cast<bool*>(lanes[lane]);
            for (int lane = 0; lane < host::kLanes; ++lane) *static_cast<bool*>(lanes[lane]) = some;
        },
        &holds);
    return holds;
}

// ---- conversions ---------------------------------------------------------------------------------------------------

inline float from_f16(unsigned short bits) {
    _Float16 x;
    std::memcpy(&x, &bits, 2);
    return static_cast<float>(x);
}

inline unsigned short to_f16(float x) {
    const auto half = static_cast<_Float16>(x);
    unsigned short bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}

inline unsigned short to_bf16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (x != x) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline uint32_t to_bf16_pair(float low, float high) {
    return static_cast<uint32_t>(to_bf16(high)) << 16 | to_bf16(low);
}

inline uint32_t to_f16_pair(float low, float high) { return static_cast<uint32_t>(to_f16(high)) << 16 | to_f16(low); }

// 8-bit floats (OCP 8-bit Floating Point Specification 1.0): `Mantissa` bits behind an exponent, biased so that half of the exponents are below 1.
template <int Mantissa> float from_8(unsigned char bits) {
    constexpr int bias = Mantissa == 3 ? 7 : 15;
    const int exponent = bits >> Mantissa & (1 << (7 - Mantissa)) - 1, mantissa = bits & (1 << Mantissa) - 1;
    const float sign = bits & 0x80 ? -1.0f : 1.0f;
    if (Mantissa == 3 && (bits & 0x7f) == 0x7f) return NAN;
    if (Mantissa == 2 && exponent == 31) return mantissa ? NAN : sign * INFINITY;
    const int whole = exponent ? mantissa + (1 << Mantissa) : mantissa;
    return sign * std::ldexp(static_cast<float>(whole), (exponent ? exponent : 1) - bias - Mantissa);
}

/// To nearest, ties to even; the largest number for what is larger.
template <int Mantissa> unsigned char to_8(float x) {
    constexpr unsigned char largest = Mantissa == 3 ? 0x7e : 0x7b;
    const unsigned char sign = std::signbit(x) ? 0x80 : 0;
    if (x != x) return 0x7f;
    const float size = std::fabs(x);
    unsigned char low = 0, high = largest;  // codes ascend with the numbers
    if (size >= from_8<Mantissa>(largest)) return sign | largest;
    while (high - low > 1) {
        const unsigned char middle = (low + high) / 2;
        (from_8<Mantissa>(middle) <= size ? low : high) = middle;
    }
    const float below = size - from_8<Mantissa>(low), above = from_8<Mantissa>(high) - size;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

inline float from_e4m3(unsigned char bits) { return from_8<3>(bits); }
inline float from_e5m2(unsigned char bits) { return from_8<2>(bits); }
inline unsigned char to_e4m3(float x) { return to_8<3>(x); }
inline unsigned char to_e5m2(float x) { return to_8<2>(x); }

inline uint32_t to_tf32(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return (bits + 0x1000) & ~0x1fffu;
}

inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline float power_of_two(float x) { return flushed(std::exp2(flushed(x))); }
inline float reciprocal(float x) { return flushed(1.0f / flushed(x)); }

inline float max_nan(float a, float b) { return a != a || b != b ? NAN : a > b ? a : b; }
inline float min_nan(float a, float b) { return a != a || b != b ? NAN : a < b ? a : b; }

template <class W> void store_global(void* to, W word) { std::memcpy(to, &word, sizeof(word)); }
template <class W> void store_kept(void* to, W word) { std::memcpy(to, &word, sizeof(word)); }
template <class W> void load_kept(const void* from, W& word) { std::memcpy(&word, from, sizeof(word)); }

// ---- asynchronous copies: they happen when they are waited for -----------------------------------------------------

inline void copy_async_16(void* to, const void* from, int bytes) {
    if (reinterpret_cast<std::uintptr_t>(to) % 16 || reinterpret_cast<std::uintptr_t>(from) % 16 || bytes < 0 || bytes > 16)
        host::fail("cp.async of 16 bytes at a wrong address");
    host::starts_to_write(to, 16);
    host::current->open.push_back({to, from, bytes, 16});
}

inline void copy_async_4(void* to, const void* from, int bytes) {
    if (reinterpret_cast<std::uintptr_t>(to) % 4 || reinterpret_cast<std::uintptr_t>(from) % 4 || (bytes != 0 && bytes != 4))
        host::fail("cp.async of 4 bytes at a wrong address");
    host::starts_to_write(to, 4);
    host::current->open.push_back({to, from, bytes, 4});
}

inline void fence_async_proxy() {}

inline void copy_async_commit() {
    host::current->groups.push_back(std::move(host::current->open));
    host::current->open.clear();
}

template <int Pending> void copy_async_wait() {
    auto& groups = host::current->groups;
    const host::Unwatched copies;
    while (groups.size() > Pending) {
        for (const host::Copy& c : groups.front()) {
            host::over(c.to, c.size, host::current->order);
            std::memset(c.to, 0, c.size);
            std::memcpy(c.to, c.from, c.bytes);
        }
        groups.erase(groups.begin());
    }
}

// ---- matrix fragments ----------------------------------------------------------------------------------------------

struct LoadMatrix {
    uint32_t* to;
    const void* row;
};

template <bool Swapped> void load_matrix(uint32_t (&d)[4], const void* row) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16) host::fail("ldmatrix at a wrong address");
    host::reads(row, 16);
    LoadMatrix argument{d, row};
    host::collective(
        [](void* const* lanes) {
            for (int lane = 0; lane < 32; ++lane)
                for (int matrix = 0; matrix < 4; ++matrix) {
                    uint16_t pair[2];
                    for (int e = 0; e < 2; ++e) {
                        const int r = Swapped ? lane % 4 * 2 + e : lane / 4, c = Swapped ? lane / 4 : lane % 4 * 2 + e;
                        const auto* from = static_cast<LoadMatrix*>(lanes[matrix * 8 + r])->row;
                        std::memcpy(&pair[e], static_cast<const uint16_t*>(from) + c, 2);
                    }
                    std::memcpy(&static_cast<LoadMatrix*>(lanes[lane])->to[matrix], pair, 4);
                }
        },
        &argument);
}

struct StoreMatrix {
    void* row;
    const uint32_t* from;
};

inline void store_matrix_4(void* row, const uint32_t (&d)[4]) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16) host::fail("stmatrix at a wrong address");
    host::writes(row, 16);
    StoreMatrix argument{row, d};
    host::collective(
        [](void* const* lanes) {
            for (int lane = 0; lane < 32; ++lane)
                for (int matrix = 0; matrix < 4; ++matrix) {
                    auto* to = static_cast<char*>(static_cast<StoreMatrix*>(lanes[matrix * 8 + lane / 4])->row);
                    std::memcpy(to + lane % 4 * 4, &static_cast<StoreMatrix*>(lanes[lane])->from[matrix], 4);
                }
        },
        &argument);
}

inline void load_matrix_4(uint32_t (&d)[4], const void* row) { load_matrix<false>(d, row); }
inline void load_matrix_4_transposed(uint32_t (&d)[4], const void* row) { load_matrix<true>(d, row); }

struct Mma {
    float* c;
    const uint32_t* a;
    uint32_t b[2];
};

inline float from_bf16(unsigned short bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &wide, 4);
    return x;
}

// m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"), written element by element:
//   A (16-bit): groupID = lane / 4; row = groupID for a0 a1 a4 a5, else groupID + 8; col = (lane % 4) * 2 + (i & 1), + 8
//   from a4 on.  B: row = (lane % 4) * 2 + (i & 1), + 8 from b2 on; col = groupID.  C: row = groupID, + 8 from c2 on;
//   col = (lane % 4) * 2 + (i & 1).
template <float (*ToFloat)(unsigned short)> void mma_16(void* const* lanes) {
    static float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto* x = static_cast<Mma*>(lanes[lane]);
        for (int i = 0; i < 8; ++i) {
            const int row = lane / 4 + (i % 4 < 2 ? 0 : 8), col = lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8);
            a[row][col] = ToFloat(static_cast<unsigned short>(x->a[i / 2] >> 16 * (i % 2)));
        }
        for (int i = 0; i < 4; ++i) b[lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8)][lane / 4] = ToFloat(static_cast<unsigned short>(x->b[i / 2] >> 16 * (i % 2)));
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + (i < 2 ? 0 : 8), col = lane % 4 * 2 + (i & 1);
            float& c = static_cast<Mma*>(lanes[lane])->c[i];
            for (int k = 0; k < 16; ++k) c += a[row][k] * b[k][col];
        }
}

// m16n8k8 of .tf32: a0 (g, t), a1 (g + 8, t), a2 (g, t + 4), a3 (g + 8, t + 4); b0 (t, g), b1 (t + 4, g).
inline void mma_8(void* const* lanes) {
    static float a[16][8], b[8][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto* x = static_cast<Mma*>(lanes[lane]);
        for (int i = 0; i < 4; ++i) std::memcpy(&a[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4], &x->a[i], 4);
        for (int i = 0; i < 2; ++i) std::memcpy(&b[lane % 4 + i * 4][lane / 4], &x->b[i], 4);
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + (i < 2 ? 0 : 8), col = lane % 4 * 2 + (i & 1);
            float& c = static_cast<Mma*>(lanes[lane])->c[i];
            for (int k = 0; k < 8; ++k) c += a[row][k] * b[k][col];
        }
}

struct Mma8 {
    void* c;
    const uint32_t* a;
    uint32_t b[2];
};

// m16n8k32 of 8-bit types: as m16n8k16, with four elements in a register: col (row of B) = (lane % 4) * 4 + (i & 3), + 16 from the
// third register of A and the second of B on.
template <class T, T (*Value)(unsigned char)> void mma_32(void* const* lanes) {
    static T a[16][32], b[32][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto* x = static_cast<Mma8*>(lanes[lane]);
        for (int i = 0; i < 16; ++i)
            a[lane / 4 + i / 4 % 2 * 8][lane % 4 * 4 + i % 4 + i / 8 * 16] = Value(static_cast<unsigned char>(x->a[i / 4] >> 8 * (i % 4)));
        for (int i = 0; i < 8; ++i) b[lane % 4 * 4 + i % 4 + i / 4 * 16][lane / 4] = Value(static_cast<unsigned char>(x->b[i / 4] >> 8 * (i % 4)));
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + (i < 2 ? 0 : 8), col = lane % 4 * 2 + (i & 1);
            T& c = static_cast<T*>(static_cast<Mma8*>(lanes[lane])->c)[i];
            for (int k = 0; k < 32; ++k) c += a[row][k] * b[k][col];
        }
}

inline int32_t from_s8(unsigned char bits) { return static_cast<signed char>(bits); }
inline int32_t from_u8(unsigned char bits) { return bits; }

template <class T, T (*Value)(unsigned char)> void mma_8_bits(T (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    Mma8 argument{c, a, {b0, b1}};
    host::collective(mma_32<T, Value>, &argument);
}
inline void mma_s8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mma_8_bits<int32_t, from_s8>(c, a, b0, b1); }
inline void mma_u8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mma_8_bits<int32_t, from_u8>(c, a, b0, b1); }
inline void mma_e4m3(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mma_8_bits<float, from_e4m3>(c, a, b0, b1); }
inline void mma_e5m2(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mma_8_bits<float, from_e5m2>(c, a, b0, b1); }

inline void mma(host::Collective f, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    Mma argument{c, a, {b0, b1}};
    host::collective(f, &argument);
}
inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma(mma_16<from_bf16>, c, a, b0, b1);
}
inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mma(mma_16<from_f16>, c, a, b0, b1); }
inline void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mma(mma_8, c, a, b0, b1); }

}  // namespace pk::ptx
