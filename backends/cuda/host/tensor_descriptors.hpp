// What descriptors tell tcgen05 of a product and of its operands (PTX ISA, "Shared Memory Descriptor", "Canonical Layouts",
// "Instruction Descriptor"), as far as it is interpreted; everything else is odd.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor_memory.hpp"

namespace host {

/// An operand in shared memory that begins at `shared`: rows of 128 bytes in groups of eight, which are `stride` apart.
struct Operand {
    unsigned char* shared;
    int start, leading, stride, bytes;
    bool k_major;

    Operand(unsigned char* shared, Kind kind, uint64_t d, bool k_major)
        : shared(shared), start((d & 0x3fff) << 4), leading((d >> 16 & 0x3fff) << 4), stride((d >> 32 & 0x3fff) << 4),
          bytes(kind == Kind::kF16 ? 2 : 1), k_major(k_major) {}

    /// Element (i, k), i along rows (columns) of the result. k runs along the 128 bytes; or i does, in panels `leading` apart.
    /// Then the swizzle: bits 4 to 6 of the address are flipped by bits 7 to 9.
    const unsigned char* at(int i, int k) const {
        const int row = k_major ? i : k, col = (k_major ? k : i) * bytes;
        int address = start + row / 8 * stride + row % 8 * 128 + (k_major ? col : col / 128 * leading + col % 128);
        address ^= (address >> 7 & 7) << 4;
        return shared + address;
    }

    /// f(16 bytes) for all that a product of `count` rows (columns) reads.
    template <class F> void lines(int count, F f) const {
        const int chunk = 16 / bytes;
        for (int i = 0; i < count; i += k_major ? 1 : chunk)
            for (int k = 0; k < 2 * chunk; k += k_major ? chunk : 1) f(at(i, k));
    }

    static const char* odd(uint64_t d) {
        if ((d >> 46 & 7) != 1) return "bits 46 to 48 of a matrix descriptor of tcgen05 are not 001";
        if (d >> 61 != 2) return "a matrix descriptor of tcgen05 asks for another swizzle than that of 128 bytes";
        if (d >> 14 & 3 || d >> 30 & 3 || d >> 49 & 0xfff)
            return "a matrix descriptor of tcgen05 has bits that are not interpreted";
        return nullptr;
    }
};

inline float from_16(const unsigned char* at, bool bf16) {
    unsigned short bits;
    _Float16 half;
    std::memcpy(&bits, at, 2);
    std::memcpy(&half, at, 2);
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &word, 4);
    return bf16 ? x : static_cast<float>(half);
}

inline float from_8(unsigned char bits, int mantissa) {
    const int bias = mantissa == 3 ? 7 : 15, exponent = bits >> mantissa & ((1 << (7 - mantissa)) - 1);
    const int whole = (bits & ((1 << mantissa) - 1)) + (exponent ? 1 << mantissa : 0);
    const float sign = bits & 0x80 ? -1.0f : 1.0f;
    if (mantissa == 3 && (bits & 0x7f) == 0x7f) return NAN;
    if (mantissa == 2 && exponent == 31) return bits & 3 ? NAN : sign * INFINITY;
    return sign * std::ldexp(static_cast<float>(whole), (exponent ? exponent : 1) - bias - mantissa);
}

/// A product: types of its operands and how they are stored, and its size.
struct What {
    Kind kind;
    bool type_a, type_b, turned_a, turned_b;
    int rows, cols;

    What(Kind kind, uint32_t bits)
        : kind(kind), type_a(bits >> 7 & 1), type_b(bits >> 10 & 1), turned_a(bits >> 15 & 1), turned_b(bits >> 16 & 1),
          rows(static_cast<int>(bits >> 24 & 0x1f) * 16), cols(static_cast<int>(bits >> 17 & 0x3f) * 8) {}

    int depth() const { return kind == Kind::kF16 ? 16 : 32; }
    float real(const unsigned char* at, bool type) const {
        return kind == Kind::kF16 ? from_16(at, type) : from_8(*at, type ? 2 : 3);
    }
    static int integer(const unsigned char* at, bool is_signed) { return is_signed ? static_cast<signed char>(*at) : *at; }

    /// The lane of row `i` of the sum ("Data Path Layout Organization"): of 64 rows, 16 are in every other 16 lanes.
    int lane(int i) const { return rows == 64 ? i / 16 * 32 + i % 16 : i; }

    const char* odd(uint32_t bits) const {
        constexpr uint32_t interpreted = 3u << 4 | 1u << 7 | 1u << 10 | 3u << 15 | 0x3fu << 17 | 0x1fu << 24;
        const bool integers = kind == Kind::kI8;
        if ((bits >> 4 & 3) != (integers ? 2u : 1u))
            return "an instruction descriptor of tcgen05 asks for another type of sums";
        if (bits & ~interpreted) return "an instruction descriptor of tcgen05 has bits that are not interpreted";
        if (rows != 64 && rows != 128) return "an instruction descriptor of tcgen05 says neither 64 nor 128 rows";
        const int step = rows == 128 || (integers && cols > 32) ? 16 : 8;
        if (cols < step || cols > 256 || cols % step)
            return "an instruction descriptor of tcgen05 says a number of columns that no product has";
        return nullptr;
    }
};

}  // namespace host
