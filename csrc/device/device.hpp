// A device of a driver and what belongs to it, each freed when the last reference goes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/error.hpp"
#include "portakern/driver.h"

namespace portakern {

class Stream;
class Module;

// An open device. One object per driver, ordinal and path while anything refers to it.
class Device : public std::enable_shared_from_this<Device> {
  public:
    // Throws std::invalid_argument for an unknown driver, DriverError if there is no such device.
    static std::shared_ptr<Device> open(const std::string &driver, int ordinal, const std::string &path);

    // A device of a table that outlives it and need not be registered; each time another object.
    static std::shared_ptr<Device> open(const pk_driver &driver, int ordinal, const std::string &path);

    ~Device();
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    const std::string &driver() const { return name_; }
    int ordinal() const { return ordinal_; }
    const pk_facts &facts() const { return facts_; }
    pk_health health();

    // Whether the driver has a function: `device.has<&pk_driver::flush>()`.
    template <auto Member>
    bool has() const {
        return table_.*Member != nullptr;
    }

    // Calls a function of the table, throws DriverError if it is missing or fails.
    template <auto Member, typename... Args>
    void call(const char *name, Args... args) {
        if (table_.*Member == nullptr) throw_missing(name);
        const pk_status status = (table_.*Member)(handle_, args...);
        if (status != PK_OK) throw_status(status, name);
    }

    // Calls a function that frees something; not once the device is lost or hangs, when the driver would wait for ever.
    template <auto Member, typename... Args>
    void release(Args... args) noexcept {
        if (table_.*Member != nullptr && !stuck_.load()) (table_.*Member)(handle_, args...);
    }

    // The stream with this native handle, wrapped at first use and kept while the device is open.
    pk_stream_t wrapped(std::uint64_t native);

    // Waits for a stream, or for everything (null); a negative timeout waits for ever. Throws DriverError.
    void synchronize(pk_stream_t stream, std::int64_t timeout_ns);

    // Work of this process still runs after a deadline, or the device is lost: freeing would hang or fail.
    bool stuck() const { return stuck_.load(); }

    const pk_driver &table() const { return table_; }
    pk_device_t handle() const { return handle_; }

    [[noreturn]] void throw_status(pk_status status, const char *name);

  private:
    Device(const pk_driver &table, std::string name, int ordinal, pk_device_t handle);
    [[noreturn]] void throw_missing(const char *name) const;

    pk_driver table_;
    std::string name_;
    int ordinal_;
    pk_device_t handle_;
    pk_facts facts_{};
    std::atomic<bool> stuck_{false};
    std::mutex mutex_;
    std::vector<std::pair<std::uint64_t, pk_stream_t>> wrapped_;
};

// A handle that is given back to the driver at the end. `Destroy` is the table's member that does it.
template <typename Handle, auto Destroy>
class Owned {
  public:
    Owned() = default;
    Owned(std::shared_ptr<Device> device, Handle handle) : device_(std::move(device)), handle_(handle) {}
    ~Owned() { reset(); }
    Owned(Owned &&other) noexcept : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}
    Owned &operator=(Owned &&other) noexcept {
        if (this != &other) {
            reset();
            device_ = std::move(other.device_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }

    Handle get() const { return handle_; }
    explicit operator bool() const { return handle_ != nullptr; }
    const std::shared_ptr<Device> &device() const { return device_; }

    void reset() {
        if (handle_ != nullptr) device_->template release<Destroy>(handle_);
        handle_ = nullptr;
        device_.reset();
    }

  private:
    std::shared_ptr<Device> device_;
    Handle handle_ = nullptr;
};

using Event = Owned<pk_event_t, &pk_driver::event_destroy>;
using Gate = Owned<pk_gate_t, &pk_driver::gate_destroy>;
using Graph = Owned<pk_graph_t, &pk_driver::graph_destroy>;

Event make_event(const std::shared_ptr<Device> &device);
Gate make_gate(const std::shared_ptr<Device> &device);

// A stream of our own.
class Stream {
  public:
    explicit Stream(const std::shared_ptr<Device> &device);

    pk_stream_t get() const { return stream_.get(); }
    const std::shared_ptr<Device> &device() const { return stream_.device(); }

    // The driver's own handle, as other libraries take it.
    std::uint64_t native() const;

  private:
    Owned<pk_stream_t, &pk_driver::stream_destroy> stream_;
};

// A loaded binary.
class Module {
  public:
    Module(const std::shared_ptr<Device> &device, const void *binary, std::size_t bytes);

    pk_module_t get() const { return module_.get(); }
    const std::shared_ptr<Device> &device() const { return module_.device(); }

  private:
    Owned<pk_module_t, &pk_driver::unload> module_;
};

// A function of a module, which it keeps loaded.
class Kernel {
  public:
    Kernel(std::shared_ptr<Module> module, std::string name, std::uint32_t shared_bytes);

    pk_kernel_t get() const { return kernel_; }
    const std::string &name() const { return name_; }
    const std::shared_ptr<Device> &device() const { return module_->device(); }

  private:
    std::shared_ptr<Module> module_;
    std::string name_;
    pk_kernel_t kernel_ = nullptr;
};

}  // namespace portakern
