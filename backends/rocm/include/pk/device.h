// What a kernel needs of the device: HIP's qualifiers, indices, barriers, lane exchange and the matrix instructions.
//
// Everything that only an AMD GPU can do sits in this file, so that clang compiles a kernel without ROCm installed
// (-nogpuinc -nogpulib), and so that the other headers are plain C++ over it.
#pragma once

#include "pk/types.h"

// Nothing is fused but what is written as fma: a maximum of products and the same products less that maximum must be rounded alike.
#pragma clang fp contract(off)

#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#endif

// CUDA's launch bounds are ignored without a word on AMDGPU; this is the attribute that sizes the register budget.
#undef __launch_bounds__
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(threads, threads)))

#define PK_FN __attribute__((device)) inline __attribute__((always_inline))

// For lambdas that hold registers by reference: called, they would have to be in memory.
#define PK_INLINE __attribute__((always_inline))

namespace pk {

// Word 3 of a raw buffer's descriptor: the data format with which offsets count bytes (ISA guides, "Buffer Resource Descriptor").
#if defined(__GFX9__)
constexpr int buffer_format = 0x00020000;
#else
constexpr int buffer_format = 0x31004000;
#endif

#if defined(__GFX9__)
constexpr int wave = 64;  // CDNA
#else
constexpr int wave = 32;  // RDNA
#endif

// ---- where a thread is ------------------------------------------------------------------------------------------

// Three numbers that are read like fields, as HIP has them.
#define PK_INDEX(name, get_x_, get_y_, get_z_)                                   \
  struct name {                                                                  \
    PK_FN unsigned get_x() const { return get_x_; }                              \
    PK_FN unsigned get_y() const { return get_y_; }                              \
    PK_FN unsigned get_z() const { return get_z_; }                              \
    __declspec(property(get = get_x)) unsigned x;                                \
    __declspec(property(get = get_y)) unsigned y;                                \
    __declspec(property(get = get_z)) unsigned z;                                \
  }

PK_INDEX(BlockIndex, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z());
PK_INDEX(ThreadIndex, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z());

// The thread's number in its (one-dimensional) block.
PK_FN int thread() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }

// The thread's lane in its wave.
PK_FN int lane() { return thread() & (wave - 1); }

// x, of which the compiler knows nothing: what is computed from it is not moved out of a loop and kept in registers.
PK_FN int opaque(int x) {
  asm volatile("" : "+v"(x));
  return x;
}

// a b of integers, a product that no sum is joined with.  To make a v_dot4 of products of 8 bits, compilers before LLVM's change
// 198412 (2026) take apart whatever is added to such a product as if it were a sum too: in a b + min(c d, 100) the minimum.
template <class A, class B> PK_FN auto times(A a, B b) {
  auto product = a * b;
  asm("" : "+v"(product));
  return product;
}

// ---- barriers -----------------------------------------------------------------------------------------------------

// Until what this wave has written to LDS is there.  A fence asks for that too, but LLVM drops its wait from the head of a loop
// where nothing is under way when the loop begins, whatever its steps write (llvm-project, pull request 211684).
PK_FN void written_to_lds() {
#if defined(__GFX12__)
  asm volatile("s_wait_dscnt 0x0" ::: "memory");
#elif defined(__GFX11__)
  __builtin_amdgcn_s_waitcnt(0xfc07);  // lgkmcnt(0)
#else
  __builtin_amdgcn_s_waitcnt(0xc07f);  // lgkmcnt(0)
#endif
}

// All threads of the block; what was written to LDS before is seen after.
PK_FN void sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  written_to_lds();
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// The number of this wave in its block, which the compiler knows to be the same in all lanes.
PK_FN int wave_number() { return __builtin_amdgcn_readfirstlane(thread() / wave); }

// ---- LDS by address, and waits by hand ----------------------------------------------------------------------------
//
// Where copies to LDS are under way (LDS-DMA), the compiler waits for all of them before any read that it sees: reads are
// written as instructions here, and whoever uses what they give says when to wait.

using LdsAddress = uint32_t;
typedef __attribute__((address_space(3))) void LdsVoid;
PK_FN LdsAddress lds_address(const void* p) {
  return static_cast<LdsAddress>(reinterpret_cast<uintptr_t>((const LdsVoid*)p));
}
PK_FN LdsVoid* lds_pointer(LdsAddress at) { return (LdsVoid*)static_cast<uintptr_t>(at); }

template <int Offset> PK_FN void lds_read(i32x4& to, LdsAddress from) {
  asm volatile("ds_read_b128 %0, %1 offset:%2" : "=v"(to) : "v"(from), "n"(Offset));
}

template <class V> PK_FN void lds_write(LdsAddress to, V value) {
  *(__attribute__((address_space(3))) V*)static_cast<uintptr_t>(to) = value;
}

PK_FN void wait_for_lds() { asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory"); }
PK_FN void after_wait(i32x4& x) { asm volatile("" : "+v"(x)); }  // keeps the uses of x behind the wait

// At most N of this wave's copies to LDS are still under way.
template <int N> PK_FN void wait_for_copies() { asm volatile("s_waitcnt vmcnt(%0)" ::"n"(N) : "memory"); }

// Two reads of 4 depths (of 8 bits: 8) x 16 each, `Apart` bytes from each other: a lane gets all depths of one of the 16.
template <int Bits, int Offset, int Apart> PK_FN void lds_read_transposed(i32x4& to, LdsAddress from) {
#if defined(__gfx950__)
  i32x2 low, high;
  if constexpr (Bits == 16) {
    asm volatile("ds_read_b64_tr_b16 %0, %1 offset:%2" : "=v"(low) : "v"(from), "n"(Offset));
    asm volatile("ds_read_b64_tr_b16 %0, %1 offset:%2" : "=v"(high) : "v"(from), "n"(Offset + Apart));
  } else {
    asm volatile("ds_read_b64_tr_b8 %0, %1 offset:%2" : "=v"(low) : "v"(from), "n"(Offset));
    asm volatile("ds_read_b64_tr_b8 %0, %1 offset:%2" : "=v"(high) : "v"(from), "n"(Offset + Apart));
  }
  to.lo = low;
  to.hi = high;
#endif
}

// The same two as the compiler sees them.
template <int Offset> PK_FN i32x4 lds_load(LdsAddress from) {
  return *(const __attribute__((address_space(3))) i32x4*)static_cast<uintptr_t>(from + Offset);
}

template <int Offset, int Apart> PK_FN i32x4 lds_load_transposed(LdsAddress from) {
  i32x4 to = {};
#if defined(__gfx950__)
  using Four = __attribute__((address_space(3))) i16x4;
  to.lo = __builtin_bit_cast(i32x2, __builtin_amdgcn_ds_read_tr16_b64_v4i16((Four*)static_cast<uintptr_t>(from + Offset)));
  to.hi = __builtin_bit_cast(i32x2, __builtin_amdgcn_ds_read_tr16_b64_v4i16((Four*)static_cast<uintptr_t>(from + Offset + Apart)));
#endif
  return to;
}

// A barrier of the block that orders nothing but instructions: reads and copies may be under way across it.
PK_FN void turn() {
  asm volatile("" ::: "memory");
  __builtin_amdgcn_sched_barrier(0);
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_sched_barrier(0);
  asm volatile("" ::: "memory");
}

// ---- exchange between the lanes of a wave -------------------------------------------------------------------------

// The value of lane `lane() ^ Mask`, Mask a power of two.  Inside a row of 16 lanes this is a DPP modifier on a VALU
// instruction; further apart it goes through the LDS crossbar (CDNA) or a lane permute (RDNA).
template <int Mask> PK_FN int shuffle_xor(int value) {
  static_assert(Mask > 0 && Mask < wave && (Mask & (Mask - 1)) == 0, "a single lane bit is flipped");
#if defined(__GFX9__)
  if constexpr (Mask == 1) return __builtin_amdgcn_update_dpp(0, value, 0xB1, 0xf, 0xf, true);   // quad_perm 1,0,3,2
  if constexpr (Mask == 2) return __builtin_amdgcn_update_dpp(0, value, 0x4E, 0xf, 0xf, true);   // quad_perm 2,3,0,1
  if constexpr (Mask == 8) return __builtin_amdgcn_update_dpp(0, value, 0x128, 0xf, 0xf, true);  // row_ror:8
  if constexpr (Mask == 4 || Mask == 16) return __builtin_amdgcn_ds_swizzle(value, (Mask << 10) | 0x1f);
#if defined(__gfx950__)
  // Two registers exchange their halves: of equal ones, one then holds the lower half twice and the other the upper half.
  if constexpr (Mask == 16 || Mask == 32) {
    const auto swapped = Mask == 32 ? __builtin_amdgcn_permlane32_swap(value, value, false, false)
                                    : __builtin_amdgcn_permlane16_swap(value, value, false, false);
    return static_cast<int>(lane() & Mask ? swapped[0] : swapped[1]);
  }
#endif
  if constexpr (Mask == 32) return __builtin_amdgcn_ds_bpermute((lane() ^ 32) << 2, value);
#else
  if constexpr (Mask < 16) return __builtin_amdgcn_update_dpp(0, value, 0x160 | Mask, 0xf, 0xf, true);  // row_xmask
  if constexpr (Mask == 16) return __builtin_amdgcn_permlanex16(value, value, 0x76543210, 0xfedcba98, false, false);
#endif
}

// The value of lane `from` of this wave (of any lane, where there is none).
PK_FN int shuffle(int value, int from) { return __builtin_amdgcn_ds_bpermute(from << 2, value); }

#if defined(__GFX9__)
// One bit for each lane of the wave that says so; the same in all of them.
PK_FN uint64_t ballot(bool says) { return __builtin_amdgcn_ballot_w64(says); }
#endif

// ---- matrix instructions ------------------------------------------------------------------------------------------
//
// All compute a tile d += x y, of 16 x 16 where nothing else is said.  Lane l holds of the accumulator the column l % 16, and
// of it the rows
//   CDNA   4 (l / 16) + r, r = 0..3 (of doubles 4 r + l / 16)
//                                        RDNA 3   2 r + l / 16, r = 0..7      RDNA 4   8 (l / 16) + r, r = 0..7
// and of x the row (of y the column) l % 16, with consecutive k:
//   CDNA   from k / 4 (l / 16) on        RDNA 3   all 16, in both halves      RDNA 4   half of them
// Any order of k is right as long as x and y agree on it.

#if defined(__GFX9__)

template <class Sum, int Edge>
using MatrixAccumulator = choose<same<Sum, int>, i32x4, choose<same<Sum, double>, f64x4, choose<Edge == 32, f32x16, f32x4>>>;

PK_FN f64x4 matrix_step(f64x4 d, f64x4 x, f64x4 y) {
#pragma unroll
  for (int k = 0; k < 4; ++k) d = __builtin_amdgcn_mfma_f64_16x16x4f64(x[k], y[k], d, 0, 0, 0);
  return d;
}

PK_FN f32x4 matrix_step(f32x4 d, f32x4 x, f32x4 y) {  // exact f32: four instructions of depth 4
#pragma unroll
  for (int k = 0; k < 4; ++k) d = __builtin_amdgcn_mfma_f32_16x16x4f32(x[k], y[k], d, 0, 0, 0);
  return d;
}

PK_FN f32x4 matrix_step(f32x4 d, f16x8 x, f16x8 y) {
#if defined(__gfx950__)
  return __builtin_amdgcn_mfma_f32_16x16x32_f16(x, y, d, 0, 0, 0);
#else  // two instructions of depth 16: the first and the second four of every lane's eight
  d = __builtin_amdgcn_mfma_f32_16x16x16f16(x.lo, y.lo, d, 0, 0, 0);
  return __builtin_amdgcn_mfma_f32_16x16x16f16(x.hi, y.hi, d, 0, 0, 0);
#endif
}

PK_FN f32x4 matrix_step(f32x4 d, bf16x8 x, bf16x8 y) {
#if defined(__gfx950__)
  return __builtin_amdgcn_mfma_f32_16x16x32_bf16(x, y, d, 0, 0, 0);
#else
  const i16x8 xs = __builtin_bit_cast(i16x8, x), ys = __builtin_bit_cast(i16x8, y);
  d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(xs.lo, ys.lo, d, 0, 0, 0);
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(xs.hi, ys.hi, d, 0, 0, 0);
#endif
}

// 32 x 32: lane l holds of the accumulator the column l % 32, and of it the rows 8 (r / 4) + 4 (l / 32) + r % 4, r = 0..15; of x
// the row (of y the column) l % 32, eight depths from 8 (l / 32) on.
PK_FN f32x16 matrix_step(f32x16 d, f16x8 x, f16x8 y) {
#if defined(__gfx950__)
  return __builtin_amdgcn_mfma_f32_32x32x16_f16(x, y, d, 0, 0, 0);
#else
  d = __builtin_amdgcn_mfma_f32_32x32x8f16(x.lo, y.lo, d, 0, 0, 0);
  return __builtin_amdgcn_mfma_f32_32x32x8f16(x.hi, y.hi, d, 0, 0, 0);
#endif
}

PK_FN f32x16 matrix_step(f32x16 d, bf16x8 x, bf16x8 y) {
#if defined(__gfx950__)
  return __builtin_amdgcn_mfma_f32_32x32x16_bf16(x, y, d, 0, 0, 0);
#else
  const i16x8 xs = __builtin_bit_cast(i16x8, x), ys = __builtin_bit_cast(i16x8, y);
  d = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(xs.lo, ys.lo, d, 0, 0, 0);
  return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(xs.hi, ys.hi, d, 0, 0, 0);
#endif
}

#elif defined(__GFX12__)

template <class Sum, int> using MatrixAccumulator = choose<same<Sum, int>, i32x8, f32x8>;

PK_FN f32x8 matrix_step(f32x8 d, f16x8 x, f16x8 y) {
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, d);
}

PK_FN f32x8 matrix_step(f32x8 d, bf16x8 x, bf16x8 y) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(i16x8, x), __builtin_bit_cast(i16x8, y), d);
}

#elif defined(__GFX11__)

template <class Sum, int> using MatrixAccumulator = choose<same<Sum, int>, i32x8, f32x8>;

PK_FN f32x8 matrix_step(f32x8 d, f16x16 x, f16x16 y) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, d); }

PK_FN f32x8 matrix_step(f32x8 d, bf16x16 x, bf16x16 y) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(i16x16, x), __builtin_bit_cast(i16x16, y), d);
}

#endif

// ---- atomics on global memory: relaxed, without result ------------------------------------------------------------

template <class T> PK_FN void atomic_add(T* where, T value) {
  __hip_atomic_fetch_add(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

template <class T> PK_FN bool atomic_replace(T* where, T& expected, T desired) {
  return __hip_atomic_compare_exchange_strong(where, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                              __HIP_MEMORY_SCOPE_AGENT);
}

namespace detail {

template <int Bytes> PK_FN char* exactly() {
  __shared__ __attribute__((aligned(16))) char bytes[Bytes];
  return bytes;
}

}  // namespace detail

// LDS that words use in turn for exchanging values between waves; each brackets its use with barriers.  Sizes are rounded up
// so that a kernel holds few of them.
template <int Bytes> PK_FN char* scratch() {
  if constexpr (Bytes <= 1024) return detail::exactly<1024>();
  else if constexpr (Bytes <= 8192) return detail::exactly<8192>();
  else return detail::exactly<Bytes>();
}

}  // namespace pk

static __attribute__((device)) const pk::BlockIndex blockIdx = {};
static __attribute__((device)) const pk::ThreadIndex threadIdx = {};
