// HIP's short vectors and dim3.
#pragma once

#define PK_VECTORS(type, name)                                                                                        \
  struct __attribute__((aligned(sizeof(type)))) name##1 { type x; };                                                   \
  struct __attribute__((aligned(2 * sizeof(type)))) name##2 { type x, y; };                                            \
  struct name##3 { type x, y, z; };                                                                                    \
  struct __attribute__((aligned(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)))) name##4 { type x, y, z, w; };          \
  __attribute__((host, device)) inline name##2 make_##name##2(type x, type y) { return {x, y}; }                       \
  __attribute__((host, device)) inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }            \
  __attribute__((host, device)) inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

PK_VECTORS(float, float)
PK_VECTORS(double, double)
PK_VECTORS(int, int)
PK_VECTORS(unsigned, uint)
PK_VECTORS(short, short)
PK_VECTORS(unsigned short, ushort)
PK_VECTORS(signed char, char)
PK_VECTORS(unsigned char, uchar)
PK_VECTORS(long long, longlong)
#undef PK_VECTORS

struct dim3 {
  unsigned x, y, z;
  __attribute__((host, device)) constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

using size_t = __SIZE_TYPE__;
