// Rows or columns that are pixels: the coordinate of one is that along a merged axis, taken apart.
#pragma once
#include "pk/gather.cuh"
#include "pk/shared.cuh"

namespace pk {

/// Row i of a tile lies at Scale * ((first + i) / Div % Mod) + begin; no Mod: the quotient itself.
template <class Whole, int Div, int Mod, int Scale> struct Part {
    Whole first, begin;
    PK_DEVICE int64_t at(int row) const {
        const Whole quotient = (first + row) / Div;
        return static_cast<int64_t>((Mod > 0 ? quotient % max_of(Mod, 1) : quotient) * Scale + begin);
    }
};
template <int Div, int Mod = 0, int Scale = 1> PK_DEVICE Part<int, Div, Mod, Scale> part(int64_t first, int64_t begin = 0) {
    return {static_cast<int>(first), static_cast<int>(begin)};
}
/// Where the merged axis has more than 2^31 coordinates.
template <int Div, int Mod = 0, int Scale = 1>
PK_DEVICE Part<int64_t, Div, Mod, Scale> wide_part(int64_t first, int64_t begin = 0) {
    return {first, begin};
}

template <class L, class Whole, int Div, int Mod, int Scale> struct Element<L, Part<Whole, Div, Mod, Scale>> {
    static PK_DEVICE int64_t get(const Part<Whole, Div, Mod, Scale>& x, int i, int) { return x.at(L::row(thread(), i)); }
};

/// The coordinates that rows have in a list: row i has the integer that `at` finds for it, none where that is outside.
template <class T, class P> struct Listed {
    const T* list;
    Along<P> where;
    PK_DEVICE int64_t at(int row) const {
        const int64_t place = where.index.at(row);
        return exists(place, where.size) ? static_cast<int64_t>(list[place * where.stride]) : -1;
    }
};
template <class T, class P> PK_DEVICE Listed<T, P> listed(const T* list, const Along<P>& where) { return {list, where}; }

/// The same of columns: of column j what `P` is of row j.
template <class P> struct Columns { P part; };
template <class P> PK_DEVICE Columns<P> columns(const P& part) { return {part}; }

template <class L, class P> struct Element<L, Columns<P>> {
    static PK_DEVICE int64_t get(const Columns<P>& x, int, int j) { return x.part.at(L::col(thread(), j)); }
};
template <class L, class P> struct PicksRows<L, Columns<P>> { static constexpr bool value = false; };
template <class I> constexpr bool picks_rows = true;
template <class P> constexpr bool picks_rows<Columns<P>> = false;

// Columns as far apart as those of a window along a line: a tile that is inside as a whole, of which the block has to ask once,
// is read as any other.
template <class L, class Fact, class T, class Whole, int Scale>
PK_DEVICE Tile<T, L> gather_in(Window<L> w, const T* origin, T pad, const Along<Columns<Part<Whole, 1, 0, Scale>>>& pick) {
    const int64_t first = pick.index.part.at(0), last = pick.index.part.at(L::cols - 1);
    if (Scale < 1 || w.cols_left < L::cols || first < 0 || last >= pick.size) return gather_each<L, Fact>(w, origin, pad, pick);
    return load_elements<L>(origin + first * pick.stride, w.row_stride, w.col_stride + Scale * pick.stride, w.rows_left,
                            L::full_cols ? kAll : L::cols, pad);
}

/// What a row and a column add up to: pixels in columns, and in rows the taps that meet them. `Inside`: all of them are inside.
template <class P, class Q, bool Inside = false> struct Cross {
    P row;
    Q col;
};
template <bool Inside = false, class P, class Q> PK_DEVICE Cross<P, Q, Inside> cross(const P& row, const Columns<Q>& col) {
    return {row, col.part};
}

template <class L, class P, class Q, bool Inside> struct Element<L, Cross<P, Q, Inside>> {
    static PK_DEVICE int64_t get(const Cross<P, Q, Inside>& x, int i, int j) {
        return x.row.at(L::row(thread(), i)) + x.col.at(L::col(thread(), j));
    }
};
template <class L, class P, class Q, bool Inside> struct PicksRows<L, Cross<P, Q, Inside>> { static constexpr bool value = false; };
template <class P, class Q, bool Inside> constexpr bool picks_rows<Cross<P, Q, Inside>> = false;

// The coordinate that an index has in row `row` and column `col`.
template <class I> PK_DEVICE int64_t at_place(const I& index, int, int) { return static_cast<int64_t>(index); }
template <class Whole, int Div, int Mod, int Scale>
PK_DEVICE int64_t at_place(const Part<Whole, Div, Mod, Scale>& index, int row, int) {
    return index.at(row);
}
template <class T, class P> PK_DEVICE int64_t at_place(const Listed<T, P>& index, int row, int) { return index.at(row); }
template <class P> PK_DEVICE int64_t at_place(const Columns<P>& index, int, int col) { return index.part.at(col); }
template <class P, class Q, bool Inside> PK_DEVICE int64_t at_place(const Cross<P, Q, Inside>& index, int row, int col) {
    return index.row.at(row) + index.col.at(col);
}

// Of that what the row gives, and what the column does.
template <class I> PK_DEVICE int64_t of_row(const I& index, int row) { return at_place(index, row, 0); }
template <class P> PK_DEVICE int64_t of_row(const Columns<P>&, int) { return 0; }
template <class P, class Q, bool Inside> PK_DEVICE int64_t of_row(const Cross<P, Q, Inside>& index, int row) { return index.row.at(row); }
template <class I> PK_DEVICE int64_t of_col(const I&, int) { return 0; }
template <class P> PK_DEVICE int64_t of_col(const Columns<P>& index, int col) { return index.part.at(col); }
template <class P, class Q, bool Inside> PK_DEVICE int64_t of_col(const Cross<P, Q, Inside>& index, int col) { return index.col.at(col); }

/// stage(to, origin, row_stride, col_stride, rows_left, cols_left, along(index, size, stride)...): as stage, of elements that
/// lie further on by what the indices say; zeros where one is outside of its dim.
template <int Threads, class Fact = Unknown, class T, int R, int C, class... I>
PK_DEVICE void stage(Shared<T, R, C>& to, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left,
                     const Along<I>&... picks) {
    using S = Shared<T, R, C>;
    constexpr bool rows = (picks_rows<I> && ...);
    const int64_t strides = (row_stride | ... | picks.stride) * static_cast<int64_t>(sizeof(T));
    const bool whole = Fact::aligned || (col_stride == 1 && (reinterpret_cast<uint64_t>(origin) | strides) % 16 == 0);
#pragma unroll
    for (int n = thread(); n < R * S::chunks; n += Threads) {
        const int row = n / S::chunks, col = n % S::chunks * S::chunk;
        const bool inside = row < rows_left && (!rows || (exists(at_place(picks.index, row, 0), picks.size) && ...));
        const int there = inside ? max_of(0, min_of(S::chunk, ptx::minus(cols_left, col))) : 0;
        const T* from = there > 0 ? origin + row * row_stride + col * col_stride : origin;
        if constexpr (rows) {
            if (there > 0) from += (0 + ... + (at_place(picks.index, row, 0) * picks.stride));
            if (whole) {
                ptx::copy_async_16(to.at(row, col), from, there * static_cast<int>(sizeof(T)));
                continue;
            }
        }
        T values[S::chunk];
#pragma unroll
        for (int e = 0; e < S::chunk; ++e) {
            if constexpr (rows) {
                values[e] = e < there ? from[e * col_stride] : T{};
            } else {
                const bool exist = e < there && (exists(at_place(picks.index, row, col + e), picks.size) && ...);
                values[e] = exist ? from[e * col_stride + (0 + ... + (at_place(picks.index, row, col + e) * picks.stride))] : T{};
            }
        }
        uint4 word;
        memcpy(&word, values, 16);
        *reinterpret_cast<uint4*>(to.at(row, col)) = word;
    }
}

// What a column lacks, and what a row needs, as bits of a word: the taps of a Cross from bit `first` on, a row, a column.
constexpr unsigned kNoRow = 1u << 31, kNoColumn = 1u << 30;
template <class I> constexpr int taps_of = 0;
template <class Whole, int Div, int Mod, int Scale, class Q> constexpr int taps_of<Cross<Part<Whole, Div, Mod, Scale>, Q>> = Mod;

template <class I> PK_DEVICE unsigned needs(const Along<I>& x, int row, int) {
    return exists(at_place(x.index, row, 0), x.size) ? 0u : kNoRow;
}
template <class P> PK_DEVICE unsigned needs(const Along<Columns<P>>&, int, int) { return 0; }
template <class P, class Q> PK_DEVICE unsigned needs(const Along<Cross<P, Q, true>>&, int, int) { return 0; }
template <class Whole, int Div, int Mod, int Scale, class Q>
PK_DEVICE unsigned needs(const Along<Cross<Part<Whole, Div, Mod, Scale>, Q>>& x, int row, int first) {
    return 1u << (first + static_cast<int>((x.index.row.first + row) / Div % Mod));
}
template <class I> PK_DEVICE unsigned lacks(const Along<I>&, int, int) { return 0; }
template <class P> PK_DEVICE unsigned lacks(const Along<Columns<P>>& x, int col, int) {
    return exists(x.index.part.at(col), x.size) ? 0u : kNoColumn;
}
template <class Whole, int Div, int Mod, int Scale, class Q>
PK_DEVICE unsigned lacks(const Along<Cross<Part<Whole, Div, Mod, Scale>, Q>>& x, int col, int first) {
    unsigned bits = 0;
#pragma unroll
    for (int tap = 0; tap < Mod; ++tap)
        bits |= exists(x.index.col.at(col) + x.index.row.begin + tap * Scale, x.size) ? 0u : 1u << (first + tap);
    return bits;
}

struct RowFound { unsigned ahead, needs; };  // how many bytes the elements of a row are ahead, and what it needs
constexpr int kAtATime = 8;  // rows that a warp has at hand: between copies nothing else shall be read from shared memory

template <int Warps> PK_DEVICE RowFound* rows_found() {
    alignas(16) __shared__ RowFound found[Warps][kWarp];
    return found[thread() / kWarp];
}

/// The same to lines of pixels, of which a thread finds its column once, whatever the step. A lane finds one of 32 rows, which
/// its warp is told. Rows lie less than 2^32 bytes apart.
template <int Threads, class Fact = Unknown, class T, int R, int C, int P, class... I>
PK_DEVICE void stage(Lines<T, R, C, P>& to, const T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left,
                     const Along<I>&... picks) {
    static_assert(sizeof(T) == 4, "copied in words");
    constexpr int across = min_of(C, Threads), down = Threads / across, rows = R / down;
    static_assert(Threads % across == 0 && C % across == 0 && across % kWarp == 0 && R % down == 0, "a warp has one row");
    constexpr int taps = (0 + ... + taps_of<I>);
    static_assert(taps <= 30, "the taps along all dims are bits of a word");
    RowFound* const found = rows_found<Threads / kWarp>();
    const int first_row = thread() / across * rows;
#pragma unroll
    for (int base = 0; base < rows; base += kWarp) {
        const int mine = first_row + base + lane();
        int bit = 0;
        unsigned needed = kNoColumn | (mine < rows_left ? 0u : kNoRow);
        ((needed |= needs(picks, mine, bit), bit += taps_of<I>), ...);
        __syncwarp();  // what was found before has been read
        const int64_t ahead = mine * row_stride + (0 + ... + (of_row(picks.index, mine) * picks.stride));
        found[lane()] = {static_cast<unsigned>(ahead * static_cast<int64_t>(sizeof(T))), needed};
        __syncwarp();
#pragma unroll
        for (int turn = 0; turn < C; turn += across) {
            const int col = turn + thread() % across;
            bit = 0;
            unsigned lacked = kNoRow | (col < cols_left ? 0u : kNoColumn);
            ((lacked |= lacks(picks, col, bit), bit += taps_of<I>), ...);
            const auto from = reinterpret_cast<const char*>(origin + col * col_stride
                                                            + (0 + ... + (of_col(picks.index, col) * picks.stride)));
#pragma unroll
            for (int i = 0; i < min_of(kWarp, rows - base); i += kAtATime) {
                RowFound row[kAtATime];
#pragma unroll
                for (int n = 0; n < kAtATime; ++n) row[n] = found[i + n];
#pragma unroll
                for (int n = 0; n < min_of(kAtATime, rows - base - i); ++n)
                    ptx::copy_async_4(to.at(first_row + base + i + n, col), from + row[n].ahead, row[n].needs & lacked ? 0 : 4);
            }
        }
    }
}

/// store(tile, origin, row_stride, col_stride, rows_left, cols_left, along(index, size, stride)...): as store, of elements to
/// where they lie further on by what the indices say. store(vector, origin, stride, left, along(...)...) for a vector.
template <class Fact = Unknown, class T, class L, class... I>
PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t row_stride, int64_t col_stride, int rows_left, int cols_left,
                     const Along<I>&... picks) {
    using A = Access<T, L>;
    const auto line = [&](int row, int col) {
        return origin + row * row_stride + (0 + ... + (at_place(picks.index, row, col) * picks.stride));
    };
    constexpr bool rows = (picks_rows<I> && ...);
    const int64_t strides = (row_stride | ... | picks.stride);
    const bool whole = rows && (Fact::aligned || A::whole(origin, strides, col_stride, cols_left));
    if (!owns<L>(thread())) return;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        const int row = L::row(thread(), i);
        if (!within(row, min_of(rows_left, L::rows))) continue;
        if (whole) {
            T* to = line(row, 0);
#pragma unroll
            for (int j = 0; j < L::col_slots; j += A::width)
                if (within(L::col(thread(), j), cols_left))
                    A::template write<Fact>(to + L::col(thread(), j), &x.v[i * L::col_slots + j]);
        } else {
#pragma unroll
            for (int j = 0; j < L::col_slots; ++j) {
                const int col = L::col(thread(), j);
                if (within(col, min_of(cols_left, L::cols))) line(row, col)[col * col_stride] = x.at(i, j);
            }
        }
    }
}
template <class Fact = Unknown, class T, class L, class First, class... I>
PK_DEVICE void store(const Tile<T, L>& x, T* origin, int64_t stride, int left, const Along<First>& pick, const Along<I>&... more) {
    if constexpr (is_column<L>) store<Fact>(x, origin, stride, 0, left, 1, pick, more...);
    else store<Fact>(x, origin, 0, stride, 1, left, pick, more...);
}

}  // namespace pk
