// Whether the device was slowed down while samples were taken.
#pragma once

#include <cstdint>
#include <memory>

#include "clock/clock.hpp"
#include "device/device.hpp"

namespace portakern {

class HealthWatch {
  public:
    explicit HealthWatch(std::shared_ptr<Device> device)
        : device_(std::move(device)), known_(device_->has<&pk_driver::health>()) {}

    bool known() const { return known_; }

    // All unknown where the driver does not say, or no longer does.
    pk_health read() {
        pk_health health{-1, -1, -1, -1, -1, ""};
        read_ = clock_now_ns();
        if (!known_) return health;
        try {
            health = device_->health();
        } catch (const DriverError &) {
            known_ = false;
        }
        return health;
    }

    // Asking may take a millisecond: about every 100 ms is enough.
    bool is_due() const { return known_ && clock_now_ns() - read_ >= 100'000'000; }

  private:
    std::shared_ptr<Device> device_;
    bool known_;
    std::int64_t read_ = 0;
};

}  // namespace portakern
