// Kernels, and the arguments of a launch as libcuda takes them.
#pragma once

#include <array>
#include <vector>

#include "device.hpp"

namespace portakern::cuda {

struct Kernel {
    Function function = nullptr;
    std::vector<std::size_t> sizes;  // of the parameters
    bool sizes_known = false;
};

inline const Kernel &kernel_of(pk_kernel_t kernel) { return *reinterpret_cast<const Kernel *>(kernel); }

// PK_INVALID where the kernel has other parameters: the driver reads as many values as the kernel has parameters,
// wherever the pointers to them end.
pk_status check_arguments(const pk_launch &launch);

// Pointers to the arguments. Throws std::bad_alloc where they are many.
class Arguments {
  public:
    explicit Arguments(const pk_launch &launch) : many_(launch.arg_count > few_.size() ? launch.arg_count : 0) {
        void **args = data();
        for (uint32_t i = 0; i < launch.arg_count; ++i) args[i] = const_cast<void *>(launch.args[i].value);
    }

    void **data() { return many_.empty() ? few_.data() : many_.data(); }

  private:
    std::array<void *, 64> few_;
    std::vector<void *> many_;
};

}  // namespace portakern::cuda
