"""Modules become operators that compute what PyTorch computes in float64."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import portakern as pk  # noqa: E402
from portakern.errors import MissingRuleError, PortakernError, SpecError, UsageError  # noqa: E402
from portakern.ir import oracle  # noqa: E402
from portakern.ir.tensor import tensor_type  # noqa: E402
from portakern.ir.text import format_function, parse_function  # noqa: E402
from portakern.registry import registry  # noqa: E402
from portakern.torch_import import ImportedOperator  # noqa: E402
from portakern.torch_import.agreement import agreement  # noqa: E402
from tests.lowering import lowered_for  # noqa: E402

F = torch.nn.functional
nn = torch.nn


def normal(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))


def agrees(function: Any, *args: Any, **options: Any) -> ImportedOperator:
    """Imports, and holds every output against PyTorch."""
    op = pk.from_torch(function, args, **options)
    held = agreement(op)
    assert held.compared and held, "; ".join(map(str, held.disagreements))
    return op


# ---- rules, many to an export, which takes most of the time ---------------------------------------------------------


def pointwise(x: Any, y: Any, i: Any) -> Any:
    up = x.abs() + 0.1
    return (
        torch.asinh(x), torch.acosh(up + 1), torch.atanh(x.tanh() * 0.9), torch.atan(x * 3), torch.asin(x.tanh()),
        torch.acos(x.tanh()), torch.atan2(x, y), torch.sinh(x), torch.cosh(x), torch.tan(x * 0.4), torch.log10(up),
        torch.fmod(x, y), torch.remainder(x, y), torch.div(x, y, rounding_mode="trunc"),
        torch.div(x, y, rounding_mode="floor"), torch.div(i, 3, rounding_mode="trunc"), i // 3, i % 3, torch.fmod(i, 3), i / 3,
        torch.pow(up, y), x**3, x**-2, x**0, torch.round(x * 100, decimals=-1), x.clamp(x - 1, y), torch.where(x > y, x, 0.5),
        x.masked_fill(x > 0, -1), i & 5, i | 5, i ^ 5, ~i, x.isnan(), x.isinf(), (i > 2) ^ (x > 0), x == y,
        x.clamp(-1, 0.5), x.clamp(max=y),
        F.softplus(x, 2.0, 3.0), F.elu(x, 0.7), F.selu(x), F.celu(x, 2.0), F.mish(x), F.hardswish(x), F.hardsigmoid(x),
        F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.leaky_relu(x, 0.2), F.hardtanh(x, -0.3, 0.4), F.logsigmoid(x),
        torch.sign(x), torch.frac(x * 3), torch.trunc(x * 3), torch.erfc(x), x + i, i + 0.5, x.to(torch.int32), x > i,
    )  # fmt: skip


def moved(x: Any, y: Any, i: Any) -> Any:
    z = x.clone()
    z[:, 1] = 0  # in place on an intermediate
    z[1:4:2] += 1
    return (
        z, x.t(), x[:, ::2], x[-2:, 1:-1], x[2], x.flip(0, 1), x.repeat(2, 1, 2), x.unfold(1, 3, 2), x.diagonal(1),
        x.diagonal(-2),
        torch.cat([x, y, x[:0]], 0), torch.stack([x, y], 1), *x.split(2, 1), *x.chunk(3, 0), *torch.unbind(x[:2]),
        F.pad(x, (1, -1, 0, 2), value=3.0), F.pad(x[None], (1, 2), mode="reflect"),
        F.pad(x[None, None], (1, 2, 2, 0), mode="replicate"),
        F.pad(x[None], (2, 1), mode="circular"), torch.roll(x, (1, -2), (0, 1)), torch.roll(x, 3), x.tril(-1), x.triu(1),
        torch.as_strided(x, (3, 2), (2, 3), 1), x.expand(2, *x.shape), x[None, :, None].squeeze(0),
        torch.arange(2, 9, 3) + i[0, 0],
        torch.diagonal_scatter(x, y[0], 0), torch.slice_scatter(x, y[:, :2], 1, 1, 5, 2), torch.select_scatter(x, y[0], 0, 2),
        torch.linspace(0, 1, 5) * x[0, 0], torch.full_like(x, 2.5) * x, x.new_zeros(2) + x[0, :2],
    )  # fmt: skip


def reduced(x: Any, y: Any, i: Any) -> Any:
    return (
        x.sum(), x.sum(0), x.mean((0, 1), True), x.amax(1), x.amin(), x.prod(1), (x > 0).any(0), (x > 0).all(), i.sum(1),
        x.argmax(),
        x.argmin(1), x.argmax(0, True), *x.max(1), *x.min(0, True), x.var(1), x.std(0, correction=0), *torch.var_mean(x, 1),
        torch.linalg.vector_norm(x, 3, 1), torch.linalg.vector_norm(x), x.norm(p=float("inf")), torch.linalg.vector_norm(x, 0),
        x.softmax(0), x.log_softmax(1), x.logsumexp((0, 1)), x.cumsum(1), x.abs().cumprod(0), x.logcumsumexp(1), *x.cummax(1),
        *x.cummin(0), *x.sort(1), *x.sort(0, descending=True), *x.topk(2, 1), *x.topk(2, 0, largest=False), x.median(1).values,
        x.kthvalue(2, 0).values, i.amax(0), x.sum(dtype=torch.float64), torch.cdist(x, y), torch.pdist(x),
        F.cosine_similarity(x, y),
    )  # fmt: skip


def indexed(x: Any, y: Any, i: Any) -> Any:
    j = i % 3
    z = x.clone()
    z[j[0], j[1] - 3] = y[0]
    w = x.clone()
    w[x > 0.5] = 2.0
    v = x.clone()
    v.index_put_((j[0],), y, accumulate=True)
    return (
        x[j[0]], x[:, j[0]], x[j[0], j[1]], x[None].expand(2, -1, -1)[j[0] % 2, :, j[1]], z, w, v, x.gather(1, j[:, :2]),
        x.index_select(0, j[0]), F.embedding(j, x), x.scatter(1, j[:2, :2], y), x.scatter(0, j[:, :1], 4.0),
        x.scatter_add(0, j, y),
        x.scatter_reduce(1, j, y, "amax"), x.scatter_reduce(0, j, y, "mean", include_self=False), x.index_add(0, j[0], y),
        x.masked_scatter(x > 0, y), torch.take_along_dim(x, j, 1), x[:, 1].where(x[:, 0] > 0, 0.0), F.one_hot(j, 3),
    )  # fmt: skip


SLOW = pytest.mark.slow
FUNCTIONS = [pointwise, pytest.param(moved, marks=SLOW), pytest.param(reduced, marks=SLOW), indexed]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_operations_on_matrices(function: Any) -> None:
    i = torch.arange(-7, 18).reshape(5, 5)
    agrees(function, normal(5, 5), normal(5, 5) + 0.01, i.abs() if function is indexed else i)


def images(x: Any, grid: Any) -> Any:
    line, box = x[:, :, 0], x[:, :, None].repeat(1, 1, 4, 1, 1)
    return (
        F.max_pool2d(x, 3, 2, 1, ceil_mode=True), *F.max_pool2d(x, 2, return_indices=True), F.max_pool3d(box, 2, dilation=2),
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool1d(line, 3, 2, 1),
        F.avg_pool3d(box, 2), F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_max_pool2d(x, 3), F.adaptive_avg_pool2d(x, 1),
        F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 9)), F.interpolate(x, (5, 9), mode="bilinear"),
        F.interpolate(x, (5, 9), mode="bilinear", align_corners=True), F.interpolate(x, scale_factor=1.5, mode="bicubic"),
        F.unfold(x, 3, 2, 1, 2), F.fold(F.unfold(x, 3, padding=1), (6, 8), 3, padding=1),
        F.grid_sample(x, grid, align_corners=False),
        F.grid_sample(x, grid, mode="nearest", padding_mode="border", align_corners=True),
        F.grid_sample(x, grid, padding_mode="reflection", align_corners=False), F.pixel_shuffle(x, 2),
        F.local_response_norm(x, 3),
        F.instance_norm(x), F.group_norm(x, 2), F.layer_norm(x, (6, 8)), F.rms_norm(x, (8,)),
        F.scaled_dot_product_attention(x, x * 0.5, x, is_causal=True), F.max_pool1d(line, 2),
    )  # fmt: skip


@SLOW
def test_operations_on_images() -> None:
    agrees(images, normal(2, 4, 6, 8), normal(2, 3, 5, 2).tanh() * 1.2)


@SLOW
def test_convolutions() -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        return (F.conv2d(x, w, b, 2, 1), F.conv2d(x, w[:, :2], None, 1, 2, 2, 2), F.conv_transpose2d(x, w, None, 2, 1, 1),
                F.conv_transpose2d(x, w[:, :1], None, 3, 0, 0, 2, 2), F.conv1d(x[:, :, 0], w[:, :, 0], padding=1),
                F.conv2d(x[0], w, padding="same"))  # fmt: skip

    agrees(function, normal(2, 4, 7, 6), normal(4, 4, 3, 2), normal(4))


# ---- modules --------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * 6 * 6, 5))

    def forward(self, x: Any) -> Any:
        return self.head(torch.relu(self.norm(self.conv(x))))


def test_a_module_is_an_operator_whose_weights_are_bound() -> None:
    net, x = Net(), normal(2, 3, 6, 6)
    op = agrees(net, x)
    assert net.training  # as it was
    assert [i.name for i in op.inputs][:2] == ["x", "conv_weight"] and op.name == "net"
    k = pk.build(op, target="numba:cpu")
    with torch.no_grad():
        want = net.eval()(x)
        np.testing.assert_allclose(k(x), want, atol=1e-5)
        np.testing.assert_allclose(k(x.numpy()), want, atol=1e-5)
        net.head[1].bias += 1  # used as it is at the time of the call
        np.testing.assert_allclose(k(x), want + 1, atol=1e-5)
        np.testing.assert_allclose(k(x, head_1_bias=net.head[1].bias - 1), want, atol=1e-5)
    with pytest.raises(UsageError, match="0 inputs are given, and 1 are wanted"):
        k()
    with pytest.raises(UsageError, match="no input 'y'"):
        k(x, y=x)


def test_training_updates_buffers_as_outputs() -> None:
    net, x = Net(), normal(2, 3, 6, 6)
    op = agrees(net, x, train=True)
    assert op.updates == {"new_norm_running_mean": "norm.running_mean", "new_norm_running_var": "norm.running_var",
                          "new_norm_num_batches_tracked": "norm.num_batches_tracked"}  # fmt: skip
    made = oracle.evaluate(op.program(), op.example_arrays())
    net.train()(x)
    for output, path in op.updates.items():
        np.testing.assert_allclose(made[output], net.get_buffer(path), rtol=1e-5)


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.step = normal(2, 4), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        self.hidden = torch.tanh(self.step(torch.cat((x, self.hidden), 1)))
        return self.hidden * 2


def test_state_that_is_a_plain_attribute_is_an_output() -> None:
    cell = Cell()
    before = cell.hidden
    op = agrees(cell, normal(2, 4))
    assert op.updates == {"new_hidden": "hidden"} and "hidden" in op.bound
    assert cell.hidden is before and not dict(cell.named_buffers())


def test_places_are_the_modules_and_the_users_lines() -> None:
    op = pk.from_torch(Net(), (normal(2, 3, 6, 6),))
    places = {str(o.loc) for o in op.trace().body.ops if o.mnemonic() == "convolve"}
    (place,) = places
    assert place.startswith("conv (") and Path(place[6:-1].rpartition(":")[0]).name == "test_import.py"
    text = format_function(op.trace())
    assert format_function(parse_function(text)) == text and "# at conv (" in text


def test_open_dims_have_the_names_that_were_given() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x @ y).softmax(-1).reshape(x.shape[0] * 2, -1), x.mean() * x.shape[0], torch.arange(x.shape[0]) + 1

    op = agrees(function, normal(4, 6), normal(6, 8), dynamic={"x": {0: "M"}, "y": {1: "2*H"}})
    assert [str(s) for a in op.trace().args for s in tensor_type(a).shape] == ["M", "6", "6", "2*H"]
    assert op.typical.dims == {"M": 4, "H": 4}
    bound = op.program({"M": 3, "H": 5})
    x, y = normal(3, 6), normal(6, 10)
    made = oracle.evaluate(bound, {"x": x.numpy(), "y": y.numpy()})
    for want, have in zip(function(x, y), made.values(), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5)
    with pytest.raises(UsageError, match="no input"):
        pk.from_torch(function, (x, y), dynamic={"z": {0: "M"}})


def test_what_follows_from_shapes_alone_keeps_the_inputs_that_tell_them() -> None:
    op = agrees(lambda x, y: (torch.full_like(x, 2.5), y * 2), normal(4, 3), normal(2), dynamic={"x": {0: "M"}})
    assert [i.name for i in op.inputs] == ["x", "y"] and op.unused == ()
    made = oracle.evaluate(op.program({"M": 2}), {"x": np.zeros((2, 3)), "y": np.ones(2)})
    assert made["out0"].shape == (2, 3) and (made["out0"] == 2.5).all()


def test_a_constant_is_an_operator_of_its_first_input() -> None:
    op = pk.from_torch(lambda x, y: torch.log_softmax(x, 0), (torch.tensor(1.0), normal(2)))
    assert [i.name for i in op.inputs] == ["x"] and op.unused == ("y",)
    assert pk.build(op, target="numba:cpu")(torch.tensor(3.0)) == 0
    drawn = pk.from_torch(lambda x: torch.rand(5), (normal(2),))
    assert [i.name for i in drawn.inputs] == ["x", "seed"]


def test_strides_are_those_of_the_arrays_memory() -> None:
    def function(x: Any, p: Any, s: Any) -> Any:
        return (torch.as_strided(x, (2, 2), (1, 2), 1), torch.as_strided(p, (4, 3), (1, 7)),
                torch.as_strided_scatter(x, s, (2, 2), (1, 2), 1), torch.as_strided_scatter(p, s[0, 0], (), (), 3))  # fmt: skip

    agrees(function, normal(4, 5).t(), normal(2, 3, 4, 5).permute(2, 0, 3, 1), normal(2, 2))
    agrees(lambda x: (torch.as_strided(x, (2, 2), (1, 2)), torch.as_strided(x, (2, 2), (1, 2), 7)), normal(20)[5:15])


@pytest.mark.parametrize(("x", "offset", "why"), [
    (normal(20)[:10], 10, "elements outside of the array"),
    (normal(20)[5:], 0, "elements outside of the array"),
    (normal(4, 6)[:, :4], None, "gaps between its elements"),
])  # fmt: skip
def test_memory_around_an_array_is_no_part_of_it(x: Any, offset: int | None, why: str) -> None:
    with pytest.raises(MissingRuleError, match=f"aten.as_strided.*{why}"):
        pk.from_torch(lambda x: torch.as_strided(x, (2, 2), (1, 2), offset), (x,))


def test_dtypes_are_those_of_pytorch() -> None:
    def function(a: Any, b: Any, i: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            product = a @ a.T
        return a + i, b * 2, b + a, i + 1.5, b.sum(), i.sum(), product, (a > 0) + (b > 0), b.float() @ a

    op = pk.from_torch(function, (normal(3, 3), normal(3, 3).bfloat16(), torch.arange(3, dtype=torch.int16)))
    want = function(*op.examples.values())
    assert [tensor_type(r).dtype for r in op.trace().results] == ["f32", "bf16", "f32", "f32", "bf16", "i64", "bf16",
                                                                  "bool", "f32"]
    assert [str(w.dtype) for w in want][6] == "torch.bfloat16"
    with pytest.raises(UsageError, match="imported in f32, not bf16"):
        pk.build(op, target="numba:cpu", dtype="bf16")


def test_random_operations_draw_from_a_seed_of_the_call() -> None:
    op = pk.from_torch(lambda x: F.dropout(x, 0.25) + 0 * torch.rand_like(x), (torch.ones(64, 64),), train=True, name="drop")
    held = agreement(op)
    assert held.apart == ("out",) and not held.compared
    first, again, other = (oracle.evaluate(op.program(), {"x": np.ones((64, 64)), "seed": np.array(seed)})["out"]
                           for seed in (0, 0, 1))  # fmt: skip
    assert (first == again).all() and (first != other).any()
    assert abs((first == 0).mean() - 0.25) < 0.03 and np.allclose(first[first != 0], 4 / 3)


def test_constant_weights_are_written_into_the_program() -> None:
    module = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 3))
    op = agrees(module, normal(4, 8), weights="constants")
    assert [i.name for i in op.inputs] == ["x" if op.inputs[0].name == "x" else "input", "a_1_weight", "a_1_bias"]


def test_an_imported_operator_is_called_by_others() -> None:
    inner = pk.from_torch(lambda x: x.softmax(-1), (normal(4, 6),), dynamic=[{0: "M", 1: "N"}], name="inner")

    @pk.operator
    def outer(x: pk.Tensor["A", "B"]):
        return inner(x) * 2.0

    made = oracle.evaluate(outer.program({"A": 2, "B": 3}), {"x": np.zeros((2, 3))})["out"]
    np.testing.assert_allclose(made, 2 / 3)


# ---- recurrent layers: loops over steps ------------------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self, kind: Any, features: int, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = kind(features, 5, **options)

    def forward(self, x: Any, *states: Any) -> Any:
        y, last = self.layer(x, states if len(states) > 1 else states[0] if states else None)
        return (y, *last) if isinstance(last, tuple) else (y, last)


class StateAndCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTMCell(6, 5)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        return self.layer(x, (h, c))


LAYERS: list[dict[str, Any]] = [
    {}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False, "bidirectional": True},
]  # fmt: skip


def test_states_have_the_shape_they_begin_with_whatever_pytorch_says(monkeypatch: pytest.MonkeyPatch):
    """PyTorch 2.11 says that there is a dim of 1 in the states after the last step."""
    from torch._decomp import decompositions

    layer = decompositions.one_layer_lstm

    def as_then(*args: Any) -> Any:
        shown, (h, c) = layer(*args)
        return shown, (h.unsqueeze(0), c.unsqueeze(0))

    monkeypatch.setattr(decompositions, "one_layer_lstm", as_then)
    op = pk.from_torch(nn.LSTM(6, 5, 2), (normal(3, 4, 6),))
    assert [tuple(tensor_type(r).shape) for r in op.program({}).results] == [(3, 4, 5), (2, 4, 5), (2, 4, 5)]


@pytest.mark.parametrize("options", LAYERS, ids=str)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda k: k.__name__)
def test_recurrent_layers(kind: Any, options: dict[str, Any]) -> None:
    agrees(Recurrent(kind, 6, **options), normal(3, 4, 6))


def test_recurrent_layers_of_one_sequence_with_states_of_relu_and_as_cells() -> None:
    agrees(Recurrent(nn.LSTM, 6), normal(3, 6))
    agrees(Recurrent(nn.LSTM, 6), normal(3, 2, 6), normal(1, 2, 5), normal(1, 2, 5))
    agrees(Recurrent(nn.RNN, 6, nonlinearity="relu"), normal(3, 2, 6), normal(1, 2, 5))
    agrees(StateAndCell(), normal(2, 6), normal(2, 5), normal(2, 5))


def test_steps_are_not_written_out() -> None:
    """The program of 500 steps is as long as that of five, and all products with the input are one."""
    few, many = (pk.from_torch(Recurrent(nn.LSTM, 6, num_layers=2), (normal(steps, 2, 6),)) for steps in (5, 500))
    assert len(few.program({}).body.ops) == len(many.program({}).body.ops)
    assert len(lowered_for(registry().target("cuda:sm_90a"), many.program({})).kernels) <= 16


def test_packed_sequences_are_refused_in_words() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(4, 4)

        def forward(self, x: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))
            return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])[0]

    with pytest.raises(SpecError, match=r"test_import.py:\d+: torch.export refuses it"):
        pk.from_torch(Packed(), (normal(3, 2, 4),))


# ---- what cannot be imported ----------------------------------------------------------------------------------------


class Waves(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.special.airy_ai(x)


class Refused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.waves = Waves()

    def forward(self, x: Any) -> Any:
        y = self.waves(x)
        z = torch.fft.fft(y).acos().real
        return y + z.sum()


def test_what_has_no_counterpart_is_listed_at_once_with_its_lines() -> None:
    with pytest.raises(MissingRuleError) as caught:
        pk.from_torch(Refused(), (normal(3, 2, 4),))
    text = str(caught.value)
    assert "aten.special_airy_ai.default (waves (" in text and "it has no rule" in text
    assert "aten.acos.default" in text and "no rule for complex arrays" in text and "test_import.py:" in text


def test_what_pytorch_refuses_is_an_error_of_ours() -> None:
    def branches(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(SpecError, match=r"torch.export refuses it.*"):
        pk.from_torch(branches, (normal(3),))
    with pytest.raises(UsageError, match="nor a function"):
        pk.from_torch(3, (normal(3),))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="weights="):
        pk.from_torch(branches, (normal(3),), weights="none")  # type: ignore[arg-type]
    with pytest.raises(MissingRuleError, match="follow from none of its arrays"):
        pk.from_torch(lambda n: torch.zeros(n), (3,))


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from portakern.torch_import.rules import RULES

    right = RULES["aten.leaky_relu"]
    monkeypatch.setitem(RULES, "aten.leaky_relu", lambda call, x, slope=0.01: right(call, x, slope * 1.001))
    op = pk.from_torch(lambda x: F.leaky_relu(x, 0.3), (normal(4, 4),))
    held = agreement(op)
    assert not held
    with pytest.raises(PortakernError, match="differs from PyTorch in float64"):
        held.raise_if_wrong(op)
    with pytest.raises(UsageError, match="another process"):
        pickle.dumps(op)


class Closed(nn.Module):
    """Layers that a closure holds, numbers that are a plain attribute, and a buffer that training writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"fc": nn.Linear(6, 6), "norm": nn.BatchNorm1d(6)})
        parts = self.parts
        self.both = lambda x: parts["norm"](parts["fc"](x))
        self.mix = torch.rand(6, 6)

    def forward(self, x: Any) -> Any:
        return self.both(x) @ self.mix


@pytest.mark.parametrize("train", [False, True])
def test_what_is_held_in_closures_is_compared_too_and_left_as_it_was(train: bool) -> None:
    module = Closed()
    before = {n: x.clone() for n, x in module.state_dict().items()}
    assert agreement(pk.from_torch(module, (normal(5, 6),), train=train))
    torch.testing.assert_close(dict(module.state_dict()), before, rtol=0, atol=0)
    assert module.mix.dtype == torch.float32 and "mix" in vars(module)


def test_histograms() -> None:
    x = torch.tensor([-1.0, 0.0, 0.1, 0.26, 0.99, 1.0, 1.5, float("nan"), 0.5])
    agrees(lambda x: torch.histc(x, 4, 0, 1), x)
    agrees(lambda x: torch.histc(x, 4), x[:7])
