// Arrays as the hardware's buffers: what lies outside of one reads as zero, without a branch.
#pragma once

#include "pk/device.h"

namespace pk {

// An array of `bytes` from a wave-uniform address on.  Offsets count from there, in bytes; `base` is a uniform part of one.
struct Buffer {
  static constexpr int outside = static_cast<int>(0x80000000u);  // an offset that is in no array
  const void* start;
  int bytes;

  PK_FN Buffer() = default;
  PK_FN Buffer(const void* start_, int bytes_) : start(start_), bytes(bytes_) {}

#if defined(__gfx950__)
  // 16 bytes straight to LDS, at `to` (uniform) + 16 times the lane's number.
  PK_FN void to_lds(LdsAddress to, int offset, int base) const {
    __builtin_amdgcn_raw_ptr_buffer_load_lds(descriptor(), lds_pointer(to), 16, offset, base, 0, 0);
  }
#endif

  template <class V> PK_FN V read(int offset, int base) const {
    static_assert(sizeof(V) == 4 || sizeof(V) == 8 || sizeof(V) == 16, "4, 8 or 16 bytes");
    if constexpr (sizeof(V) == 4) return __builtin_bit_cast(V, __builtin_amdgcn_raw_buffer_load_b32(descriptor(), offset, base, 0));
    else if constexpr (sizeof(V) == 16) return __builtin_bit_cast(V, __builtin_amdgcn_raw_buffer_load_b128(descriptor(), offset, base, 0));
    else return __builtin_bit_cast(V, __builtin_amdgcn_raw_buffer_load_b64(descriptor(), offset, base, 0));
  }

 private:
  PK_FN __amdgpu_buffer_rsrc_t descriptor() const {
    return __builtin_amdgcn_make_buffer_rsrc(const_cast<void*>(start), 0, bytes, buffer_format);
  }
};

}  // namespace pk
