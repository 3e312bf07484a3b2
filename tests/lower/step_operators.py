"""Operators whose steps follow each other: all forms that a loop has."""

from __future__ import annotations

import portakern as pk

T = pk.Tensor


@pk.operator
def decayed(x: T["T", "B", "H"], a: T["H"], h0: T["B", "H"], reverse: bool = False):
    """Lanes that do not meet: one kernel walks the steps."""
    def step(h, x_t):
        h = pk.where(h > 0.5, h * 0.5, h) * pk.sigmoid(a) + x_t
        return h, h * 2.0

    last, shown = pk.scan(step, h0, x, reverse=reverse)
    return shown, last


@pk.operator
def rnn(x: T["T", "B", "I"], w: T["I", "H"], u: T["H", "H"], reverse: bool = False):
    """What the input contributes is one product before the loop."""
    def step(h, x_t):
        h = pk.tanh(x_t @ w + h @ u)
        return h, h

    last, shown = pk.scan(step, pk.zeros((x.shape[1], w.shape[1]), x.dtype), x, reverse=reverse)
    return shown, last


@pk.operator
def both_ways(x: T["B", "T", "I"], w: T["I", "I"], g: T["I"]):
    """Two directions over a normalised input, joined, and a projection behind them; time along the second axis."""
    norm = x * pk.rsqrt(pk.mean(x * x, axis=-1, keepdims=True) + 1e-6) * g

    def step(h, x_t):
        h = pk.tanh(x_t + h @ w)
        return h, h

    start = pk.zeros((x.shape[0], x.shape[2]), x.dtype)
    ways = [pk.scan(step, start, norm, axis=1, reverse=reverse)[1] for reverse in (False, True)]
    return pk.concat(ways, axis=-1) @ pk.concat([w, w], axis=0)


@pk.operator
def two_layers(x: T["T", "B", "H"], u: T["H", "H"]):
    def step(h, x_t):
        h = pk.tanh(x_t @ u + h @ u.T)
        return h, h

    start = pk.zeros(x.shape[1:], x.dtype)
    return pk.scan(step, start, pk.scan(step, start, x)[1])[0]


@pk.operator
def powers(u: T["H", "H"], v: T["H"], steps: int = 4):
    """No sequence: v through u some times; and the length of every vector on the way."""
    def step(h, _):
        h = pk.sum(u * h, axis=1)
        return h, pk.sum(h * h)

    return pk.scan(step, v, None, length=steps)


@pk.operator
def counted(x: T["T", "B", "N"], m: T["N", "N"]):
    """Carries of several dtypes and shapes, one of which is handed on as it is; nothing is shown."""
    def step(state, x_t):
        number, seen, kept = state
        return (number + 1, seen @ m + x_t * pk.cast(number, pk.f32), kept), None

    (number, seen, kept), _ = pk.scan(step, (0, pk.zeros(x.shape[1:]), pk.full((3,), 7, pk.i32)), x)
    return number, seen, kept


@pk.operator
def turned(x: T["T", "N"], y: T["N"]):
    """Two carries that change places, and a third that counts signs."""
    def step(state, x_t):
        a, b, n = state
        return (b, a + x_t, n + pk.cast(a < b, pk.i32)), (a, pk.cast(n, pk.f32))

    (a, b, n), shown = pk.scan(step, (y, y * 2.0, pk.zeros(y.shape, pk.i32)), x)
    return a, b, n, *shown


@pk.operator
def nested(x: T["T", "S", "N"], u: T["N", "N"]):
    """A loop in a loop."""
    def outer(h, rows):
        def inner(g, row):
            g = pk.tanh(g @ u + row)
            return g, g * 0.5

        h, shown = pk.scan(inner, h, rows)
        return h, shown

    return pk.scan(outer, pk.zeros((1, x.shape[2])), x[:, :, None, :])[::-1]


@pk.operator
def shifted(x: T["T", "N"]):
    """The carry is a line that elements are pushed into."""
    def step(line, x_t):
        line = pk.concat([pk.expand_dims(pk.sum(x_t), 0), line[:-1]], axis=0)
        return line, pk.pad(line, ((0, 1),))

    return pk.scan(step, pk.zeros((4,)), x)


@pk.operator
def running_softmax(x: T["T", "B", "N"]):
    """Reductions in a step, of the carry and of the input."""
    def step(h, x_t):
        h = pk.softmax(h + x_t, axis=-1) + pk.softmax(x_t, axis=-1)
        return h, pk.max(x_t, axis=-1)

    last, shown = pk.scan(step, pk.zeros(x.shape[1:], x.dtype), x)
    return last, shown


@pk.operator
def shown_apart(x: T["T", "B", "N"]):
    """Lanes of the carry do not meet, those of the input alone do."""
    def step(h, x_t):
        h = h * 0.5 + x_t
        return h, pk.max(x_t, axis=-1)

    last, shown = pk.scan(step, pk.zeros(x.shape[1:], x.dtype), x)
    return last, shown


@pk.operator
def begun_in_pieces(x: T["N", "N"], outer: int = 2):
    """Carries that begin with pieces and what is filled in between, once and in every turn of a loop around it."""
    def inner(h, _):
        return h * 0.5 + pk.sum(h, axis=1, keepdims=True) * 0.1, None

    def step(total, _):
        start = pk.concat([pk.pad(total[:1], [(0, 1), (0, 1)], 1.0), pk.pad(x, [(0, 0), (0, 1)])], axis=0)
        return pk.scan(inner, start, length=3)[0][1 : 1 + x.shape[0], : x.shape[1]], None

    once = pk.scan(inner, pk.pad(x, [(0, 1), (0, 1)], 2.0), length=3)[0]
    return once, pk.scan(step, x, length=outer)[0]


@pk.operator
def across(x: T["B", "T", "D"], a: T["B", "D", "T"], reverse: bool = False):
    """Steps along the second axis of one array and the last of another, shown along the second."""
    def step(h, xs):
        x_t, a_t = xs
        h = pk.tanh(a_t * h + x_t)
        return h, (h, h * h)

    start = pk.zeros((x.shape[0], x.shape[2]), x.dtype)
    last, (shown, squares) = pk.scan(step, start, (x, pk.swapaxes(a, 1, 2)), axis=1, reverse=reverse)
    return shown, last, squares + 1.0


@pk.operator
def shown_twice(x: T["B", "T", "D"]):
    """What is shown is asked for with its steps along two dims."""
    def step(h, x_t):
        h = h * 0.5 + x_t
        return h, h

    _, shown = pk.scan(step, pk.zeros((x.shape[0], x.shape[2]), x.dtype), x, axis=1)
    return shown, pk.permute(shown, 1, 2, 0) * 2.0


@pk.operator
def selective(x: T["B", "T", "D"], dt: T["B", "T", "D"], a: T["D", "S"], b: T["B", "T", "S"], c: T["B", "T", "S"]):
    """A state-space model: each lane has a state of S numbers, of which a step shows a weighed sum."""
    def step(h, xs):
        x_t, dt_t, b_t, c_t = xs
        h = pk.exp(-dt_t[:, :, None] * pk.abs(a)) * h + (dt_t * x_t)[:, :, None] * b_t[:, None, :]
        return h, pk.sum(h * c_t[:, None, :], axis=-1)

    last, shown = pk.scan(step, pk.zeros((*x.shape[::2], a.shape[1]), x.dtype), (x, pk.abs(dt), b, c), axis=1)
    return shown, last


@pk.operator
def delta(q: T["H", "T", "K"], k: T["H", "T", "K"], v: T["H", "T", "V"], s0: T["H", "V", "K"]):
    """The delta rule: what the state has for a key is read by a product before something else is written there."""
    def step(s, xs):
        q_t, k_t, v_t = xs
        s = s + (v_t - pk.einsum("hvk,hk->hv", s, k_t))[:, :, None] * (k_t * 0.3)[:, None, :]
        return s, pk.einsum("hvk,hk->hv", s, q_t)

    last, shown = pk.scan(step, s0, (q, k, v), axis=1)
    return shown, last


@pk.operator
def turned_state(k: T["T", "K"], v: T["T", "V"], s0: T["K", "V"]):
    """The state has what is reduced in front."""
    def step(s, xs):
        k_t, v_t = xs
        s = s * 0.9 + k_t[:, None] * v_t
        return s, k_t @ s

    return pk.scan(step, s0, (k, v))


@pk.operator
def normed(x: T["T", "B", "N"]):
    """A state of unit length, and its largest element."""
    def step(h, x_t):
        h = h * 0.5 + x_t
        h = h * pk.rsqrt(pk.sum(h * h, axis=-1, keepdims=True) + 1e-3)
        return h, pk.max(h, axis=-1)

    return pk.scan(step, pk.zeros(x.shape[1:], x.dtype), x)


@pk.operator
def weighed(s: T["T", "B"], v: T["T", "B", "N"]):
    """Running softmax weights: two carries have a number a row, and none of the axis that the third one is reduced along."""
    def step(carry, xs):
        top, total, mixed = carry
        s_t, v_t = xs
        new = pk.maximum(top, s_t)
        old, part = pk.exp(top - new), pk.exp(s_t - new)
        mixed = mixed * old[:, None] + part[:, None] * v_t
        total = total * old + part
        return (new, total, mixed), pk.sum(mixed, axis=-1) / total

    begin = (pk.full(s.shape[1:], -100.0), pk.zeros(s.shape[1:]), pk.zeros(v.shape[1:]))
    (_, _, last), shown = pk.scan(step, begin, (s, v))
    return last, shown


@pk.operator
def of_itself(x: T["T", "B", "N"]):
    """A state that meets itself along two axes: what a block would have to hold is no row."""
    def step(h, x_t):
        both = h[:, :, None] * h[:, None, :]
        h = pk.tanh(pk.sum(both, axis=-1) + x_t)
        return h, pk.sum(h, axis=-1)

    return pk.scan(step, pk.zeros(x.shape[1:], x.dtype), x)


@pk.operator
def of_one_array(x: T["T", "B", "N"], y: T["N"]):
    """Views of one array, each made anew in the step, and a sequence that is given twice."""
    def step(h, xs):
        one, other = xs
        h = h * 0.5 + pk.tanh(one)[..., None] * pk.expand_dims(y, 0)
        return h, pk.sum(h * pk.expand_dims(y, 0) + other[..., None] * pk.expand_dims(y, 0), axis=-1)

    return pk.scan(step, pk.zeros((*x.shape[1:], y.shape[0])), (x, x))


@pk.operator
def along_both(x: T["N", "N"]):
    """Rows and columns of one array as sequences of one loop."""
    def step(h, xs):
        row, column = xs
        h = pk.tanh(h * row + column)
        return h, h

    return pk.scan(step, pk.zeros(x.shape[1:]), (x, x.T))


@pk.operator
def whole_as_well(x: T["N", "N"]):
    """Columns of an array that a step also reads whole, and one that the state begins with."""
    def step(s, column):
        s = s * 0.5 + x * column[:, None]
        return s, pk.sum(s, axis=-1)

    last, shown = pk.scan(step, pk.zeros(x.shape), x, axis=1)
    return last, shown, pk.scan(step, x, x, axis=1)[1]


@pk.operator
def balanced(x: T["B", "R", "C"], steps: int = 3):
    """Rows and columns in turns are divided by their sums (Sinkhorn 1967): a block holds whole matrices."""
    def step(p, _):
        p = p / pk.sum(p, axis=-1, keepdims=True)
        return p / pk.sum(p, axis=-2, keepdims=True), pk.max(p, axis=(-2, -1))

    return pk.scan(step, pk.exp(x), None, length=steps)


@pk.operator
def balanced_once(x: T["R", "C"], steps: int = 3):
    """The same of a single matrix: one block."""
    def step(p, _):
        p = p / pk.sum(p, axis=-1, keepdims=True)
        return p / pk.sum(p, axis=-2, keepdims=True), None

    return pk.scan(step, pk.exp(x), None, length=steps)[0]


@pk.operator
def memory(q: T["B", "T", "K"], k: T["B", "T", "K"], v: T["B", "T", "V"], f: T["B", "T"]):
    """A matrix memory with a normaliser, which lacks an axis of the matrix (mLSTM)."""
    def step(state, xs):
        c, n = state
        q_t, k_t, v_t, f_t = xs
        keep = pk.sigmoid(f_t)
        c = c * keep[:, None, None] + v_t[:, :, None] * k_t[:, None, :]
        n = n * keep[:, None] + k_t
        read = pk.einsum("bvk,bk->bv", c, q_t) / pk.maximum(pk.abs(pk.sum(n * q_t, axis=-1, keepdims=True)), 1.0)
        return (c, n), read

    start = pk.zeros((q.shape[0], v.shape[2], q.shape[2])), pk.zeros((q.shape[0], q.shape[2]))
    (c, n), shown = pk.scan(step, start, (q, k, v, f), axis=1)
    return shown, c, n


@pk.operator
def numbered(x: T["T", "B", "N"], reverse: bool = False):
    """Steps that know their numbers, as they are and in floats."""
    def step(h, xs):
        number, share, x_t = xs
        h = pk.where(number % 2 == 0, h * 0.5, h) + x_t * share
        return h, pk.sum(h, axis=-1)

    t = pk.arange(x.shape[0])
    return pk.scan(step, pk.zeros(x.shape[1:]), (t, pk.cast(t, pk.f32) * 0.25, x), reverse=reverse)


@pk.operator
def picked_out(x: T["T", "N"]):
    """Coordinates from outside, along two axes of one state."""
    n = pk.arange(x.shape[1])
    def step(h, x_t):
        row = pk.sum(pk.where(n[:, None] == 1, h, 0.0), axis=0)
        column = pk.sum(pk.where(n == 2, h, 0.0), axis=1)
        return h * 0.5 + row * x_t + column[:, None], None

    return pk.scan(step, x[:1] * x[0][:, None], x)[0]


@pk.operator
def down(a: T["B", "N", "N"], b: T["B", "N", "M"]):
    """A triangular system: steps along a dim that is called as another one of its array; columns lie side by side."""
    n = pk.arange(a.shape[1])
    def step(x, xs):
        i, row, rest = xs
        rest = rest - pk.sum(pk.where(n < i, row, 0.0)[..., None] * x, axis=-2)
        return pk.where(n[:, None] == i, rest[:, None, :], x), None

    return pk.scan(step, pk.zeros(b.shape), (n, pk.swapaxes(a, 0, 1), pk.swapaxes(b, 0, 1)))[0]


@pk.operator
def factored(a: T["B", "N", "N"]):
    return pk.cholesky(a @ pk.swapaxes(a, -1, -2) + 4.0 * pk.cast(pk.iota(a.shape, -1) == pk.iota(a.shape, -2), a.dtype))


@pk.operator
def solved(a: T["B", "N", "N"], b: T["B", "N", "M"]):
    return pk.solve_triangular(a * 0.2 + 4.0 * pk.cast(pk.iota(a.shape, -1) == pk.iota(a.shape, -2), a.dtype), b)


@pk.operator
def of_one_number(x: T["T", "N"]):
    """A state without dims, which is summed with a sequence."""
    return pk.scan(lambda s, x_t: (pk.tanh(pk.sum(s * x_t)), s), 0.5, x)


@pk.operator
def joined_before(x: T["T", "N"], y: T["T", "M"]):
    """Two states that share no axis; each step changes both and joins what they were before."""
    def step(state, xs):
        a, b = state
        x_t, y_t = xs
        return (pk.tanh(a + x_t * pk.mean(b)), pk.tanh(b - y_t * pk.max(a))), pk.sum(a) + pk.sum(b)

    (a, b), shown = pk.scan(step, (pk.zeros(x.shape[1:]), pk.zeros(y.shape[1:]) + 0.5), (x, y))
    return a, b, shown


@pk.operator
def shown_sums(x: T["B", "T", "N"], a: T["N"]):
    """Lanes that meet only in what is shown, as a sum and as a maximum."""
    def step(h, x_t):
        h = h * a + x_t
        return h, (pk.sum(h * h, axis=-1), pk.max(h, axis=-1))

    last, (squares, largest) = pk.scan(step, pk.zeros((x.shape[0], x.shape[2])), x, axis=1)
    return last, squares, largest


@pk.operator
def gated(q: T["H", "T", "K"], k: T["H", "T", "K"], v: T["H", "T", "V"], b: T["H", "T"], a: T["H", "T"]):
    """The gated delta rule, of which the read is shown as well."""
    def step(s, xs):
        q_t, k_t, v_t, b_t, a_t = xs
        s = s * pk.sigmoid(a_t)[:, None, None]
        old = pk.einsum("hvk,hk->hv", s, k_t)
        s = s + pk.einsum("hv,hk->hvk", (v_t - old) * b_t[:, None], k_t)
        return s, pk.einsum("hvk,hk->hv", s, q_t) - old * 0.5

    return pk.scan(step, pk.zeros((q.shape[0], v.shape[2], q.shape[2])), (q, k, v, b, a), axis=1)[1]


@pk.operator
def of_unit_keys(q: T["H", "T", "K"], k: T["H", "T", "K"], v: T["H", "T", "V"]):
    """The delta rule, of which a step makes its key as long as 1."""
    def step(s, xs):
        q_t, k_t, v_t = xs
        k_t = k_t * pk.rsqrt(pk.sum(k_t * k_t, axis=-1, keepdims=True) + 1e-3)
        s = s * 0.9 + (v_t - pk.einsum("hvk,hk->hv", s, k_t))[:, :, None] * k_t[:, None, :]
        return s, pk.einsum("hvk,hk->hv", s, q_t)

    return pk.scan(step, pk.zeros((q.shape[0], v.shape[2], q.shape[2])), (q, k, v), axis=1)[1]


@pk.operator
def of_heads(x: T["B", "T", "H", "P"], dt: T["B", "T", "H"], a: T["H"], b: T["B", "T", "N"], c: T["B", "T", "N"]):
    """A state of matrices, one a head, that are scaled by a number each."""
    def step(h, xs):
        x_t, dt_t, b_t, c_t = xs
        h = pk.exp(dt_t * a)[:, :, None, None] * h + (dt_t[:, :, None] * x_t)[..., None] * b_t[:, None, None, :]
        return h, pk.sum(h * c_t[:, None, None, :], axis=-1)

    start = pk.zeros((x.shape[0], x.shape[2], x.shape[3], b.shape[2]))
    return pk.scan(step, start, (x, dt, b, c), axis=1)[1]


@pk.operator
def scaled_sums(x: T["B", "T", "N"], a: T["N"], g: T["B", "T"]):
    """A sum that is shown times a number of its step."""
    def step(h, xs):
        x_t, g_t = xs
        h = h * a + x_t
        return h, pk.sum(h, axis=1) * g_t

    return pk.scan(step, pk.zeros((x.shape[0], x.shape[2])), (x, g), axis=1)


@pk.operator
def of_a_batch(x: T["B", "T", "N"], a: T["N"]):
    """A sum along the first axis."""
    def step(h, x_t):
        h = h * a + x_t
        return h, pk.sum(h, axis=0)

    return pk.scan(step, pk.zeros((x.shape[0], x.shape[2])), x, axis=1)


@pk.operator
def sums_in_turns(x: T["S", "B", "T", "N"], w: T["B", "B"], a: T["N"]):
    """A loop that shows sums inside of a loop of products."""
    def outer(h, rows):
        def step(g, row):
            g = g * a + row
            return g, pk.sum(g, axis=-1)

        last, shown = pk.scan(step, w @ h, rows, axis=1)
        return last, shown

    return pk.scan(outer, pk.zeros((x.shape[1], x.shape[3])), x)
