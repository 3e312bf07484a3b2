// Undefinedness: which register bits were never written, or computed from such.
//
// A vector register has a bit a lane, a scalar register a bit a bit (lane masks need that). Shifts of vector registers follow
// single bits, too: clang extends 32 bits to 64 by a dword that it never writes, shifts, and takes what is defined of the two.
// Registers keep it silently; it is reported where it reaches an address, a branch, EXEC or global memory.
#pragma once

#include "state.hpp"

namespace machine {

// Lane by lane from all sources to all destinations: right for what works on lanes one by one.
void propagate_undefined(Wave &w, const Op &op);
void check_exec(Wave &w, const Op &op);   // fails if which lanes are active is undefined
void refresh_mask(Wave &w);               // Wave::mask and Wave::full from EXEC

}  // namespace machine
