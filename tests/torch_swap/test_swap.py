"""``pk.swap``: modules run on kernels in place, only where they are right, and give way where kernels do not fit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import portakern as pk  # noqa: E402
from portakern.errors import PortakernError, RuntimeFault, UsageError  # noqa: E402
from portakern.torch_swap import Swapped, swap, verified  # noqa: E402
from portakern.torch_swap import swap as swap_function  # noqa: E402


class Scaled(torch.nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(features, features)

    def forward(self, x: Any, scale: float = 1.0) -> dict[str, Any]:
        return {"y": torch.relu(self.fc(x)) * scale, "rank": x.ndim}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.ModuleList([Scaled(6), Scaled(6)])

    def forward(self, x: Any) -> Any:
        for row in self.rows:
            x = row(x, scale=0.5)["y"]
        return x


class NoRule(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.special.airy_ai(x)


@pytest.fixture(scope="module")
def _built() -> Iterator[tuple[Net, Swapped, Any]]:
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(5, 6)
    yield net, pk.swap(net, "cpp:cpu", [x, x[:3]], where=Scaled), x


@pytest.fixture
def swapped(_built: tuple[Net, Swapped, Any]) -> tuple[Net, Swapped, Any]:
    net, found, x = _built
    for stand_in in found.stand_ins:
        stand_in.fell_back.clear()
        stand_in.install()
    return net.eval(), found, x


def test_modules_run_on_kernels_and_keep_their_names(swapped: tuple[Net, Swapped, Any]) -> None:
    net, found, x = swapped
    assert found.replaced == ("rows.0", "rows.1") and "rows.1 (Scaled): replaced by 1 kernels" in str(found)
    assert list(net.state_dict()) == list(Net().state_dict())
    with torch.no_grad():
        got = net(x), net(x[:3])
        one = net.rows[0](x, scale=0.5)
        found.restore()
        assert "forward" not in vars(net.rows[0])
        torch.testing.assert_close(got, (net(x), net(x[:3])))
    assert one["rank"] == 2 and not found.fell_back


def test_weights_are_read_at_each_call_and_copies_have_their_own(swapped: tuple[Net, Swapped, Any]) -> None:
    net, found, x = swapped
    other = copy.deepcopy(net)
    with torch.no_grad():
        before = net(x)
        other.rows[0].fc.weight.mul_(-1)
        other.rows[1].fc.bias = torch.nn.Parameter(torch.ones(6))
        got = other(x)
        torch.testing.assert_close(net(x), before)
        other.rows[0].forward.restore()
        other.rows[1].forward.restore()
        torch.testing.assert_close(got, other(x))
    assert not torch.equal(got, before) and not found.fell_back


def test_what_kernels_are_not_for_runs_in_pytorch_and_is_counted(swapped: tuple[Net, Swapped, Any]) -> None:
    net, found, x = swapped
    with torch.no_grad():
        net(x[:2])
        net.train()(x)
        net.eval()
        with torch.autocast("cpu", torch.bfloat16):
            net.rows[0](x, scale=0.5)
    net.rows[1](x, scale=0.5)["y"].sum().backward()
    assert net.rows[1].fc.weight.grad is not None
    assert {why.partition(",")[0].partition(";")[0]: n for why, n in found.fell_back["rows.0"].items()} == {
        "there is no example with these shapes and arguments": 1, "it is in training mode": 1, "autocast is on": 1}  # fmt: skip
    assert [why for why in found.fell_back["rows.1"] if "gradients" in why]


def test_modules_are_kept_with_the_reason() -> None:
    net = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU(inplace=True), NoRule())
    found = swap(net, "cpp:cpu", torch.randn(5, 6), where="[0-9]")
    kept = {d.name: d.kept for d in found.decisions}
    assert not found.replaced and "special_airy_ai" in kept["2"]
    assert kept["0"] == "it computes nothing" and kept["1"].startswith("it writes to")


def test_a_wrong_kernel_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "in_float64", lambda op: [x + 1 for x in real(op)])
    real = __import__("portakern.torch_import.agreement", fromlist=["x"]).in_float64
    relu = torch.nn.ReLU()
    found = swap(relu, "cpp:cpu", torch.randn(4, 6), where=torch.nn.ReLU)
    assert not found.replaced and "against the module in float64" in found.decisions[0].kept


def test_slow_kernels_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    module = __import__("sys").modules[swap_function.__module__]
    monkeypatch.setattr(module, "times_as_fast", lambda theirs, ours: 0.5)
    relu, x = torch.nn.ReLU(), torch.randn(4, 6)
    assert swap(relu, "cpp:cpu", x).decisions[0].kept == "kernels are 0.50 times as fast, and 1 is asked"
    assert swap(relu, "cpp:cpu", x, gain=0.25).decisions[0].speed == 0.5


def test_bad_usage_says_what_to_do() -> None:
    net, x = torch.nn.ReLU(), torch.randn(3)
    bad: list[tuple[type[PortakernError], str, tuple[Any, ...]]] = [
        (UsageError, "is no torch.nn.Module", (torch.relu, "cpp:cpu", x)),
        (UsageError, "no module of", (net, "cpp:cpu", x, "a*")),
        (UsageError, "where=3", (net, "cpp:cpu", x, 3)),
        (RuntimeFault, "cannot be run here", (net, "cuda:sm_80", x)),
    ]
    for kind, said, asked in bad:
        with pytest.raises(kind, match=said):
            swap(*asked)


class Cache:
    """An object that PyTorch's trees do not know."""

    def __init__(self, keys: Any) -> None:
        self.keys, self.name = keys, "cache"


class Cached(torch.nn.Module):
    def __init__(self, appends: bool) -> None:
        super().__init__()
        self.fc, self.appends = torch.nn.Linear(4, 4), appends

    def forward(self, x: Any, past: Cache) -> tuple[Any, Cache]:
        keys = torch.cat([past.keys, self.fc(x)])
        if self.appends:
            past.keys = keys
            return x @ keys.T, past
        return x @ keys.T, Cache(keys)


def test_objects_that_hold_arrays_go_in_and_come_out() -> None:
    module, x, past = Cached(False).eval(), torch.randn(2, 4), Cache(torch.randn(3, 4))
    found = pk.swap(module, "cpp:cpu", (x, past), where=Cached)
    assert found.replaced == ("",), found
    other = Cache(torch.randn(3, 4))
    with torch.no_grad():
        (scores, cache), (want, same) = module(x, other), found.stand_ins[0].original(x, other)
    assert isinstance(cache, Cache) and cache.name == "cache" and not found.fell_back
    torch.testing.assert_close((scores, cache.keys), (want, same.keys))


def test_a_module_that_writes_to_an_object_is_kept() -> None:
    past = Cache(torch.randn(3, 4))
    (decision,) = pk.swap(Cached(True).eval(), "cpp:cpu", (torch.randn(2, 4), past), where=Cached).decisions
    assert "writes to an object" in decision.kept and past.keys.shape == (3, 4)


def test_arrays_in_another_layout_and_complex_ones_are_taken() -> None:
    class Turned(torch.nn.Module):
        def forward(self, x: Any, turns: Any) -> Any:
            return torch.view_as_complex(x.cumsum(0).reshape(4, 6, 2)) * turns

    x, turns = torch.randn(4, 12), torch.polar(torch.ones(6), torch.randn(6))
    model = Turned().eval()
    found = pk.swap(model, "cpp:cpu", (x, turns), where=Turned)
    assert found.replaced == ("",), found
    y = x.t().contiguous().t()
    with torch.no_grad():
        torch.testing.assert_close(model(y, turns), found.stand_ins[0].original(y, turns))
    assert not found.fell_back
