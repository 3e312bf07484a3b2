// DriverError of the core as portakern.native.DriverError.
#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace portakern {

namespace {

void set_driver_error(const DriverError &error) {
    const py::object type = py::module_::import("portakern.native").attr("DriverError");
    const py::object made = type(error.kind(), std::string(error.what()));
    PyErr_SetObject(type.ptr(), made.ptr());
}

}  // namespace

void set_python_error(std::exception_ptr error) {
    try {
        std::rethrow_exception(error);
    } catch (const DriverError &found) {
        try {
            set_driver_error(found);
        } catch (py::error_already_set &inner) {
            inner.restore();
        }
    } catch (py::error_already_set &found) {
        found.restore();
    } catch (const std::invalid_argument &found) {
        PyErr_SetString(PyExc_ValueError, found.what());
    } catch (const std::out_of_range &found) {
        PyErr_SetString(PyExc_IndexError, found.what());
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    } catch (const std::exception &found) {
        PyErr_SetString(PyExc_RuntimeError, found.what());
    }
}

}  // namespace portakern
