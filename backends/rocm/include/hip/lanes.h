// Lanes of a wave: shuffles, votes, and bits.
#pragma once

#include "pk/device.h"

#ifndef PK_CUDA  // whose warps have 32 lanes: cuda_warps.h
static __attribute__((device)) constexpr int warpSize = pk::wave;
#endif

PK_FN int __lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }

namespace pk {

// Values of up to 8 bytes, a word at a time.
template <class T> PK_FN T from_lane(T value, int lane) {
  static_assert(sizeof(T) <= 8, "lanes exchange values of up to 8 bytes");
  constexpr int count = (sizeof(T) + 3) / 4;
  int words[count] = {};
  __builtin_memcpy(words, &value, sizeof value);
  for (int& word : words) word = __builtin_amdgcn_ds_bpermute(lane << 2, word);
  __builtin_memcpy(&value, words, sizeof value);
  return value;
}

}  // namespace pk

template <class T> PK_FN T __shfl(T value, int lane, int width = pk::wave) {
  const int self = __lane_id();
  return pk::from_lane(value, (lane & (width - 1)) | (self & ~(width - 1)));
}
template <class T> PK_FN T __shfl_xor(T value, int mask, int width = pk::wave) {
  const int self = __lane_id(), from = self ^ mask;
  return pk::from_lane(value, (from ^ self) >= width ? self : from);
}
template <class T> PK_FN T __shfl_down(T value, unsigned delta, int width = pk::wave) {
  const int self = __lane_id();
  return pk::from_lane(value, (self & (width - 1)) + int(delta) >= width ? self : self + int(delta));
}
template <class T> PK_FN T __shfl_up(T value, unsigned delta, int width = pk::wave) {
  const int self = __lane_id();
  return pk::from_lane(value, (self & (width - 1)) < int(delta) ? self : self - int(delta));
}

#ifndef PK_CUDA
// With a mask of the lanes that take part, which go together on AMD's hardware in any case.
template <class T> PK_FN T __shfl_sync(unsigned long long, T value, int lane, int width = warpSize) {
  return __shfl(value, lane, width);
}
template <class T> PK_FN T __shfl_xor_sync(unsigned long long, T value, int mask, int width = warpSize) {
  return __shfl_xor(value, mask, width);
}
template <class T> PK_FN T __shfl_down_sync(unsigned long long, T value, unsigned delta, int width = warpSize) {
  return __shfl_down(value, delta, width);
}
template <class T> PK_FN T __shfl_up_sync(unsigned long long, T value, unsigned delta, int width = warpSize) {
  return __shfl_up(value, delta, width);
}
PK_FN void __syncwarp(unsigned long long = ~0ull) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
#endif

PK_FN unsigned long long __ballot(int predicate) {
#if defined(__GFX9__)
  return __builtin_amdgcn_uicmpl(static_cast<unsigned long long>(predicate != 0), 0ull, 33);
#else
  return __builtin_amdgcn_ballot_w32(predicate != 0);
#endif
}
PK_FN int __any(int predicate) { return __ballot(predicate) != 0; }
PK_FN int __all(int predicate) { return __ballot(!predicate) == 0; }
#ifndef PK_CUDA
PK_FN unsigned long long __activemask() { return __ballot(1); }
PK_FN unsigned long long __ballot_sync(unsigned long long mask, int predicate) { return __ballot(predicate) & mask; }
PK_FN int __any_sync(unsigned long long, int predicate) { return __any(predicate); }
PK_FN int __all_sync(unsigned long long, int predicate) { return __all(predicate); }
#endif

PK_FN int __popc(unsigned x) { return __builtin_popcount(x); }
PK_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
PK_FN int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
PK_FN int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
PK_FN int __ffs(int x) { return __builtin_ffs(x); }
PK_FN int __ffsll(unsigned long long x) { return __builtin_ffsll(static_cast<long long>(x)); }
PK_FN unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
PK_FN unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
PK_FN unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32); }
PK_FN int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
PK_FN int __mul24(int a, int b) { return a * b; }
PK_FN unsigned __umul24(unsigned a, unsigned b) { return a * b; }
