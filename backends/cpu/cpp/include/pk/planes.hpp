// Columns that are pixels of planes, and rows the taps and channels that meet them: both say where an element lies.
#pragma once
#include "pk/pixels.hpp"

namespace pk {

constexpr int64_t kInside = INT64_MAX;  // the size of a dim of which nothing is read outside

// What a row and a column add up to.
template <class P, class Q>
struct Cross {
    using element = int64_t;
    using layout = Dense<2, 2>;
    P row;
    Q col;

    PK_INLINE int64_t at(int r, int c) const { return row.at(r, 0) + col.at(c, 0); }
};
template <bool inside = false, class P, class Q>
PK_INLINE Cross<P, Q> cross(const P& row, const Columns<Q>& col) {
    return {row, col.part};
}

// Of a coordinate that which the row gives, and that which the column does.
template <class I>
PK_INLINE int64_t of_row(const I& index, int r) {
    return static_cast<int64_t>(number_at(index, r, 0, 0));
}
template <class P>
PK_INLINE int64_t of_row(const Columns<P>&, int) {
    return 0;
}
template <class P, class Q>
PK_INLINE int64_t of_row(const Cross<P, Q>& index, int r) {
    return index.row.at(r, 0);
}
template <class I>
PK_INLINE int64_t of_col(const I&, int) {
    return 0;
}
template <class P>
PK_INLINE int64_t of_col(const Columns<P>& index, int c) {
    return index.part.at(c, 0);
}
template <class P, class Q>
PK_INLINE int64_t of_col(const Cross<P, Q>& index, int c) {
    return index.col.at(c, 0);
}

template <class I>
constexpr bool crosses = false;
template <class P, class Q>
constexpr bool crosses<Cross<P, Q>> = true;

// Where a row begins, and what it adds to the coordinates of columns.
template <class T, int dims>
struct Row {
    const T* from;
    int32_t coordinate[dims];
};

// The columns of a tile, found once for all of its rows: their coordinates along every dim, and where they lie. Those of one
// vector that lie one after the other are a run, whose column c is `ahead` + c elements on.
template <class T, int C, class... I>
struct FoundColumns {
    static constexpr int dims = sizeof...(I), lanes = Vector<int32_t>::lanes, vectors = (C + lanes - 1) / lanes;
    static constexpr uint32_t run_bits = (1u << lanes) - 1;
    using Coordinates = typename Vector<int32_t>::type;
    struct Run {
        int64_t ahead;
        uint32_t of;  // a bit for each column
    };
    alignas(64) int32_t coordinate[dims][vectors * lanes] = {};
    int64_t size[dims];
    Run run[vectors][lanes];
    int runs[vectors];

    PK_INLINE FoundColumns(int cols, int64_t col_stride, const Along<I>&... picks) : size{picks.size...} {
        for (int v = 0; v < vectors; ++v) {
            runs[v] = 0;
            for (int c = v * lanes; c < cols && c < (v + 1) * lanes; ++c) {
                int d = 0;
                ((coordinate[d++][c] = int32_t(of_col(picks.index, c))), ...);
                const int64_t ahead = c * col_stride + (0 + ... + (of_col(picks.index, c) * picks.stride)) - c;
                if (runs[v] == 0 || run[v][runs[v] - 1].ahead != ahead) run[v][runs[v]++] = {ahead, 0};
                run[v][runs[v] - 1].of |= 1u << c % lanes;
            }
        }
    }

    // A bit for each column of vector `v` that is inside of all dims in a row of these coordinates.
    PK_INLINE uint32_t inside(const Row<T, dims>& row, int v) const {
        uint32_t found = run_bits;
        for (int d = 0; d < dims; ++d) {
            if (size[d] == kInside) continue;
            const int32_t* at = &coordinate[d][v * lanes];
#if defined(__AVX512F__)
            const Coordinates sum = *reinterpret_cast<const Coordinates*>(at) + row.coordinate[d];
            found &= __builtin_ia32_ucmpd512_mask(sum, int32_t(size[d]) - Coordinates{}, 1, 0xffff);
#else
            for (int c = 0; c < lanes; ++c) found &= ~(uint32_t(uint32_t(row.coordinate[d] + at[c]) >= uint32_t(size[d])) << c);
#endif
        }
        return found;
    }

    // The elements of vector `v` in a row, zeros where they are outside.
    template <class P>
    PK_INLINE void pack(P* to, int step, const Row<T, dims>& row, int v) const {
        const uint32_t there = inside(row, v);
        if (step == 1 && runs[v] == 1 && there == run_bits) {
            PK_VECTORISE
            for (int c = 0; c < lanes; ++c) to[c] = widen<P>(row.from[run[v][0].ahead + v * lanes + c]);
            return;
        }
        for (int c = 0; c < lanes; ++c) to[c * step] = P(0.0f);
        for (int r = 0; r < runs[v]; ++r)
            for (uint32_t left = there & run[v][r].of; left != 0; left &= left - 1) {
                const int c = __builtin_ctz(left);
                to[c * step] = widen<P>(row.from[run[v][r].ahead + v * lanes + c]);
            }
    }
#if defined(__AVX512F__)
    PK_INLINE void pack(float* to, int, const Row<float, dims>& row, int v) const {
        const uint32_t there = inside(row, v);
        typename Vector<float>::type values{};
        for (int r = 0; r < runs[v]; ++r)
            values = __builtin_ia32_loadups512_mask(row.from + run[v][r].ahead + v * lanes, values, uint16_t(there & run[v][r].of));
        *reinterpret_cast<decltype(values)*>(to) = values;
    }
#endif
#if defined(__AVX512BF16__)
    // Words hold an element of each of two rows, the first of which sets them.
    PK_INLINE void pack(bf16* to, int, const Row<bf16, dims>& row, int v) const {
        typedef uint16_t Halves __attribute__((vector_size(32), aligned(2), may_alias));
        typedef uint32_t Words __attribute__((vector_size(64), aligned(4), may_alias));
        const uint32_t there = inside(row, v);
        Halves values{};
        for (int r = 0; r < runs[v]; ++r) {
            const auto& memory = *reinterpret_cast<const Halves*>(row.from + run[v][r].ahead + v * lanes);
            asm("vmovdqu16 %1, %0 %{%2%}" : "+v"(values) : "m"(memory), "Yk"(uint16_t(there & run[v][r].of)));
        }
        const Words words = __builtin_convertvector(values, Words);
        const bool second = reinterpret_cast<uintptr_t>(to) % sizeof(uint32_t) != 0;
        Words& both = *reinterpret_cast<Words*>(to - second);
        both = second ? both | words << 16 : words;
    }
#endif
};

// stage as for any pixels: a column finds its pixel once, a row its tap and channel.
template <class T, int R, int C, class First, class... I>
PK_INLINE void stage(PanelB<T, R, C, false>& panel, const T* origin, int64_t row_stride, int64_t col_stride, int32_t rows_left,
                     int32_t cols_left, Along<First> pick, Along<I>... more) {
    if constexpr (crosses<First> || (crosses<I> || ...)) {
        const int rows = clamp_count(rows_left, R), cols = clamp_count(cols_left, C);
        const FoundColumns<T, C, First, I...> columns(cols, col_stride, pick, more...);
        panel.pack_rows(rows, cols, [&](int i) {
            const int64_t ahead = of_row(pick.index, i) * pick.stride + (0 + ... + (of_row(more.index, i) * more.stride));
            const Row<T, 1 + sizeof...(I)> row = {origin + i * row_stride + ahead,
                                                  {int32_t(of_row(pick.index, i)), int32_t(of_row(more.index, i))...}};
            return [row, &columns](auto* to, int step, int j) { columns.pack(to, step, row, j / columns.lanes); };
        });
    } else {
        stage_tile<R, C>(panel, origin, row_stride, col_stride, rows_left, cols_left, pick, more...);
    }
}

}  // namespace pk
