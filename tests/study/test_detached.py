"""A built kernel never returns a result that is silently cut off from a tensor that needs a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.errors import UsageError
from portakern.study.built import Built

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def softmax() -> Built:
    return pk.build("softmax", "numba:cpu", dtype=torch.float32, M=pk.dynamic, N=8)


def needing(*shape: int) -> Any:
    return torch.randn(*shape, requires_grad=True)


def test_it_is_refused_in_any_order_of_calls(softmax: Built):
    """What was checked for one tensor does not hold for another one that needs a gradient, nor for another mode."""
    x = torch.randn(3, 8)
    wanted = torch.softmax(x, -1)
    for _ in range(2):
        np.testing.assert_allclose(softmax(x), wanted, rtol=1e-5)
        with pytest.raises(UsageError, match="x of softmax needs a gradient") as error:
            softmax(x.clone().requires_grad_())
        with torch.no_grad():
            np.testing.assert_allclose(softmax(x.clone().requires_grad_()), wanted, rtol=1e-5)
    assert error.value.kind == "detached" and all(w in error.value.hint for w in ("as_torch_op()", "backward", "no_grad"))


@pytest.mark.parametrize("made", [
    lambda: torch.nn.Parameter(torch.randn(3, 8)), lambda: needing(3, 8) * 2, lambda: needing(8, 3).T,
    lambda: needing(25)[1:].view(3, 8),
], ids=["a parameter", "a result", "a view", "not aligned"])  # fmt: skip
def test_whatever_kind_of_tensor_it_is(softmax: Built, made: Any):
    with pytest.raises(UsageError, match="needs a gradient"):
        softmax(made())
    with pytest.raises(UsageError, match="needs a gradient"):
        softmax.prepare(made())
    with torch.inference_mode():
        assert softmax(made()).shape == (3, 8)


def test_any_input_counts():
    k = pk.build("rms_norm", "numba:cpu", dtype="f32", M=2, N=8)
    x, w = torch.randn(2, 8), torch.randn(8)
    k(x, w)
    with pytest.raises(UsageError, match="w of rms_norm"):
        k(x, w.requires_grad_())


def test_what_gives_no_floats_has_no_gradient_to_miss():
    @pk.operator
    def biggest(x: pk.Tensor["M", "N"]):
        return pk.argmax(x, axis=-1)

    assert pk.build(biggest, "numba:cpu", dtype="f32")(needing(3, 8)).shape == (3,)


def test_an_imported_module_refuses_its_input_and_not_its_weights():
    layer = torch.nn.Linear(8, 3)
    k = pk.build(pk.from_torch(layer, (torch.randn(2, 8),)), target="numba:cpu")
    x = torch.randn(2, 8)
    np.testing.assert_allclose(k(x), layer(x).detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match="needs a gradient"):
        k(x.requires_grad_())


def test_the_operator_of_torch_is_differentiable(softmax: Built):
    x = needing(3, 8)
    softmax.as_torch_op()(x).square().sum().backward()
    mine, x.grad = x.grad, None
    torch.softmax(x, -1).square().sum().backward()
    torch.testing.assert_close(mine, x.grad)


def test_compiling_a_bare_kernel_names_the_operator(softmax: Built):
    with pytest.raises(Exception, match=r"as_torch_op\(\)"):
        torch.compile(lambda x: softmax(x) + 1, fullgraph=True, backend="eager")(torch.randn(3, 8))
    op = softmax.as_torch_op()
    found = torch.compile(lambda x: op(x) + 1, fullgraph=True, backend="eager")(torch.ones(3, 8))
    torch.testing.assert_close(found, torch.full((3, 8), 1.125))
