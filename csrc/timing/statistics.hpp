// Medians, their bootstrap intervals, and what two sets of samples say of each other.
//
// The interval is the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace portakern {

struct Interval {
    double low, high;
};

struct Ratio {
    double value, low, high;
};

enum class Verdict { faster, slower, same, undecided };

constexpr int default_resamples = 1000;

// Of sorted or unsorted samples, at least one; `share` between 0 and 1, interpolated linearly between neighbours.
double quantile(std::vector<double> samples, double share);
double median(std::vector<double> samples);

// The interval that holds the median of such samples with `confidence`.
Interval bootstrap_median(const std::vector<double> &samples, double confidence, std::uint64_t seed,
                          int resamples = default_resamples);

// Whether an interval cannot become narrower because the timer's steps are that coarse: at most two different values lie
// in it, values less than a nanosecond apart being the same. In nanoseconds.
bool at_the_timers_step(const std::vector<double> &samples, const Interval &interval);

// median(b) / median(a), where a[i] and b[i] were taken next to each other: pairs are drawn together, so that what
// slowed both down does not count.
Ratio bootstrap_ratio(const std::vector<double> &a, const std::vector<double> &b, double confidence, std::uint64_t seed,
                      int resamples = default_resamples);

// About a against b, from the ratio b / a: faster if all of the interval lies above 1 + margin, slower if all lies below
// 1 / (1 + margin), the same if it lies between, else undecided.
Verdict verdict(const Interval &ratio, double margin);

const char *name_of(Verdict verdict);

}  // namespace portakern
