"""Recurrent layers: one loop over steps for each layer and direction, by ``pk.scan``.

PyTorch keeps them whole (``aten.lstm.input`` and its like) where they are not decomposed.  The weights of a layer and
direction lie side by side: of the input, of the state, then the two biases, then that which projects the state to fewer
features; gates lie below each other in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from portakern.spec import contractions, pieces, random, views
from portakern.spec import elementwise as ew
from portakern.spec.recurrences import scan
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, rule, wide
from portakern.torch_import.types import NotImported

States = tuple[Traced, ...]


@dataclass(frozen=True)
class Weights:
    """Of one layer in one direction.  ``state_bias`` is ``None`` where there are no biases, ``projection`` where the state has
    as many features as the cell."""

    input: Traced
    state: Traced
    input_bias: Traced | None
    state_bias: Traced | None
    projection: Traced | None = None

    def of_input(self, x: Traced) -> Traced:
        return _affine(x, self.input, self.input_bias)

    def of_state(self, h: Traced) -> Traced:
        return _affine(h, self.state, self.state_bias)


def _affine(x: Traced, w: Traced, bias: Traced | None) -> Traced:
    made = contractions.matmul(x, views.transpose(w), dtype=wide(x.type.dtype))
    return made if bias is None else ew.add(made, bias)


def _lstm(w: Weights, x: Traced, states: States) -> States:
    h, c = states
    i, f, g, o = pieces.split(ew.add(w.of_input(x), w.of_state(h)), 4, -1)
    c_new = ew.add(ew.multiply(ew.sigmoid(f), c), ew.multiply(ew.sigmoid(i), ew.tanh(g)))
    h_new = ew.multiply(ew.sigmoid(o), ew.tanh(c_new))
    return (h_new if w.projection is None else _affine(h_new, w.projection, None)), c_new


def _gru(w: Weights, x: Traced, states: States) -> States:
    """The reset gate is of the state's product with its bias, as in cuDNN, and not of the state."""
    (h,) = states
    of_x, of_h = pieces.split(w.of_input(x), 3, -1), pieces.split(w.of_state(h), 3, -1)
    reset, update = (ew.sigmoid(ew.add(a, b)) for a, b in zip(of_x[:2], of_h[:2], strict=True))
    new = ew.tanh(ew.add(of_x[2], ew.multiply(reset, of_h[2])))
    return (ew.add(new, ew.multiply(update, ew.subtract(h, new))),)


def _simple(function: Callable[[Traced], Traced]) -> Callable[[Weights, Traced, States], States]:
    return lambda w, x, states: (function(ew.add(w.of_input(x), w.of_state(states[0]))),)


STEPS: dict[str, Callable[[Weights, Traced, States], States]] = {
    "aten.lstm": _lstm, "aten.gru": _gru, "aten.rnn_tanh": _simple(ew.tanh), "aten.rnn_relu": _simple(ew.relu),
}  # fmt: skip


@rule("aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input")
def _(call: Call, x: Traced, states: Any, weights: Sequence[Traced], biases: bool, layers: int, dropout: float, train: bool,
      both_ways: bool, batch_first: bool) -> tuple[Traced, ...]:  # fmt: skip
    """The states of every step in the last layer, and those after the last step of each layer and direction."""
    first = tuple(states) if isinstance(states, tuple | list) else (states,)
    ways = 2 if both_ways else 1
    of_layers = list(_weights(weights, layers * ways, biases))
    lines = views.swapaxes(x, 0, 1) if batch_first else x
    last: list[States] = []
    for layer in range(layers):
        shown = []
        for way in range(ways):
            number = layer * ways + way
            init = tuple(s[number] for s in first)
            end, states_of = _walk(STEPS[call.base], of_layers[number], lines, init, reverse=way == 1)
            last.append(end)
            shown.append(states_of)
        lines = shown[0] if ways == 1 else pieces.concat(shown, -1)
        if train and dropout and layer + 1 < layers:
            lines = random.dropout(lines, call.seed(), float(dropout))
    ends = (pieces.stack([end[n] for end in last], 0) for n in range(len(first)))
    return (views.swapaxes(lines, 0, 1) if batch_first else lines, *ends)


@rule("aten.lstm.data", "aten.gru.data", "aten.rnn_tanh.data", "aten.rnn_relu.data")
def _(call: Call, *args: Any) -> Any:
    raise NotImported("a packed sequence, whose steps have as many rows as its numbers say: pad it, and mask what is beyond")


def _weights(weights: Sequence[Traced], count: int, biases: bool) -> Iterator[Weights]:
    each = len(weights) // count
    for n in range(count):
        w_x, w_h, *rest = weights[n * each : (n + 1) * each]
        biases_of = (rest.pop(0), rest.pop(0)) if biases else (None, None)
        yield Weights(w_x, w_h, *biases_of, *rest)


def _walk(step: Callable[[Weights, Traced, States], States], w: Weights, x: Traced, init: States,
          reverse: bool) -> tuple[States, Traced]:  # fmt: skip
    """One layer in one direction.  States keep the dtype of ``x`` between steps."""
    def once(states: States, x_t: Traced) -> tuple[States, Traced]:
        new = tuple(ew.cast(s, old.type.dtype) for s, old in zip(step(w, x_t, states), states, strict=True))
        return new, new[0]

    return scan(once, init, x, reverse=reverse)
