// Scans by a function of the operator's own. `Part` holds one element of every tile and says how a part of the row is joined
// with the part right of it: `static Part join(Part left, Part right)`. It need have no identity: where there is nothing, a
// flag says so.
#pragma once
#include "pk/base.cuh"
#include "pk/layout.cuh"
#include "pk/scan.cuh"
#include "pk/tile.cuh"

namespace pk {

template <class Part> struct Maybe {
    Part value;
    int there;
};

template <class Part> struct Joining {
    template <class T> static PK_DEVICE T identity() { return T{}; }
    template <class T> static PK_DEVICE T join(T a, T b) {
        return !a.there ? b : !b.there ? a : T{Part::join(a.value, b.value), 1};
    }
};

template <class Part> PK_DEVICE Maybe<Part> shuffle(Maybe<Part> x, int from) {
    int words[sizeof(x) / 4];
    memcpy(words, &x, sizeof(x));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(x) / 4); ++i) words[i] = shuffle(words[i], from);
    memcpy(&x, words, sizeof(x));
    return x;
}

template <class Part, class L> struct Scanned {
    Tile<Part, L> tile;
    Tile<Part, RowOf<L>> last;  // of each row
};

/// The running values along each row of `tiles`, joined as `Part` says.
template <class Part, class L, class... T> PK_DEVICE Scanned<Part, L> scan_by(const Tile<T, L>&... tiles) {
    Scanned<Part, L> y;
#pragma unroll
    for (int i = 0; i < L::row_slots; ++i) {
        Maybe<Part> v[L::col_slots], last = {};
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) v[j] = {Part{tiles.at(i, j)...}, 1};
        RowScan<Joining<Part>, false, false, Maybe<Part>, L>::run(v, last);
#pragma unroll
        for (int j = 0; j < L::col_slots; ++j) y.tile.at(i, j) = v[j].value;
        y.last.v[i] = last.value;
    }
    return y;
}

}  // namespace pk
