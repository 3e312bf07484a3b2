// Runs the waves of a workgroup, and workgroups over threads.
#pragma once

#include <memory>
#include <vector>

#include "group.hpp"
#include "waits.hpp"

namespace machine {

// All that one thread needs to run workgroups, one after another.
class Machine {
  public:
    explicit Machine(const Launch &launch);
    ~Machine();
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;
    void run(uint64_t index);       // a workgroup, by its place in the grid
    uint64_t executed() const { return executed_; }

  private:
    void start(uint64_t index);
    void start(Wave &w, int number);
    void turn(Wave &w);
    bool pass_barrier();
    const Launch &launch_;
    Workgroup group_;
    std::vector<std::unique_ptr<Wave>> waves_;
    std::vector<std::unique_ptr<Pending>> pending_;
    std::vector<std::vector<uint8_t>> scratch_;
    uint64_t executed_ = 0;
};

// Some workgroups of a grid, by their places: the first of them run, until `seconds` have passed.
struct Some {
    std::vector<uint64_t> places;
    double seconds = 0;
};

struct Ran {
    uint64_t groups, instructions;
};

// Runs the whole grid, or `some` of it; throws the Fault of the first workgroup that failed.
Ran run_grid(const Launch &launch, const Some *some, unsigned threads);

}  // namespace machine
