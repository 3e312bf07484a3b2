// portakern's tile vocabulary on AMD GPUs (CDNA 2 to 4, RDNA 3 and 4).  See docs/tile-vocabulary.md.
#pragma once

#include "pk/attention.h"
#include "pk/combine.h"
#include "pk/gather.h"
#include "pk/grid.h"
#include "pk/matrix.h"
#include "pk/pingpong.h"
#include "pk/reduce.h"
#include "pk/relayout.h"
#include "pk/scan.h"
#include "pk/scan_by.h"
#include "pk/sort.h"
