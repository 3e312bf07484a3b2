// Checks the tile library on the CPU: every layout is a bijection, loads, stores, reductions, exchanges and matrix
// products index right, for full, ragged, tiny and replicated tiles. Prints what fails; exits with the number of faults.
#include "cuda_host.hpp"
//
#include <cstdio>

#include "pk/dot.cuh"
#include "pk/memory.cuh"
#include "pk/reduce.cuh"
#include "pk/relayout.cuh"
#include "pk/walk.cuh"
#include "pk/wgmma.cuh"

static int faults = 0;

template <class F> static void expect(bool ok, F describe) {
    if (ok) return;
    if (++faults < 40) describe();
}

/// One block of `threads` threads.
static void run(unsigned threads, bool backwards, const std::function<void()>& kernel) {
    const char* fault = host::launch({1, 1, 1}, {threads, 1, 1}, 1, backwards, kernel);
    expect(fault == nullptr, [&] { std::printf("%s\n", fault); });
}

static float at(int row, int col) { return static_cast<float>((row * 37 + col * 11) % 29 - 14); }

template <class T> static float number(T x) { return static_cast<float>(x); }

/// Every element is held by exactly one owner and by as many threads as there are copies.
template <class L> static void bijective(const char* name) {
    std::vector<int> owners(L::rows * L::cols), holders(L::rows * L::cols);
    for (int t = 0; t < L::threads; ++t)
        for (int i = 0; i < L::row_slots; ++i)
            for (int j = 0; j < L::col_slots; ++j) {
                const int r = L::row(t, i), c = L::col(t, j);
                if (r >= L::rows || c >= L::cols) {
                    expect(!pk::inside<L>(r, c), [&] { std::printf("%s: (%d, %d) is no element\n", name, r, c); });
                    continue;
                }
                owners[r * L::cols + c] += pk::owns<L>(t);
                ++holders[r * L::cols + c];
            }
    for (int n = 0; n < L::rows * L::cols; ++n) {
        expect(owners[n] == 1, [&] { std::printf("%s: element %d has %d owners\n", name, n, owners[n]); });
        expect(holders[n] == holders[0], [&] { std::printf("%s: element %d has %d holders\n", name, n, holders[n]); });
    }
}

// A layout of one row takes one stride and one end.
template <class L, class T> static auto load(const T* from, int pitch, int rows, int cols) {
    if constexpr (L::rows == 1) return pk::load<L>(from, 1, cols, 0.0f);
    else return pk::load<L>(from, pitch, 1, rows, cols, 0.0f);
}
template <class L, class T> static void store(const pk::Tile<T, L>& x, T* to, int pitch, int rows, int cols) {
    if constexpr (L::rows == 1) pk::store(x, to, 1, cols);
    else pk::store(x, to, pitch, 1, rows, cols);
}

/// Load with a pad, reduce both ways, exchange, transpose and store, for a window of the tile, aligned and not.
template <class L, class T> static void memory(const char* name, int rows, int cols, int offset) {
    using Other = pk::Rows<L::rows, L::cols, L::threads>;
    using Turned = pk::Rows<L::cols, L::rows, L::threads>;
    const int pitch = L::cols + 16 * (offset == 0) + offset;
    auto buffer = [&] { return static_cast<T*>(std::aligned_alloc(256, 1 << 20)); };
    T *x = buffer(), *y = buffer(), *z = buffer(), *w = buffer();
    for (int n = 0; n < (1 << 20) / static_cast<int>(sizeof(T)); ++n) y[n] = z[n] = w[n] = T(99.0f);
    for (int r = 0; r < L::rows; ++r)
        for (int c = 0; c < pitch; ++c) x[offset + r * pitch + c] = T(r < rows && c < cols ? at(r, c) : 77.0f);
    std::vector<float> row_sum(L::rows), col_max(L::cols);
    run(L::threads, offset != 0, [&] {
        const auto tile = load<L>(x + offset, pitch, rows, cols);
        store(tile, y + offset, pitch, rows, cols);
        store(pk::relayout<Other>(tile), z + offset, pitch, rows, cols);
        store(pk::transpose<Turned>(tile), w + offset, L::rows, cols, rows);
        const auto f = pk::map<L>([](T v) { return float(v); }, tile);
        const auto sum = pk::reduce_cols<pk::Sum>(f);
        const auto top = pk::reduce_rows<pk::Max>(pk::map<L>(
            [=](int32_t row, float v) { return row < rows ? v : -INFINITY; }, pk::row_index<L>(), f));
        if constexpr (L::rows == 1) pk::store(sum, row_sum.data());
        else pk::store(sum, row_sum.data(), 1);
        if constexpr (L::cols == 1) pk::store(top, col_max.data());
        else pk::store(top, col_max.data(), 1);
    });
    for (int r = 0; r < L::rows; ++r) {
        float want = 0;
        for (int c = 0; c < cols; ++c) want += r < rows ? at(r, c) : 0;
        expect(row_sum[r] == want, [&] { std::printf("%s: row %d sums to %g, not %g\n", name, r, row_sum[r], want); });
        for (int c = 0; c < L::cols; ++c) {
            const float value = r < rows && c < cols ? at(r, c) : 99.0f;
            const float ours = number(y[offset + r * pitch + c]), theirs = number(z[offset + r * pitch + c]);
            expect(ours == value, [&] { std::printf("%s: stored (%d, %d) is %g, not %g\n", name, r, c, ours, value); });
            expect(theirs == value, [&] { std::printf("%s: exchanged (%d, %d): %g, not %g\n", name, r, c, theirs, value); });
            const float turned = number(w[offset + c * L::rows + r]);
            expect(turned == value, [&] { std::printf("%s: transposed (%d, %d): %g, not %g\n", name, r, c, turned, value); });
        }
    }
    for (int c = 0; c < L::cols; ++c) {
        float want = -INFINITY;
        for (int r = 0; r < rows; ++r) want = std::fmax(want, c < cols ? at(r, c) : 0);
        expect(col_max[c] == want, [&] { std::printf("%s: column %d: max %g, not %g\n", name, c, col_max[c], want); });
    }
    for (T* p : {x, y, z, w}) std::free(p);
}

/// acc = 1 + a b with either operand stored either way, staged from global memory, ragged in every dim.
template <class T, class Acc, int K, bool TurnA, bool TurnB> static void product(int offset) {
    constexpr int M = Acc::rows, N = Acc::cols, Warps = Acc::threads / 32;
    bijective<Acc>("accumulator");
    constexpr int threads = Warps * 32;
    const int m = M - 3, n = N - 1, k = K - 2, pitch = 256 + offset;
    auto* a = static_cast<T*>(std::aligned_alloc(256, 1 << 17));
    auto* b = static_cast<T*>(std::aligned_alloc(256, 1 << 17));
    using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::vector<Sum> c(M * N, 99.0f);
    for (int i = 0; i < (1 << 17) / static_cast<int>(sizeof(T)); ++i) a[i] = b[i] = T(NAN);
    for (int i = 0; i < m; ++i)
        for (int q = 0; q < k; ++q) a[offset + (TurnA ? q * pitch + i : i * pitch + q)] = T(at(i, q));
    for (int q = 0; q < k; ++q)
        for (int j = 0; j < n; ++j) b[offset + (TurnB ? j * pitch + q : q * pitch + j)] = T(at(j + 3, q));
    run(threads, offset != 0, [&] {
        static pk::Shared<T, TurnA ? K : M, TurnA ? M : K> left;
        static pk::Shared<T, TurnB ? N : K, TurnB ? K : N> right;
        auto acc = pk::fill<Sum, Acc>(1);
        pk::stage<threads>(left, a + offset, pitch, 1, TurnA ? k : m, TurnA ? m : k);
        pk::stage<threads>(right, b + offset, pitch, 1, TurnB ? n : k, TurnB ? k : n);
        pk::commit();
        pk::wait<0>();
        pk::sync();
        if constexpr (TurnA && TurnB) pk::dot(acc, pk::transposed(left), pk::transposed(right));
        else if constexpr (TurnA) pk::dot(acc, pk::transposed(left), right);
        else if constexpr (TurnB) pk::dot(acc, left, pk::transposed(right));
        else pk::dot(acc, left, right);
        pk::store(acc, c.data(), N, 1, m, n);
    });
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            Sum want = 1;
            for (int q = 0; q < k; ++q) want += at(i, q) * at(j + 3, q);
            if (i >= m || j >= n) want = 99.0f;
            expect(c[i * N + j] == want, [&] {
                std::printf("product %dx%dx%d, %d warps, turned %d %d: (%d, %d) is %g, not %g\n", M, N, K, Warps, TurnA,
                            TurnB, i, j, c[i * N + j], want);
            });
        }
    std::free(a);
    std::free(b);
}

template <class T, class Acc, int K> static void products() {
    for (int offset : {0, 1}) {
        product<T, Acc, K, false, false>(offset);
        product<T, Acc, K, false, true>(offset);
        product<T, Acc, K, true, false>(offset);
        product<T, Acc, K, true, true>(offset);
    }
}

/// (a b) c with the first product's accumulator as the left operand, from registers and through shared memory.
template <class T, int M, int N, int D, int Warps> static void chained() {
    using S = pk::StackedAccumulator<M, N, Warps, T>;
    using O = pk::StackedAccumulator<M, D, Warps, T>;
    std::vector<float> out(M * D), put(M * D);
    run(Warps * 32, false, [&] {
        static pk::Shared<T, M, N> p;
        static pk::Shared<T, N, D> v;
        const auto s = pk::map<S>([](int r, int c) { return T(at(r, c)); }, pk::row_index<S>(), pk::col_index<S>());
        using R = pk::Rows<N, D, Warps * 32>;
        pk::put(v, pk::map<R>([](int r, int c) { return T(at(c, r)); }, pk::row_index<R>(), pk::col_index<R>()));
        pk::put(p, s);
        pk::sync();
        auto acc = pk::fill<float, O>(0.0f);
        pk::dot(acc, s, v);
        pk::store(acc, out.data(), D, 1);
        acc = pk::fill<float, O>(0.0f);
        pk::dot(acc, p, v);
        pk::store(acc, put.data(), D, 1);
    });
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < D; ++j) {
            float want = 0;
            for (int q = 0; q < N; ++q) want += at(i, q) * at(j, q);
            expect(out[i * D + j] == want && put[i * D + j] == want,
                   [&] { std::printf("chained (%d, %d): %g and %g, not %g\n", i, j, out[i * D + j], put[i * D + j], want); });
        }
}

template <class L, class T> static void all_windows(const char* name) {
    bijective<L>(name);
    bijective<pk::RowOf<L>>(name);
    bijective<pk::ColOf<L>>(name);
    memory<L, T>(name, L::rows, L::cols, 0);
    memory<L, T>(name, L::rows, L::cols > 1 ? L::cols - 1 : 1, 0);
    memory<L, T>(name, L::rows > 1 ? L::rows - 1 : 1, L::cols > 5 ? L::cols - 5 : 1, 1);
}

/// All rows of all heads are taken once, and where row r takes r + 1.3, no block of threads takes more than `most` of the mean.
template <bool Last> static void row_blocks(int rows, int heads, int blocks, double most) {
    host::Fiber fiber;
    host::current = &fiber;
    host::grid_size = {static_cast<unsigned>(blocks), 1, 1};
    std::vector<int> taken(rows * heads);
    double longest = 0, sum = 0;
    for (int b = 0; b < blocks; ++b) {
        fiber.block.x = b;
        double mine = 0;
        for (pk::RowBlocks<8, Last> block(rows, heads); block.inside(); block.next()) {
            ++taken.at(block.head * rows + block.row);
            mine += block.row + 1.3;
        }
        longest = mine > longest ? mine : longest;
        sum += mine;
    }
    host::current = nullptr;
    for (int n = 0; n < rows * heads; ++n)
        expect(taken[n] == 1, [&] { std::printf("row %d of head %d is taken %d times\n", n % rows, n / rows, taken[n]); });
    expect(longest <= most * sum / blocks, [&] {
        std::printf("%d rows in %d heads by %d: the longest takes %.3f of the mean\n", rows, heads, blocks, longest / sum * blocks);
    });
}

int main() {
    for (int blocks : {1, 3, 132})
        for (int rows : {1, 2, 3, 7, 8, 33})
            for (int heads : {1, 5, 41}) {
                row_blocks<false>(rows, heads, blocks, 1e9);
                row_blocks<true>(rows, heads, blocks, 1e9);
            }
    row_blocks<true>(0, 5, 132, 1);
    row_blocks<true>(32, 32, 132, 1.01);
    row_blocks<true>(64, 32, 132, 1.01);
    row_blocks<true>(8, 256, 132, 1.02);
    row_blocks<true>(16, 16, 132, 1.04);
    row_blocks<true>(33, 17, 132, 1.02);
    row_blocks<true>(5, 300, 132, 1.05);
    using pk::Accumulator, pk::WarpgroupAccumulator, pk::Rows, pk::bf16, pk::f16, pk::tf32;
    all_windows<Rows<8, 1024, 128>, bf16>("8 x 1024");
    all_windows<Rows<2, 1024, 128>, float>("2 x 1024");
    all_windows<Rows<1, 1024, 128>, bf16>("1 x 1024");
    all_windows<Rows<1, 96, 128>, float>("1 x 96");
    all_windows<Rows<32, 32, 128>, float>("32 x 32");
    all_windows<Rows<16, 32, 32, 4>, float>("16 x 32");
    all_windows<Rows<3, 40, 64>, bf16>("3 x 40");
    all_windows<Rows<64, 1, 128>, float>("64 x 1");
    all_windows<Rows<5, 7, 64>, double>("5 x 7");
    all_windows<Accumulator<64, 64, 4, bf16>, float>("accumulator 64 x 64");
    all_windows<Accumulator<32, 64, 4, bf16, 2>, bf16>("accumulator 32 x 64");
    all_windows<Accumulator<16, 8, 4, f16>, float>("accumulator 16 x 8");
    all_windows<Accumulator<32, 32, 4, float>, float>("accumulator 32 x 32, float");
    all_windows<Accumulator<64, 128, 8, float>, float>("accumulator 64 x 128, float");
    products<bf16, Accumulator<64, 64, 4, bf16>, 32>();
    products<bf16, Accumulator<16, 24, 1, bf16>, 16>();
    products<f16, Accumulator<32, 128, 8, f16>, 64>();
    products<float, Accumulator<64, 64, 4, float>, 32>();
    products<float, Accumulator<16, 16, 4, float>, 16>();
    products<float, Accumulator<32, 64, 4, tf32>, 32>();
    products<double, Accumulator<32, 32, 2, double>, 16>();
    products<bf16, WarpgroupAccumulator<64, 64, 4, bf16>, 64>();
    products<bf16, WarpgroupAccumulator<128, 128, 8, bf16>, 64>();
    products<f16, WarpgroupAccumulator<64, 256, 8, f16>, 128>();
    chained<bf16, 64, 32, 64, 4>();
    chained<f16, 32, 64, 128, 4>();
    chained<float, 32, 32, 64, 4>();
    std::printf("%d faults\n", faults);
    return faults > 255 ? 255 : faults;
}
