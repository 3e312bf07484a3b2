"""What windows and pieces mean, beside PyTorch's functions of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.errors import PortakernError
from portakern.ir import oracle

torch = pytest.importorskip("torch")
F = torch.nn.functional

T = pk.Tensor
pytestmark = pytest.mark.quick


def computed(function: Callable[..., Any], *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    """What the oracle says of ``function``, traced on arrays of these shapes."""
    names = [f"x{i}" for i in range(len(inputs))]
    kinds = {"float64": "f64", "int32": "i32"}
    specs = {n: T[(*x.shape, getattr(pk, kinds[x.dtype.name]))] for n, x in zip(names, inputs, strict=True)}
    scope: dict[str, Any] = {"function": function, **{f"T{i}": s for i, s in enumerate(specs.values())}}
    exec(f"def made({', '.join(f'{n}: T{i}' for i, n in enumerate(names))}):\n    return function({', '.join(names)})", scope)
    program = pk.operator(scope["made"]).program({}, {}, "f64")
    return tuple(oracle.evaluate(program, dict(zip(names, inputs, strict=True))).values())


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def last(x: Any) -> Any:
    """Channels of torch's layout moved last."""
    return np.moveaxis(x.numpy(), 1, -1)


def first(x: np.ndarray) -> Any:
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 1)))


def same(have: np.ndarray, want: Any) -> None:
    np.testing.assert_allclose(have, want.numpy() if hasattr(want, "numpy") else want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_in_the_layout_of_torch(n: int, groups: int) -> None:
    x, w = drawn(2, 4, *(7, 6, 5)[:n]), drawn(6, 4 // groups, *(3, 2, 2)[:n])
    conv, transposed = getattr(F, f"conv{n}d"), getattr(F, f"conv_transpose{n}d")
    for stride, padding, dilation in product((1, 2), (0, 1), (1, 2)):
        how: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        want = conv(*map(torch.from_numpy, (x, w)), **how)
        same(computed(lambda x, w, how=how: pk.conv(x, w, layout="NCHW", **how), x, w)[0], want)
        v = drawn(4, 6 // groups, *(3, 2, 2)[:n])
        want = transposed(*map(torch.from_numpy, (x, v)), **how)
        same(computed(lambda x, v, how=how: pk.conv(x, v, layout="NCHW", transposed=True, **how), x, v)[0], want)


def test_output_padding_is_less_padding_behind() -> None:
    x, w = drawn(1, 3, 5, 4), drawn(3, 2, 3, 3)
    want = F.conv_transpose2d(*map(torch.from_numpy, (x, w)), stride=2, padding=1, output_padding=1)
    same(computed(lambda x, w: pk.conv(x, w, 2, ((1, 0), (1, 0)), transposed=True, layout="NCHW"), x, w)[0], want)


def test_the_layout_that_arrays_fit_is_found() -> None:
    x, w = drawn(2, 4, 7, 6), drawn(5, 4, 3, 3)
    same(computed(lambda x, w: pk.conv(x, w), x, w)[0], F.conv2d(*map(torch.from_numpy, (x, w))))
    with pytest.raises(PortakernError, match="channels"):
        computed(lambda x, w: pk.conv(x, w), drawn(2, 4, 7, 6), drawn(5, 3, 3, 3))
    with pytest.raises(PortakernError, match="layout is"):
        computed(lambda x, w: pk.conv(x, w, layout="HWCN"), x, w)


@pytest.mark.parametrize(("window", "stride", "padding", "ceil"), list(product((2, 3), (1, 2, 3), (0, 1), (False, True))))
def test_pooling(window: int, stride: int, padding: int, ceil: bool) -> None:
    x = drawn(2, 8, 7, 3)
    best, where = F.max_pool2d(first(x), window, stride, padding, ceil_mode=ceil, return_indices=True)
    have = computed(lambda x: pk.max_pool(x, window, stride, padding, ceil=ceil, indices=True), x)
    same(have[0], last(best))
    same(have[1], last(where))
    for count in (True, False):
        want = F.avg_pool2d(first(x), window, stride, padding, ceil_mode=ceil, count_include_pad=count)
        same(computed(lambda x, c=count: pk.avg_pool(x, window, stride, padding, ceil=ceil, count_pads=c), x)[0], last(want))
    if not padding and not ceil:  # PyTorch scales a window that ends outside as if it were whole
        want = F.lp_pool2d(first(np.abs(x)), 3, window, stride, ceil_mode=ceil)
        same(computed(lambda x: pk.lp_pool(pk.abs(x), 3, window, stride, ceil=ceil), x)[0], last(want))


def test_windows_of_any_kind() -> None:
    x = drawn(2, 8, 7, 3)
    same(computed(lambda x: pk.max_pool(x, 2, 1, 0, (2, 3)), x)[0], last(F.max_pool2d(first(x), 2, 1, 0, (2, 3))))
    same(computed(lambda x: pk.min_pool(x, 3, 2), x)[0], last(-F.max_pool2d(first(-x), 3, 2)))
    for size in ((3, 2), (4, 7)):
        same(computed(lambda x, s=size: pk.adaptive_avg_pool(x, s), x)[0], last(F.adaptive_avg_pool2d(first(x), size)))
        same(computed(lambda x, s=size: pk.adaptive_max_pool(x, s), x)[0], last(F.adaptive_max_pool2d(first(x), size)))
    odd = drawn(2, 8, 50, 3)  # lines of which windows are selected, and longer ones
    odd[0, 2, 3, 0], odd[1, 4, 5, 1], odd[0, 7, 0, 2] = np.inf, -np.inf, np.nan
    for size in ((3, 7), (5, 3)):
        same(computed(lambda x, s=size: pk.adaptive_avg_pool(x, s), odd)[0], last(F.adaptive_avg_pool2d(first(odd), size)))
        same(computed(lambda x, s=size: pk.adaptive_max_pool(x, s), odd)[0], last(F.adaptive_max_pool2d(first(odd), size)))
    want = F.unfold(first(x), (3, 2), dilation=2, padding=1, stride=2).mT.reshape(2, -1, 18)
    same(computed(lambda x: pk.reshape(pk.unfold(x, (3, 2), 2, 1, 2), (2, 12, 18)), x)[0], want)
    want = F.local_response_norm(first(x), 3, 0.1, 0.6, 2.0)
    same(computed(lambda x: pk.local_response_norm(x, 3, 0.1, 0.6, 2.0), x)[0], last(want))
    same(computed(lambda x: pk.windows(x, 3, 1, 2), x)[0], torch.from_numpy(x).unfold(1, 3, 2))
    same(computed(lambda x: pk.sum(pk.windows(x, (2, 2), (1, 2)), axis=(-1, -2)), x)[0], last(4 * F.avg_pool2d(first(x), 2, 1)))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_padding(mode: str) -> None:
    x = drawn(2, 3, 6, 5)
    widths = [(0, 0), (0, 0), (2, 1), (3, 4)]
    want = F.pad(torch.from_numpy(x), (3, 4, 2, 1), mode=mode)
    same(computed(lambda x: pk.pad(x, widths, mode=mode), x)[0], want)


def test_padding_by_a_size() -> None:
    """As many elements as a dim has, beside a number of them: what a convolution by transforms pads."""
    @pk.operator
    def padded(x: T["B", "N"]):
        return pk.pad(x, ((0, 1), (x.shape[1], 2)), value=-1.5)

    x = drawn(3, 5)
    found = oracle.evaluate(padded.program({"B": 3, "N": 5}, {}, "f64"), {"x": x})
    same(next(iter(found.values())), F.pad(torch.from_numpy(x), (5, 2, 0, 1), value=-1.5))


def test_pieces() -> None:
    x, y = drawn(4, 5), drawn(4, 5)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    same(computed(lambda x: pk.roll(x, (2, -1), (0, 1)), x)[0], torch.roll(tx, (2, -1), (0, 1)))
    same(computed(lambda x: pk.roll(x, 7, 0), x)[0], torch.roll(tx, 7, 0))
    same(computed(lambda x: pk.repeat(x, 3, 0), x)[0], torch.repeat_interleave(tx, 3, 0))
    same(computed(lambda x: pk.tile(x, (2, 3)), x)[0], torch.tile(tx, (2, 3)))
    same(computed(lambda x, y: pk.interleave([x, y], 0), x, y)[0], torch.stack([tx, ty], 1).reshape(8, 5))
    found = computed(lambda x: pk.split(x, (1, 3, 1), 1), x)
    assert all((a == b.numpy()).all() for a, b in zip(found, torch.split(tx, (1, 3, 1), 1), strict=True))
    changed = x.copy()
    changed[1:3, 2:5] = y[:2, :3]
    same(computed(lambda x, y: pk.update(x, y[:2, :3], (1, 2)), x, y)[0], changed)


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_diagonals(k: int) -> None:
    x = drawn(4, 6)
    same(computed(lambda x: pk.diag(x, k), x)[0], np.diag(x, k))
    same(computed(lambda x: pk.diag(x, k), x[0])[0], np.diag(x[0], k))


def test_one_hot() -> None:
    i = np.array([2, 0, 5, -1], np.int32)
    same(computed(lambda i: pk.one_hot(i, 4, "f64"), i)[0], (i[:, None] == np.arange(4)) * 1.0)


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda x: pk.pad(x, [(9, 0), (0, 0)], mode="reflect"), "at most 3"),
    (lambda x: pk.pad(x, [(1, 0), (0, 0)], mode="mirror"), "mode is"),
    (lambda x: pk.split(x, 3), "equal parts"),
    (lambda x: pk.update(x, x, (1, 0)), "inside the array"),
    (lambda x: pk.max_pool(x, 2), "spatial"),
    (lambda x: pk.windows(x, 0), "positive"),
])  # fmt: skip
def test_mistakes_are_named(wrong: Callable[..., Any], says: str) -> None:
    with pytest.raises(PortakernError) as error:
        computed(wrong, drawn(4, 5))
    assert says in f"{error.value.message} {error.value.hint}"
