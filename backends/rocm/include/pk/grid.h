// Which tile of the result a block computes.
#pragma once

#include "pk/device.h"

namespace pk {

struct TileAt { int64_t row, col, batch; };

// Blocks go to the device's dies in turn, each of which has a cache of its own: block n goes to die n % Dies.  So that
// neighbouring tiles share one, each die takes a run of them; and they go down bands of `Band` rows, column by column.
template <int Dies, int Band> PK_FN TileAt tile_at(unsigned block, int64_t rows, int64_t cols, int64_t batches = 1) {
  int64_t n = block;
  if constexpr (Dies > 1) {
    const int64_t blocks = rows * cols * batches, die = n % Dies, some = blocks % Dies;
    n = die * (blocks / Dies) + (die < some ? die : some) + n / Dies;
  }
  const int64_t batch = n / (rows * cols), in = n % (rows * cols);
  const int64_t first = in / (Band * cols) * Band, height = rows - first < Band ? rows - first : Band;
  return {first + in % (Band * cols) % height, in % (Band * cols) / height, batch};
}

}  // namespace pk
