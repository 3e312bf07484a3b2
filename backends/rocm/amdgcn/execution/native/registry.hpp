// All handlers by name, those of vector instructions in the best variant that this processor has.
#pragma once

#include <string>
#include <vector>

#include "state.hpp"

namespace machine {

struct Named {
    std::string name;
    Handler run;
};

const std::vector<Named> &handlers();  // in a fixed order; Python refers to them by position
const char *variant();                 // "v3" or "baseline"

}  // namespace machine
