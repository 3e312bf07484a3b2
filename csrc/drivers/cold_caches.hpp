// Empties the processor's caches by reading memory that nobody needs.
//
// Caches that cores have for themselves are emptied by those cores: each reads its part in a thread that is pinned to it.
// A core that other work holds may not run that thread for seconds. Its part is then read here, and the core is left alone
// until the thread has had its turn: a measurement does not wait for a core that does not measure.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace portakern {

class ColdCaches {
  public:
    ColdCaches(std::size_t bytes, std::vector<int> cores);

    // Throws std::exception where memory or threads are lacking.
    void empty();

    std::size_t bytes() const { return bytes_; }
    std::size_t cores() const { return cores_.size(); }

  private:
    using Memory = std::vector<char>;

    std::size_t bytes_;
    std::vector<int> cores_;
    std::shared_ptr<const Memory> memory_;  // made when first needed; threads that come late keep it
    std::vector<std::shared_ptr<std::atomic<bool>>> late_;  // by core: whether its last thread has not ended
};

}  // namespace portakern
