// Attention on Blackwell: one thread feeds slots of shared memory through the copy engine, one starts products, and warpgroups make
// weights of scores. Scores, weights and sums are in tensor memory. Weights take the place of the scores that they are made of, and
// are the left operand of the second product there.
#pragma once
#include "pk/base.cuh"
#include "pk/element.cuh"
#include "pk/layout.cuh"
#include "pk/ptx_tcgen05.cuh"
#include "pk/ptx_tma.cuh"
#include "pk/relayout.cuh"
#include "pk/rings.cuh"
#include "pk/shared.cuh"
#include "pk/tensor_memory.cuh"
#include "pk/tile.cuh"

namespace pk {

/// Rows of tcgen05 once they are in registers: fragments like those of mma.sync. A warpgroup has 128 rows, a warp the 32 in the
/// lanes of tensor memory that it reaches.
template <int R, int C, int Warps, class E> struct TensorRows : Accumulator<R, C, Warps, E, Warps> {
    static_assert(half_width<E> && R == Warps * 32 && C % 32 == 0, "a warp has 32 rows, of 32 columns at a time");
    static constexpr int panel_rows = 128, high = 128, repeats = 1;  // see Outbox
};

template <int R, int C, int D, int Warps, class E, class F>
struct SameRows<TensorRows<R, C, Warps, E>, TensorRows<R, D, Warps, F>> {
    static constexpr bool value = true;
};

/// The tensor memory of one block: each warpgroup of consumers has `Places` for scores, used in turn, and one for its sum. S and O
/// are the layouts of scores and sum, which is taken in `Parts` side by side. Each place has three barriers: its products are `scored`; all warps have made weights of them
/// (`weighed`), and have scaled the sum as they have to; what they weigh is `summed`. Every thread has its own copy and is
/// producer, issuer or consumer. `KeysTurned`, `ValuesTurned`: whether k runs along the rows in which they are stored.
template <class S, class O, int Places, bool KeysTurned, bool ValuesTurned, int Parts = 1> struct TensorWalk {
    using E = typename S::Operand;
    static constexpr int groups = S::threads / 128, keys = S::cols, features = Parts * O::cols, rows = 128;
    static constexpr int of_group = Places * keys + features, columns = power_of_two_from(groups * of_group);
    static constexpr int count = groups * Places;
    static constexpr int barriers = 3 * count * 8;  // bytes, and four behind them
    static_assert(columns <= 512, "scores and sums do not fit into tensor memory");
    static_assert(S::rows == groups * rows && O::rows == S::rows, "a warpgroup has 128 rows");

    uint64_t *scored, *weighed, *summed;  // in shared memory, of each group and place
    uint32_t memory;                      // address of the columns
    int steps = 0;                        // that have been scored (issuer), or weighed (consumer)
    int sums = 0;                         // that have been started (issuer)
    bool keep = false;                    // whether a sum goes on (issuer)

    /// All threads of the block call this, once, behind the rings.
    PK_DEVICE explicit TensorWalk(void* place)
        : scored(static_cast<uint64_t*>(place)), weighed(scored + count), summed(weighed + count) {
        auto* address = reinterpret_cast<uint32_t*>(summed + count);
        if (warp() == 0) {
            ptx::tcgen05_alloc<columns>(address);
            ptx::tcgen05_relinquish();
        }
        if (thread() == 0)
            for (int i = 0; i < count; ++i) {
                ptx::barrier_init(scored + i, 1);
                ptx::barrier_init(weighed + i, 4);
                ptx::barrier_init(summed + i, 1);
            }
        ptx::tcgen05_fence_before();
        ready();
        ptx::tcgen05_fence_after();
        memory = *address;
    }

    /// All threads of the block call this at the end.
    PK_DEVICE void close() {
        __syncwarp();  // in the producer's and the issuer's warp one thread has worked alone
        ptx::tcgen05_fence_before();
        __syncthreads();
        ptx::tcgen05_fence_after();
        if (warp() == 0) ptx::tcgen05_dealloc<columns>(memory);
    }

    PK_DEVICE uint32_t scores_at(int group, int place) const { return memory + group * of_group + place * keys; }
    PK_DEVICE uint32_t sum_at(int group) const { return memory + group * of_group + Places * keys; }

    // ---- the issuer: one thread

    /// Waits for the next rows, and starts the scores of their first step.
    template <class Q, class K> PK_DEVICE void begin(Q& query, K& key) {
        query.next();
        key.next();
        for (int group = 0; group < groups; ++group) start_scores(group, query, key);
        ++steps;
        give(key);
        keep = false;
    }

    /// Starts the sum of what the step before weighs, once it does, and the scores of this step. With one place for scores, these
    /// come behind, when the weights in their place have been read, while the other warpgroup goes on; with two, before.
    template <class Q, class K, class V> PK_DEVICE void step(Q& query, K& key, V& value) {
        value.next();
        key.next();
        for (int group = 0; group < groups; ++group) {
            if (Places == 2) start_scores(group, query, key);
            start_sum(group, value);
            if (Places == 1) start_scores(group, query, key);
        }
        ++steps, ++sums;
        give(key);
        give(value);
        keep = true;
    }

    /// The last sum; the rows have been read.
    template <class Q, class V> PK_DEVICE void end(Q& query, V& value) {
        give(query);
        value.next();
        for (int group = 0; group < groups; ++group) start_sum(group, value);
        ++sums;
        give(value);
    }

    /// The issuer's last word: no commit is on its way to this block's barriers when it ends.
    PK_DEVICE void finish() {
        for (int place = 0; place < Places; ++place)
            for (int group = 0; group < groups; ++group)
                ptx::barrier_wait(summed + group * Places + place, ((sums - place + Places - 1) / Places & 1) ^ 1);
    }

    /// The slot goes back when all products that have been started are complete.
    template <class R> PK_DEVICE void give(R& ring) {
        ptx::tcgen05_commit(ring.empty + ring.slot);
        ring.advance();
        ring.held = false;
    }

    /// The producer's last word: all slots have come back, so no commit is on its way to this block's barriers when it ends.
    template <class... Rings> PK_DEVICE void drain(Rings&... rings) { (rings.drain(), ...); }

    template <class Q, class K> PK_DEVICE void start_scores(int group, const Q& query, const K& key) {
        const int place = steps % Places, at = group * Places + place;
        // Products of one thread are ordered where they have one size and one sum (PTX ISA); this one has neither with the one that
        // reads the weights in this place, so it must wait.
        ptx::barrier_wait(summed + at, (steps / Places & 1) ^ 1);
        ptx::tcgen05_fence_after();
        constexpr uint32_t what = instruction<E>(rows, keys, false, !KeysTurned);
        const auto& q = query.slots[query.slot];
        const auto& k = key.slots[key.slot];
#pragma unroll
        for (int i = 0; i < Q::Slot::cols; i += 16)
            ptx::tcgen05_mma<E>(scores_at(group, place), described(q, group * rows, i, true), right<KeysTurned>(k, i), what, i > 0);
        ptx::tcgen05_commit(scored + at);
    }

    template <class V> PK_DEVICE void start_sum(int group, const V& value) {
        const int place = sums % Places, at = group * Places + place;
        ptx::barrier_wait(weighed + at, sums / Places & 1);
        ptx::tcgen05_fence_after();
        constexpr uint32_t what = instruction<E>(rows, features, false, !ValuesTurned);
        const auto& v = value.slots[value.slot];
#pragma unroll
        for (int i = 0; i < keys; i += 16)
            ptx::tcgen05_mma_of_weights<E>(sum_at(group), scores_at(group, place) + i / 2, right<ValuesTurned>(v, i), what,
                                           keep || i > 0);
        ptx::tcgen05_commit(summed + at);
    }

    /// A right operand from k on: `Turned`, where k runs along the columns in which it is stored.
    template <bool Turned, class T> static PK_DEVICE uint64_t right(const T& s, int k) {
        return Turned ? described(s, 0, k, true) : described(s, k, 0, false);
    }

    // ---- consumers: whole warpgroups

    static PK_DEVICE int group() { return warp() / 4; }
    PK_DEVICE int barrier_of(int step) const { return group() * Places + step % Places; }

    /// The next scores, once they are complete.
    PK_DEVICE Tile<float, S> scores() {
        ptx::barrier_wait(scored + barrier_of(steps), steps / Places & 1);
        ptx::tcgen05_fence_after();
        Tile<float, S> x;
        take_from(x, scores_at(group(), steps % Places));
        return x;
    }

    /// The sum times `factor` of each row, which most rows of most steps leave as it is: a warp none of whose rows changes does
    /// nothing. `weigh`, which follows, waits for these stores too, and tells that the sum may go on.
    PK_DEVICE void rescale(const Tile<float, RowOf<O>>& factor) {
        bool changes = false;
#pragma unroll
        for (int i = 0; i < O::row_slots; ++i) changes |= factor.v[i] != 1.0f;
        if (!ptx::any(changes)) return;
        wait_for_sum();
        const uint32_t from = sum_at(group()) + (warp() % 4 << 21);
#pragma unroll
        for (int j = 0; j < Parts * O::col_slots; j += 8) {
            float x[O::row_slots * 8];
#pragma unroll
            for (int i = 0; i < O::row_slots; i += 2) ptx::tcgen05_load(x + i * 8, x + i * 8 + 8, from + j * 4 + (i << 19));
            ptx::tcgen05_wait_load();
#pragma unroll
            for (int i = 0; i < O::row_slots * 8; ++i) {
                ptx::settled(x[i]);
                x[i] *= factor.v[i / 8];
            }
#pragma unroll
            for (int i = 0; i < O::row_slots; i += 2) ptx::tcgen05_store(x + i * 8, x + i * 8 + 8, from + j * 4 + (i << 19));
        }
    }

    /// The weights of this step, in the place of its scores, which all lanes of the warp have taken.
    PK_DEVICE void weigh(const Packed<E, S>& weights) {
        constexpr int words = S::col_slots / 2;  // of a row slot
        const uint32_t to = scores_at(group(), steps % Places) + (warp() % 4 << 21);
#pragma unroll
        for (int i = 0; i < S::row_slots; i += 2)
#pragma unroll
            for (int j = 0; j < words; j += 8) {
                const uint32_t* w0 = weights.words + i * words + j;
                ptx::tcgen05_store(w0, w0 + words, to + j * 4 + (i << 19));
            }
        ptx::tcgen05_wait_store();
        ptx::tcgen05_fence_before();
        __syncwarp();
        if (lane() == 0) ptx::barrier_arrive(weighed + barrier_of(steps));
        ++steps;
    }

    /// The sum, or a part of it, once what the last step weighs is in it. The next rows begin another one behind their first weights.
    PK_DEVICE Tile<float, O> sum(int part = 0) {
        wait_for_sum();
        Tile<float, O> x;
        take_from(x, sum_at(group()) + part * O::cols);
        return x;
    }

    PK_DEVICE void wait_for_sum() {
        const int last = steps - 1;
        ptx::barrier_wait(summed + barrier_of(last), last / Places & 1);
        ptx::tcgen05_fence_after();
    }
};

}  // namespace pk
