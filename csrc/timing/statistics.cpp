#include "timing/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "timing/random.hpp"

namespace portakern {

namespace {

double quantile_of_sorted(const std::vector<double> &sorted, double share) {
    const double at = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    const double part = at - static_cast<double>(below);
    return part == 0 ? sorted[below] : sorted[below] + part * (sorted[above] - sorted[below]);
}

void require(std::size_t count, double confidence, int resamples) {
    if (count == 0) throw std::invalid_argument("there are no samples");
    if (!(confidence > 0 && confidence < 1)) throw std::invalid_argument("confidence lies between 0 and 1");
    if (resamples < 1) throw std::invalid_argument("there is at least one resample");
}

// Samples in order, and how often each was drawn: the median of a draw without sorting it.
class Draw {
  public:
    explicit Draw(const std::vector<double> &samples) : sorted_(samples), rank_(samples.size()), count_(samples.size()) {
        std::vector<std::uint32_t> order(samples.size());
        std::iota(order.begin(), order.end(), 0u);
        std::sort(order.begin(), order.end(), [&](std::uint32_t i, std::uint32_t j) { return samples[i] < samples[j]; });
        for (std::uint32_t i = 0; i < order.size(); ++i) {
            sorted_[i] = samples[order[i]];
            rank_[order[i]] = i;
        }
    }

    void clear() { std::fill(count_.begin(), count_.end(), 0u); }
    void take(std::uint32_t sample) { ++count_[rank_[sample]]; }

    double median() const {
        const std::size_t n = sorted_.size(), lower = (n - 1) / 2, upper = n / 2;
        std::size_t seen = 0, i = 0;
        while (seen + count_[i] <= lower) seen += count_[i++];
        const double low = sorted_[i];
        while (seen + count_[i] <= upper) seen += count_[i++];
        return (low + sorted_[i]) / 2;
    }

  private:
    std::vector<double> sorted_;
    std::vector<std::uint32_t> rank_, count_;
};

Interval middle(std::vector<double> &values, double confidence) {
    std::sort(values.begin(), values.end());
    const double tail = (1 - confidence) / 2;
    return {quantile_of_sorted(values, tail), quantile_of_sorted(values, 1 - tail)};
}

}  // namespace

double quantile(std::vector<double> samples, double share) {
    if (samples.empty()) throw std::invalid_argument("there are no samples");
    if (!(share >= 0 && share <= 1)) throw std::invalid_argument("a quantile's share lies between 0 and 1");
    std::sort(samples.begin(), samples.end());
    return quantile_of_sorted(samples, share);
}

double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }

Interval bootstrap_median(const std::vector<double> &samples, double confidence, std::uint64_t seed, int resamples) {
    require(samples.size(), confidence, resamples);
    const auto n = static_cast<std::uint32_t>(samples.size());
    Random random(seed);
    Draw draw(samples);
    std::vector<double> medians(static_cast<std::size_t>(resamples));
    for (double &result : medians) {
        draw.clear();
        for (std::uint32_t i = 0; i < n; ++i) draw.take(random.below(n));
        result = draw.median();
    }
    return middle(medians, confidence);
}

bool at_the_timers_step(const std::vector<double> &samples, const Interval &interval) {
    std::vector<double> inside;
    for (double value : samples) {
        if (value < interval.low - 1 || value > interval.high + 1) continue;
        const auto same = [value](double other) { return std::abs(other - value) < 1; };
        if (std::any_of(inside.begin(), inside.end(), same)) continue;
        inside.push_back(value);
        if (inside.size() > 2) return false;
    }
    return true;
}

Ratio bootstrap_ratio(const std::vector<double> &a, const std::vector<double> &b, double confidence, std::uint64_t seed,
                      int resamples) {
    require(a.size(), confidence, resamples);
    if (a.size() != b.size()) throw std::invalid_argument("samples that were taken in pairs are of the same number");
    const auto n = static_cast<std::uint32_t>(a.size());
    Random random(seed);
    Draw draw_a(a), draw_b(b);
    std::vector<double> ratios(static_cast<std::size_t>(resamples));
    for (double &result : ratios) {
        draw_a.clear();
        draw_b.clear();
        for (std::uint32_t i = 0; i < n; ++i) {
            const std::uint32_t pair = random.below(n);
            draw_a.take(pair);
            draw_b.take(pair);
        }
        result = draw_b.median() / draw_a.median();
    }
    const Interval found = middle(ratios, confidence);
    return {median(b) / median(a), found.low, found.high};
}

Verdict verdict(const Interval &ratio, double margin) {
    const double above = 1 + margin, below = 1 / above;
    if (ratio.low > above) return Verdict::faster;
    if (ratio.high < below) return Verdict::slower;
    if (ratio.low >= below && ratio.high <= above) return Verdict::same;
    return Verdict::undecided;  // also where a bound is not a number
}

const char *name_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::faster: return "FASTER";
        case Verdict::slower: return "SLOWER";
        case Verdict::same: return "SAME";
        default: return "UNDECIDED";
    }
}

}  // namespace portakern
