// How a GPU is now, as NVIDIA's management library (NVML) says.
#pragma once

#include <string>

#include "portakern/driver.h"

namespace portakern::cuda {

// False with `error` where there is no such library, or it does not know the GPU. It is found by its UUID or, where that
// is none of NVML's, by its PCI bus: numbers differ, because CUDA_VISIBLE_DEVICES renumbers only the driver's.
bool read_health(const std::string &uuid, const char *bus, pk_health *out, std::string *error);

}  // namespace portakern::cuda
