// Atomic operations on global memory and LDS, relaxed and seen by the whole device, by HIP's names.
#pragma once

#include "pk/device.h"

namespace pk {

template <class T> using decided = choose<true, T, void>;  // by another argument: atomicAdd(&count, 1) adds to an unsigned too

}  // namespace pk

#define PK_ATOMIC(name, operation)                                                                         \
  template <class T> PK_FN T name(T* where, pk::decided<T> value) {                                        \
    return __hip_atomic_##operation(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);             \
  }                                                                                                        \
  template <class T> PK_FN T name##_block(T* where, pk::decided<T> value) {                                \
    return __hip_atomic_##operation(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);         \
  }                                                                                                        \
  template <class T> PK_FN T name##_system(T* where, pk::decided<T> value) {                               \
    return __hip_atomic_##operation(where, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);            \
  }

PK_ATOMIC(atomicAdd, fetch_add)
PK_ATOMIC(atomicSub, fetch_sub)
PK_ATOMIC(atomicAnd, fetch_and)
PK_ATOMIC(atomicOr, fetch_or)
PK_ATOMIC(atomicXor, fetch_xor)
PK_ATOMIC(atomicMax, fetch_max)
PK_ATOMIC(atomicMin, fetch_min)
PK_ATOMIC(atomicExch, exchange)
#undef PK_ATOMIC

template <class T> PK_FN T unsafeAtomicAdd(T* where, pk::decided<T> value) { return atomicAdd(where, value); }

PK_FN unsigned atomicInc(unsigned* where, unsigned limit) {
  return __builtin_amdgcn_atomic_inc32(where, limit, __ATOMIC_RELAXED, "agent");
}
PK_FN unsigned atomicDec(unsigned* where, unsigned limit) {
  return __builtin_amdgcn_atomic_dec32(where, limit, __ATOMIC_RELAXED, "agent");
}

template <class T> PK_FN T atomicCAS(T* where, pk::decided<T> expected, pk::decided<T> desired) {
  T seen = expected;
  __hip_atomic_compare_exchange_strong(where, &seen, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return seen;
}
