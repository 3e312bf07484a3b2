// The report that ends a simulation.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace machine {

struct Fault : std::exception {
    std::string kind, message;
    uint32_t op = 0;        // position in the program
    uint32_t group[3] = {};
    int wave = 0;
    int lane = -1;
    int64_t cause = -1;     // position of an earlier instruction that may be why, and what it did
    std::string because;
    uint64_t order = 0;     // of the workgroup, so that of several faults the first is reported
    const char *what() const noexcept override { return message.c_str(); }
};

}  // namespace machine
