"""What cannot be imported is said in words: the user's own line, what is wrong, what to do, and nothing of PyTorch's log."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.errors import MissingRuleError, PortakernError, SpecError, UsageError  # noqa: E402
from portakern.ir import oracle  # noqa: E402
from portakern.torch_import.agreement import widened  # noqa: E402
from tests.torch_import.test_import import agrees, normal  # noqa: E402

pytestmark = pytest.mark.quick


def computed(op: Any, **arrays: Any) -> dict[str, np.ndarray]:
    return oracle.evaluate(op.program(), widened({n: x.numpy() for n, x in arrays.items()}))


class Branches(nn.Module):
    def forward(self, x: Any) -> Any:
        if x.mean() > 0:
            return x
        return x * 2


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Branches()

    def forward(self, x: Any) -> Any:
        return self.inner(x + 1)


def loops(x: Any) -> Any:
    while x.max() > 1:
        x = x / 2
    return x


def experts(x: Any) -> Any:
    out = torch.zeros_like(x)
    for row in (x.sum(1) > 0).nonzero():
        out[row] = x[row] * 2
    return out


def asserts(x: Any) -> Any:
    assert (x > -100).all()
    return x + 1


def sizes(x: Any) -> Any:
    return x.new_zeros(int(x.abs().sum())) + x.sum()


def to_numpy(x: Any) -> Any:
    return torch.from_numpy(np.interp(x.numpy(), [0, 1], [2, 3]))


def fails(x: Any) -> Any:
    return x @ x


def fails_in_words(x: Any) -> Any:
    raise ValueError("need 4 channels")


HISTORY: list[Any] = []
CALLS = 0
CACHE: dict[int, Any] = {}


def keeps(x: Any) -> Any:
    HISTORY.append(x)
    return x + 1


def counts(x: Any) -> Any:
    global CALLS
    CALLS += 1
    return x * CALLS


def caches(x: Any) -> Any:
    if x.shape[0] not in CACHE:
        CACHE[x.shape[0]] = torch.arange(x.shape[0])
    return x + CACHE[x.shape[0]][:, None]


@pytest.mark.parametrize(("module", "error", "line", "means", "hint"), [
    (Outer(), SpecError, "if x.mean", "Python decides by a number inside an array", "torch.where"),
    (loops, SpecError, "while x.max", "a loop whose end depends on numbers", "fixed number of times"),
    (experts, SpecError, "for row in", "a loop over as many elements as numbers", "loop over all of them"),
    (asserts, SpecError, "assert (x", "an assertion about numbers", "is_exporting"),
    (sizes, SpecError, "x.new_zeros(int", "Python needs to know a number", "as an int"),
    (to_numpy, SpecError, "np.interp", "leaves PyTorch for numpy", "functions of torch"),
    (keeps, SpecError, "def keeps", "changes the global variable HISTORY", "make HISTORY an input"),
    (counts, SpecError, "def counts", "changes the global variable CALLS", "make CALLS an input"),
    (fails, UsageError, "return x @ x", r"does not run on the example inputs \(f32\[3, 4\]\): RuntimeError: mat1", "shapes"),
    (fails_in_words, UsageError, "raise ValueError", "ValueError: need 4 channels", "PyTorch raises this, too"),
], ids=lambda x: getattr(x, "__name__", ""))  # fmt: skip
def test_what_cannot_be_exported(module: Any, error: type[PortakernError], line: str, means: str, hint: str,
                                 capfd: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    with pytest.raises(error, match=means) as caught:
        pk.from_torch(module, (normal(3, 4),))
    file, number = caught.value.where.rpartition("(")[2].rstrip(")").rsplit(":", 1)
    assert file.endswith("test_refusals.py")
    with open(__file__) as text:
        assert line in text.read().splitlines()[int(number) - 1]
    assert hint in caught.value.hint and caught.value.where.startswith("inner (" if isinstance(module, Outer) else file)
    assert "_trace.py" not in "".join(traceback.format_exception(caught.value)), "nothing from inside PyTorch"
    assert capfd.readouterr() == ("", "")
    assert HISTORY == [] and CALLS == 0


def test_a_cache_may_fill_and_is_emptied_again() -> None:
    agrees(caches, normal(3, 4))
    CACHE.clear()
    pk.from_torch(caches, (normal(3, 4),))
    assert CACHE == {}


def test_sizes_that_follow_from_numbers_have_a_hint() -> None:
    with pytest.raises(MissingRuleError, match="follows from the numbers inside an array") as caught:
        pk.from_torch(lambda x: x[x > 0], (normal(3, 4),))
    assert "torch.where(mask, x, 0)" in caught.value.hint


def test_a_number_that_python_takes_from_an_array_is_a_scalar() -> None:
    def quantised(x: Any, i: Any) -> Any:
        scale = x.abs().max().item() / 127
        n = i.sum().item()
        return torch.round(x / scale).clamp(-127, 127) * scale, x / (n + 1) + n // 2, x[i[0].item()]

    op = agrees(quantised, normal(3, 4), torch.tensor([2, 0, 1]))
    x, i = 3 * normal(3, 4) + 1, torch.tensor([1, 5, 0])
    for ours, theirs in zip(computed(op, x=x, i=i).values(), quantised(x, i), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_forward_may_ask_for_gradients() -> None:
    def force(x: Any) -> Any:
        x = x.clone().requires_grad_(True)
        return torch.autograd.grad((x**3).sum(), x)[0]

    x = normal(3, 4)
    np.testing.assert_allclose(computed(pk.from_torch(force, (x,)), x=x)["out"], 3 * x**2, rtol=1e-5)


# ---- example inputs -------------------------------------------------------------------------------------------------


def added(x: Any, y: Any, *, scale: float = 1.0) -> Any:
    return (x + 2 * y) * scale


@dataclass
class Options:
    power: int


def test_inputs_that_do_not_fit_are_shown_with_the_signature() -> None:
    x = normal(3, 4)
    for args, kwargs, words in [
        ((), {}, r"do not fit added\(x, y, \*, scale=1.0\): missing a required argument: 'x'; given: nothing"),
        ((x, x, x), {}, r"too many positional arguments; given: f32\[3, 4\], f32\[3, 4\], f32\[3, 4\]"),
        ((x, x), {"skale": 2.0}, "unexpected keyword argument 'skale'"),
        ((x, x.numpy()), {}, "is an array of numpy"),
        ((x, x.to_sparse()), {}, "layout sparse_coo"),
        ((x, x.to("meta")), {}, "has no numbers"),
        ((x, nn.ReLU()), {}, r"a module \(ReLU\)"),
        ((3, 4), {"scale": "a"}, "does not run on the example inputs|cannot be imported|refuses"),
    ]:
        with pytest.raises(PortakernError, match=words):
            pk.from_torch(added, args, kwargs=kwargs)
    with pytest.raises(UsageError, match="missing") as caught:
        pk.from_torch(added, {"x": x, "y": x})
    assert "kwargs" in caught.value.hint
    with pytest.raises(UsageError, match="ReLU is the class of a module"):
        pk.from_torch(nn.ReLU, (x,))
    with pytest.raises(UsageError, match="does not run") as caught:
        pk.from_torch(nn.Linear(4, 4), 3)
    assert "none is among them" in caught.value.hint


def test_open_dims_that_cannot_be_are_refused_in_words() -> None:
    x = normal(3, 4)
    for function, dynamic, words in [
        (lambda x: x.view(3, 4) + 1, {"x": {0: "B"}}, "dim 0 of x can only be 3"),
        (added, [{0: "B"}, {0: "B"}, {}], "3 entries for 2 inputs"),
        (added, {"x": "B"}, "as the dims of an array"),
        (added, {"x": {0: "a b"}}, "'a b' as the name of a dim"),
    ]:
        with pytest.raises(UsageError, match=words):
            pk.from_torch(function, (x, x) if function is added else (x,), dynamic=dynamic)
    with pytest.raises(UsageError, match="dim 0 of x is open, and 1 in the example"):
        pk.from_torch(added, (x[:1], x), dynamic={"x": {0: "B"}})


def test_one_tensor_in_two_places_is_two_inputs() -> None:
    x, y = normal(3, 4), normal(4, 3).T
    op = pk.from_torch(added, (x, x))
    assert op.unused == () and [i.name for i in op.inputs] == ["x", "y"]
    np.testing.assert_allclose(computed(op, x=x, y=y)["out"], added(x, y), rtol=1e-5)
    layer = nn.Linear(4, 4)
    assert {i.name for i in pk.from_torch(lambda x, w: layer(x) @ w, (x, layer.weight)).inputs} >= {"x", "w"}


def test_inputs_that_are_no_arrays_are_fixed_by_the_import() -> None:
    def function(x: Any, options: Any, act: Any, dtype: Any) -> Any:
        return act(x**options.power).to(dtype)

    op = agrees(function, normal(3, 4), Options(2), torch.sigmoid, torch.float64)
    assert [i.name for i in op.inputs] == ["x"]
