#include "bindings/bindings.hpp"
#include "clock/clock.hpp"
#include "drivers/registry.hpp"

namespace py = pybind11;

namespace portakern {

namespace {

py::dict probe(const pk_driver &driver, const char *path) {
    pk_probe found{};
    {
        py::gil_scoped_release released;
        driver.probe(path, &found);
    }
    py::dict result;
    result["name"] = driver.name;
    result["title"] = driver.title != nullptr ? driver.title : driver.name;
    result["present"] = found.present != 0;
    result["path"] = found.path;
    result["version"] = found.version;
    result["device_count"] = found.device_count;
    result["error"] = found.error;
    return result;
}

}  // namespace

void bind_clock(py::module_ &m) {
    m.def("now_ns", &clock_now_ns);
    m.def("clock_resolution_ns", &clock_resolution_ns);
    m.def("clock_tick_ns", &clock_tick_ns, py::arg("reads") = 10'000);
    m.def("clock_name", &clock_name);
}

void bind_drivers(py::module_ &m) {
    m.attr("DRIVER_ABI") = PK_DRIVER_ABI;
    m.def("driver_names", [] {
        py::list names;
        for (const pk_driver *driver : drivers()) names.append(driver->name);
        return names;
    });
    m.def(
        "probe_driver",
        [](const std::string &name, const std::string &path) {
            const pk_driver *driver = find_driver(name.c_str());
            if (driver == nullptr) throw py::key_error("no driver named '" + name + "'");
            return probe(*driver, path.empty() ? nullptr : path.c_str());
        },
        py::arg("name"), py::arg("path") = "");
    m.def("register_driver", [](const py::capsule &table) {
        // The capsule is kept for ever, because the table is.
        const auto *driver = static_cast<const pk_driver *>(PyCapsule_GetPointer(table.ptr(), PK_DRIVER_CAPSULE));
        if (driver == nullptr) throw py::error_already_set();
        register_driver(driver);
        table.inc_ref();
    });
    m.def("driver_table", [](const std::string &name) {
        const pk_driver *driver = find_driver(name.c_str());
        if (driver == nullptr) throw py::key_error("no driver named '" + name + "'");
        return py::capsule(driver, PK_DRIVER_CAPSULE);
    });
}

}  // namespace portakern
