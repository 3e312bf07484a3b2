#pragma once
#include "hip/vector_types.h"
