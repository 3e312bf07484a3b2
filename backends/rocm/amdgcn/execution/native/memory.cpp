#include "memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace machine {

namespace {

[[noreturn]] void outside(const Wave &w, const Op &op, uint64_t address, uint32_t bytes, bool write, int lane) {
    const char *verb = write ? "writes" : "reads";
    std::string text = std::string(verb) + " " + std::to_string(bytes) + " bytes ";
    const Region *near = nullptr;
    uint64_t best = ~uint64_t(0);
    for (const Region &r : w.group->launch->regions) {
        const uint64_t distance = address < r.begin ? r.begin - address : address + bytes > r.end ? address + bytes - r.end : 0;
        if (distance < best) best = distance, near = &r;
    }
    if (near && best == 0)
        text += "in " + near->name + ", which may not be written";
    else if (near && best < (1u << 20))
        text += address < near->begin ? std::to_string(near->begin - address) + " bytes before the beginning of " + near->name
                                      : "at " + std::to_string(address - near->begin) + " of " + near->name + ", which has " +
                                            std::to_string(near->end - near->begin);
    else {
        char hex[40];
        std::snprintf(hex, sizeof hex, "at %#llx", static_cast<unsigned long long>(address));
        text += std::string(hex) + ", where the kernel has no memory";
    }
    fail(w, op, "out of bounds", text.c_str(), lane);
}

}  // namespace

const Region &region_of(const Wave &w, const Op &op, uint64_t address, uint32_t bytes, bool write, int lane) {
    for (const Region &r : w.group->launch->regions)
        if (address >= r.begin && address + bytes <= r.end && address + bytes >= address) {
            if (write && !r.writable) break;
            return r;
        }
    outside(w, op, address, bytes, write, lane);
}

bool is_defined(const Region &r, uint64_t address, uint32_t bytes) {
    if (!r.defined) return true;
    const uint8_t *d = r.defined + (address - r.begin);
    return std::all_of(d, d + bytes, [](uint8_t x) { return x != 0; });
}

void mark_defined(const Region &r, uint64_t address, uint32_t bytes) {
    if (r.defined) std::memset(r.defined + (address - r.begin), 1, bytes);
}

void check_address(const Wave &w, const Op &op, const Operand &o, uint64_t lanes) {
    uint64_t bad = 0;
    if (o.kind == kVector)
        for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) bad |= w.undefined_v[r] & lanes;
    else if (o.kind == kScalar)
        for (unsigned r = o.reg; r < o.reg + o.dwords; ++r) bad |= w.undefined_s[r] ? lanes : 0;
    if (bad) fail(w, op, "undefined value", "the address depends on what was never written", __builtin_ctzll(bad));
}

}  // namespace machine
