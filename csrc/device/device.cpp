#include "device/device.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <tuple>

#include "drivers/registry.hpp"

namespace portakern {

namespace {

// A driver compiled against an earlier header fills in the beginning of the table.
pk_driver complete(const pk_driver &driver) {
    pk_driver table{};
    std::memcpy(&table, &driver, std::min<std::size_t>(driver.struct_size, sizeof(table)));
    return table;
}

}  // namespace

std::shared_ptr<Device> Device::open(const std::string &driver, int ordinal, const std::string &path) {
    static std::mutex mutex;
    static std::map<std::tuple<std::string, int, std::string>, std::weak_ptr<Device>> devices;

    const pk_driver *found = find_driver(driver.c_str());
    if (found == nullptr) throw std::invalid_argument("no driver is named '" + driver + "'");
    const std::lock_guard<std::mutex> locked(mutex);
    std::weak_ptr<Device> &slot = devices[{driver, ordinal, path}];
    if (auto device = slot.lock()) return device;
    auto device = open(*found, ordinal, path);
    slot = device;
    return device;
}

std::shared_ptr<Device> Device::open(const pk_driver &driver, int ordinal, const std::string &path) {
    if (driver.abi != PK_DRIVER_ABI) throw std::invalid_argument("driver table of another ABI");
    const pk_driver table = complete(driver);
    const std::string name = table.name != nullptr ? table.name : "unnamed";
    if (table.open == nullptr) throw DriverError("unsupported", name + ": this driver only looks for devices");
    pk_device_t handle = nullptr;
    const pk_status status = table.open(path.empty() ? nullptr : path.c_str(), ordinal, &handle);
    if (status != PK_OK) throw driver_error(table, nullptr, status, "open");
    std::shared_ptr<Device> device(new Device(table, name, ordinal, handle));
    if (table.facts != nullptr) device->call<&pk_driver::facts>("facts", &device->facts_);
    return device;
}

Device::Device(const pk_driver &table, std::string name, int ordinal, pk_device_t handle)
    : table_(table), name_(std::move(name)), ordinal_(ordinal), handle_(handle) {}

Device::~Device() {
    for (const auto &[native, stream] : wrapped_) release<&pk_driver::stream_destroy>(stream);
    if (table_.close != nullptr && !stuck()) table_.close(handle_);
}

pk_health Device::health() {
    // -1 and "" stand for unknown, also in what a driver leaves alone.
    pk_health health{-1, -1, -1, -1, -1, ""};
    call<&pk_driver::health>("health", &health);
    return health;
}

pk_stream_t Device::wrapped(std::uint64_t native) {
    const std::lock_guard<std::mutex> locked(mutex_);
    for (const auto &[handle, stream] : wrapped_) {
        if (handle == native) return stream;
    }
    if (!has<&pk_driver::stream_wrap>() && native == 0) return nullptr;
    pk_stream_t stream = nullptr;
    call<&pk_driver::stream_wrap>("stream_wrap", native, &stream);
    wrapped_.emplace_back(native, stream);
    return stream;
}

void Device::synchronize(pk_stream_t stream, std::int64_t timeout_ns) {
    call<&pk_driver::synchronize>("synchronize", stream, timeout_ns);
    // The whole device has come to rest, so what once hung has ended.
    if (stream == nullptr) stuck_.store(false);
}

void Device::throw_status(pk_status status, const char *name) {
    const DriverError error = driver_error(table_, handle_, status, name);
    if (error.lost() || status == PK_TIMEOUT) stuck_.store(true);
    throw error;
}

void Device::throw_missing(const char *name) const {
    throw DriverError("unsupported", name_ + ": the driver has no " + name, PK_UNSUPPORTED);
}

Event make_event(const std::shared_ptr<Device> &device) {
    pk_event_t event = nullptr;
    device->call<&pk_driver::event_create>("event_create", &event);
    return {device, event};
}

Gate make_gate(const std::shared_ptr<Device> &device) {
    pk_gate_t gate = nullptr;
    device->call<&pk_driver::gate_create>("gate_create", &gate);
    return {device, gate};
}

Stream::Stream(const std::shared_ptr<Device> &device) {
    pk_stream_t stream = nullptr;
    device->call<&pk_driver::stream_create>("stream_create", &stream);
    stream_ = {device, stream};
}

std::uint64_t Stream::native() const {
    const Device &device = *stream_.device();
    if (!device.has<&pk_driver::stream_native>()) {
        throw DriverError("unsupported", device.driver() + ": the driver does not say its streams' native handles");
    }
    return device.table().stream_native(device.handle(), stream_.get());
}

Module::Module(const std::shared_ptr<Device> &device, const void *binary, std::size_t bytes) {
    pk_module_t module = nullptr;
    device->call<&pk_driver::load>("load", binary, bytes, &module);
    module_ = {device, module};
}

Kernel::Kernel(std::shared_ptr<Module> module, std::string name, std::uint32_t shared_bytes)
    : module_(std::move(module)), name_(std::move(name)) {
    device()->call<&pk_driver::kernel>("kernel", module_->get(), name_.c_str(), shared_bytes, &kernel_);
}

}  // namespace portakern
