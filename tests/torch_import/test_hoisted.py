"""What a module's weights alone decide is done once for all calls, and never from weights that are no longer so."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.check import check_executable  # noqa: E402
from portakern.errors import UsageError  # noqa: E402
from portakern.launch import hoisted  # noqa: E402
from portakern.launch.hoisted import Part  # noqa: E402
from portakern.study.built import Built  # noqa: E402


class Net(nn.Module):
    """Kernels want the weights of its first convolution in another layout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 2, 3)

    def forward(self, x: Any) -> Any:
        return self.conv2(torch.relu(self.norm(self.conv1(x))))


class Counting:
    """An executable that counts its calls."""

    guards = True

    def __init__(self, executable: Any) -> None:
        self.executable, self.calls = executable, 0

    def run(self, buffers: Any, sizes: Any) -> None:
        self.executable.run(buffers, sizes)

    def call(self, inputs: Sequence[Any], sizes: Any) -> Any:
        self.calls += 1
        return self.executable.call(inputs, sizes)


def counting(k: Built) -> Counting:
    whole: Any = k.executable
    counted = Counting(whole.preparation.executable)
    whole.preparation = Part(whole.preparation.source, counted)
    whole._runs.clear()
    return counted


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


X = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def built(request: Any) -> tuple[Net, Built, Counting]:
    module = net()
    target = getattr(request, "param", "cpp:cpu")
    k = pk.build(pk.from_torch(module, (X,), dynamic={"x": {0: "B"}}), target=target)
    return module, k, counting(k)


everywhere = pytest.mark.parametrize("built", ["cpp:cpu", "numba:cpu"], indirect=True)


def right(k: Callable[..., Any], module: Net, x: Any = X, **named: Any) -> None:
    with torch.no_grad():
        want = module(torch.as_tensor(x))
        np.testing.assert_allclose(np.asarray(k(x, **named)), want, atol=1e-5)


@everywhere
def test_it_is_done_once_whatever_the_shape(built: tuple[Net, Built, Counting]) -> None:
    module, k, preparation = built
    assert k.preparation is not None
    names = {a.name for a in k.program.by_role("input")}
    assert "conv1_weight" not in names and {"x", "conv1_bias"} <= names
    for rows in (2, 1, 2):
        right(k, module, X[:rows])
    assert preparation.calls == 1


def test_weights_that_torch_has_written_are_prepared_again(built: tuple[Net, Built, Counting]) -> None:
    module, k, preparation = built
    right(k, module)
    with torch.no_grad():
        module.conv1.weight.mul_(2.0)
    right(k, module)
    module.load_state_dict({n: x * 0.5 for n, x in module.state_dict().items()})
    right(k, module)
    assert preparation.calls == 3


@pytest.mark.parametrize("how", [{"fused": True}, {"foreach": True}, {"foreach": False}])
def test_steps_of_optimisers_are_seen(built: tuple[Net, Built, Counting], how: dict[str, bool]) -> None:
    """Torch does not count what fused ones write."""
    module, k, preparation = built
    optimiser = torch.optim.Adam(module.parameters(), 0.1, **how)
    right(k, module)
    module(X).sum().backward()
    optimiser.step()
    right(k, module)
    right(k, module)
    assert preparation.calls == 2


def test_arrays_of_numpy_see_the_modules_weights_as_they_are(built: tuple[Net, Built, Counting]) -> None:
    module, k, preparation = built
    right(k, module, X.numpy())
    right(k, module, X.numpy())
    with torch.no_grad():
        module.conv1.weight.add_(1.0)
    right(k, module, X.numpy())
    assert preparation.calls == 2
    brought = k.bound._there["numpy"]
    assert "conv1_bias" in brought and "conv1_weight" not in brought  # which nothing needs again


def test_other_weights_in_a_call_are_prepared_and_the_modules_again(built: tuple[Net, Built, Counting]) -> None:
    module, k, _ = built
    other = copy.deepcopy(module)
    with torch.no_grad():
        other.conv1.weight.mul_(3.0)
    right(k, module)
    right(k, other, conv1_weight=other.conv1.weight.detach())
    right(k, module)


def test_a_weight_whose_memory_is_another_is_another(built: tuple[Net, Built, Counting]) -> None:
    module, k, _ = built
    weight = module.conv1.weight.detach().clone()
    right(k, module, conv1_weight=weight)
    weight.data = weight.data * 2.0
    with torch.no_grad():
        module.conv1.weight.mul_(2.0)
    right(k, module, conv1_weight=weight)


def _numpys(x: Any) -> Any:
    return x.detach().numpy().copy()


def _of_inference(x: Any) -> Any:
    with torch.inference_mode():
        return x.clone()


@pytest.mark.parametrize("uncounted", [_numpys, _of_inference])
def test_weights_whose_writes_nobody_counts_are_prepared_at_each_call(built: tuple[Net, Built, Counting], uncounted: Any
                                                                     ) -> None:  # fmt: skip
    module, k, preparation = built
    weight = uncounted(module.conv1.weight)
    for _ in range(3):
        right(k, module, X.numpy(), conv1_weight=weight)
        with torch.inference_mode():
            weight *= 2
        with torch.no_grad():
            module.conv1.weight.mul_(2.0)
    assert preparation.calls >= 3


def test_refresh_is_for_writes_that_nobody_counts(built: tuple[Net, Built, Counting]) -> None:
    module, k, preparation = built
    right(k, module)
    prepared = k.prepare(X)
    module.conv1.weight.data.mul_(2.0)
    k.refresh()
    right(k, module)
    right(lambda x: (prepared(), prepared.outputs[0])[1], module)
    assert preparation.calls == 2


def test_a_modules_other_tensors_are_its_weights_too(built: tuple[Net, Built, Counting]) -> None:
    module, k, preparation = built
    right(k, module)
    module.conv1.weight = nn.Parameter(module.conv1.weight * 2)
    right(k, module)
    module.conv1.weight.data = module.conv1.weight.data * 2
    module.norm.bias = nn.Parameter(module.norm.bias + 1)  # which nothing is prepared of
    right(k, module)
    right(k, module, X.numpy())
    assert preparation.calls == 4
    module.double()
    with pytest.raises(UsageError, match="is f64, this build takes f32"):
        k(X)


@everywhere
def test_prepared_calls_see_what_was_written(built: tuple[Net, Built, Counting]) -> None:
    module, k, preparation = built
    out = torch.empty(2, 2, 4, 4)
    prepared = k.prepare(X, out=out)
    for _ in range(2):
        right(lambda x: (prepared(), out)[1], module)
        with torch.no_grad():
            module.conv1.weight.mul_(2.0)
    assert preparation.calls == 2 and prepared.outputs[0] is out
    weight = module.conv1.weight.detach().numpy().copy()
    uncounted = k.prepare(X.numpy(), *(weight if n == "conv1_weight" else x.numpy() for n, x in k.bound.values.items()))
    for _ in range(2):
        weight *= 2
        with torch.no_grad():
            module.conv1.weight.mul_(2.0)
        right(lambda x: (uncounted(), uncounted.outputs[0])[1], module)
    assert uncounted.call is None


def test_threads_prepare_once(built: tuple[Net, Built, Counting]) -> None:
    module, k, preparation = built
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: k(X), range(8)))
    assert preparation.calls == 1 and all(torch.equal(made[0], y) for y in made)
    right(k, module)


def test_what_a_device_records_prepares_each_time(built: tuple[Net, Built, Counting], monkeypatch: pytest.MonkeyPatch) -> None:
    module, k, preparation = built
    monkeypatch.setattr(hoisted, "is_recording", lambda x: True)
    for _ in range(2):
        right(k, module)
    assert preparation.calls >= 2 and not k.executable._kept  # type: ignore[attr-defined]
    done, prepared = preparation.calls, k.prepare(X)
    right(lambda x: (prepared(), prepared.outputs[0])[1], module)
    assert preparation.calls == done + 2


def test_both_parts_are_checked_as_one() -> None:
    module = net()
    op = pk.from_torch(module, (X,))
    k = pk.build(op, target="numba:cpu")
    assert k.preparation is not None
    assert check_executable(k.executable, k.tensor_program, families=op.families).correct


def test_copies_prepare_for_themselves() -> None:
    module = net()
    k = pk.build(pk.from_torch(module, (X,)), target="numba:cpu")
    right(k, module)
    again = pickle.loads(pickle.dumps(k))
    right(again, module)
    with torch.no_grad():
        module.conv1.weight.mul_(2.0)
    right(k, module)


def test_strided_weights_have_a_variant_that_prepares_them_too() -> None:
    module = net()
    k = pk.build(pk.from_torch(module, (X,)), target="numba:cpu")
    right(k, module)
    with torch.no_grad():
        channels_last = module.conv1.weight.detach().to(memory_format=torch.channels_last)
        right(k, module, conv1_weight=channels_last)
        channels_last.mul_(2.0)
        module.conv1.weight.mul_(2.0)
        right(k, module, conv1_weight=channels_last)


@pytest.mark.quick
def test_weights_in_training_and_what_the_module_writes_itself_are_no_weights() -> None:
    module = net()
    assert pk.from_torch(module, (X,), train=True).weights == ()
    assert "conv1_weight" in pk.from_torch(module, (X,)).weights

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: Any) -> Any:
            self.seen += 1
            return self.fc(x) * self.seen

    assert pk.from_torch(Counted(), (torch.ones(2, 4),)).weights == ("fc_weight", "fc_bias")


def test_an_operator_of_torch_takes_weights_like_other_arguments_and_trains_them() -> None:
    module = net()
    op = pk.from_torch(module, (X,))
    k = pk.build(op, target="cpp:cpu")
    called = k.as_torch_op()
    weights = [x.clone().requires_grad_(x.is_floating_point()) for x in op.bound.values()]
    for _ in range(2):
        y = called(X, *weights)
        right(lambda x: y.detach(), module)  # noqa: B023
        grads = torch.autograd.grad(y.sum(), weights[:1])
        with torch.no_grad():
            weights[0] -= 0.1 * grads[0]
            module.conv1.weight.copy_(weights[0])


def test_swapped_modules_prepare_once_until_they_are_trained() -> None:
    module = net()
    swapped = pk.swap(module, "cpp:cpu", X, where=Net)
    (kernels,) = swapped.stand_ins[0].kernels.values()
    preparation = counting(kernels.built)
    original = swapped.stand_ins[0].original
    kernels.built.refresh()
    with torch.no_grad():
        for times in (1.0, 2.0):
            module.conv1.weight.mul_(times)
            for _ in range(2):
                np.testing.assert_allclose(module(X), original(X), atol=1e-5)
        module.conv1.weight = nn.Parameter(module.conv1.weight * 2)
        np.testing.assert_allclose(module(X), original(X), atol=1e-5)
        module.conv1.weight.data = module.conv1.weight.data * 2
        np.testing.assert_allclose(module(X), original(X), atol=1e-5)
    assert preparation.calls == 4 and not swapped.fell_back
