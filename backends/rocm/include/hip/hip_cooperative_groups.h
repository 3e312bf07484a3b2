// Cooperative groups of a block and of parts of its waves; groups of several blocks are not here.
#pragma once

#include "hip/hip_runtime.h"

namespace cooperative_groups {

struct thread_block {
  PK_FN static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  PK_FN static unsigned num_threads() { return size(); }
  PK_FN static unsigned thread_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
  PK_FN static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
  PK_FN static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
  PK_FN static dim3 group_dim() { return {blockDim.x, blockDim.y, blockDim.z}; }
  PK_FN static void sync() { __syncthreads(); }
};

PK_FN thread_block this_thread_block() { return {}; }

// `Size` neighbouring threads, a power of two and at most a wave.
template <unsigned Size, class Parent = thread_block> struct thread_block_tile {
  static_assert(Size <= pk::wave && (Size & (Size - 1)) == 0, "a tile is a power of two of threads, at most a wave");
  PK_FN static constexpr unsigned size() { return Size; }
  PK_FN static constexpr unsigned num_threads() { return Size; }
  PK_FN static unsigned thread_rank() { return thread_block::thread_rank() % Size; }
  PK_FN static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  PK_FN static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
  PK_FN static void sync() { __syncwarp(); }

  template <class T> PK_FN T shfl(T value, int rank) const { return __shfl(value, rank, Size); }
  template <class T> PK_FN T shfl_down(T value, unsigned delta) const { return __shfl_down(value, delta, Size); }
  template <class T> PK_FN T shfl_up(T value, unsigned delta) const { return __shfl_up(value, delta, Size); }
  template <class T> PK_FN T shfl_xor(T value, unsigned mask) const { return __shfl_xor(value, int(mask), Size); }
  PK_FN unsigned long long ballot(int predicate) const { return __ballot(predicate) >> first() & mask(); }
  PK_FN int any(int predicate) const { return ballot(predicate) != 0; }
  PK_FN int all(int predicate) const { return ballot(!predicate) == 0; }

 private:
  PK_FN static unsigned first() { return __lane_id() & ~(Size - 1); }
  PK_FN static unsigned long long mask() { return ~0ull >> (64 - Size); }
};

template <unsigned Size, class Parent> PK_FN thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }

template <class Group> PK_FN void sync(const Group& group) { group.sync(); }

template <class T> struct plus { PK_FN T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { PK_FN T operator()(T a, T b) const { return min(a, b); } };
template <class T> struct greater { PK_FN T operator()(T a, T b) const { return max(a, b); } };

// Over a tile, in all of its threads.
template <class T, unsigned Size, class Parent, class Op>
PK_FN T reduce(const thread_block_tile<Size, Parent>& tile, T value, Op op) {
  for (unsigned mask = Size / 2; mask > 0; mask /= 2) value = op(value, tile.shfl_xor(value, mask));
  return value;
}

}  // namespace cooperative_groups
