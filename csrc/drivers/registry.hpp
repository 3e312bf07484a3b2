// The list of the drivers known to this process.
#pragma once

#include <vector>

#include "portakern/driver.h"

namespace portakern {

// Adds a table that outlives the process. Throws std::invalid_argument for a wrong ABI, an incomplete table or a name
// already taken.
void register_driver(const pk_driver *driver);

const std::vector<const pk_driver *> &drivers();

// Null if no driver has this name.
const pk_driver *find_driver(const char *name);

struct DriverRegistration {
    explicit DriverRegistration(const pk_driver *driver) { register_driver(driver); }
};

}  // namespace portakern

#define PK_REGISTER_DRIVER(table) static const portakern::DriverRegistration registration_of_##table(&table)
