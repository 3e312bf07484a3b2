// Where arrays of other libraries lie, faster than their own Python attributes tell.
#include <cstdint>

#include "bindings/bindings.hpp"

namespace portakern {

namespace {

// What the capsule in `__array_struct__` points at: "The array interface protocol", version 3, in NumPy's reference.
struct ArrayInterface {
    int two;
    int dimensions;
    char kind;
    int item_bytes;
    int flags;
    Py_intptr_t *shape;
    Py_intptr_t *strides;
    void *data;
    PyObject *description;
};

std::uintptr_t array_address(const pybind11::handle &array) {
    static PyObject *const name = PyUnicode_InternFromString("__array_struct__");
    const auto capsule = pybind11::reinterpret_steal<pybind11::object>(PyObject_GetAttr(array.ptr(), name));
    if (!capsule) throw pybind11::error_already_set();
    const auto *told = static_cast<const ArrayInterface *>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
    if (told == nullptr) throw pybind11::error_already_set();
    if (told->two != 2) throw pybind11::type_error("__array_struct__ is not what the array interface protocol says");
    return reinterpret_cast<std::uintptr_t>(told->data);
}

}  // namespace

void bind_arrays(pybind11::module_ &m) {
    m.def("array_address", &array_address, pybind11::arg("array"), pybind11::pos_only());
}

}  // namespace portakern
