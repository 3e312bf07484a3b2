// What MFMA share: shapes, and where the rows of D lie (layouts: lanes/matrix_cdna.cpp).
#pragma once

#include "matrix.hpp"

namespace {

template <int m, int n, int k, int b> struct Shape {
    static constexpr int M = m, N = n, K = k, B = b;
    static constexpr int held = K * M * B / 64;  // elements of A a lane
};

struct Place {
    int reg, lane;
};

// Where N consecutive lanes hold row i of block b of D.
template <class S> inline Place place32(int i, int b) {
    constexpr int across = 64 / S::N;                                  // rows side by side in one register
    constexpr int groups = across < S::M / 4 ? across : S::M / 4;      // groups of four rows of one block side by side
    constexpr int blocks = across / groups;                            // blocks side by side
    const int group = i / 4;
    const int down = group / groups + S::M / (4 * groups) * (b / blocks);
    return {i % 4 + 4 * down, S::N * (group % groups + groups * (b % blocks))};
}

// cbsz and abid: groups of 2^cbsz blocks use the A of block `abid` of theirs (CDNA3 ISA).
inline int block_of_a(const Op &op, int b) { return op.m.cbsz ? (b >> op.m.cbsz << op.m.cbsz) + op.m.abid : b; }

// blgp: which lane's B a lane uses (CDNA3 ISA).
inline int lane_of_b(int pattern, int lane) {
    switch (pattern) {
        case 1: return lane & 31;
        case 2: return lane | 32;
        case 3: return (lane + 16) & 63;
        case 4: case 5: case 6: case 7: return (lane & 15) + 16 * (pattern - 4);
        default: return lane;
    }
}

// D is undefined where C is, in rows where A is (lanes `a`) and in columns where B is (`y`).
template <class S> inline void undefined32(Wave &w, const Op &op, uint64_t a, uint64_t y) {
    const uint64_t c = undefined_in(w, op.s[2]);
    constexpr int registers = S::M * S::N * S::B / 64;
    const bool scalar_c = op.s[2].kind != kVector;
    if (!(a | y | c)) {
        for (int r = 0; r < registers; ++r) w.undefined_v[op.d[0].reg + r] = 0;
        return;
    }
    uint64_t was[registers];
    for (int r = 0; r < registers; ++r) was[r] = scalar_c ? 0 : w.undefined_v[op.s[2].reg + r];
    constexpr uint64_t row_lanes = S::N == 64 ? ~uint64_t(0) : (uint64_t(1) << S::N) - 1;
    uint64_t now[registers] = {};
    for (int b = 0; b < S::B; ++b) {
        uint64_t rows = 0, columns = 0;
        for (int g = 0; g < 64 / (S::M * S::B); ++g) {
            rows |= a >> (S::M * (block_of_a(op, b) + S::B * g));
            for (int j = 0; j < S::N; ++j)
                columns |= (y >> lane_of_b(op.m.blgp, S::N * (b + S::B * g) + j) & 1) << j;
        }
        for (int i = 0; i < S::M; ++i) {
            const Place p = place32<S>(i, b);
            now[p.reg] |= (rows >> i & 1 ? row_lanes : columns & row_lanes) << p.lane;
        }
    }
    for (int r = 0; r < registers; ++r) w.undefined_v[op.d[0].reg + r] = was[r] | now[r];
}

}  // namespace
