// What went wrong in a driver, as the exception that becomes portakern.native.DriverError.
#pragma once

#include <stdexcept>
#include <string>

#include "portakern/driver.h"

namespace portakern {

class DriverError : public std::runtime_error {
  public:
    DriverError(std::string kind, const std::string &message, pk_status status = PK_FAILED)
        : std::runtime_error(message), kind_(std::move(kind)), status_(status) {}

    // "no-device", "device-lost", "timeout", "unsupported", "invalid" or "driver".
    const std::string &kind() const { return kind_; }
    pk_status status() const { return status_; }

    // Nothing more can be asked of the device.
    bool lost() const { return kind_ == "device-lost"; }

  private:
    std::string kind_;
    pk_status status_;
};

// Makes the exception for a status that `driver` gave in answer to `function`, with what its last_error adds.
DriverError driver_error(const pk_driver &driver, pk_device_t device, pk_status status, const char *function);

}  // namespace portakern
