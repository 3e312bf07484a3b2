// Which tile of the result a block computes.
#pragma once

#include "pk/device.h"

namespace pk {

struct TileAt { int64_t row, col, batch; };

// Blocks go to the device's dies in turn, each of which has a cache of its own: block n goes to die n % Dies.  So that
// neighbours share one, each die takes a run of them.
template <int Dies> PK_FN int64_t on_its_die(unsigned block, int64_t blocks) {
  const int64_t n = block;
  if constexpr (Dies == 1) return n;
  const int64_t die = n % Dies, some = blocks % Dies;
  return die * (blocks / Dies) + (die < some ? die : some) + n / Dies;
}

// Tiles go down bands of `Band` rows, column by column.
template <int Dies, int Band> PK_FN TileAt tile_at(unsigned block, int64_t rows, int64_t cols, int64_t batches = 1) {
  const int64_t n = on_its_die<Dies>(block, rows * cols * batches);
  const int64_t batch = n / (rows * cols), in = n % (rows * cols);
  const int64_t first = in / (Band * cols) * Band, height = rows - first < Band ? rows - first : Band;
  return {first + in % (Band * cols) % height, in % (Band * cols) / height, batch};
}

}  // namespace pk
