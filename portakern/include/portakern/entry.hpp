// From functions on a driver's own types to the table's functions on opaque handles; for drivers written in C++17.
//
// A driver's type says which handle it stands for, `struct Device { using Handle = pk_device_t; ... }`, and lies in the
// driver's namespace: several drivers share one binary, where there can be one definition of a name only. Then
// `table.allocate = entry<allocate>` for `pk_status allocate(Device *, size_t, pk_pointer *)`.
#pragma once

#include <type_traits>

namespace portakern {

// Hands an argument on. `Outside` is the table's type for it.
template <typename T, typename = void>
struct Handed {
    using Outside = T;
    T value;
    operator T() const { return value; }
};

template <typename T>
struct Handed<T *, std::void_t<typename T::Handle>> {
    using Outside = typename T::Handle;
    Outside value;
    operator T *() const { return reinterpret_cast<T *>(value); }
};

// Where a new object is to be put.
template <typename T>
struct Handed<T **, std::void_t<typename T::Handle>> {
    using Outside = typename T::Handle *;
    Outside value;
    T *made = nullptr;
    operator T **() { return &made; }
    ~Handed() {
        if (made != nullptr) *value = reinterpret_cast<typename T::Handle>(made);
    }
};

template <auto Function>
struct Entry;

template <typename Result, typename... Arguments, Result (*Function)(Arguments...)>
struct Entry<Function> {
    static Result call(typename Handed<Arguments>::Outside... arguments) {
        return Function(Handed<Arguments>{arguments}...);
    }
};

template <auto Function>
inline constexpr auto entry = &Entry<Function>::call;

}  // namespace portakern
