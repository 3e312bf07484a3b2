"""Values that are used many times: a chain of 40 operations, each of which reads the last one twice or three times, has more
than 2**40 ways from its end to its start.  Whoever walks it must come to each value once, or never ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import portakern as pk
from portakern.registry import registry
from portakern.tools.deep import with_room
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick
T = pk.Tensor
LENGTH = 40


def chain(y: Any, length: int = LENGTH) -> Any:
    for n in range(length):
        y = pk.where(y > 0.5, y * 0.5, y + 0.25) if n % 3 else y * y + y
    return y


def integers(i: Any) -> Any:
    for _ in range(LENGTH):
        i = (i ^ (i >> 3)) + (i & 7)
    return i


def truths(m: Any) -> Any:
    for _ in range(LENGTH):
        m = (m & ~(m ^ m)) | (m == (m & m))
    return m


@pk.operator
def rows(x: T["M", "N"]):
    m = chain(pk.mean(x, axis=-1, keepdims=True))
    return chain(x - m) * m, pk.sum(chain(x), axis=-1)


@pk.operator
def product(x: T["M", "K"], w: T["K", "N"]):
    return chain(chain(x) @ chain(w))


@pk.operator
def attention(q: T["M", "K"], k: T["N", "K"], v: T["N", "K"]):
    return pk.softmax(chain(pk.matmul(q, k.T, dtype=pk.f32))) @ v


@pk.operator
def scans(x: T["M", "N"]):
    return pk.cumsum(chain(x), axis=-1), pk.associative_scan(lambda a, b: chain(pk.maximum(a, b)), x, axis=-1)


@pk.operator
def masks(x: T["M", "N"], m: T["M", "N", pk.boolean]):
    seen = truths(pk.iota(x.shape, 0) <= pk.iota(x.shape, 1))
    return pk.where(truths(m), x, 0.0), pk.where(seen, x, chain(pk.cast(pk.iota(x.shape, 1), pk.f32)))


@pk.operator
def whole(i: T["M", "N", pk.i32]):
    return integers(i), pk.max(integers(i), axis=-1)


@pk.operator
def pieces(x: T["M", "N"]):
    return pk.concat([chain(x), pk.pad(chain(x), ((0, 0), (1, 2)))], axis=1)


@pk.operator
def orders(x: T["M", "N"]):
    return pk.sort(chain(x)), pk.argmax(chain(x), axis=-1)


@pk.operator
def random(x: T["M", "N"]):
    """Bits that are drawn are such chains too."""
    return pk.logsumexp(pk.normal(12345, (x.shape[0], x.shape[1]), std=0.5), axis=0), pk.dropout(x, 7, 0.5)


@pk.operator
def long(x: T["M", "N"]):
    """Deeper than Python's stack is by itself."""
    return pk.sum(chain(x, 400), axis=-1)


OPERATORS: list[Callable[..., Any]] = [rows, product, attention, scans, masks, whole, pieces, orders, random, long]
TARGETS = ("numba:cpu", "cpp:cpu", "cuda:sm_90a", "hip:gfx942", "opencl:cpu", "triton:sm_90", "pallas:v5e")
ALIKE = ("cuda:sm_80", "hip:gfx1201", "sycl:cpu", "pallas:v6e")
"""Emitted by what emits for one of the others: SYCL's loops are OpenCL's."""


@pytest.mark.parametrize("target", [*TARGETS, *(pytest.param(t, marks=pytest.mark.slow) for t in ALIKE)])
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda f: f.name)
def test_texts_grow_with_values_and_not_with_ways(operator: Any, target: str) -> None:
    at = registry().target(target)
    program = operator.program({d: n for d, n in {"M": 20, "N": 40, "K": 24}.items() if d in operator.dims}, {}, "f32")
    emitter = registry().language(at.language).emitter
    text = with_room(len(program.body.ops), lambda: emitter.emit(lowered_for(at, program), at)).text
    assert 0 < len(text) < 300 * len(program.body.ops) + 200_000
