#include "device/call.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace portakern {

namespace {

// A graph is made at this many calls in a row on one stream: it costs as much as forty launches.
constexpr int graph_after = 3;

// Where an argument of `bytes` may begin: descriptors that kernels take by value want up to 64.
std::size_t alignment(std::size_t bytes) { return bytes >= 64 ? 64 : bytes > 8 ? 16 : 8; }

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

void check(const Device &device, const LaunchSpec &spec) {
    if (spec.kernel->device().get() != &device) throw std::invalid_argument("a kernel of another device cannot be launched here");
    for (const Argument &arg : spec.args) {
        if (arg.kind == PK_ARG_POINTER && arg.bytes.size() != sizeof(std::uint64_t)) {
            throw std::invalid_argument("a pointer argument has 8 bytes");
        }
    }
}

template <auto Member>
void require(const Device &device, const char *name) {
    if (!device.has<Member>()) {
        throw DriverError("unsupported", device.driver() + ": the driver has no " + name, PK_UNSUPPORTED);
    }
}

void require(const Device &device, const StepSpec &spec) {
    if (std::holds_alternative<LaunchSpec>(spec)) require<&pk_driver::launch>(device, "launch");
    if (std::holds_alternative<CopySpec>(spec)) require<&pk_driver::copy>(device, "copy");
    if (std::holds_alternative<FillSpec>(spec)) require<&pk_driver::fill>(device, "fill");
}

}  // namespace

Call::Call(std::shared_ptr<Device> device, std::vector<StepSpec> steps)
    : device_(std::move(device)), specs_(std::move(steps)), blocking_(device_->facts().blocking != 0) {
    std::size_t bytes = 128, count = 0;
    for (const StepSpec &spec : specs_) {
        require(*device_, spec);
        bytes += sizeof(std::uint64_t);
        const auto *launch = std::get_if<LaunchSpec>(&spec);
        if (launch == nullptr) continue;
        check(*device_, *launch);
        count += launch->args.size();
        for (const Argument &arg : launch->args) bytes += round_up(arg.bytes.size(), 8) + alignment(arg.bytes.size());
    }
    // Sized once: what an address is taken of below does not move.
    storage_.resize(bytes);
    args_.reserve(count);
    auto *base = storage_.data();
    base += round_up(reinterpret_cast<std::uintptr_t>(base), 64) - reinterpret_cast<std::uintptr_t>(base);
    std::size_t at = 0;
    for (const StepSpec &spec : specs_) {
        Step step{};
        if (const auto *launch = std::get_if<LaunchSpec>(&spec)) {
            step = pack(*launch, base, at);
        } else if (const auto *copy = std::get_if<CopySpec>(&spec)) {
            step.kind = Step::copying;
            step.to = place(copy->to, base, at);
            step.from = copy->from;
            step.bytes = copy->bytes;
        } else if (const auto *fill = std::get_if<FillSpec>(&spec)) {
            step.kind = Step::filling;
            step.to = place(fill->to, base, at);
            step.bytes = fill->bytes;
            step.byte = fill->byte;
        }
        steps_.push_back(step);
    }
    graphs_ = may_become_a_graph();
}

std::uint64_t *Call::place(std::uint64_t address, unsigned char *base, std::size_t &at) {
    at = round_up(at, sizeof(address));
    auto *slot = reinterpret_cast<std::uint64_t *>(base + at);
    *slot = address;
    at += sizeof(address);
    pointers_.push_back(slot);
    return slot;
}

Call::Step Call::pack(const LaunchSpec &spec, unsigned char *base, std::size_t &at) {
    const pk_arg *first = args_.data() + args_.size();
    for (const Argument &arg : spec.args) {
        const std::size_t size = arg.bytes.size();
        at = round_up(at, alignment(size));
        std::memcpy(base + at, arg.bytes.data(), size);
        args_.push_back({base + at, static_cast<std::uint32_t>(size), arg.kind});
        if (arg.kind == PK_ARG_POINTER) pointers_.push_back(reinterpret_cast<std::uint64_t *>(base + at));
        at += size;
    }
    Step step{};
    step.kind = Step::launching;
    step.launch.kernel = spec.kernel->get();
    std::copy_n(spec.grid.begin(), 3, step.launch.grid);
    std::copy_n(spec.block.begin(), 3, step.launch.block);
    std::copy_n(spec.cluster.begin(), 3, step.launch.cluster);
    step.launch.shared_bytes = spec.shared_bytes;
    step.launch.attributes = spec.attributes;
    step.launch.arg_count = static_cast<std::uint32_t>(spec.args.size());
    step.launch.args = first;
    return step;
}

pk_status Call::queue(pk_stream_t stream) noexcept {
    for (const Step &step : steps_) {
        const pk_status status = run(step, stream);
        if (status != PK_OK) return status;
    }
    return PK_OK;
}

pk_status Call::run(const Step &step, pk_stream_t stream) noexcept {
    const pk_driver &table = device_->table();
    const pk_device_t device = device_->handle();
    switch (step.kind) {
        case Step::launching: failed_ = "launch"; return table.launch(device, stream, &step.launch);
        case Step::copying: failed_ = "copy"; return table.copy(device, stream, *step.to, step.from, step.bytes);
        default: failed_ = "fill"; return table.fill(device, stream, *step.to, step.byte, step.bytes);
    }
}

// ---- as a graph

bool Call::may_become_a_graph() const {
    if (blocking_ || steps_.empty() || !device_->has<&pk_driver::graph_make>() || !device_->has<&pk_driver::graph_update>() ||
        !device_->has<&pk_driver::graph_launch>()) {
        return false;
    }
    return std::all_of(steps_.begin(), steps_.end(),
                       [](const Step &step) { return step.kind == Step::launching && step.launch.attributes == 0; });
}

pk_status Call::repeat(pk_stream_t stream) noexcept {
    if (!graphs_) return queue(stream);
    repeats_ = stream == latest_ ? std::min(repeats_ + 1, graph_after) : 1;
    latest_ = stream;
    if (repeats_ < graph_after || (!graph_ && !make_graph()) || (stale_ && !update_graph())) return queue(stream);
    failed_ = "graph_launch";
    const pk_status status = device_->table().graph_launch(device_->handle(), stream, graph_.get());
    return status == PK_UNSUPPORTED ? queue(stream) : status;  // a stream that is being captured takes the steps
}

// Without one the call goes on as it was: what is wrong with it, if anything is, its launches tell.
bool Call::make_graph() noexcept try {
    std::vector<pk_launch> launches;
    for (const Step &step : steps_) launches.push_back(step.launch);
    pk_graph_t made = nullptr;
    const auto count = static_cast<std::uint32_t>(launches.size());
    graphs_ = device_->table().graph_make(device_->handle(), launches.data(), count, &made) == PK_OK;
    if (graphs_) graph_ = {device_, made};
    stale_ = false;
    return graphs_;
} catch (const std::bad_alloc &) {
    return graphs_ = false;
}

bool Call::update_graph() noexcept {
    const auto update = device_->table().graph_update;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        if (update(device_->handle(), graph_.get(), static_cast<std::uint32_t>(i), &steps_[i].launch) != PK_OK) {
            graph_.reset();
            return graphs_ = false;
        }
    }
    stale_ = false;
    return true;
}

void Call::touch() const noexcept {
    const auto read = [](const void *begin, std::size_t bytes) {
        const auto *data = static_cast<const volatile unsigned char *>(begin);
        for (std::size_t i = 0; i < bytes; i += 64) static_cast<void>(data[i]);
        if (bytes > 0) static_cast<void>(data[bytes - 1]);
    };
    read(this, sizeof(*this));
    read(device_.get(), sizeof(Device));
    read(steps_.data(), steps_.size() * sizeof(Step));
    read(args_.data(), args_.size() * sizeof(pk_arg));
    read(storage_.data(), storage_.size());
}

}  // namespace portakern
