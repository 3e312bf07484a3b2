// Scalar loads (SMEM): s_load_*, s_buffer_load_*.
#include <cstring>
#include <type_traits>

#include "../memory.hpp"
#include "../scalar.hpp"
#include "../waits.hpp"

namespace machine {
namespace {

uint8_t scalar_counter(const Wave &w) { return w.program->setup.generation >= 120 ? 1u << kKm : 1u << kLgkm; }

// The bits of a dword that were never written.
uint32_t undefined_bits(const Region &region, uint64_t address, uint32_t bytes) {
    uint32_t bits = 0;
    for (uint32_t n = 0; n < bytes; ++n)
        if (!is_defined(region, address + n, 1)) bits |= 0xffu << (8 * n);
    return bits;
}

// Makes a register of the low bytes that were read: the rest are zeros or copies of the sign, as defined as that.
template <typename Low> void extend(uint32_t &word, uint32_t &undefined) {
    constexpr uint32_t rest = ~uint32_t(std::make_unsigned_t<Low>(~std::make_unsigned_t<Low>(0)));
    word = uint32_t(int32_t(Low(word)));
    if (std::is_signed_v<Low> && undefined >> (8 * sizeof(Low) - 1) & 1) undefined |= rest;
}

void extend(uint32_t &word, uint32_t &undefined, unsigned bytes, bool has_sign) {
    if (bytes == 1) has_sign ? extend<int8_t>(word, undefined) : extend<uint8_t>(word, undefined);
    if (bytes == 2) has_sign ? extend<int16_t>(word, undefined) : extend<uint16_t>(word, undefined);
}

// What a load brings: dwords, or one of fewer bytes (``m.extra`` of them; signed with kSigned besides).
constexpr unsigned kSigned = 0x10;

unsigned bytes_of(const Op &op) { return op.m.extra ? op.m.extra & ~kSigned : op.d[0].dwords * 4u; }

void keep(Wave &w, const Op &op, uint32_t *words, uint32_t *undefined) {
    const Operand &to = op.d[0];
    reserve(w, op, issue(w, op, scalar_counter(w), kScalarLoads), to);
    if (to.reg == uint32_t(kNull)) return;
    extend(words[0], undefined[0], bytes_of(op), op.m.extra & kSigned);
    for (unsigned n = 0; n < to.dwords; ++n) {
        w.s[to.reg + n] = words[n];
        w.undefined_s[to.reg + n] = undefined[n];
    }
}

// d = memory[base + offset + immediate]: sources base and offset (a constant, or a register with a constant besides).
void s_load(Wave &w, const Op &op) {
    check_address(w, op, op.s[0], 1);
    check_address(w, op, op.s[1], 1);
    const uint32_t bytes = bytes_of(op), unit = bytes < 4 ? bytes : 4;
    const uint64_t offset = op.s[1].kind == kConstant ? uint64_t(int64_t(int32_t(read_scalar(w, op.s[1])))) : read_scalar(w, op.s[1]);
    const uint64_t address = read_scalar64(w, op.s[0]) + offset + uint64_t(int64_t(op.immediate[0]));
    if (address % unit) fail(w, op, "misaligned access", "a scalar load must be aligned to 4 bytes, or to its own if it has fewer");
    const Region &region = region_of(w, op, address, bytes, false, -1);
    uint32_t words[16] = {}, undefined[16] = {};
    std::memcpy(words, reinterpret_cast<const void *>(address), bytes);
    for (unsigned n = 0; n < op.d[0].dwords; ++n) undefined[n] = undefined_bits(region, address + 4 * n, unit);
    keep(w, op, words, undefined);
}

// d = buffer[offset + immediate]; what lies beyond the buffer reads as 0, dword by dword (CDNA3 ISA, "Scalar memory": S_BUFFER_LOAD).
void s_buffer_load(Wave &w, const Op &op) {
    check_address(w, op, op.s[0], 1);
    check_address(w, op, op.s[1], 1);
    const uint32_t *r = w.s + op.s[0].reg;
    if (r[1] >> 16 & 0x3fff) fail(w, op, "not modelled", "a scalar load from a buffer with a stride");
    const uint64_t base = r[0] | uint64_t(r[1] & 0xffff) << 32, records = r[2];
    const uint32_t bytes = bytes_of(op), unit = bytes < 4 ? bytes : 4;
    const uint64_t offset = (uint64_t(read_scalar(w, op.s[1])) + uint64_t(int64_t(op.immediate[0]))) & ~uint64_t(unit - 1);
    uint32_t words[16] = {}, undefined[16] = {};
    for (unsigned n = 0; n < op.d[0].dwords; ++n) {
        const uint64_t at = offset + 4 * n;
        if (at + unit > records) continue;
        const Region &region = region_of(w, op, base + at, unit, false, -1);
        std::memcpy(words + n, reinterpret_cast<const void *>(base + at), unit);
        undefined[n] = undefined_bits(region, base + at, unit);
    }
    keep(w, op, words, undefined);
}

// Time is not modelled: clocks count the wave's instructions.
void s_clock(Wave &w, const Op &op) {
    reserve(w, op, issue(w, op, scalar_counter(w), kScalarLoads), op.d[0]);
    write_scalar64(w, op.d[0], w.executed);
    w.undefined_s[op.d[0].reg] = w.undefined_s[op.d[0].reg + 1] = 0;
}

}  // namespace

void register_memory_scalar_once(Adder &add) {
    add("s_load", s_load);
    add("s_buffer_load", s_buffer_load);
    add("s_clock", s_clock);
}

}  // namespace machine
