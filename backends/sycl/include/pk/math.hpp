// Arithmetic on elements and on vectors of them: accurate to a few units in the last place (OpenCL C Specification,
// Relative Error as ULPs), never a fast-math variant.
#pragma once
#include "pk/base.hpp"

namespace pk {

// Both hand on NaN, which fmax and fmin do not.
template <class V>
PK_INLINE V max(V a, V b) {
    if constexpr (is_vector<V>) return select(convert<vec<int32_t, Shape<V>::lanes>>((a > b) | (a != a)), a, b);
    else return a > b || a != a ? a : b;
}
template <class V>
PK_INLINE V min(V a, V b) {
    if constexpr (is_vector<V>) return select(convert<vec<int32_t, Shape<V>::lanes>>((a < b) | (a != a)), a, b);
    else return a < b || a != a ? a : b;
}
template <class V>
PK_INLINE V clamp(V x, V low, V high) { return pk::min(pk::max(x, low), high); }

// The functions of OpenCL's extended instruction set, on float and double and vectors of them.
#define PK_FUNCTION(name, instruction) \
    template <class V>                 \
    PK_INLINE V name(V x) { return __spirv_ocl_##instruction(x); }
PK_FUNCTION(exp, exp)
PK_FUNCTION(exp2, exp2)
PK_FUNCTION(expm1, expm1)
PK_FUNCTION(log, log)
PK_FUNCTION(log2, log2)
PK_FUNCTION(log1p, log1p)
PK_FUNCTION(sqrt, sqrt)
PK_FUNCTION(rsqrt, rsqrt)
PK_FUNCTION(tanh, tanh)
PK_FUNCTION(erf, erf)
PK_FUNCTION(sin, sin)
PK_FUNCTION(cos, cos)
PK_FUNCTION(floor, floor)
PK_FUNCTION(ceil, ceil)
PK_FUNCTION(trunc, trunc)
PK_FUNCTION(round, rint)  // halves to even
#undef PK_FUNCTION
template <class V>
PK_INLINE V abs(V x) {
    if constexpr (!is_float<typename Shape<V>::element>) return pk::max(x, -x);
    else if constexpr (is_vector<V>) return __spirv_ocl_fabs(x);
    else return __builtin_elementwise_abs(x);  // Intel's compiler for CPUs crashed over the other form of it in a loop
}
template <class V>
PK_INLINE V sign(V x) {  // NaN and zeros are handed on
    if constexpr (is_vector<V>) {
        const V one = 1;
        return select(convert<vec<int32_t, Shape<V>::lanes>>(x > V(0)), one, select(convert<vec<int32_t, Shape<V>::lanes>>(x < V(0)), -one, x));
    } else {
        return x > V(0) ? V(1) : x < V(0) ? V(-1) : x;
    }
}
template <class V>
PK_INLINE auto isnan(V x) { return x != x; }
template <class V>
PK_INLINE V sigmoid(V x) { return 1.0f / (1.0f + pk::exp(-x)); }
PK_INLINE double sigmoid(double x) { return 1.0 / (1.0 + pk::exp(-x)); }
template <class V>
PK_INLINE V pow(V a, V b) { return __spirv_ocl_pow(a, b); }
template <class V>
PK_INLINE V fma(V a, V b, V c) { return __spirv_ocl_fma(a, b, c); }

// Division rounded down, and what it leaves: the remainder has the sign of the divisor.  The least integer over -1 wraps round;
// processors trap on it, so the division is by 1 there.
template <class V>
PK_INLINE V floordiv(V a, V b) {
    using T = typename Shape<V>::element;
    if constexpr (is_float<T>) {
        return pk::floor(a / b);
    } else if constexpr (T(-1) > T(0)) {
        return a / b;  // without signs
    } else if constexpr (is_vector<V>) {  // a comparison of vectors gives -1
        const V opposite = b == V(-1), d = (b & ~opposite) | (opposite & 1);
        const V q = a / d, r = a - q * d;
        return ((q + ((r != 0) & ((r ^ d) < 0))) ^ opposite) - opposite;
    } else {
        const bool opposite = b == V(-1);
        const V d = opposite ? V(1) : b, q = a / d, r = a - q * d;
        return opposite ? V(0 - static_cast<uint64_t>(q)) : q - (r != 0 && (r ^ d) < 0);
    }
}
template <class V>
PK_INLINE V rem(V a, V b) {
    if constexpr (!is_float<typename Shape<V>::element>) {
        return a - floordiv(a, b) * b;
    } else {
        const V r = __spirv_ocl_fmod(a, b);  // exact, which a less the quotient rounded down times b is not
        if constexpr (is_vector<V>) {
            const auto off = (r != V(0)) & ((r < V(0)) ^ (b < V(0)));
            return select(convert<vec<int32_t, Shape<V>::lanes>>(off), r + b, r);
        } else return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
}

}  // namespace pk
