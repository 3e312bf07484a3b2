// portakern._native: only bindings; what they bind lies in the folders beside this file.
#include "bindings/bindings.hpp"

PYBIND11_MODULE(_native, m) {
    m.doc() = "Native core of portakern; use it through portakern.native.";
    portakern::bind_clock(m);
    portakern::bind_drivers(m);
    portakern::bind_device(m);
    portakern::bind_timing(m);
    portakern::bind_arrays(m);
    portakern::bind_faults(m);
}
