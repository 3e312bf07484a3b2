#include "faults/watch.hpp"

#include "bindings/bindings.hpp"

namespace portakern {

void bind_faults(pybind11::module_ &m) {
    namespace py = pybind11;
    m.def(
        "watch_faults",
        [](std::uintptr_t memory, std::size_t bytes, std::uintptr_t report) {
            watch_faults(memory, bytes, reinterpret_cast<std::uint64_t *>(report));
        },
        py::arg("memory"), py::arg("bytes"), py::arg("report"));
}

}  // namespace portakern
