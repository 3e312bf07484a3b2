// The tile vocabulary on an Intel GPU: a work-group of sub-groups of 16 works on a tile together.
#pragma once
#include "pk/gpu/memory.hpp"
#include "pk/gpu/reduce.hpp"
#include "pk/gpu/relayout.hpp"
