// CUDA's intrinsics that HIP's headers here do not have by the same name.
#pragma once

// Cache hints: loads and stores are what they hint at.
#define PK_LOAD(name) template <class T> PK_FN T name(const T* from) { return *from; }
#define PK_STORE(name) template <class T> PK_FN void name(T* to, T value) { *to = value; }
PK_LOAD(__ldca) PK_LOAD(__ldcg) PK_LOAD(__ldcs) PK_LOAD(__ldlu) PK_LOAD(__ldcv)
PK_STORE(__stwb) PK_STORE(__stcg) PK_STORE(__stcs) PK_STORE(__stwt)
#undef PK_LOAD
#undef PK_STORE

PK_FN unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
  unsigned picked = 0;
  for (int n = 0; n < 4; ++n) {
    const unsigned at = selector >> 4 * n & 15, byte = static_cast<unsigned>(bytes >> 8 * (at & 7)) & 255;
    picked |= (at & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * n;
  }
  return picked;
}
PK_FN unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (by & 31) >> 32);
}
PK_FN unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (by & 31));
}
PK_FN int __dp4a(int a, int b, int sum) {
  for (int n = 0; n < 32; n += 8) sum += static_cast<signed char>(a >> n) * static_cast<signed char>(b >> n);
  return sum;
}
PK_FN unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int n = 0; n < 32; n += 8) sum += (a >> n & 255) * (b >> n & 255);
  return sum;
}
PK_FN unsigned __sad(int a, int b, unsigned sum) { return sum + static_cast<unsigned>(a > b ? a - b : b - a); }
PK_FN unsigned __usad(unsigned a, unsigned b, unsigned sum) { return sum + (a > b ? a - b : b - a); }

PK_FN double __dadd_rn(double a, double b) { return a + b; }
PK_FN double __dmul_rn(double a, double b) { return a * b; }
PK_FN double __ddiv_rn(double a, double b) { return a / b; }
PK_FN double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
PK_FN float __double2float_rn(double x) { return static_cast<float>(x); }
PK_FN int __double2int_rz(double x) { return static_cast<int>(x); }
PK_FN unsigned __float2uint_rz(float x) { return static_cast<unsigned>(x); }
PK_FN long long __float2ll_rz(float x) { return static_cast<long long>(x); }
PK_FN float __ll2float_rn(long long x) { return static_cast<float>(x); }
PK_FN double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
PK_FN long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
PK_FN int __double2hiint(double x) { return static_cast<int>(__builtin_bit_cast(unsigned long long, x) >> 32); }
PK_FN int __double2loint(double x) { return static_cast<int>(__builtin_bit_cast(unsigned long long, x)); }
PK_FN double __hiloint2double(int high, int low) {
  return __builtin_bit_cast(double, static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}

PK_FN void __sincosf(float x, float* s, float* c) { *s = __sinf(x), *c = __cosf(x); }
PK_FN float __tanf(float x) { return __sinf(x) / __cosf(x); }
PK_FN float rcbrtf(float x) { return powf(x, -0.333333333f); }
PK_FN void __nanosleep(unsigned) { __builtin_amdgcn_s_sleep(1); }
PK_FN void __trap() { __builtin_trap(); }
PK_FN long long clock64() { return static_cast<long long>(__builtin_readcyclecounter()); }
PK_FN long clock() { return static_cast<long>(__builtin_readcyclecounter()); }
