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

// Runs the whole grid; throws the Fault of the earliest workgroup that failed. Returns the wave instructions executed.
uint64_t run_grid(const Launch &launch, unsigned threads);

}  // namespace machine
