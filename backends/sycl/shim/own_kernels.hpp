// The kernels that drivers of this backend launch for themselves, in OpenCL C.
#pragma once

#include <cstddef>
#include <cstdint>

namespace portakern {

constexpr char own_kernels[] = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pk_empty() {}

// Only reads, so that no line is left that must be written back. The comparison never holds.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pk_read(__global const ulong8 *data, const ulong count, __global ulong *never)
{
    data += get_group_id(0) * count;
    ulong8 sum = 0;
    for (ulong i = 0; i < count; ++i) sum ^= data[i];
    if ((sum.s0 ^ sum.s1 ^ sum.s2 ^ sum.s3 ^ sum.s4 ^ sum.s5 ^ sum.s6 ^ sum.s7) == 0x706f7274616b6572UL) *never = sum.s0;
}

// Computes for a while and touches no memory.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pk_wake(const ulong turns, __global ulong *never)
{
    ulong sum = get_group_id(0);
    for (ulong i = 0; i < turns; ++i) sum = sum * 6364136223846793005UL + 1442695040888963407UL;
    if (sum == 0x706f7274616b6572UL) *never = sum;
}
)";

// A CPU device's threads fall asleep behind a closed gate, and the first of them to wake would have a short kernel for
// itself. So this comes right behind the gate: some 0.2 ms of work for every core, in pieces so small that all of them
// end it at the same time (one that waits for work gives its core away).
constexpr std::uint64_t wake_turns = 1'000;  // about 1 us
constexpr std::size_t wake_groups_per_unit = 200;

// What a work-group of pk_read reads: 256 KiB, so that every core of a CPU takes part.
constexpr std::uint64_t lines_per_group = 4096;
constexpr std::size_t bytes_per_group = 64 * lines_per_group;

constexpr std::uint32_t gpu_items = 256;  // work-items of a group of own_gpu.cpp

constexpr std::size_t whole_groups(std::size_t bytes) { return (bytes + bytes_per_group - 1) / bytes_per_group; }

}  // namespace portakern
