"""Attention whose keys and values are products of few depths, which other products would compute again: it loads them."""
# case: {"dims": {"D": 17, "E": 5, "K": 4, "M": 129, "N": 40}, "dtype": "f32"}
import portakern as pk


@pk.operator
def op(q: pk.Tensor["E", "D"], x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"], wk: pk.Tensor["K", "D"], v: pk.Tensor["K", "D"]):
    h = pk.tanh(x @ w)
    s = q @ pk.swapaxes(h @ wk, 0, 1)
    p = pk.softmax(s * 0.125)
    return p @ pk.tanh(h @ v)
