// The whole tile library.
#pragma once
#include "pk/atomic.cuh"
#include "pk/dot.cuh"
#include "pk/math.cuh"
#include "pk/memory.cuh"
#include "pk/reduce.cuh"
#include "pk/relayout.cuh"
#include "pk/scan.cuh"
#include "pk/shared.cuh"
#include "pk/tile.cuh"
