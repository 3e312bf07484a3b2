"""Built operators as operators of torch: eager, fake, compiled, and their gradients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.errors import PortakernError, UsageError

torch = pytest.importorskip("torch")


@pk.operator
def scaled_and_summed(x: pk.Tensor["M", "N"], y: pk.Tensor["N"], a: pk.Scalar[pk.f32], n: pk.Scalar[pk.i32]):
    """Two outputs, and numbers given at run time."""
    return x * a + pk.cast(n, x.dtype) * y, pk.sum(x, axis=-1)


def expected(x: Any, y: Any, a: float, n: int) -> tuple[Any, Any]:
    return x * a + n * y, x.sum(-1)


@pytest.fixture(scope="module", params=["numba:cpu", "cpp:cpu"])
def built(request):
    return pk.build("softmax", target=request.param, dtype="f32", M=pk.dynamic, N=33)


@pytest.fixture(scope="module")
def several():
    return pk.build(scaled_and_summed, target="numba:cpu", dtype="f32")


@pytest.fixture(autouse=True)
def fresh(caplog: pytest.LogCaptureFixture):
    caplog.set_level("WARNING")  # torch traces every step of compiling
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def compiled(function: Any, backend: str = "aot_eager", **more: Any) -> Any:
    return torch.compile(function, backend=backend, fullgraph=True, **more)


def graphs() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


# ---- eager


def test_it_is_called_as_any_operator_of_torch(built):
    op, x = built.as_torch_op(), torch.randn(5, 33)
    assert isinstance(op, torch._ops.OpOverload)
    torch.testing.assert_close(op(x), x.softmax(-1))
    torch.testing.assert_close(op(x.t().contiguous().t()), x.softmax(-1))


def test_several_outputs_and_numbers(several):
    op = several.as_torch_op()
    assert str(op._schema).partition("(")[2] == "Tensor x, Tensor y, float a, SymInt n) -> (Tensor, Tensor)"
    x, y = torch.randn(4, 7), torch.randn(7)
    for n in (3, -2):
        for got, want in zip(op(x, y, 2.5, n), expected(x, y, 2.5, n), strict=True):
            torch.testing.assert_close(got, want)


def test_the_name_is_unique_and_stable(built, several):
    op = built.as_torch_op()
    assert built.as_torch_op() is op
    target = str(built.target).replace(":", "_")
    assert op._schema.name.startswith(f"portakern::softmax_{target}_")
    again = pk.build("softmax", target=str(built.target), dtype="f32", M=pk.dynamic, N=33)
    other = pk.build("softmax", target=str(built.target), dtype="f32", M=pk.dynamic, N=34)
    assert again.as_torch_op() is op and other.as_torch_op() is not op


def test_the_name_is_the_same_in_another_process():
    text = ("import portakern as pk\n"
            "print(pk.build('softmax', 'numba:cpu', dtype='f32', M=pk.dynamic, N=33).as_torch_op()._schema.name)")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=180)
    mine = pk.build("softmax", "numba:cpu", dtype="f32", M=pk.dynamic, N=33).as_torch_op()
    assert done.stdout.strip() == mine._schema.name, done.stderr


def test_the_name_does_not_hang_on_the_operators_place_in_a_file(tmp_path: Path):
    names = set()
    for number, above in enumerate(("", "# a line above\n")):
        file = tmp_path / f"at_{number}" / "mine.py"
        file.parent.mkdir()
        file.write_text(f"import portakern as pk\n{above}\n@pk.operator\ndef twice(x: pk.Tensor['N']):\n    return x + x\n")
        names.add(pk.build(f"{file}:twice", "numba:cpu", dtype="f32").as_torch_op()._schema.name)
    assert len(names) == 1


def test_names_of_ones_own(built, several):
    name = f"mine::softmax_{built.target.language}"
    op = built.as_torch_op(name)
    assert op._schema.name == name and built.as_torch_op(name) is op
    assert built.as_torch_op(f"own_{built.target.language}")._schema.name == f"portakern::own_{built.target.language}"
    with pytest.raises(UsageError, match="belongs to another build"):
        several.as_torch_op(name)
    with pytest.raises(UsageError, match="already"):
        several.as_torch_op("aten::add")
    with pytest.raises(UsageError, match="cannot be the name"):
        several.as_torch_op("no name")


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda: torch.zeros(3, 34), "x has 34 elements in dim 1, where softmax wants 33"),
    (lambda: torch.zeros(33), "x has 1 dims"),
    (lambda: torch.zeros(3, 33, dtype=torch.float64), "x is f64, this build takes f32"),
])  # fmt: skip
def test_wrong_inputs_say_the_same_in_eager_fake_and_compiled_code(built, wrong, says: str):
    from torch._subclasses.fake_tensor import FakeTensorMode

    op = built.as_torch_op()
    with pytest.raises(UsageError, match=says):
        op(wrong())
    with FakeTensorMode(), pytest.raises(UsageError, match=says):
        op(wrong())
    compiled_op = compiled(lambda x: op(x))
    compiled_op(torch.zeros(3, 33))
    compiled_op(torch.zeros(4, 33))  # from here on M is symbolic
    with pytest.raises(Exception, match=says):
        compiled_op(wrong())


def test_torch_checks_it(built, several):
    torch.library.opcheck(built.as_torch_op(), (torch.randn(5, 33),))
    torch.library.opcheck(several.as_torch_op(), (torch.randn(4, 7), torch.randn(7), 1.5, 2))


def test_its_tensors_are_its_own(built):
    x = torch.randn(5, 33)
    op = built.as_torch_op()
    y, z = op(x), op(x)
    assert y.data_ptr() != z.data_ptr() and x.equal(x.clone())
    assert not any(a.alias_info and a.alias_info.is_write for a in op._schema.arguments)


# ---- compiled


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_holds_it_without_a_break(built, backend: str):
    op = built.as_torch_op()
    f = compiled(lambda x: op(x * 2) + 1, backend)
    for rows in (5, 6, 7, 8):
        x = torch.randn(rows, 33)
        torch.testing.assert_close(f(x), (x * 2).softmax(-1) + 1)
    assert graphs() <= 2, "every number of rows was compiled anew"


def test_an_open_dim_stays_symbolic(several):
    op = several.as_torch_op()

    def function(x: Any, y: Any, n: int) -> Any:
        scaled, total = op(x, y, 2.5, n)
        return scaled + total[:, None]

    f, y = compiled(function, dynamic=True), torch.randn(7)
    for rows in (4, 5, 6):
        x = torch.randn(rows, 7)
        scaled, total = expected(x, y, 2.5, rows + 10)
        torch.testing.assert_close(f(x, y, rows + 10), scaled + total[:, None])
    assert graphs() == 1


def test_strides_seen_while_tracing_are_those_at_run_time(built):
    op = built.as_torch_op()
    f = compiled(lambda x: op(x.t()))
    x = torch.randn(33, 6)
    torch.testing.assert_close(f(x), x.t().softmax(-1))


@pytest.mark.slow
def test_inductor_compiles_around_it(built):
    op = built.as_torch_op()
    f = compiled(lambda x: op((x * 2).relu()) + 1, "inductor")
    for rows in (5, 6, 7):
        x = torch.randn(rows, 33)
        torch.testing.assert_close(f(x), (x * 2).relu().softmax(-1) + 1)


# ---- gradients


def gradients(function: Any, *inputs: Any) -> tuple[Any, ...]:
    """Those of the inputs that need one, for a sum of the results with weights."""
    results = function(*inputs)
    weights = torch.Generator().manual_seed(3)
    floats = [y for y in (results if isinstance(results, tuple) else (results,)) if y.requires_grad]
    total = sum((y * torch.randn(y.shape, generator=weights)).sum() for y in floats)
    return torch.autograd.grad(total, [x for x in inputs if torch.is_tensor(x) and x.requires_grad])


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_gradients_are_those_of_pytorch(built, wrap: Any):
    op = built.as_torch_op()
    x = torch.randn(5, 33, requires_grad=True)
    torch.testing.assert_close(gradients(wrap(lambda x: op(x * 2)), x), gradients(lambda x: (x * 2).softmax(-1), x))


@pytest.mark.parametrize("needs", [(True, True), (False, True), (True, False)], ids=str)
def test_gradients_of_those_inputs_that_need_one(several, needs: tuple[bool, bool]):
    op = several.as_torch_op()
    x, y = torch.randn(4, 6, requires_grad=needs[0]), torch.randn(6, requires_grad=needs[1])
    torch.testing.assert_close(gradients(op, x, y, 0.5, 3), gradients(expected, x, y, 0.5, 3))


def test_gradients_of_gradients(several):
    op = pk.build(cubed, target="numba:cpu", dtype="f32").as_torch_op()
    x = torch.randn(3, 7, requires_grad=True)

    def twice(function: Any) -> Any:
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return torch.autograd.grad((first * first).sum(), x)[0]

    torch.testing.assert_close(twice(op), twice(lambda x: x * x * x))


def test_a_module_is_trained_on_it(built):
    op = built.as_torch_op()

    def losses(softmax: Any) -> list[float]:
        torch.manual_seed(0)
        layer = torch.nn.Linear(8, 33)
        steps = torch.optim.SGD(layer.parameters(), 0.5)
        x, labels = torch.randn(16, 8), torch.randint(0, 33, (16,))
        found = []
        for _ in range(3):
            loss = -softmax(layer(x)).log()[torch.arange(16), labels].mean()
            steps.zero_grad()
            loss.backward()
            steps.step()
            found.append(loss.item())
        return found

    ours = losses(op)
    assert ours == pytest.approx(losses(lambda x: x.softmax(-1)), rel=1e-4) and ours[2] < ours[0]


def test_what_has_no_derivative_says_so_when_a_gradient_is_computed():
    op = pk.build(products, target="numba:cpu", dtype="f32").as_torch_op()
    offsets = torch.tensor([0, 2, 5], dtype=torch.int32)
    x = torch.rand(5, 3, requires_grad=True)
    for wrap in (lambda f: f, compiled):
        y = wrap(lambda x: op(x * 2.0, offsets))(x)
        assert y.requires_grad, "a result that is silently cut off from its input"
        with pytest.raises(PortakernError, match="no gradient through segment_fold") as error:
            y.sum().backward()
        assert error.value.kind == "no-gradient" and "no_grad" in error.value.hint
    with torch.no_grad():
        assert not op(x, offsets).requires_grad


@pk.operator
def cubed(x: pk.Tensor["M", "N"]):
    """A cube."""
    return x * x * x


@pk.operator
def products(x: pk.Tensor["P", "D"], offsets: pk.Tensor["S+1", pk.i32]):
    """An operator whose derivative has no rule."""
    return pk.segment_prod(x, offsets)


def test_integer_results_have_no_gradient_to_miss():
    k = pk.build(argmax_rows, target="numba:cpu", dtype="f32")
    x = torch.randn(5, 9, requires_grad=True)
    y = k.as_torch_op()(x)
    assert not y.requires_grad
    np.testing.assert_array_equal(y.numpy(), x.detach().argmax(-1).numpy())


@pk.operator
def argmax_rows(x: pk.Tensor["M", "N"]):
    """An operator with an integer result."""
    return pk.argmax(x, axis=-1)
