// What a cubin says about its kernels' parameters.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace portakern::cuda {

// Sizes in bytes of each kernel's parameters, by the kernel's name; empty for what is no cubin. Asking the driver means
// asking for one parameter too many, which tools that watch its calls report as an error of the program.
std::map<std::string, std::vector<std::size_t>> parameter_sizes(const std::string &image);

}  // namespace portakern::cuda
