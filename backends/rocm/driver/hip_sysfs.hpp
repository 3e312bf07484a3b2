// What Linux tells of an AMD GPU where HIP is silent. Files and units are those of the kernel's documentation of amdgpu
// (hwmon) and of its KFD topology. `$PORTAKERN_SYSFS` stands for /sys where that is mounted elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "portakern/driver.h"

namespace portakern::hip {

// Bytes of the deepest cache of the GPU at this PCI address ("0000:c1:00.0"), the Infinity Cache where it has one;
// HIP's own figure is the L2's. 0 if not told.
std::int64_t deepest_cache_bytes(const std::string &pci);

// Fills in what the sensors tell.
void read_sensors(const std::string &pci, pk_health *out);

}  // namespace portakern::hip
