// Stores that join what is in memory, as one step among work-groups.
#pragma once
#include <sycl/atomic_ref.hpp>

#include "pk/math.hpp"

namespace pk {

template <class T>
using shared_element =
    sycl::atomic_ref<T, sycl::memory_order::relaxed, sycl::memory_scope::device, sycl::access::address_space::global_space>;

template <class T>
PK_INLINE void atomic_add(T* p, T v) { shared_element<T>(*p).fetch_add(v); }
template <class T>
PK_INLINE void atomic_max(T* p, T v) {
    shared_element<T> x(*p);
    T old = x.load();
    while (!x.compare_exchange_strong(old, pk::max(old, v))) {
    }
}

}  // namespace pk
