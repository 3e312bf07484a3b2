// The table of the HIP driver. Written from the HIP Runtime API reference; it has met AMD's library without a GPU, and a
// stand-in that records what is called (tests/rocm), but no AMD GPU.
//
// There are no persisting lines to reset.
#include "drivers/registry.hpp"
#include "hip_device.hpp"

namespace {

namespace hip = portakern::hip;

pk_driver table() {
    pk_driver t{};
    t.abi = PK_DRIVER_ABI;
    t.struct_size = sizeof(pk_driver);
    t.name = "hip";
    t.title = "AMD HIP runtime (libamdhip64)";
    t.probe = hip::probe;
    t.open = hip::open;
    t.close = hip::close;
    t.facts = hip::facts;
    t.health = hip::health;
    t.last_error = hip::last_error;
    t.allocate = hip::allocate;
    t.free = hip::free;
    t.copy_in = hip::copy_in;
    t.copy_out = hip::copy_out;
    t.copy = hip::copy;
    t.fill = hip::fill;
    t.load = hip::load;
    t.unload = hip::unload;
    t.kernel = hip::kernel;
    t.launch = hip::launch;
    t.stream_create = hip::stream_create;
    t.stream_wrap = hip::stream_wrap;
    t.stream_native = hip::stream_native;
    t.stream_destroy = hip::stream_destroy;
    t.synchronize = hip::synchronize;
    t.event_create = hip::event_create;
    t.event_destroy = hip::event_destroy;
    t.event_record = hip::event_record;
    t.event_elapsed = hip::event_elapsed;
    t.gate_create = hip::gate_create;
    t.gate_destroy = hip::gate_destroy;
    t.gate_close = hip::gate_close;
    t.gate_open = hip::gate_open;
    t.capture_begin = hip::capture_begin;
    t.capture_end = hip::capture_end;
    t.graph_launch = hip::graph_launch;
    t.graph_destroy = hip::graph_destroy;
    t.flush = hip::flush;
    t.launch_empty = hip::launch_empty;
    return t;
}

const pk_driver hip_driver = table();
PK_REGISTER_DRIVER(hip_driver);

}  // namespace
