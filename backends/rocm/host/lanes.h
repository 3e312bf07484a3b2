// Runs a HIP source on the CPU: every thread of a block is a fiber, and what only a GPU can do is done for a wave at a time.
//
// Included before the source (clang -include), which is then compiled as plain C++ with the macros of the GPU it is meant
// for (__GFX9__, __gfx942__ ...).  Blocks run one after another, and a block's LDS is filled with NaN before it starts.
// Waves run as far as the next barrier, first to last in one block and last to first in the next, so that a missing
// barrier gives wrong results.
//
// The amdgcn builtins below follow AMD's ISA guides: DPP and swizzle patterns ("Data Parallel Processing", "DS_SWIZZLE"),
// and the register layouts of MFMA ("Matrix Arithmetic Instructions") and WMMA ("Wave Matrix Multiply Accumulate").  An
// operation that a wave must do together is an error when some of its lanes do another one, or none.
#pragma once

#if !defined(__x86_64__)
#error "fibers are switched by x86-64 code"
#endif

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define amdgpu_flat_work_group_size(...)
#define __shared__ __attribute__((section("pk_lds"))) static

extern "C" {
void* mmap(void*, unsigned long, int, int, int, long);
void* memset(void*, int, unsigned long);
int snprintf(char*, unsigned long, const char*, ...);
// Defined by the linker where there is LDS at all.
extern char __start_pk_lds[] __attribute__((weak, visibility("hidden")));
extern char __stop_pk_lds[] __attribute__((weak, visibility("hidden")));
}

namespace lanes {

typedef unsigned long u64;

#if defined(__GFX9__)
constexpr int wave_size = 64;
#else
constexpr int wave_size = 32;
#endif

struct Index { unsigned x, y, z; };

// What a lane waits for.  `kind` names the operation, so that lanes of a wave that do different ones are told apart.
enum State { running, at_barrier, in_wave, finished };

struct Lane {
  void* stack;
  State state;
  const char* kind;
  void (*together)(void** operands);
  void* operand;
  Index thread;
  int lane, wave;
  char* fiber;
};

inline Lane* current;
inline Index block_index, block_size, grid_size;
inline void* scheduler_stack;
inline char error[256];
inline bool failed;

// ---- fibers -------------------------------------------------------------------------------------------------------

extern "C" void pk_lanes_switch(void** save, void* to) __attribute__((visibility("hidden")));
asm(R"(
.text
.weak pk_lanes_switch
.hidden pk_lanes_switch
.type pk_lanes_switch,@function
pk_lanes_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size pk_lanes_switch,.-pk_lanes_switch
)");

__attribute__((noinline)) inline void yield(Lane* lane) { pk_lanes_switch(&lane->stack, scheduler_stack); }

__attribute__((noinline)) inline void resume(Lane* lane) {
  current = lane;
  pk_lanes_switch(&scheduler_stack, lane->stack);
}

__attribute__((noinline)) inline void fail(const char* what) {
  if (!failed) {
    snprintf(error, sizeof error, "block (%u, %u, %u), wave %d, lane %d: %s", block_index.x, block_index.y, block_index.z,
             current->wave, current->lane, what);
  }
  failed = true;
}

inline void (*body)(void*);
inline void* body_argument;

inline void entry() {
  body(body_argument);
  current->state = finished;
  yield(current);
  __builtin_trap();
}

constexpr u64 stack_bytes = (128 << 10) + 1088;  // not a power of two: the fibers' frames fall into different cache sets
constexpr int most = 1024;
inline Lane pool[most];

inline void prepare(int count) {
  static char* stacks = static_cast<char*>(mmap(nullptr, stack_bytes * most, 3, 0x4022, -1, 0));
  for (int i = 0; i < count; ++i) {
    Lane& lane = pool[i];
    const unsigned n = static_cast<unsigned>(i);
    lane = Lane{};
    lane.thread = {n % block_size.x, n / block_size.x % block_size.y, n / (block_size.x * block_size.y)};
    lane.lane = i % wave_size;
    lane.wave = i / wave_size;
    void** top = reinterpret_cast<void**>(stacks + stack_bytes * (n + 1) - 64);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(entry);
    for (int k = 0; k < 6; ++k) *--top = nullptr;
    lane.stack = top;
  }
}

// Runs one wave until all its lanes are at a barrier or finished.
inline void run_wave(int first, int last, bool backwards) {
  while (!failed) {
    int waiting = 0, elsewhere = 0;
    for (int q = 0; q < last - first; ++q) {
      Lane& lane = pool[backwards ? last - 1 - q : first + q];
      if (lane.state == running) resume(&lane);
      if (failed) return;
      lane.state == in_wave ? ++waiting : ++elsewhere;
    }
    if (!waiting) return;
    if (last - first != wave_size) {
      current = &pool[first];
      return fail("an operation of the whole wave in a wave that is not full is not modelled");
    }
    void* operands[wave_size];
    for (int i = first; i < last; ++i) {
      current = &pool[i];
      if (elsewhere) return fail("part of the wave takes no part in an operation of the whole wave");
      if (pool[i].kind != pool[first].kind) return fail("lanes of a wave do different operations of the whole wave");
      operands[i - first] = pool[i].operand;
      pool[i].state = running;
    }
    pool[first].together(operands);
  }
}

inline void run_block(int count, bool backwards) {
  if (__start_pk_lds) memset(__start_pk_lds, 0xff, static_cast<u64>(__stop_pk_lds - __start_pk_lds));
  prepare(count);
  const int waves = (count + wave_size - 1) / wave_size;
  while (!failed) {
    int done = 0;
    for (int q = 0; q < waves && !failed; ++q) {
      const int w = backwards ? waves - 1 - q : q;
      const int last = (w + 1) * wave_size;
      run_wave(w * wave_size, last < count ? last : count, backwards);
    }
    for (int i = 0; i < count; ++i) done += pool[i].state == finished;
    if (done == count || failed) return;
    for (int i = 0; i < count; ++i) {
      current = &pool[i];
      if (pool[i].state == finished) return fail("ended while others of its block wait at a barrier");
      pool[i].state = running;
    }
  }
}

template <class Operand> __attribute__((always_inline)) inline void collective(const char* kind, void (*together)(void**), Operand& operand) {
  Lane* lane = current;
  lane->kind = kind;
  lane->together = together;
  lane->operand = &operand;
  lane->state = in_wave;
  asm volatile("" ::: "memory");
  yield(lane);
  asm volatile("" ::: "memory");
}

__attribute__((noinline)) inline void barrier() {
  current->state = at_barrier;
  asm volatile("" ::: "memory");
  yield(current);
  asm volatile("" ::: "memory");
}

// ---- launching ----------------------------------------------------------------------------------------------------

template <unsigned... I> struct Numbers {};
template <unsigned N, unsigned... I> struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I> struct Count<0, I...> { using type = Numbers<I...>; };

template <class... A, unsigned... I> void call(void (*kernel)(A...), void** arguments, Numbers<I...>) {
  kernel(*static_cast<A*>(arguments[I])...);
}

// Runs the blocks first, first + 1, ... below last of a grid; the message is empty where nothing went wrong.
template <class... A>
const char* launch(void (*kernel)(A...), void** arguments, const unsigned* grid, const unsigned* block, u64 first, u64 last) {
  failed = false;
  error[0] = 0;
  auto run = [&] { call(kernel, arguments, typename Count<sizeof...(A)>::type()); };
  body = [](void* f) { (*static_cast<decltype(run)*>(f))(); };
  body_argument = &run;
  grid_size = {grid[0], grid[1], grid[2]};
  block_size = {block[0], block[1], block[2]};
  const int count = static_cast<int>(block[0] * block[1] * block[2]);
  for (u64 n = first; n < last && !failed; ++n) {
    block_index = {static_cast<unsigned>(n % grid[0]), static_cast<unsigned>(n / grid[0] % grid[1]),
                   static_cast<unsigned>(n / grid[0] / grid[1])};
    run_block(count, n % 2 != 0 || last == 1);  // both orders of the waves take their turns
  }
  return error;
}

// ---- exchange between lanes -----------------------------------------------------------------------------------------

struct Exchange {
  int value, source, other;  // source < 0: nothing is there, `other` comes out
};

inline void exchange_all(void** operands) {
  int values[wave_size];
  for (int l = 0; l < wave_size; ++l) values[l] = static_cast<Exchange*>(operands[l])->value;
  for (int l = 0; l < wave_size; ++l) {
    Exchange* e = static_cast<Exchange*>(operands[l]);
    e->value = e->source < 0 ? e->other : values[e->source];
  }
}

inline int exchange(const char* kind, int value, int source, int other = 0) {
  Exchange e{value, source, other};
  collective(kind, exchange_all, e);
  return e.value;
}

inline int dpp(int old, int value, int control, int row_mask, int bank_mask, bool bound) {
  if (row_mask != 0xf || bank_mask != 0xf) { fail("DPP with rows or banks masked off is not modelled"); return 0; }
  const int l = current->lane, row = l & ~15, in = l & 15, n = control & 15;
  int source = -1;
  if (control < 0x100) source = (l & ~3) | (control >> 2 * (l & 3) & 3);               // quad_perm
  else if (control > 0x100 && control < 0x110) source = in + n < 16 ? l + n : -1;       // row_shl
  else if (control > 0x110 && control < 0x120) source = in >= n ? l - n : -1;           // row_shr
  else if (control > 0x120 && control < 0x130) source = row | ((in - n) & 15);          // row_ror
  else if (control == 0x140) source = row | (15 - in);                                  // row_mirror
  else if (control == 0x141) source = (l & ~7) | (7 - (l & 7));                         // row_half_mirror
#if !defined(__GFX9__)
  else if (control >= 0x150 && control < 0x160) source = row | n;                       // row_share
  else if (control >= 0x160 && control < 0x170) source = row | (in ^ n);                // row_xmask
#endif
  else { fail("a DPP pattern that this GPU does not have, or that is not modelled"); return 0; }
  return exchange("DPP", value, source, bound ? 0 : old);
}

inline int swizzle(int value, int pattern) {
  const int l = current->lane;
  const int source = pattern & 0x8000 ? (l & ~3) | (pattern >> 2 * (l & 3) & 3)
                                      : (l & 32) | ((((l & 31) & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
  return exchange("ds_swizzle", value, source);
}

inline int bpermute(int address, int value) { return exchange("ds_bpermute", value, address / 4 % wave_size); }

inline int permlane_x16(int value, unsigned low, unsigned high) {
  const int l = current->lane, in = l & 15;
  const int select = static_cast<int>((in < 8 ? low >> 4 * in : high >> 4 * (in - 8)) & 15);
  return exchange("permlanex16", value, ((l & ~15) ^ 16) | select);
}

inline int first_lane(int value) { return exchange("readfirstlane", value, 0); }

// One bit for each lane that says so.
struct Vote {
  bool says;
  u64 votes;
};

inline void vote_all(void** operands) {
  u64 votes = 0;
  for (int l = 0; l < wave_size; ++l) votes |= u64(static_cast<Vote*>(operands[l])->says) << l;
  for (int l = 0; l < wave_size; ++l) static_cast<Vote*>(operands[l])->votes = votes;
}

inline u64 ballot(bool says) {
  Vote vote{says, 0};
  collective("ballot", vote_all, vote);
  return vote.votes;
}

// The upper half (of every 2 Width lanes) of a changes places with the lower half of b (CDNA 4 ISA guide, V_PERMLANE32_SWAP).
struct Swapped {
  int v[2];
  int operator[](int i) const { return v[i]; }
};

template <int Width> inline Swapped swap_halves(int a, int b) {
  const int l = current->lane, other = l ^ Width;
  const bool upper = (l & Width) != 0;
  const int from_b = exchange("permlane_swap", b, other), from_a = exchange("permlane_swap", a, other);
  return {upper ? from_b : a, upper ? b : from_a};
}

// ---- buffers and transposed reads ---------------------------------------------------------------------------------

struct Buffer {
  const char* start;
  unsigned bytes;

  // Words outside read as zero; the uniform part of an offset counts too (ISA guides, "Range Checking", raw buffers).
  template <class V> V read(unsigned offset, unsigned base) const {
    unsigned words[sizeof(V) / 4] = {};
    for (unsigned i = 0; i < sizeof(V) / 4; ++i) {
      const u64 at = u64(offset) + base + 4 * i;
      if (at + 4 <= bytes) __builtin_memcpy(&words[i], start + at, 4);
    }
    return __builtin_bit_cast(V, words);
  }
};

struct Words4 { unsigned v[4]; };

// Copies to LDS land as soon as they start.
inline void copy_to_lds(const Buffer& from, void* to, unsigned offset, unsigned base) {
  const Words4 words = from.read<Words4>(offset, base);
  __builtin_memcpy(static_cast<char*>(to) + 16 * current->lane, &words, 16);
}

// Each 16 lanes read 4 rows of 16 halves, 4 halves a lane; a lane gets a column (CDNA 4 ISA guide, DS_READ_B64_TR_B16).
struct Transposed { u64 from; short got[4]; };

inline void read_transposed_all(void** operands) {
  short rows[wave_size][4];
  for (int l = 0; l < wave_size; ++l) {
    __builtin_memcpy(rows[l], reinterpret_cast<const void*>(static_cast<Transposed*>(operands[l])->from), 8);
  }
  for (int l = 0; l < wave_size; ++l) {
    for (int j = 0; j < 4; ++j) static_cast<Transposed*>(operands[l])->got[j] = rows[(l & ~15) + 4 * j + (l & 15) / 4][l & 3];
  }
}

inline Transposed read_transposed(u64 from) {
  Transposed t{from, {}};
  collective("ds_read_b64_tr_b16", read_transposed_all, t);
  return t;
}

// ---- matrix instructions ------------------------------------------------------------------------------------------------

typedef float F4 __attribute__((ext_vector_type(4)));
typedef float F8 __attribute__((ext_vector_type(8)));
typedef int I4 __attribute__((ext_vector_type(4)));
typedef int I8 __attribute__((ext_vector_type(8)));
template <int N> using Bytes = signed char __attribute__((ext_vector_type(N)));

template <class T> inline float number(T x) { return static_cast<float>(x); }
inline float number(signed char x) { return x; }
inline float number(short bits) { return __builtin_bit_cast(float, static_cast<unsigned>(static_cast<unsigned short>(bits)) << 16); }  // bf16

template <class V, class D> struct Product { V x, y; D d; };

template <class V> struct Count_of { static constexpr int value = sizeof(V) / sizeof(V{}[0]); };
template <class D> struct Sum_of { using type = float; };
template <> struct Sum_of<I4> { using type = long; };
template <> struct Sum_of<I8> { using type = long; };

// Bytes that are 8-bit floats, with the formats of this GPU: FNUZ on CDNA 3, else OCP's.
template <int Exponent, int Mantissa, int N> struct Floats8 {
  unsigned char v[N];
  float operator[](int i) const {
#if defined(__gfx942__)
    constexpr bool fnuz = true;
#else
    constexpr bool fnuz = false;
#endif
    constexpr int bias = (1 << (Exponent - 1)) - !fnuz;
    const int u = v[i] & 0x7f, e = u >> Mantissa, m = u & ((1 << Mantissa) - 1);
    const bool last = e == (1 << Exponent) - 1;
    if (fnuz ? v[i] == 0x80 : Mantissa == 3 ? u == 0x7f : last && m) return __builtin_nanf("");
    if (!fnuz && Mantissa == 2 && last) return v[i] & 0x80 ? -__builtin_inff() : __builtin_inff();
    const float size = __builtin_ldexpf(static_cast<float>(e ? m | 1 << Mantissa : m), (e ? e : 1) - bias - Mantissa);
    return v[i] & 0x80 ? -size : size;
  }
};
template <int E, int M, int N> struct Count_of<Floats8<E, M, N>> { static constexpr int value = N; };

// Floats of which 10 bits of the mantissa are kept, to nearest even.
struct Xf32 {
  float v[2];
  float operator[](int i) const {
    unsigned bits = __builtin_bit_cast(unsigned, v[i]);
    if ((bits & 0x7f800000) == 0x7f800000) return v[i];
    return __builtin_bit_cast(float, (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
  }
};
template <> struct Count_of<Xf32> { static constexpr int value = 2; };

// d += x y of 16 x 16 x Depth (32 x 32 where a lane has 16 of d).  `Layout` says which depth element j of a lane is, and which row accumulator r.
template <class V, class D, int Depth, class Layout> void multiply_all(void** operands) {
  using P = Product<V, D>;
  constexpr int edge = sizeof(D) == 64 ? 32 : 16;
  float x[edge][Depth], y[Depth][edge];
  constexpr int held = Count_of<V>::value, kept = sizeof(D) / 4;
  for (int l = wave_size - 1; l >= 0; --l) {
    const P* p = static_cast<P*>(operands[l]);
    for (int j = 0; j < held; ++j) {
      const int k = Layout::depth(l, j);
      const float a = number(p->x[j]), b = number(p->y[j]);
      if (Layout::replicated && l < 16) {
        const bool alike = __builtin_bit_cast(unsigned, x[l % edge][k]) == __builtin_bit_cast(unsigned, a) &&
                           __builtin_bit_cast(unsigned, y[k][l % edge]) == __builtin_bit_cast(unsigned, b);
        if (!alike) return fail("WMMA operands differ between the halves of the wave");
      }
      x[l % edge][k] = a;
      y[k][l % edge] = b;
    }
  }
  for (int l = 0; l < wave_size; ++l) {
    P* p = static_cast<P*>(operands[l]);
    for (int r = 0; r < kept; ++r) {
      typename Sum_of<D>::type sum = p->d[r];
      for (int k = 0; k < Depth; ++k) sum += x[Layout::row(l, r)][k] * y[k][l % edge];
      p->d[r] = sum;
    }
  }
}

template <int Depth, class Layout, class V, class D> inline D multiply(const char* kind, V x, V y, D d) {
  Product<V, D> p{x, y, d};
  collective(kind, multiply_all<V, D, Depth, Layout>, p);
  return p.d;
}

// CDNA: a group of 16 lanes holds Each consecutive depths, and four consecutive rows.
template <int Each> struct Mfma {
  static constexpr bool replicated = false;
  static int depth(int lane, int j) { return lane / 16 * Each + j; }
  static int row(int lane, int r) { return lane / 16 * 4 + r; }
};

// CDNA, 32 x 32: each half of the wave holds Each consecutive depths, and every other four rows.
template <int Each> struct Mfma32 {
  static constexpr bool replicated = false;
  static int depth(int lane, int j) { return lane / 32 * Each + j; }
  static int row(int lane, int r) { return r / 4 * 8 + lane / 32 * 4 + r % 4; }
};

struct Wmma11 {  // RDNA 3: every lane holds all depths; accumulators alternate between the halves of the wave
  static constexpr bool replicated = true;
  static int depth(int, int j) { return j; }
  static int row(int lane, int r) { return 2 * r + lane / 16; }
};

struct Wmma12 {  // RDNA 4: depths in groups of four alternate between the halves
  static constexpr bool replicated = false;
  static int depth(int lane, int j) { return (j & 3) + 8 * (j >> 2) + 4 * (lane / 16); }
  static int row(int lane, int r) { return lane / 16 * 8 + r; }
};

template <class T> struct Single { T v; T operator[](int) const { return v; } };

}  // namespace lanes

#define __builtin_amdgcn_workgroup_id_x() (lanes::block_index.x)
#define __builtin_amdgcn_workgroup_id_y() (lanes::block_index.y)
#define __builtin_amdgcn_workgroup_id_z() (lanes::block_index.z)
#define __builtin_amdgcn_workitem_id_x() (lanes::current->thread.x)
#define __builtin_amdgcn_workitem_id_y() (lanes::current->thread.y)
#define __builtin_amdgcn_workitem_id_z() (lanes::current->thread.z)
#define __builtin_amdgcn_fence(...) asm volatile("" ::: "memory")
#define __builtin_amdgcn_s_barrier() lanes::barrier()
#define __builtin_amdgcn_wave_barrier() asm volatile("" ::: "memory")
#define __builtin_amdgcn_sched_barrier(x) asm volatile("" ::: "memory")
#define __builtin_amdgcn_s_setprio(x) ((void)0)
#define __builtin_amdgcn_update_dpp(old, value, control, rows, banks, bound) lanes::dpp(old, value, control, rows, banks, bound)
#define __builtin_amdgcn_ds_swizzle(value, pattern) lanes::swizzle(value, pattern)
#define __builtin_amdgcn_ds_bpermute(address, value) lanes::bpermute(address, value)
#define __builtin_amdgcn_permlanex16(old, value, low, high, inactive, bound) lanes::permlane_x16(value, low, high)

#define __builtin_amdgcn_exp2f(x) __builtin_exp2f(x)
#define __builtin_amdgcn_fmed3f(x, low, high) __builtin_fminf(__builtin_fmaxf(x, low), high)
#define __builtin_amdgcn_ballot_w64(says) lanes::ballot(says)
#define __builtin_amdgcn_readfirstlane(value) lanes::first_lane(value)

#define __amdgpu_buffer_rsrc_t lanes::Buffer
#define __builtin_amdgcn_make_buffer_rsrc(start, stride, bytes, format) \
  lanes::Buffer{static_cast<const char*>(start), static_cast<unsigned>(bytes)}
#define __builtin_amdgcn_raw_buffer_load_b64(buffer, offset, base, hints) (buffer).read<lanes::u64>(offset, base)
#define __builtin_amdgcn_raw_buffer_load_b128(buffer, offset, base, hints) (buffer).read<lanes::Words4>(offset, base)
#define __builtin_amdgcn_raw_ptr_buffer_load_lds(buffer, to, bytes, offset, base, fixed, hints) \
  lanes::copy_to_lds(buffer, to, offset, base)

#if defined(__GFX9__)
#define __builtin_amdgcn_mfma_f32_16x16x4f32(x, y, d, a, b, c) \
  lanes::multiply<4, lanes::Mfma<1>>("mfma 16x16x4 f32", lanes::Single<float>{x}, lanes::Single<float>{y}, d)
#define __builtin_amdgcn_mfma_f32_32x32x2f32(x, y, d, a, b, c) \
  lanes::multiply<2, lanes::Mfma32<1>>("mfma 32x32x2 f32", lanes::Single<float>{x}, lanes::Single<float>{y}, d)
#define __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, d, a, b, c) lanes::multiply<8, lanes::Mfma32<4>>("mfma 32x32x8 f16", x, y, d)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x, y, d, a, b, c) lanes::multiply<8, lanes::Mfma32<4>>("mfma 32x32x8 bf16", x, y, d)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, d, a, b, c) lanes::multiply<16, lanes::Mfma<4>>("mfma 16x16x16 f16", x, y, d)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, d, a, b, c) lanes::multiply<16, lanes::Mfma<4>>("mfma 16x16x16 bf16", x, y, d)
#endif
#if defined(__gfx950__)
#define __builtin_amdgcn_mfma_f32_32x32x16_f16(x, y, d, a, b, c) lanes::multiply<16, lanes::Mfma32<8>>("mfma 32x32x16 f16", x, y, d)
#define __builtin_amdgcn_mfma_f32_32x32x16_bf16(x, y, d, a, b, c) lanes::multiply<16, lanes::Mfma32<8>>("mfma 32x32x16 bf16", x, y, d)
#define __builtin_amdgcn_permlane32_swap(a, b, inactive, bound) lanes::swap_halves<32>(a, b)
#define __builtin_amdgcn_permlane16_swap(a, b, inactive, bound) lanes::swap_halves<16>(a, b)
#define __builtin_amdgcn_mfma_f32_16x16x32_f16(x, y, d, a, b, c) lanes::multiply<32, lanes::Mfma<8>>("mfma 16x16x32 f16", x, y, d)
#define __builtin_amdgcn_mfma_f32_16x16x32_bf16(x, y, d, a, b, c) lanes::multiply<32, lanes::Mfma<8>>("mfma 16x16x32 bf16", x, y, d)
#endif
#define PK_LANES_BYTES(n, x) __builtin_bit_cast(lanes::Bytes<n>, x)
#define PK_LANES_FP8(n, x) __builtin_bit_cast(lanes::Floats8<4 PK_LANES_COMMA 3 PK_LANES_COMMA n>, x)
#define PK_LANES_BF8(n, x) __builtin_bit_cast(lanes::Floats8<5 PK_LANES_COMMA 2 PK_LANES_COMMA n>, x)
#define PK_LANES_COMMA ,
#define __builtin_amdgcn_mfma_i32_16x16x16i8(x, y, d, a, b, c) \
  lanes::multiply<16, lanes::Mfma<4>>("mfma 16x16x16 i8", PK_LANES_BYTES(4, x), PK_LANES_BYTES(4, y), d)
#define __builtin_amdgcn_mfma_i32_16x16x32_i8(x, y, d, a, b, c) \
  lanes::multiply<32, lanes::Mfma<8>>("mfma 16x16x32 i8", PK_LANES_BYTES(8, x), PK_LANES_BYTES(8, y), d)
#define __builtin_amdgcn_mfma_i32_16x16x64_i8(x, y, d, a, b, c) \
  lanes::multiply<64, lanes::Mfma<16>>("mfma 16x16x64 i8", PK_LANES_BYTES(16, x), PK_LANES_BYTES(16, y), d)
#define __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(x, y, d, a, b, c) \
  lanes::multiply<32, lanes::Mfma<8>>("mfma 16x16x32 fp8", PK_LANES_FP8(8, x), PK_LANES_FP8(8, y), d)
#define __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(x, y, d, a, b, c) \
  lanes::multiply<32, lanes::Mfma<8>>("mfma 16x16x32 bf8", PK_LANES_BF8(8, x), PK_LANES_BF8(8, y), d)
#define __builtin_amdgcn_mfma_f32_16x16x8_xf32(x, y, d, a, b, c) \
  lanes::multiply<8, lanes::Mfma<2>>("mfma 16x16x8 xf32", __builtin_bit_cast(lanes::Xf32, x), __builtin_bit_cast(lanes::Xf32, y), d)
#define __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(sx, x, sy, y, d, clamp) \
  lanes::multiply<16, lanes::Wmma11>("wmma i8", PK_LANES_BYTES(16, x), PK_LANES_BYTES(16, y), d)
#define __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(sx, x, sy, y, d, clamp) \
  lanes::multiply<16, lanes::Wmma12>("wmma i8", PK_LANES_BYTES(8, x), PK_LANES_BYTES(8, y), d)
#define __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(x, y, d) \
  lanes::multiply<16, lanes::Wmma12>("wmma fp8", PK_LANES_FP8(8, x), PK_LANES_FP8(8, y), d)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(x, y, d) \
  lanes::multiply<16, lanes::Wmma12>("wmma bf8", PK_LANES_BF8(8, x), PK_LANES_BF8(8, y), d)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, d) lanes::multiply<16, lanes::Wmma11>("wmma f16", x, y, d)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, d) lanes::multiply<16, lanes::Wmma11>("wmma bf16", x, y, d)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, d) lanes::multiply<16, lanes::Wmma12>("wmma f16", x, y, d)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, d) lanes::multiply<16, lanes::Wmma12>("wmma bf16", x, y, d)

// Blocks run one after another and lanes in turns, so plain memory operations are atomic.
#define __HIP_MEMORY_SCOPE_AGENT 4
template <class T, class V> inline T pk_lanes_fetch_add(T* where, V value) { T old = *where; *where = old + value; return old; }
template <class T> inline bool pk_lanes_compare_exchange(T* where, T* expected, T desired) {
  if (__builtin_memcmp(where, expected, sizeof(T)) == 0) { *where = desired; return true; }
  *expected = *where;
  return false;
}
#define __hip_atomic_fetch_add(where, value, order, scope) pk_lanes_fetch_add(where, value)
#define __hip_atomic_compare_exchange_strong(where, expected, desired, a, b, scope) pk_lanes_compare_exchange(where, expected, desired)

// Conversions the compiler calls, which a compiler's run-time library would otherwise bring.
extern "C" __attribute__((weak, visibility("hidden"))) __bf16 __truncsfbf2(float x) {
  unsigned bits = __builtin_bit_cast(unsigned, x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits |= 0x00400000u;
  else bits += 0x7fffu + (bits >> 16 & 1);
  return __builtin_bit_cast(__bf16, static_cast<unsigned short>(bits >> 16));
}
extern "C" __attribute__((weak, visibility("hidden"))) __bf16 __truncdfbf2(double x) {
  // Through float, rounded to odd so that the second rounding is the only one.
  float f = static_cast<float>(x);
  if (static_cast<double>(f) != x && x == x) {
    unsigned bits = __builtin_bit_cast(unsigned, f);
    const double away = static_cast<double>(f);
    if (!(bits & 1)) bits += (away < x) == (x > 0) ? 1u : ~0u;
    f = __builtin_bit_cast(float, bits);
  }
  return __truncsfbf2(f);
}
