// Warps of 32 threads, whatever the wave.
#pragma once

#define warpSize 32

namespace pk {

// The lanes of the wave that are this thread's warp, as bits 0 to 31.
PK_FN unsigned of_my_warp(unsigned long long lanes) {
  if constexpr (pk::wave == 64) return static_cast<unsigned>(lanes >> (__lane_id() & 32));
  else return static_cast<unsigned>(lanes);
}

}  // namespace pk

template <class T> PK_FN T __shfl_sync(unsigned, T value, int lane, int width = 32) { return __shfl(value, lane, width); }
template <class T> PK_FN T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) { return __shfl_xor(value, mask, width); }
template <class T> PK_FN T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32) {
  return __shfl_down(value, delta, width);
}
template <class T> PK_FN T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32) {
  return __shfl_up(value, delta, width);
}

PK_FN unsigned __ballot_sync(unsigned mask, int predicate) { return pk::of_my_warp(__ballot(predicate)) & mask; }
PK_FN unsigned __activemask() { return pk::of_my_warp(__ballot(1)); }
PK_FN int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
PK_FN int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

// The lanes of the warp that have the same value; each of them asks for every other one's.
template <class T> PK_FN unsigned __match_any_sync(unsigned mask, T value) {
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane) same |= unsigned(__shfl(value, lane, 32) == value) << lane;
  return same & mask;
}

#define PK_REDUCE(name, type, expression)                                         \
  PK_FN type __reduce_##name##_sync(unsigned mask, type value) {                  \
    type all = value;                                                             \
    bool first = true;                                                            \
    for (int lane = 0; lane < 32; ++lane) {                                       \
      const type a = all, b = __shfl(value, lane, 32);                            \
      if (mask >> lane & 1) all = first ? b : (expression), first = false;        \
    }                                                                             \
    return all;                                                                   \
  }
PK_REDUCE(add, unsigned, a + b)
PK_REDUCE(add, int, a + b)
PK_REDUCE(min, unsigned, a < b ? a : b)
PK_REDUCE(min, int, a < b ? a : b)
PK_REDUCE(max, unsigned, a > b ? a : b)
PK_REDUCE(max, int, a > b ? a : b)
PK_REDUCE(and, unsigned, a & b)
PK_REDUCE(or, unsigned, a | b)
PK_REDUCE(xor, unsigned, a ^ b)
#undef PK_REDUCE

PK_FN void __syncwarp(unsigned = 0xffffffffu) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// Votes of a block, through LDS.
PK_FN int __syncthreads_count(int predicate) {
  static __attribute__((shared)) int votes;
  __syncthreads();
  votes = 0;
  __syncthreads();
  if (predicate) atomicAdd(&votes, 1);
  __syncthreads();
  return votes;
}
PK_FN int __syncthreads_or(int predicate) { return __syncthreads_count(predicate != 0) != 0; }
PK_FN int __syncthreads_and(int predicate) { return __syncthreads_count(predicate == 0) == 0; }
