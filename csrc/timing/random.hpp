// The random numbers of resampling and of the order of contenders: xoshiro256** seeded by splitmix64 (Blackman and Vigna,
// "Scrambled linear pseudorandom number generators", 2018; https://prng.di.unimi.it). The same seed gives the same everywhere.
#pragma once

#include <cstdint>

namespace portakern {

class Random {
  public:
    explicit Random(std::uint64_t seed) {
        for (std::uint64_t &word : state_) {
            seed += 0x9e3779b97f4a7c15u;
            std::uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
            word = z ^ (z >> 31);
        }
    }

    std::uint64_t next() {
        const std::uint64_t result = rotate(state_[1] * 5, 7) * 9, t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate(state_[3], 45);
        return result;
    }

    // Below n, which is less than 2^32; uneven by less than n / 2^32.
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(((next() >> 32) * n) >> 32); }

  private:
    static std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

    std::uint64_t state_[4];
};

}  // namespace portakern
