// Device, Module, Kernel, Stream and Call. A call of a Call costs tens of nanoseconds beside the driver's launch: its
// type's slots are filled in by hand instead of going through pybind11's dispatch.
#include "bindings/bindings.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace py = pybind11;

namespace portakern {

namespace {

// ---- facts and health: 0, -1 and "" of the C structures are None

template <typename T>
py::object known(T value, T unknown) {
    return value == unknown ? py::object(py::none()) : py::cast(value);
}

py::object known(const char *text) { return text[0] == '\0' ? py::object(py::none()) : py::str(text); }

}  // namespace

py::object facts_object(const pk_facts &f) {
    using namespace py::literals;
    return py::module_::import("portakern.native").attr("DeviceFacts")(
        "name"_a = py::str(f.name), "arch"_a = known(f.arch), "version"_a = known(f.version), "uuid"_a = known(f.uuid),
        "ordinal"_a = f.ordinal, "units"_a = known(f.units, 0), "clock_khz"_a = known(f.clock_khz, 0),
        "memory_clock_khz"_a = known(f.memory_clock_khz, 0), "bus_bits"_a = known(f.bus_bits, 0),
        "shared_bytes"_a = known(f.shared_bytes, 0), "memory_bytes"_a = known<std::int64_t>(f.memory_bytes, 0),
        "cache_bytes"_a = known<std::int64_t>(f.cache_bytes, 0),
        "persisting_bytes"_a = known<std::int64_t>(f.persisting_bytes, 0), "timer_ns"_a = known<std::int64_t>(f.timer_ns, 0),
        "flush_bytes"_a = known<std::int64_t>(f.flush_bytes, 0), "empty_kernel_ns"_a = known(f.empty_kernel_ns, 0.0),
        "blocking"_a = f.blocking != 0, "host_memory"_a = f.host_memory != 0);
}

py::object health_object(const pk_health &h) {
    using namespace py::literals;
    return py::module_::import("portakern.native").attr("DeviceHealth")(
        "clock_mhz"_a = known(h.clock_mhz, -1), "memory_clock_mhz"_a = known(h.memory_clock_mhz, -1),
        "temperature_c"_a = known(h.temperature_c, -1), "power_mw"_a = known(h.power_mw, -1),
        "throttled"_a = h.throttled < 0 ? py::object(py::none()) : py::bool_(h.throttled != 0), "reason"_a = known(h.reason));
}

namespace {

// ---- the call

PyCall &call_of(PyObject *self) {
    // What pybind11's cast comes to for a final class with one base.
    return *static_cast<PyCall *>(reinterpret_cast<py::detail::instance *>(self)->simple_value_holder[0]);
}

// An address or a stream's handle: a Python integer, or None for 0.
bool read_integer(PyObject *object, std::uint64_t *out) {
    if (object == Py_None) {
        *out = 0;
        return true;
    }
    *out = PyLong_AsUnsignedLongLong(object);
    return *out != static_cast<std::uint64_t>(-1) || PyErr_Occurred() == nullptr;
}

bool read_stream(PyObject *object, std::uint64_t *out) {
    if (object == nullptr || PyLong_Check(object) || object == Py_None) return object == nullptr ? (*out = 0, true) : read_integer(object, out);
    *out = py::handle(object).cast<const Stream &>().native();
    return true;
}

// The new pointers, one per slot; false with a Python error otherwise.
bool read_pointers(const Call &call, PyObject *sequence, std::vector<std::uint64_t> &out) {
    const py::object fast = py::reinterpret_steal<py::object>(PySequence_Fast(sequence, "pointers are a sequence of addresses"));
    if (!fast) return false;
    const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
    if (count != call.pointer_count()) {
        PyErr_Format(PyExc_ValueError, "the call has %zu pointers, %zu were given", call.pointer_count(), count);
        return false;
    }
    PyObject **items = PySequence_Fast_ITEMS(fast.ptr());
    out.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (!read_integer(items[i], &out[i])) return false;
    }
    return true;
}

void run(Call &call, std::uint64_t native, const std::vector<std::uint64_t> *pointers) {
    const auto queue = [&](pk_stream_t stream) {
        if (pointers != nullptr) {
            for (std::size_t i = 0; i < pointers->size(); ++i) call.rebind(i, (*pointers)[i]);
        }
        return call.repeat(stream);
    };
    const pk_stream_t stream = call.stream(native);
    pk_status status = PK_OK;
    if (call.blocking()) {
        const py::gil_scoped_release released;
        const std::lock_guard<std::mutex> locked(call.mutex());
        status = queue(stream);
        if (status != PK_OK) call.device()->throw_status(status, call.failed());
    } else {
        status = queue(stream);
        if (status != PK_OK) call.device()->throw_status(status, call.failed());
    }
}

// call(stream=0, pointers=None)
PyObject *call_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *stream = nullptr, *pointers = nullptr;
    if (kwargs == nullptr && PyTuple_GET_SIZE(args) <= 2) {
        if (PyTuple_GET_SIZE(args) > 0) stream = PyTuple_GET_ITEM(args, 0);
        if (PyTuple_GET_SIZE(args) > 1) pointers = PyTuple_GET_ITEM(args, 1);
    } else {
        static const char *names[] = {"stream", "pointers", nullptr};
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:Call", const_cast<char **>(names), &stream, &pointers)) return nullptr;
    }
    try {
        Call &call = call_of(self).call;
        std::uint64_t native = 0;
        if (!read_stream(stream, &native)) return nullptr;
        if (pointers == nullptr || pointers == Py_None) {
            run(call, native, nullptr);
        } else {
            std::vector<std::uint64_t> found;
            if (!read_pointers(call, pointers, found)) return nullptr;
            run(call, native, &found);
        }
    } catch (...) {
        set_python_error(std::current_exception());
        return nullptr;
    }
    Py_RETURN_NONE;
}

int traverse_call(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (!py::detail::is_holder_constructed(self)) return 0;
    for (const py::object &kept : call_of(self).kept) Py_VISIT(kept.ptr());
    return 0;
}

int clear_call(PyObject *self) {
    if (py::detail::is_holder_constructed(self)) std::vector<py::object>().swap(call_of(self).kept);
    return 0;
}

void set_up_call_type(PyHeapTypeObject *heap) {
    PyTypeObject &type = heap->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = traverse_call;
    type.tp_clear = clear_call;
    type.tp_call = call_call;
}

// ---- from portakern.native's LaunchSpec, CopySpec and FillSpec

using Three = std::array<std::uint32_t, 3>;

LaunchSpec launch_spec(const py::handle &spec) {
    LaunchSpec found;
    found.kernel = spec.attr("kernel").cast<std::shared_ptr<Kernel>>();
    found.grid = spec.attr("grid").cast<Three>();
    found.block = spec.attr("block").cast<Three>();
    found.cluster = spec.attr("cluster").cast<Three>();
    found.shared_bytes = spec.attr("shared_bytes").cast<std::uint32_t>();
    found.attributes = spec.attr("attributes").cast<std::uint32_t>();
    for (const py::handle arg : spec.attr("args")) {
        found.args.push_back({arg.attr("data").cast<std::string>(), arg.attr("kind").cast<std::uint32_t>()});
    }
    return found;
}

StepSpec step_spec(const py::handle &spec) {
    if (py::hasattr(spec, "kernel")) return launch_spec(spec);
    const auto to = spec.attr("to").cast<std::uint64_t>();
    const auto bytes = spec.attr("bytes").cast<std::size_t>();
    if (py::hasattr(spec, "from_")) return CopySpec{to, spec.attr("from_").cast<std::uint64_t>(), bytes};
    return FillSpec{to, spec.attr("byte").cast<std::uint8_t>(), bytes};
}

std::shared_ptr<PyCall> make_call(const std::shared_ptr<Device> &device, const py::iterable &steps) {
    std::vector<StepSpec> found;
    for (const py::handle step : steps) found.push_back(step_spec(step));
    return std::make_shared<PyCall>(device, std::move(found));
}

// ---- the device

pk_stream_t stream_or_default(Device &device, const py::object &stream) {
    std::uint64_t native = 0;
    if (!read_stream(stream.ptr(), &native)) throw py::error_already_set();
    return device.wrapped(native);
}

void synchronize(Device &device, const std::optional<double> &timeout_s, const py::object &stream) {
    const pk_stream_t waited = stream.is_none() ? nullptr : stream_or_default(device, stream);
    const std::int64_t timeout = timeout_s ? static_cast<std::int64_t>(std::llround(*timeout_s * 1e9)) : -1;
    const py::gil_scoped_release released;
    device.synchronize(waited, timeout);
}

void copy_in(Device &device, pk_pointer to, std::uintptr_t from, std::size_t bytes) {
    const py::gil_scoped_release released;
    device.call<&pk_driver::copy_in>("copy_in", to, reinterpret_cast<const void *>(from), bytes);
}

void copy_out(Device &device, std::uintptr_t to, pk_pointer from, std::size_t bytes) {
    const py::gil_scoped_release released;
    device.call<&pk_driver::copy_out>("copy_out", reinterpret_cast<void *>(to), from, bytes);
}

pk_pointer allocate(Device &device, std::size_t bytes) {
    pk_pointer pointer = 0;
    device.call<&pk_driver::allocate>("allocate", bytes, &pointer);
    return pointer;
}

void free_memory(Device &device, pk_pointer pointer) {
    if (device.stuck()) return;  // would wait for ever; the memory goes with the process
    device.call<&pk_driver::free>("free", pointer);
}

void bind_call(py::module_ &m) {
    py::class_<PyCall, std::shared_ptr<PyCall>>(m, "Call", py::is_final(), py::custom_type_setup(set_up_call_type))
        .def_property_readonly("device", [](const PyCall &self) { return self.call.device(); })
        .def_property_readonly("pointer_count", [](const PyCall &self) { return self.call.pointer_count(); })
        .def_property_readonly("pointers",
                               [](const PyCall &self) {
                                   py::list found;
                                   for (std::size_t i = 0; i < self.call.pointer_count(); ++i) found.append(self.call.pointer(i));
                                   return found;
                               })
        .def("__len__", [](const PyCall &self) { return self.call.step_count(); })
        .def("rebind",
             [](PyCall &self, const std::vector<std::pair<std::size_t, std::uint64_t>> &pairs) {
                 const std::lock_guard<std::mutex> locked(self.call.mutex());
                 for (const auto &[slot, address] : pairs) {
                     if (slot >= self.call.pointer_count()) throw std::out_of_range("no pointer has slot " + std::to_string(slot));
                 }
                 for (const auto &[slot, address] : pairs) self.call.rebind(slot, address);
             })
        .def("keep", [](PyCall &self, const py::args &objects) {
            for (const py::handle object : objects) self.kept.push_back(py::reinterpret_borrow<py::object>(object));
        });
}

// Dims outermost first and strides in elements of `size` bytes, as Python has them, turned into the table's.
py::bytes tensor_map(Device &self, pk_pointer address, const std::string &dtype, std::uint32_t size, std::vector<std::uint64_t> shape,
                     std::vector<std::uint64_t> strides, std::vector<std::uint32_t> box, std::uint32_t swizzle,
                     std::vector<std::int32_t> lower, std::vector<std::int32_t> upper, std::vector<std::uint32_t> steps) {
    if (shape.empty() || strides.size() != shape.size() || box.size() != shape.size()) {
        throw std::invalid_argument("shape, strides and box of a tensor map have one number per dim");
    }
    if (strides.back() != 1) throw std::invalid_argument("the last dim's elements lie side by side in a tensor map");
    const std::size_t corners = lower.size();
    if (upper.size() != corners || steps.size() != corners || (corners > 0 && corners + 2 != shape.size())) {
        throw std::invalid_argument("corners and steps of a tensor map have one number per dim between the first and the last");
    }
    strides.pop_back();
    for (std::uint64_t &stride : strides) stride *= size;
    std::reverse(shape.begin(), shape.end());
    std::reverse(strides.begin(), strides.end());
    std::reverse(box.begin(), box.end());
    std::reverse(lower.begin(), lower.end());
    std::reverse(upper.begin(), upper.end());
    std::reverse(steps.begin(), steps.end());
    const pk_tensor_map what{address, dtype.c_str(), static_cast<std::uint32_t>(shape.size()), swizzle,
                             shape.data(), strides.data(), box.data(), corners > 0 ? lower.data() : nullptr,
                             corners > 0 ? upper.data() : nullptr, corners > 0 ? steps.data() : nullptr};
    char map[128];
    self.call<&pk_driver::tensor_map>("tensor_map", &what, static_cast<void *>(map));
    return {map, sizeof map};
}

}  // namespace

void bind_device(py::module_ &m) {
    py::register_exception_translator([](std::exception_ptr error) {
        try {
            std::rethrow_exception(error);
        } catch (const DriverError &) {
            set_python_error(error);
        }
    });
    py::class_<Stream, std::shared_ptr<Stream>>(m, "Stream").def_property_readonly("handle", &Stream::native);
    py::class_<Kernel, std::shared_ptr<Kernel>>(m, "Kernel").def_property_readonly("name", &Kernel::name);
    py::class_<Module, std::shared_ptr<Module>>(m, "Module")
        .def(
            "kernel",
            [](const std::shared_ptr<Module> &self, const std::string &name, std::uint32_t shared_bytes) {
                return std::make_shared<Kernel>(self, name, shared_bytes);
            },
            py::arg("name"), py::arg("shared_bytes") = 0);
    bind_call(m);
    py::class_<Device, std::shared_ptr<Device>>(m, "Device")
        .def_property_readonly("driver", &Device::driver)
        .def_property_readonly("ordinal", &Device::ordinal)
        .def_property_readonly("facts", [](const Device &self) { return facts_object(self.facts()); })
        .def("health", [](Device &self) { return health_object(self.health()); })
        .def("allocate", &allocate, py::arg("n"))
        .def("free", &free_memory, py::arg("p"))
        .def("copy_in", &copy_in, py::arg("p"), py::arg("host_address"), py::arg("n"))
        .def("copy_out", &copy_out, py::arg("host_address"), py::arg("p"), py::arg("n"))
        .def(
            "copy",
            [](Device &self, pk_pointer to, pk_pointer from, std::size_t n, const py::object &stream) {
                self.call<&pk_driver::copy>("copy", stream_or_default(self, stream), to, from, n);
            },
            py::arg("to"), py::arg("from_"), py::arg("n"), py::arg("stream") = 0)
        .def(
            "fill",
            [](Device &self, pk_pointer to, std::uint8_t byte, std::size_t n, const py::object &stream) {
                self.call<&pk_driver::fill>("fill", stream_or_default(self, stream), to, byte, n);
            },
            py::arg("p"), py::arg("byte"), py::arg("n"), py::arg("stream") = 0)
        .def(
            "load",
            [](const std::shared_ptr<Device> &self, const py::bytes &binary) {
                const std::string_view data(binary);
                const py::gil_scoped_release released;
                return std::make_shared<Module>(self, data.data(), data.size());
            },
            py::arg("binary"))
        .def("tensor_map", &tensor_map, py::arg("address"), py::arg("dtype"), py::arg("itemsize"), py::arg("shape"), py::arg("strides"),
             py::arg("box"), py::arg("swizzle") = 0, py::arg("lower") = std::vector<std::int32_t>(),
             py::arg("upper") = std::vector<std::int32_t>(), py::arg("steps") = std::vector<std::uint32_t>())
        .def("call", &make_call, py::arg("launches"))
        .def("stream", [](const std::shared_ptr<Device> &self) { return std::make_shared<Stream>(self); })
        .def("synchronize", &synchronize, py::arg("timeout_s") = py::none(), py::arg("stream") = py::none())
        .def_property_readonly("stuck", &Device::stuck);
    m.def(
        "open_device",
        [](const py::capsule &table, int ordinal, const std::string &path) {
            const auto *driver = static_cast<const pk_driver *>(PyCapsule_GetPointer(table.ptr(), PK_DRIVER_CAPSULE));
            if (driver == nullptr) throw py::error_already_set();
            table.inc_ref();  // kept for ever, as the table must be
            const py::gil_scoped_release released;
            return Device::open(*driver, ordinal, path);
        },
        py::arg("driver"), py::arg("ordinal") = 0, py::arg("path") = "");
    m.def(
        "open_device",
        [](const std::string &driver, int ordinal, const std::string &path) {
            const py::gil_scoped_release released;
            return Device::open(driver, ordinal, path);
        },
        py::arg("driver"), py::arg("ordinal") = 0, py::arg("path") = "");
}

}  // namespace portakern
