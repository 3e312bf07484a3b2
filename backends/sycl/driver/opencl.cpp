// The table of the OpenCL driver.
//
// `path` of probe and open is the loader (libOpenCL) or a vendor's library that has the same functions, as Intel's
// libintelocl does; opening the latter leaves the system's loader alone, which must not be in the process before SYCL
// brings its own. Ordinals count the devices of all platforms of that library.
//
// What is peculiar to it: events are the profiles of the commands around them (pk_event), and nothing polls (Finisher).
// There are no graphs, and no word of the device's health.
#include "drivers/registry.hpp"
#include "opencl_device.hpp"

namespace {

namespace cl = portakern::opencl;

pk_driver table() {
    pk_driver t{};
    t.abi = PK_DRIVER_ABI;
    t.struct_size = sizeof(pk_driver);
    t.name = "opencl";
    t.title = "OpenCL (libOpenCL)";
    t.probe = cl::probe;
    t.open = cl::open;
    t.close = cl::close;
    t.facts = cl::facts;
    t.last_error = cl::last_error;
    t.allocate = cl::allocate;
    t.free = cl::free;
    t.copy_in = cl::copy_in;
    t.copy_out = cl::copy_out;
    t.copy = cl::copy;
    t.fill = cl::fill;
    t.load = cl::load;
    t.unload = cl::unload;
    t.kernel = cl::kernel;
    t.launch = cl::launch;
    t.stream_create = cl::stream_create;
    t.stream_wrap = cl::stream_wrap;
    t.stream_destroy = cl::stream_destroy;
    t.stream_native = cl::stream_native;
    t.synchronize = cl::synchronize;
    t.event_create = cl::event_create;
    t.event_destroy = cl::event_destroy;
    t.event_record = cl::event_record;
    t.event_elapsed = cl::event_elapsed;
    t.gate_create = cl::gate_create;
    t.gate_destroy = cl::gate_destroy;
    t.gate_close = cl::gate_close;
    t.gate_open = cl::gate_open;
    t.flush = cl::flush;
    t.launch_empty = cl::launch_empty;
    return t;
}

const pk_driver opencl_driver = table();
PK_REGISTER_DRIVER(opencl_driver);

}  // namespace
