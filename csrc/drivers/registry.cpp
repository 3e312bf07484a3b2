#include "drivers/registry.hpp"

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>

namespace portakern {

namespace {

// A function-local static: registrations run before main, in no particular order between files.
std::vector<const pk_driver *> &table_list() {
    static std::vector<const pk_driver *> list;
    return list;
}

}  // namespace

void register_driver(const pk_driver *driver) {
    if (driver == nullptr) throw std::invalid_argument("driver table is null");
    if (driver->abi != PK_DRIVER_ABI) {
        throw std::invalid_argument("driver table has ABI " + std::to_string(driver->abi) + ", this portakern speaks " +
                                    std::to_string(PK_DRIVER_ABI));
    }
    constexpr std::size_t smallest = offsetof(pk_driver, probe) + sizeof(driver->probe);
    if (driver->struct_size < smallest) throw std::invalid_argument("driver table is too small to hold a probe");
    if (driver->name == nullptr || driver->name[0] == '\0') throw std::invalid_argument("driver table has no name");
    if (find_driver(driver->name) != nullptr) {
        throw std::invalid_argument("a driver named '" + std::string(driver->name) + "' is already registered");
    }
    table_list().push_back(driver);
}

const std::vector<const pk_driver *> &drivers() { return table_list(); }

const pk_driver *find_driver(const char *name) {
    for (const pk_driver *driver : table_list()) {
        if (std::strcmp(driver->name, name) == 0) return driver;
    }
    return nullptr;
}

}  // namespace portakern
