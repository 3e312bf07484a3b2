// Tensor maps (CUDA Driver API, Tensor Map Object Management), a function of the host alone.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "device.hpp"

namespace portakern::cuda {

namespace {

struct Type {
    const char *name;
    int value;  // CUtensorMapDataType
};
// 8-bit floats and booleans are copied as bytes.
constexpr Type types[] = {{"u8", 0},  {"i8", 0},  {"bool", 0}, {"f8e4m3", 0}, {"f8e5m2", 0}, {"u16", 1}, {"i16", 1}, {"u32", 2},
                          {"i32", 3}, {"u64", 4}, {"i64", 5},  {"f16", 6},    {"f32", 7},    {"f64", 8}, {"bf16", 9}};
constexpr int no_interleave = 0, promotion_to_128_bytes = 2, zeros_outside = 0;
constexpr std::uint32_t most_dims = 5;
constexpr std::size_t map_bytes = 128, map_alignment = 64;

int type_of(const char *name) {
    for (const Type &type : types) {
        if (std::strcmp(type.name, name) == 0) return type.value;
    }
    return -1;
}

// CUtensorMapSwizzle of a width in bytes; -1 for one that there is not.
int swizzle_of(std::uint32_t bytes) {
    constexpr std::uint32_t widths[] = {0, 32, 64, 128};
    for (int i = 0; i < static_cast<int>(std::size(widths)); ++i) {
        if (widths[i] == bytes) return i;
    }
    return -1;
}

}  // namespace

pk_status tensor_map(pk_device_t device, const pk_tensor_map *what, void *out) {
    Gpu &gpu = gpu_of(device);
    if (gpu.api.tensor_map_encode_tiled == nullptr || gpu.api.tensor_map_encode_im2col == nullptr) {
        return fail(PK_UNSUPPORTED, "this NVIDIA driver has no tensor maps: one of CUDA 12 or newer has them");
    }
    const int type = type_of(what->dtype), swizzle = swizzle_of(what->swizzle_bytes);
    if (type < 0 || swizzle < 0 || what->rank == 0 || what->rank > most_dims) {
        return fail(PK_INVALID, std::string("there are no tensor maps of ") + what->dtype + " with " + std::to_string(what->rank) +
                                    " dims and swizzles of " + std::to_string(what->swizzle_bytes) + " bytes");
    }
    std::uint32_t steps[most_dims] = {1, 1, 1, 1, 1};
    const bool images = what->lower != nullptr;
    if (images && what->rank > 2) std::copy_n(what->steps, what->rank - 2, steps + 1);  // none over channels or images
    void *const array = reinterpret_cast<void *>(static_cast<std::uintptr_t>(what->address));
    alignas(map_alignment) unsigned char map[map_bytes] = {};
    const Result result =
        images ? gpu.api.tensor_map_encode_im2col(map, type, what->rank, array, what->shape, what->strides, what->lower, what->upper,
                                                  what->box[0], what->box[1], steps, no_interleave, swizzle, promotion_to_128_bytes,
                                                  zeros_outside)
               : gpu.api.tensor_map_encode_tiled(map, type, what->rank, array, what->shape, what->strides, what->box, steps,
                                                 no_interleave, swizzle, promotion_to_128_bytes, zeros_outside);
    if (result != success) return gpu.check(result, images ? "cuTensorMapEncodeIm2col" : "cuTensorMapEncodeTiled");
    std::memcpy(out, map, map_bytes);
    return PK_OK;
}

}  // namespace portakern::cuda
