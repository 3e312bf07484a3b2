// What the steps of a loop read, on its way before they come.
#pragma once
#include "pk/base.cuh"

namespace pk {

/// `read(step)` of the next `Steps` steps, in turns.  A loop that is written out for so many steps, and reads again when a step is
/// over, moves nothing from one register to another: that would be to wait for it.
template <int Steps, class Read> struct Ahead {
    using Value = decltype(static_cast<Read*>(nullptr)->operator()(int64_t(0)));

    Read read;
    int64_t last;
    Value of[Steps];  // of[turn]: what the step of this turn reads

    PK_DEVICE Ahead(int64_t end, Read read) : read(read), last(end - 1) {
        if (end > 0) {
#pragma unroll
            for (int turn = 0; turn < Steps; ++turn) again(turn, turn - Steps);
        }
    }

    /// After `step`: reads for the next one that has the same turn; beyond the end, where nobody takes it, for the last one.
    PK_DEVICE void again(int turn, int64_t step) {
        const int64_t next = step + Steps;
        of[turn] = read(next < last ? next : last);
    }
};

template <int Steps, class Read> PK_DEVICE Ahead<Steps, Read> ahead(int64_t end, Read read) {
    return Ahead<Steps, Read>(end, read);
}

}  // namespace pk
