"""Operators that are wrong, each at the line marked with `# here`."""

import math

import numpy as np

import portakern as pk


@pk.operator
def shapes_differ(x: pk.Tensor["M", "N"], w: pk.Tensor["M"]):
    y = x * 2
    return y + w  # here


@pk.operator
def python_if(x: pk.Tensor["M", "N"]):
    if x > 0:  # here
        return x
    return -x


@pk.operator
def python_and(x: pk.Tensor["M"]):
    return pk.where((x > 0) and (x < 1), x, 0)  # here


@pk.operator
def to_float(x: pk.Tensor["M"]):
    return x * math.sqrt(x[0])  # here


@pk.operator
def numpy_function(x: pk.Tensor["M"]):
    y = x + 1
    return np.exp(y)  # here


@pk.operator
def numpy_sum(x: pk.Tensor["M"]):
    return np.sum(x)  # here


@pk.operator
def iterates(x: pk.Tensor["M", "N"]):
    return sum(row for row in x)  # here


@pk.operator
def unused(x: pk.Tensor["M"], y: pk.Tensor["M"]):  # here
    return x


@pk.operator
def returns_nothing(x: pk.Tensor["M"]):  # here
    x * 2


@pk.operator
def returns_number(x: pk.Tensor["M"]):  # here
    return {"a": x, "b": 2.0}


@pk.operator
def inner_dims(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
    return x @ y  # here


@pk.operator
def no_such_axis(x: pk.Tensor["M", "N"]):
    return pk.sum(x, axis=2)  # here


@pk.operator
def not_a_dtype(x: pk.Tensor["M"]):
    return pk.cast(x, "flaot32")  # here


@pk.operator
def size_math(x: pk.Tensor["M"]):
    return x * (x.shape[0] / 2)  # here


@pk.operator
def writes(x: pk.Tensor["M"]):
    x[0] = 1.0  # here
    return x


@pk.operator
def misspelt(x: pk.Tensor["M"]):
    return pk.exq(x)  # here  # pyright: ignore


@pk.operator
def bad_einsum(x: pk.Tensor["M", "N"], y: pk.Tensor["K", "M"]):
    return pk.einsum("mn,nk->mk", x, y)  # here


@pk.operator
def signed_and_unsigned(x: pk.Tensor["M", pk.i32], y: pk.Tensor["M", pk.u32]):
    return x + y  # here


@pk.operator
def odd_and_even(x: pk.Tensor["M", "N"]):
    return x[:, ::2] + x[:, 1::2]  # here


@pk.operator
def unequal_halves(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"]):
    h = x.shape[1] // 2
    return x[:, :h] @ w[h:]  # here


@pk.operator
def neighbours(x: pk.Tensor["M", "N"]):
    return x[1:] - x  # here


@pk.operator
def number_and_name(x: pk.Tensor["M", 4], y: pk.Tensor["M", "N"]):  # pyright: ignore[reportGeneralTypeIssues]
    return x + y  # here


@pk.operator
def channels_first(x: pk.Tensor["B", "C", "H", "W"], w: pk.Tensor["O", "C", 3, 3]):  # pyright: ignore
    return pk.conv(x, w, layout="NHWC")  # here


@pk.operator
def weights_first(x: pk.Tensor["B", "L", "C"], w: pk.Tensor["O", "C", 3]):  # pyright: ignore
    return pk.conv(x, w)  # here


@pk.operator
def no_spatial_dims(x: pk.Tensor["B", "C"], w: pk.Tensor["C", "O"]):
    return pk.conv(x, w)  # here


@pk.operator
def not_divided(x: pk.Tensor["M", "N"]):
    return pk.reshape(x, (x.shape[0], -1, 4))  # here


@pk.operator
def triangle_of_a_line(x: pk.Tensor["M"]):
    return pk.tril(x)  # here


@pk.operator
def named_size(x: pk.Tensor["M", "N"]):
    return pk.sum(x) + pk.full((3, "N"), 1.0)  # here  # pyright: ignore


@pk.operator
def float_indices(x: pk.Tensor["M", "N"], i: pk.Tensor["M"]):
    return pk.take(x, i)  # here


@pk.operator
def flat_indices(x: pk.Tensor["M", "N"], i: pk.Tensor["M", pk.i32]):
    return pk.take_along(x, i, 1)  # here


def helper(x):
    return pk.reshape(x, 3, -1)  # here too


@pk.operator
def in_a_helper(x: pk.Tensor["M"]):
    return helper(x)


@pk.operator(inputs={"index": pk.Integers(0, "V")})
def indices_of_no_dim(x: pk.Tensor["M", "N"], index: pk.Tensor["K", pk.i32]):  # here
    return pk.take(x, index)
