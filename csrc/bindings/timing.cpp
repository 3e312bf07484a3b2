// Measuring and its statistics. What is timed are prepared calls, or any Python callable.
#include <pybind11/eval.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings/bindings.hpp"
#include "timing/types.hpp"

namespace py = pybind11;

namespace portakern {

namespace {

// Prepared calls taken in turns, which need no Python.
class NativeWork final : public Work {
  public:
    explicit NativeWork(std::vector<std::shared_ptr<PyCall>> calls) : calls_(std::move(calls)) {}

    void queue(std::int64_t i, pk_stream_t stream) override {
        Call &call = calls_[static_cast<std::size_t>(i) % calls_.size()]->call;
        const pk_status status = call.queue(stream);
        if (status != PK_OK) call.device()->throw_status(status, call.failed());
    }

    void queue_as_called(std::int64_t i, pk_stream_t stream) override {
        Call &call = calls_[static_cast<std::size_t>(i) % calls_.size()]->call;
        const pk_status status = call.repeat(stream);
        if (status != PK_OK) call.device()->throw_status(status, call.failed());
    }

    int round() const override { return static_cast<int>(calls_.size()); }

    void touch(std::int64_t i) override { calls_[static_cast<std::size_t>(i) % calls_.size()]->call.touch(); }

    bool can_be_recorded() const override { return true; }

  private:
    std::vector<std::shared_ptr<PyCall>> calls_;
};

// A callable of Python, which is given i. Python's lock is held around a sample's calls and not while the device works.
// It is never recorded into a graph: what it does besides launching (allocating, choosing kernels) would not be repeated.
class PythonWork final : public Work {
  public:
    explicit PythonWork(py::object callable) : callable_(std::move(callable)), nothing_(py::eval("lambda i: None")) {}
    ~PythonWork() override {
        const py::gil_scoped_acquire held;
        callable_ = py::object();
        nothing_ = py::object();
    }

    void enter() override { state_ = PyGILState_Ensure(); }
    void leave() override { PyGILState_Release(state_); }

    void queue(std::int64_t i, pk_stream_t) override { call(callable_, i); }

    // The interpreter's own code and data, with a function that does nothing.
    void touch(std::int64_t i) override {
        for (int k = 0; k < 3; ++k) call(nothing_, i);
    }

  private:
    static void call(const py::object &callable, std::int64_t i) {
        PyObject *const number = PyLong_FromLongLong(i);
        PyObject *const result = number != nullptr ? PyObject_CallOneArg(callable.ptr(), number) : nullptr;
        Py_XDECREF(number);
        if (result == nullptr) throw py::error_already_set();
        Py_DECREF(result);
    }

    py::object callable_, nothing_;
    PyGILState_STATE state_{};
};

std::unique_ptr<Work> make_work(const std::shared_ptr<Device> &device, const py::object &calls) {
    if (PyCallable_Check(calls.ptr()) != 0 && !py::isinstance<PyCall>(calls)) return std::make_unique<PythonWork>(calls);
    std::vector<std::shared_ptr<PyCall>> found;
    if (py::isinstance<PyCall>(calls)) {
        found.push_back(calls.cast<std::shared_ptr<PyCall>>());
    } else {
        for (const py::handle call : calls) found.push_back(call.cast<std::shared_ptr<PyCall>>());
    }
    if (found.empty()) throw std::invalid_argument("a contender has at least one call");
    for (const auto &call : found) {
        if (call->call.device() != device) throw std::invalid_argument("a prepared call belongs to another device than the one measured on");
    }
    return std::make_unique<NativeWork>(std::move(found));
}

Mode mode_of(const std::string &name) {
    if (name == "auto") return Mode::automatic;
    if (name == "single") return Mode::single;
    if (name == "graph") return Mode::graph;
    if (name == "batch") return Mode::batch;
    throw std::invalid_argument("mode is auto, single, graph or batch, not " + name);
}

Options options_of(const py::object &given) {
    Options found;
    found.budget_ns = given.attr("budget_s").cast<double>() * 1e9;
    found.min_samples = std::max(given.attr("min_samples").cast<int>(), 1);
    found.max_samples = std::max(given.attr("max_samples").cast<int>(), 1);
    found.width = given.attr("width").cast<double>();
    found.margin = given.attr("margin").cast<double>();
    const auto cache = given.attr("cache").cast<std::string>();
    if (cache != "cold" && cache != "warm") throw std::invalid_argument("cache is cold or warm, not " + cache);
    found.cold = cache == "cold";
    found.mode = mode_of(given.attr("mode").cast<std::string>());
    found.deadline_ns = static_cast<std::int64_t>(given.attr("deadline_s").cast<double>() * 1e9);
    found.seed = given.attr("seed").cast<std::uint64_t>();
    found.confidence = given.attr("confidence").cast<double>();
    found.warm_up_ns = given.attr("warm_up_s").cast<double>() * 1e9;
    found.gate_limit_ns = static_cast<std::int64_t>(given.attr("gate_limit_s").cast<double>() * 1e9);
    found.poll = [] {
        const py::gil_scoped_acquire held;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    };
    return found;
}

py::object microseconds(double ns) { return ns < 0 ? py::object(py::none()) : py::float_(ns / 1e3); }

py::dict timing_dict(const Timing &timing) {
    py::array_t<double> samples(static_cast<py::ssize_t>(timing.samples.size()));
    for (std::size_t i = 0; i < timing.samples.size(); ++i) samples.mutable_at(static_cast<py::ssize_t>(i)) = timing.samples[i] / 1e3;
    py::dict quantiles;
    const int percents[] = {10, 25, 75, 90};
    for (int i = 0; i < 4; ++i) quantiles[py::int_(percents[i])] = timing.quantiles[i] / 1e3;
    py::dict found;
    found["name"] = timing.name;
    found["samples_us"] = samples;
    found["flags"] = py::array_t<std::uint8_t>(static_cast<py::ssize_t>(timing.flags.size()), timing.flags.data());
    found["correction_us"] = timing.correction / 1e3;
    found["median_us"] = timing.median / 1e3;
    found["ci_low_us"] = timing.interval.low / 1e3;
    found["ci_high_us"] = timing.interval.high / 1e3;
    found["quantiles_us"] = quantiles;
    found["launch_us"] = microseconds(timing.launch);
    found["end_to_end_us"] = microseconds(timing.end_to_end);
    found["empty_us"] = microseconds(timing.empty);
    found["overhead_us"] = timing.overhead / 1e3;
    found["calls_per_sample"] = timing.calls_per_sample;
    found["mode"] = timing.mode;
    found["incomplete"] = timing.incomplete;
    found["suspicions"] = py::tuple(py::cast(timing.suspicions));
    return found;
}

// `contenders` are (name, calls or callable, native stream); the name of the one that failed is appended to `failed`.
// `refresh`, where it is a callable, is given the number of each block before it is sampled, and the samples of the last one;
// False ends the sampling.
py::dict measure_all(const std::shared_ptr<Device> &device, const py::list &contenders, const py::object &options, py::list &failed,
                     const py::object &refresh) {
    std::vector<Contender> found;
    for (const py::handle item : contenders) {
        const auto [name, calls, stream] = item.cast<std::tuple<std::string, py::object, std::uint64_t>>();
        found.push_back({name, make_work(device, calls), stream});
    }
    Options asked = options_of(options);
    if (!refresh.is_none()) {
        asked.refresh = [&refresh](std::int64_t block, const std::vector<double> &last) {
            const py::gil_scoped_acquire held;
            std::vector<double> microseconds;
            for (const double ns : last) microseconds.push_back(ns / 1e3);
            return !refresh(block, microseconds).is(py::bool_(false));
        };
    }
    Measurement result;
    std::string name;
    try {
        const py::gil_scoped_release released;
        result = measure(device, found, asked, name);
    } catch (...) {
        if (!name.empty()) failed.append(name);
        throw;
    }
    py::dict answer;
    py::list timings;
    for (const Timing &timing : result.timings) timings.append(timing_dict(timing));
    answer["timings"] = timings;
    answer["blocks"] = result.blocks;
    answer["stopped"] = result.stopped;
    answer["before"] = result.has_health ? health_object(result.before) : py::none();
    answer["after"] = result.has_health ? health_object(result.after) : py::none();
    return answer;
}

}  // namespace

void bind_timing(py::module_ &m) {
    m.attr("FLAG_THROTTLED") = static_cast<int>(flag_throttled);
    m.attr("FLAG_UNGATED") = static_cast<int>(flag_ungated);
    m.def("measure", &measure_all, py::arg("device"), py::arg("contenders"), py::arg("options"), py::arg("failed"),
          py::arg("refresh") = py::none());
    m.def("median", &median, py::arg("samples"));
    m.def("quantile", &quantile, py::arg("samples"), py::arg("share"));
    m.def(
        "bootstrap_median",
        [](const std::vector<double> &samples, double confidence, std::uint64_t seed, int resamples) {
            const Interval found = bootstrap_median(samples, confidence, seed, resamples);
            return py::make_tuple(found.low, found.high);
        },
        py::arg("samples"), py::arg("confidence") = 0.95, py::arg("seed") = 0, py::arg("resamples") = default_resamples);
    m.def(
        "bootstrap_ratio",
        [](const std::vector<double> &a, const std::vector<double> &b, double confidence, std::uint64_t seed, int resamples) {
            const Ratio found = bootstrap_ratio(a, b, confidence, seed, resamples);
            return py::make_tuple(found.value, found.low, found.high);
        },
        py::arg("a"), py::arg("b"), py::arg("confidence") = 0.95, py::arg("seed") = 0, py::arg("resamples") = default_resamples);
    m.def(
        "verdict", [](double low, double high, double margin) { return name_of(verdict({low, high}, margin)); },
        py::arg("low"), py::arg("high"), py::arg("margin") = 0.01);
}

}  // namespace portakern
