"""What public models do beside arithmetic: they give and take objects that hold arrays, keep tables from call to call, make
tables of indices of nothing, compute with complex numbers, and group rows by expert."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import portakern as pk  # noqa: E402
from portakern.errors import SpecError  # noqa: E402
from portakern.ir.tensor import Gather, Iota, SegmentContract, tensor_type  # noqa: E402
from portakern.torch_import.agreement import agreement  # noqa: E402
from portakern.torch_import.gradient import gradient_of  # noqa: E402
from portakern.torch_import.trees import flattened, leaves, nested, plain  # noqa: E402
from tests.torch_import.test_import import agrees, normal  # noqa: E402

F = torch.nn.functional
nn = torch.nn


# ---- objects that hold arrays ---------------------------------------------------------------------------------------


@dataclass
class Layer:
    keys: Any
    seen: int = 3


@dataclass
class Cache:
    """As PyTorch's trees do not know it."""

    layers: list[Layer] = field(default_factory=list)
    name: str = "cache"


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(4, 4)

    def forward(self, x: Any, past: Cache | None = None) -> dict[str, Any]:
        key = self.key(x)
        keys = torch.cat([past.layers[0].keys, key]) if past is not None else key
        return {"out": x @ keys.T, "cache": Cache([Layer(keys)])}


def test_an_object_that_holds_arrays_is_a_node_of_the_tree() -> None:
    x, y = normal(2), normal(3)
    tree = {"a": x, "cache": Cache([Layer(y, 7)])}
    found, form = flattened(tree)
    assert found[0] is x and found[1] is y and len(leaves(tree)) == 2
    again = nested([y, x], form)
    assert again["a"] is y and again["cache"].layers[0].keys is x and again["cache"].layers[0].seen == 7
    assert tree["cache"].layers[0].keys is y, "the object itself is another one"
    assert plain(tree)["cache"] == [y]
    assert str(form) == str(flattened({"a": y, "cache": Cache([Layer(x, 7)])})[1])
    assert str(form) != str(flattened({"a": y, "cache": Cache([Layer(x, 8)])})[1]), "what else it holds belongs to the form"


def test_objects_without_arrays_and_cycles_are_leaves() -> None:
    empty, round_ = Cache(), Cache()
    round_.layers.append(round_)  # type: ignore[arg-type]
    assert leaves([empty, round_]) == [empty, round_]


def test_arrays_in_objects_are_inputs_and_outputs() -> None:
    x = normal(3, 4)
    op = agrees(Decoder(), x)
    assert op.program().outputs == ("out0", "out1")
    later = agrees(Decoder(), x[:1], Cache([Layer(normal(3, 4))]))
    assert [tensor_type(r).shape for r in later.program().results] == [(1, 4), (4, 4)]
    assert len(later.examples) == 2


# ---- what a module keeps --------------------------------------------------------------------------------------------


class Keeps(nn.Module):
    """It keeps a table for each size, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.bias, self.tables, self.calls, self.ready = nn.Parameter(normal(8)), {}, [], False

    def forward(self, x: Any) -> Any:
        if x.shape[0] not in self.tables:
            self.tables[x.shape[0]] = self.bias[: x.shape[0]] * 2
        self.calls.append(x.shape)
        self.ready = True
        self.extra = 1
        return x + self.tables[x.shape[0]]


def test_the_module_keeps_nothing_of_the_import() -> None:
    module = Keeps()
    op = agrees(module, normal(4))
    assert (module.tables, module.calls, module.ready, hasattr(module, "extra")) == ({}, [], False, False)
    assert agreement(op) and module.tables == {}
    assert module(normal(4)).dtype == torch.float32, "no table of float64 is left behind"


def test_hooks_that_the_first_call_installs_are_installed_once() -> None:
    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.watched, self.seen = nn.Linear(4, 4), False, []

        def forward(self, x: Any) -> Any:
            if not self.watched:
                self.inner.register_forward_hook(lambda module, args, result: self.seen.append(result))
                self.watched = True
            self.seen.clear()
            self.inner(x)
            return torch.stack(self.seen).sum(0)

    module = Watched()
    x = normal(2, 4)
    agrees(module, x)
    assert torch.equal(module(x), module.inner(x))


# ---- constants ------------------------------------------------------------------------------------------------------


def relative(table: Any) -> Any:
    """Positions of a window of 3 x 3 relative to each other, as windowed attention looks them up."""
    grid = torch.stack(torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij")).flatten(1)
    apart = (grid[:, :, None] - grid[:, None, :]).permute(1, 2, 0).contiguous()
    apart[:, :, 0] += 2
    apart[:, :, 1] += 2
    apart[:, :, 0] *= 5
    index = torch.zeros(10, 10, dtype=torch.int64)
    index[1:, 1:] = apart.sum(-1)
    index[0, 0:] = 25
    return table[index]


def test_a_table_of_indices_is_a_constant() -> None:
    op = agrees(relative, normal(26))
    ops = op.program().body.ops
    assert len(ops) == 2 and isinstance(ops[0], Gather), "nothing of it is computed at a call"
    (name,) = op.bound
    assert op.bound[name].dtype == torch.int64 and tuple(op.bound[name].shape) == (10, 10)
    k = pk.build(op, target="numba:cpu")
    x = normal(26)
    assert torch.equal(k(x), relative(x))


def test_a_causal_mask_is_computed_where_it_is_used() -> None:
    def masked(x: Any) -> Any:
        return torch.where(torch.ones(6, 6, dtype=torch.bool).tril(), x, 0.0)

    op = agrees(masked, normal(6, 6))
    assert not op.bound and any(isinstance(o, Iota) for o in op.program().body.ops)


def test_numbers_that_the_code_has_as_tensors_are_numbers() -> None:
    op = agrees(lambda x: x * torch.tensor(3.0) + torch.tensor([1.0, 2.0]), normal(4, 2))
    assert len(op.program().args) == 2


# ---- attention ------------------------------------------------------------------------------------------------------


def test_a_query_that_reaches_no_key_gives_zeros() -> None:
    q, mask = normal(1, 2, 4, 8), torch.ones(4, 4, dtype=torch.bool).tril()
    mask[1] = False
    for m in (mask, torch.where(mask, 0.5, -torch.inf)):
        op = agrees(lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), q, m)
        got = pk.build(op, target="numba:cpu")(q, m)
        assert (got[:, :, 1] == 0).all() and not got.isnan().any()


# ---- complex numbers ------------------------------------------------------------------------------------------------


def rotary(x: Any, angle: Any) -> Any:
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(-2)


def spectral(x: Any) -> tuple[Any, ...]:
    f = torch.fft.rfft2(x, norm="ortho")
    g = f * torch.exp(1j * f.abs()) - 2
    return (torch.fft.irfft2(g, s=x.shape[-2:], norm="ortho"), f.angle(), torch.fft.ifft(torch.fft.fftshift(f), dim=0).imag,
            (f / (f.conj() + 2)).real, (f @ f.mT).imag, torch.cat([f, g]).sum(0).abs(), f,
            torch.fft.irfft(f, n=9, norm="forward"), torch.where(f.real > 0, f, g).real, x + torch.complex(x, x))  # fmt: skip


def test_complex_arithmetic_is_that_of_pairs() -> None:
    agrees(rotary, normal(2, 3, 8), normal(3, 4))
    op = agrees(spectral, normal(4, 6, 7))
    assert tensor_type(op.program().results[6]).shape == (4, 6, 4, 2), "a complex output is an array of pairs"


def test_complex_weights_and_inputs_are_pairs() -> None:
    class Filter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(6), normal(6)))
            self.scale = nn.Parameter(torch.complex(normal(6), normal(3, 2).flatten()))

        def forward(self, x: Any, z: Any) -> Any:
            return (torch.fft.fft(x) * self.turns * self.scale + z).abs()

    module, x, z = Filter(), normal(2, 6), torch.complex(normal(6), normal(1, 6)[0])
    op = agrees(module, x, z)
    k = pk.build(op, target="numba:cpu")
    np.testing.assert_allclose(k(x, torch.view_as_real(z)), module(x, z).detach(), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        module.turns.mul_(2)
    np.testing.assert_allclose(k(x, torch.view_as_real(z)), module(x, z).detach(), rtol=1e-5, atol=1e-5)


# ---- products of groups, gradients of convolutions --------------------------------------------------------------------


def _padded(w: Any, x: Any) -> tuple[Any, Any]:
    """With as many columns as PyTorch's alignment asks for."""
    return w, torch.cat([x, x[:, :1]], 1)


def test_rows_of_experts_are_a_grouped_product() -> None:
    x, w, ends = normal(7, 8), normal(3, 8, 16), torch.tensor([2, 2, 7], dtype=torch.int32)
    op = agrees(lambda x, w, ends: F.grouped_mm(x, w, offs=ends), x.bfloat16(), w.bfloat16(), ends)
    assert any(isinstance(o, SegmentContract) for o in op.program().body.ops)
    columns = w.mT.bfloat16().contiguous(), x.T.bfloat16().contiguous()
    ends = torch.tensor([2, 2, 8], dtype=torch.int32)
    agrees(lambda w, x, ends: F.grouped_mm(w, x, offs=ends), *_padded(*columns), ends)
    parts = normal(16, 8).bfloat16(), normal(8, 16).bfloat16()
    agrees(lambda a, b, ends: F.grouped_mm(a, b, offs=ends), *parts, torch.tensor([0, 8, 8], dtype=torch.int32))


@pytest.mark.parametrize("layer, size", [
    (nn.Conv2d(6, 9, 3, stride=2, padding=1, groups=3), (6, 7, 8)),
    (nn.Conv2d(4, 4, (3, 5), padding=2, groups=4), (4, 6, 7)),
    (nn.Conv1d(4, 8, 3, stride=3, dilation=2, groups=2), (4, 19)),
    (nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1), (6, 5, 4)),
    (nn.ConvTranspose2d(6, 9, 3, stride=2, padding=1, groups=3, dilation=2), (6, 5, 4)),
])  # fmt: skip
def test_gradients_of_convolutions_in_groups_and_of_transposed_ones(layer: Any, size: tuple[int, ...]) -> None:
    module, args = gradient_of(layer, (normal(2, *size),))
    op = agrees(module, *args)
    assert len(op.program().outputs) == 3


# ---- layers that convert themselves ---------------------------------------------------------------------------------


class Router(nn.Module):
    """Routes in float32, whatever the weights are in."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.norm = nn.Linear(4, 3).to(torch.bfloat16), nn.LayerNorm(3)

    def forward(self, x: Any) -> Any:
        self.scores = self.scores.to(torch.float32)
        return self.norm.to(x.device)(self.scores(x)).softmax(-1)


@pytest.mark.quick
def test_a_layer_that_is_converted_in_a_forward_is_converted_at_each_call() -> None:
    router = Router()
    op = pk.from_torch(router, normal(2, 4))
    assert router.scores.weight.dtype == torch.bfloat16 and isinstance(router.scores.weight, nn.Parameter)
    assert "convert(scores_weight, 'f32')" in str(op.program())
    assert agreement(op)


# ---- numbers that are known -----------------------------------------------------------------------------------------


class Frames(nn.Module):
    """Keeps its sizes as buffers, and pads to whole strides."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("stride", torch.tensor(3))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: Any) -> Any:
        extra = torch.ceil((x.shape[-1] - 2) / self.stride).to(torch.int64) * self.stride - x.shape[-1] + 2
        if extra > 0:
            x = F.pad(x, (extra, self.stride - 1))
        return x[:, : self.stride] * self.scale.item()


class Counter(Frames):
    def forward(self, x: Any) -> Any:
        self.stride += 1
        return x * 2 if self.stride > 4 else x


def tables(x: Any) -> Any:
    mask = torch.arange(6) % 2 == 0
    mask[1] = True
    if mask.all():
        return x
    index = torch.nonzero(mask)[:, 0]
    y = x[:, mask]
    y[:, torch.arange(4) > 2] = y[:, :1]
    return y + x[:, index] * int(torch.arange(6).max()), torch.cat([x[:, k : k + 1] for k in index])


def reads_an_input(x: Any) -> Any:
    mask = torch.ones(6)
    mask[2] = x[0, 0]
    return x if mask.sum() > 3 else -x


@pytest.mark.quick
def test_python_gets_numbers_that_follow_from_nothing() -> None:
    op = agrees(tables, normal(2, 6))
    assert [tensor_type(r).shape for r in op.program().results] == [(2, 4), (8, 1)]
    with pytest.raises(SpecError, match="Python decides by a number inside an array"):
        pk.from_torch(reads_an_input, normal(2, 6))


@pytest.mark.quick
def test_buffers_by_which_python_decides_are_fixed_by_the_import() -> None:
    op = agrees(Frames(), normal(2, 7))
    assert "scale" in op.bound and "stride" not in op.bound
    with pytest.raises(SpecError, match="by the numbers of stride, which the module changes"):
        pk.from_torch(Counter(), normal(2, 6))
