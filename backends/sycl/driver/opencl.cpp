// The table of the OpenCL driver.
//
// `path` of probe and open is the loader (libOpenCL) or a vendor's library that has the same functions, as Intel's
// libintelocl does; opening the latter leaves the system's loader alone, which must not be in the process before SYCL
// brings its own. Ordinals count the devices of all platforms of that library.
//
// What is peculiar to it: events are the profiles of the commands around them (EventState), and nothing polls
// (Finisher). There are no graphs, and no word of the device's health.
#include "drivers/registry.hpp"
#include "opencl_device.hpp"
#include "portakern/entry.hpp"

namespace {

namespace cl = portakern::opencl;

pk_driver table() {
    pk_driver t{};
    t.abi = PK_DRIVER_ABI;
    t.struct_size = sizeof(pk_driver);
    t.name = "opencl";
    t.title = "OpenCL (libOpenCL)";
    t.probe = cl::probe;
    t.open = portakern::entry<cl::open>;
    t.close = portakern::entry<cl::close>;
    t.facts = portakern::entry<cl::facts>;
    t.last_error = cl::last_error;
    t.allocate = portakern::entry<cl::allocate>;
    t.free = portakern::entry<cl::free>;
    t.copy_in = portakern::entry<cl::copy_in>;
    t.copy_out = portakern::entry<cl::copy_out>;
    t.copy = portakern::entry<cl::copy>;
    t.fill = portakern::entry<cl::fill>;
    t.load = portakern::entry<cl::load>;
    t.unload = portakern::entry<cl::unload>;
    t.kernel = portakern::entry<cl::kernel>;
    t.launch = portakern::entry<cl::launch>;
    t.stream_create = portakern::entry<cl::stream_create>;
    t.stream_wrap = portakern::entry<cl::stream_wrap>;
    t.stream_destroy = portakern::entry<cl::stream_destroy>;
    t.stream_native = portakern::entry<cl::stream_native>;
    t.synchronize = portakern::entry<cl::synchronize>;
    t.event_create = portakern::entry<cl::event_create>;
    t.event_destroy = portakern::entry<cl::event_destroy>;
    t.event_record = portakern::entry<cl::event_record>;
    t.event_elapsed = portakern::entry<cl::event_elapsed>;
    t.gate_create = portakern::entry<cl::gate_create>;
    t.gate_destroy = portakern::entry<cl::gate_destroy>;
    t.gate_close = portakern::entry<cl::gate_close>;
    t.gate_open = portakern::entry<cl::gate_open>;
    t.flush = portakern::entry<cl::flush>;
    t.launch_empty = portakern::entry<cl::launch_empty>;
    return t;
}

const pk_driver opencl_driver = table();
PK_REGISTER_DRIVER(opencl_driver);

}  // namespace
