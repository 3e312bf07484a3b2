"""Steps one after the other: tile programs against the oracle, and what leaves the loop."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.tensor import tensor_type
from portakern.lower import lower
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run

from . import step_operators as ops

pytestmark = pytest.mark.quick


def choose(nest: Nest) -> Schedule:
    last = nest.axes[-1].name
    tiled = {a.name for a in nest.axes if a.role in ("m", "n", "k", "reduced") or (a.role == "parallel" and a.name == last)}
    whole = {a.name: a.extent for a in nest.axes if a.role == "reduced" and isinstance(a.extent, int)}
    return Schedule(tuple((a.name, whole.get(a.name, 8) if a.name in tiled else 1) for a in nest.axes))


def agrees(operator: Operator, dims: dict[str, int], open_dims: tuple[str, ...] = (), **params: object) -> Program:
    """The lowered program, whose outputs are those of the oracle."""
    program = operator.program(dims, params, "f32")
    rng = np.random.default_rng(1)
    given = {a.name: (rng.standard_normal(tensor_type(a).shape) * 0.5).astype(np.float32) for a in program.args}  # type: ignore[arg-type]
    expected = evaluate(program, given)
    made = lower(operator.program({k: v for k, v in dims.items() if k not in open_dims}, params, "f32"), choose)
    found = run(made, given, {n: dims[n] for n in open_dims})
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-5)
    return made


CASES = [
    (ops.decayed, dict(T=5, B=3, H=10), {}),
    (ops.decayed, dict(T=5, B=3, H=10), dict(reverse=True)),
    (ops.rnn, dict(T=4, B=3, I=5, H=6), {}),
    (ops.rnn, dict(T=4, B=3, I=5, H=6), dict(reverse=True)),
    (ops.both_ways, dict(B=2, T=4, I=9), {}),
    (ops.two_layers, dict(T=3, B=2, H=5), {}),
    (ops.powers, dict(H=6), {}),
    (ops.counted, dict(T=5, B=2, N=3), {}),
    (ops.turned, dict(T=5, N=11), {}),
    (ops.nested, dict(T=3, S=2, N=5), {}),
    (ops.shifted, dict(T=5, N=7), {}),
    (ops.running_softmax, dict(T=4, B=3, N=11), {}),
]


@pytest.mark.parametrize(("operator", "dims", "params"), CASES, ids=lambda x: getattr(x, "name", None))
@pytest.mark.parametrize("length", [None, 1, 0])
def test_kernels_compute_what_the_oracle_says(operator: Operator, dims: dict[str, int], params: dict[str, object],
                                              length: int | None) -> None:  # fmt: skip
    if length is not None and "T" in dims:
        dims = {**dims, "T": length}
    agrees(operator, dims, **params)


@pytest.mark.parametrize("length", [0, 1, 6])
def test_open_lengths(length: int) -> None:
    agrees(ops.rnn, dict(T=length, B=3, I=5, H=6), ("T", "B"), reverse=True)
    agrees(ops.decayed, dict(T=length, B=3, H=6), ("T",))
