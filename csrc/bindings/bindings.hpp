// What the files of this folder offer to module.cpp.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <memory>
#include <vector>

#include "device/call.hpp"
#include "device/device.hpp"

namespace portakern {

// A call as Python sees it, with the objects that are to live as long.
struct PyCall {
    PyCall(const std::shared_ptr<Device> &device, std::vector<StepSpec> steps) : call(device, std::move(steps)) {}

    Call call;
    std::vector<pybind11::object> kept;
};

// Sets the Python error for an exception of ours, DriverError included.
void set_python_error(std::exception_ptr error);

pybind11::object facts_object(const pk_facts &facts);
pybind11::object health_object(const pk_health &health);

void bind_clock(pybind11::module_ &m);
void bind_drivers(pybind11::module_ &m);
void bind_device(pybind11::module_ &m);
void bind_timing(pybind11::module_ &m);
void bind_arrays(pybind11::module_ &m);
void bind_faults(pybind11::module_ &m);

}  // namespace portakern
