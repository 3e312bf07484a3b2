"""Machine code of NVIDIA GPUs (SASS) as data: disassembled by NVIDIA's own tools, counted, and read for the cost model."""
