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

// Component by component, with another one or with a number on the right.
#define PK_HD __attribute__((host, device)) inline
#define PK_OPERATOR(name, type, op)                                                                                    \
  PK_HD name##2 operator op(name##2 a, name##2 b) { return {type(a.x op b.x), type(a.y op b.y)}; }                       \
  PK_HD name##3 operator op(name##3 a, name##3 b) { return {type(a.x op b.x), type(a.y op b.y), type(a.z op b.z)}; }     \
  PK_HD name##4 operator op(name##4 a, name##4 b) {                                                                     \
    return {type(a.x op b.x), type(a.y op b.y), type(a.z op b.z), type(a.w op b.w)};                                    \
  }                                                                                                                    \
  PK_HD name##2 operator op(name##2 a, type b) { return a op name##2{b, b}; }                                           \
  PK_HD name##3 operator op(name##3 a, type b) { return a op name##3{b, b, b}; }                                        \
  PK_HD name##4 operator op(name##4 a, type b) { return a op name##4{b, b, b, b}; }                                     \
  template <class B> PK_HD name##2& operator op##=(name##2& a, B b) { return a = a op b; }                              \
  template <class B> PK_HD name##3& operator op##=(name##3& a, B b) { return a = a op b; }                              \
  template <class B> PK_HD name##4& operator op##=(name##4& a, B b) { return a = a op b; }
#define PK_ARITHMETIC(type, name)                                                                                      \
  PK_OPERATOR(name, type, +) PK_OPERATOR(name, type, -) PK_OPERATOR(name, type, *) PK_OPERATOR(name, type, /)

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

#ifndef PK_CUDA  // has none, and files define their own
PK_ARITHMETIC(float, float)
PK_ARITHMETIC(double, double)
PK_ARITHMETIC(int, int)
PK_ARITHMETIC(unsigned, uint)
#endif
#undef PK_ARITHMETIC
#undef PK_OPERATOR
#undef PK_HD

struct dim3 {
  unsigned x, y, z;
  __attribute__((host, device)) constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

using size_t = __SIZE_TYPE__;
