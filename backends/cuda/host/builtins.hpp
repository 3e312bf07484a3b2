// Functions of CUDA C++ that texts written by hand use, and generated ones do not.
//
// Threads are fibers of one thread, which change only where they wait: so an atomic is a load and a store. It is watched as
// nobody's access, since atomics do not race with each other; an atomic beside a plain access to the same place is not seen.
// Included at the end of cuda_host.hpp.
#pragma once

namespace host {

/// What lane `from(lane)` gave; a lane's own where that is none of the `width` lanes beside it.
template <class T, class From> T from_lane(T x, int width, From from) {
    const int lane = (threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y) % kLanes;
    const int begin = lane / width * width, wanted = from(lane);
    return __shfl_sync(~0u, x, wanted < begin || wanted >= begin + width ? lane : wanted);
}

template <class T, class Change> __attribute__((no_sanitize("thread"))) T changed(T* at, Change change) {
    const T was = *at;
    *at = change(was);
    return was;
}

}  // namespace host

template <class T> T __shfl_down_sync(unsigned, T x, unsigned by, int width = 32) {
    return host::from_lane(x, width, [=](int lane) { return lane + static_cast<int>(by); });
}
template <class T> T __shfl_up_sync(unsigned, T x, unsigned by, int width = 32) {
    return host::from_lane(x, width, [=](int lane) { return lane - static_cast<int>(by); });
}

namespace host {
template <class To, class From> To bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To found;
    __builtin_memcpy(&found, &x, sizeof found);
    return found;
}
}  // namespace host
inline float __int_as_float(int x) { return host::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return host::bits<float>(x); }
inline int __float_as_int(float x) { return host::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return host::bits<unsigned>(x); }

template <class T> T __ldg(const T* at) { return *at; }

// The second argument is converted to what the first one points to, as a call of CUDA's overloads does.
template <class T> struct Itself { using type = T; };
template <class T> using Given = typename Itself<T>::type;
template <class T> T atomicAdd(T* at, Given<T> x) {
    return host::changed(at, [=](T was) { return was + x; });
}
template <class T> T atomicSub(T* at, Given<T> x) {
    return host::changed(at, [=](T was) { return was - x; });
}
template <class T> T atomicMax(T* at, Given<T> x) {
    return host::changed(at, [=](T was) { return was < x ? x : was; });
}
template <class T> T atomicMin(T* at, Given<T> x) {
    return host::changed(at, [=](T was) { return x < was ? x : was; });
}
template <class T> T atomicAnd(T* at, Given<T> x) {
    return host::changed(at, [=](T was) { return was & x; });
}
template <class T> T atomicOr(T* at, Given<T> x) {
    return host::changed(at, [=](T was) { return was | x; });
}
template <class T> T atomicExch(T* at, Given<T> x) {
    return host::changed(at, [=](T) { return x; });
}
template <class T> T atomicCAS(T* at, Given<T> wanted, Given<T> x) {
    return host::changed(at, [=](T was) { return was == wanted ? x : was; });
}
