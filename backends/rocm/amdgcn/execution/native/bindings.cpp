// The Python face: programs from packed records, launches on host memory.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "fault.hpp"
#include "registry.hpp"
#include "run.hpp"

namespace py = pybind11;

namespace machine {
namespace {

// A program with the memory it lives in.
class Loaded {
  public:
    Loaded(const py::bytes &ops, const py::bytes &constants, const std::vector<uint32_t> &setup,
           std::vector<uint32_t> positions) : positions_(std::move(positions)) {
        const std::string raw = ops, values = constants;
        if (raw.size() % sizeof(Op) || positions_.size() != raw.size() / sizeof(Op) || values.size() % 8 || setup.size() * 4 != sizeof(Setup))
            throw std::invalid_argument("the packed program does not have the form this module was built for");
        ops_.resize(raw.size() / sizeof(Op));
        std::memcpy(static_cast<void *>(ops_.data()), raw.data(), raw.size());
        for (Op &op : ops_) op.run = handlers().at(op.handler).run;
        constants_.resize(values.size() / 8);
        for (size_t n = 0; n < constants_.size(); ++n) {
            uint32_t halves[2];
            std::memcpy(halves, values.data() + n * 8, 8);
            for (int i = 0; i < kLanes; ++i) constants_[n].low[i] = halves[0], constants_[n].high[i] = halves[1];
        }
        std::memcpy(&program_.setup, setup.data(), sizeof(Setup));
        program_.ops = ops_.data();
        program_.count = uint32_t(ops_.size());
        program_.constants = constants_.data();
        for (size_t n = 0; n < positions_.size(); ++n) {
            if (positions_[n] >= found_.size()) found_.resize(positions_[n] + size_t(1), -1);
            found_[positions_[n]] = int32_t(n);
        }
        program_.positions = positions_.data();
        program_.found = found_.data();
        program_.found_count = uint32_t(found_.size());
    }
    Loaded(const Loaded &) = delete;
    Loaded &operator=(const Loaded &) = delete;
    const Program &program() const { return program_; }

  private:
    std::vector<Op> ops_;
    std::vector<Constant> constants_;
    std::vector<uint32_t> positions_;
    std::vector<int32_t> found_;
    Program program_{};
};

using RegionTuple = std::tuple<uint64_t, uint64_t, uint64_t, bool, std::string>;  // begin, end, shadow or 0, writable, name

py::tuple run(const Loaded &loaded, std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block, uint64_t arguments, uint64_t packet,
              const std::vector<RegionTuple> &regions, uint32_t dynamic_shared, uint64_t budget, uint64_t seed, unsigned threads,
              const std::optional<std::vector<uint64_t>> &places, double seconds) {
    Launch launch{};
    launch.program = &loaded.program();
    for (const auto &[begin, end, shadow, writable, name] : regions)
        launch.regions.push_back({begin, end, reinterpret_cast<uint8_t *>(shadow), writable, name});
    launch.arguments = arguments;
    launch.packet = packet;
    std::copy(grid.begin(), grid.end(), launch.grid);
    std::copy(block.begin(), block.end(), launch.block);
    if (uint64_t(block[0]) * block[1] * block[2] > uint64_t(kMaxWaves) * launch.program->setup.lanes)
        throw std::invalid_argument("a workgroup has at most 1024 work-items");
    const uint64_t groups = uint64_t(grid[0]) * grid[1] * grid[2];
    const Some some{places.value_or(std::vector<uint64_t>()), seconds};
    if (std::any_of(some.places.begin(), some.places.end(), [groups](uint64_t index) { return index >= groups; }))
        throw std::invalid_argument("the grid has no such workgroup");
    launch.dynamic_shared = dynamic_shared;
    launch.budget = budget;
    launch.seed = seed;
    Ran ran;
    {
        const py::gil_scoped_release release;
        ran = run_grid(launch, places ? &some : nullptr, threads);
    }
    return py::make_tuple(ran.groups, ran.instructions);
}

}  // namespace
}  // namespace machine

PYBIND11_MODULE(_machine, m) {
    using namespace machine;
    m.doc() = "Executes decoded AMD machine code.";
    static py::exception<Fault> fault_type(m, "Fault");
    py::register_exception_translator([](std::exception_ptr p) {
        try {
            if (p) std::rethrow_exception(p);
        } catch (const Fault &f) {
            const py::tuple group = py::make_tuple(f.group[0], f.group[1], f.group[2]);
            const py::tuple value = py::make_tuple(f.kind, f.message, f.op, group, f.wave, f.lane, f.cause, f.because);
            PyErr_SetObject(fault_type.ptr(), value.ptr());
        }
    });
    m.attr("CODE") = kCode;
    m.attr("HERE") = kHere;
    m.attr("OP_BYTES") = sizeof(Op);
    m.attr("SETUP_WORDS") = sizeof(Setup) / 4;
    m.def("variant", &variant, "Which variant of the vector code this processor runs.");
    m.def("handlers", [] {
        std::vector<std::string> names;
        for (const Named &h : handlers()) names.push_back(h.name);
        return names;
    });
    py::class_<Loaded>(m, "Program").def(py::init<py::bytes, py::bytes, std::vector<uint32_t>, std::vector<uint32_t>>());
    m.def("run", &run, py::arg("program"), py::arg("grid"), py::arg("block"), py::arg("arguments"), py::arg("packet"), py::arg("regions"),
          py::arg("dynamic_shared"), py::arg("budget"), py::arg("seed"), py::arg("threads"),
          py::arg("places") = py::none(), py::arg("seconds") = 0.0,
          "Runs a grid, or the first of some workgroups of it, by their places, until the seconds have passed; returns how many ran, and "
          "the wave instructions executed. Raises Fault(kind, message, op, group, wave, lane).");
}
