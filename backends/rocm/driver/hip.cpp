// The table of the HIP driver. Written from the HIP Runtime API reference; it has met AMD's library without a GPU, and
// a stand-in that records what is called (tests/rocm), but no AMD GPU.
//
// There are no persisting lines to reset.
#include "drivers/registry.hpp"
#include "hip_device.hpp"
#include "portakern/entry.hpp"

namespace {

namespace hip = portakern::hip;

pk_driver table() {
    pk_driver t{};
    t.abi = PK_DRIVER_ABI;
    t.struct_size = sizeof(pk_driver);
    t.name = "hip";
    t.title = "AMD HIP runtime (libamdhip64)";
    t.probe = hip::probe;
    t.open = portakern::entry<hip::open>;
    t.close = portakern::entry<hip::close>;
    t.facts = portakern::entry<hip::facts>;
    t.health = portakern::entry<hip::health>;
    t.last_error = hip::last_error;
    t.allocate = portakern::entry<hip::allocate>;
    t.free = portakern::entry<hip::free>;
    t.copy_in = portakern::entry<hip::copy_in>;
    t.copy_out = portakern::entry<hip::copy_out>;
    t.copy = portakern::entry<hip::copy>;
    t.fill = portakern::entry<hip::fill>;
    t.load = portakern::entry<hip::load>;
    t.unload = portakern::entry<hip::unload>;
    t.kernel = portakern::entry<hip::kernel>;
    t.launch = portakern::entry<hip::launch>;
    t.stream_create = portakern::entry<hip::stream_create>;
    t.stream_wrap = portakern::entry<hip::stream_wrap>;
    t.stream_native = portakern::entry<hip::stream_native>;
    t.stream_destroy = portakern::entry<hip::stream_destroy>;
    t.synchronize = portakern::entry<hip::synchronize>;
    t.event_create = portakern::entry<hip::event_create>;
    t.event_destroy = portakern::entry<hip::event_destroy>;
    t.event_record = portakern::entry<hip::event_record>;
    t.event_elapsed = portakern::entry<hip::event_elapsed>;
    t.gate_create = portakern::entry<hip::gate_create>;
    t.gate_destroy = portakern::entry<hip::gate_destroy>;
    t.gate_close = portakern::entry<hip::gate_close>;
    t.gate_open = portakern::entry<hip::gate_open>;
    t.capture_begin = portakern::entry<hip::capture_begin>;
    t.capture_end = portakern::entry<hip::capture_end>;
    t.graph_launch = portakern::entry<hip::graph_launch>;
    t.graph_destroy = portakern::entry<hip::graph_destroy>;
    t.flush = portakern::entry<hip::flush>;
    t.launch_empty = portakern::entry<hip::launch_empty>;
    return t;
}

const pk_driver hip_driver = table();
PK_REGISTER_DRIVER(hip_driver);

}  // namespace
