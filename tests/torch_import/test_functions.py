"""Functions with odd arguments: NaN, masks that deal out values, windows of random sizes, sequences of any length."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.errors import MissingRuleError, SpecError  # noqa: E402
from portakern.ir import oracle  # noqa: E402
from portakern.torch_import.agreement import agreement, widened  # noqa: E402
from portakern.torch_import.gradient import gradient_of  # noqa: E402
from tests.torch_import.test_import import agrees, normal  # noqa: E402

SLOW = pytest.mark.slow
NAN = float("nan")


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def is_right(function: Any, *args: Any) -> None:
    """Its kernels for CPUs pass the check."""
    (row,) = pk.check(agrees(function, *args), ["cpp:cpu"]).rows
    assert row.correct, row.error


def backward_agrees(function: Any, *args: Any) -> None:
    """What PyTorch's autograd writes for it is imported, too."""
    backward, given = gradient_of(Function(function), args)
    held = agreement(pk.from_torch(backward, given))
    assert held.compared and held, "; ".join(map(str, held.disagreements))


# ---- orders and numbers that are none ---------------------------------------------------------------------------------


def unordered(x: Any, y: Any) -> Any:
    return (
        *torch.nanmedian(x, 1), torch.nanmedian(x, 0, keepdim=True).values, *torch.median(x, 1), torch.nanmedian(x),
        *torch.cummax(x, 1), *torch.cummin(x, 0), torch.histc(y, 5), *torch.histogram(y, 4, range=(-1.0, 1.0), density=True),
        torch.histogram(y, torch.tensor([-1.0, 0.0, 0.3, 2.0])).hist, torch.nanquantile(x, 0.3, dim=0),
        torch.logcumsumexp(torch.where(y > 0, -torch.inf, y), 1), torch.cov(y, correction=0), torch.corrcoef(y),
        torch.cov(y[0]),
        torch.cov(y, fweights=torch.tensor([1, 2, 3, 1, 2]), aweights=y[0].abs()), torch.combinations(y[0], 2),
        torch.repeat_interleave(y, torch.tensor([1, 2, 3, 0]), 0, output_size=6), torch.renorm(y, 1, 1, 0.5),
        y[:3] / torch.bincount(torch.tensor([0, 2, 2, 1]), minlength=3)[:, None] + y[:3, :1],
    )  # fmt: skip


def moved_by_masks(x: Any, y: Any) -> Any:
    mask, rows = y > 0, y[:, 0] > -0.3
    put, added, back, middle, dealt, again = (y.clone() for _ in range(6))
    put[mask] = y[0, 0] + 1
    added[rows] += 1
    back[mask] = y[mask].abs().sqrt() * 2
    middle[:, torch.tensor([True, False, True, False, True])] = 5.0
    dealt[torch.tensor([True, False, True, False])] = y[:2] * 3
    again[rows] = 2 * y[rows]
    return (
        put, added, back, middle, dealt, again, y.index_put((mask,), y.new_tensor(2.0), accumulate=True),
        y.clone().fill_diagonal_(3.0), y.masked_scatter(mask, y[mask] * 2), torch.gather(y, 0, torch.zeros(0, 2).long()) + 1,
        torch.segment_reduce(y, "mean", lengths=torch.tensor([1, 0, 3]), initial=0.5),
        torch.segment_reduce(y, "max", offsets=torch.tensor([0, 2, 4])),
        torch.segment_reduce(y, "sum", lengths=torch.tensor([[2, 3]] * 4), axis=1, unsafe=True),
        torch.atan2(torch.tensor([0.0, -0.0, 0.0, torch.inf]), y[0, :4].sign() * torch.tensor([0.0, -0.0, -1.0, torch.inf])),
        torch.hypot(torch.tensor([torch.inf, NAN]), torch.tensor([NAN, torch.inf])) + 0 * y[0, :2],
    )  # fmt: skip


@pytest.mark.parametrize("function", [unordered, moved_by_masks], ids=lambda f: f.__name__)
def test_odd_arguments(function: Any) -> None:
    y = normal(4, 5)
    agrees(function, torch.where(y > 0.5, NAN, y), y)


# ---- images -----------------------------------------------------------------------------------------------------------


def pooled(x: Any, box: Any, grid: Any, samples: Any) -> Any:
    flat = grid[:, 0, :, :, :2]
    return (
        *F.adaptive_max_pool2d(x, (3, 2), return_indices=True), F.adaptive_max_pool3d(box, (2, 3, 1), return_indices=True)[1],
        *F.fractional_max_pool2d(x, (2, 3), output_size=(3, 2), _random_samples=samples[..., :2], return_indices=True),
        F.fractional_max_pool3d(box, 2, output_size=(1, 2, 1), _random_samples=samples[:1]),
        F.grid_sample(box, grid[:1], align_corners=False),
        F.grid_sample(box, grid[:1], mode="nearest", padding_mode="border", align_corners=True),
        F.grid_sample(box, grid[:1], padding_mode="reflection", align_corners=False),
        F.grid_sample(x, flat, mode="bicubic", align_corners=False),
        F.grid_sample(x, flat, mode="bicubic", padding_mode="reflection", align_corners=True),
        torch.conv_tbc(x[0], x[0].mT, x[0, 0, :, 0], 1), F.native_channel_shuffle(x, 3),
        F.interpolate(x, (3, 4), mode="area"),
    )  # fmt: skip


def test_pools_and_grids() -> None:
    samples = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0))
    agrees(pooled, normal(2, 3, 5, 7), normal(1, 3, 3, 4, 3), normal(2, 2, 3, 3, 3), samples)


@SLOW
def test_gradients_of_images() -> None:
    def function(x: Any, box: Any, grid: Any) -> Any:
        return (F.interpolate(x, (3, 9), mode="bilinear"), F.interpolate(x, (3, 9), mode="bicubic"), F.avg_pool2d(x, 3, 2, 1),
                F.interpolate(x, (3, 4), mode="bilinear", antialias=True), F.adaptive_avg_pool2d(x, (3, 2)),
                F.adaptive_max_pool2d(x, (3, 2)), F.max_pool3d(box, 2), F.grid_sample(box, grid, align_corners=False),
                F.interpolate(box, scale_factor=1.4, mode="nearest-exact"))  # fmt: skip

    backward_agrees(function, normal(2, 3, 5, 7), normal(1, 3, 3, 4, 3), normal(1, 2, 3, 3, 3))


@SLOW
def test_gradients_of_distances_bags_and_segments() -> None:
    index, offsets = torch.tensor([0, 3, 1, 1, 5, 2]), torch.tensor([0, 2, 2])

    def function(x: Any, y: Any) -> Any:
        return (torch.cdist(x, y, 1.5), torch.cdist(x, y, torch.inf), F.pdist(x, 1), F.pdist(x), F.rrelu(x, training=False),
                torch.segment_reduce(x, "mean", lengths=torch.tensor([2, 4])), F.embedding_bag(index, x, offsets),
                torch.segment_reduce(x, "max", lengths=torch.tensor([2, 4])), F.embedding_bag(index, x, offsets, mode="max"),
                F.embedding_bag(index, x, offsets, mode="sum", per_sample_weights=y[0, :1].expand(6), padding_idx=1),
                F.multilabel_margin_loss(x, torch.tensor([[1, 2, -1, 0]] * 6)))  # fmt: skip

    backward_agrees(function, normal(6, 4), normal(3, 4))


# ---- losses -----------------------------------------------------------------------------------------------------------


def sequences(x: Any, y: Any, times: Any, counts: Any) -> Any:
    chances = x.log_softmax(2)
    lengths: Any = (2, 4, 3), (3, 0, 2)
    return (
        F.ctc_loss(chances, y, times, counts, blank=1), F.ctc_loss(chances, y, times, counts, reduction="none"),
        F.ctc_loss(chances, y, *lengths, reduction="sum", zero_infinity=True),
        F.ctc_loss(chances, y.flatten()[:9], times, torch.tensor([4, 2, 3])),
        F.ctc_loss(chances[:, 0], y[0], times[0], counts[0]),
    )  # fmt: skip


def labelled(x: Any, y: Any, times: Any, counts: Any) -> Any:
    labels = torch.tensor([[1, 2, -1, 0, 3], [0, -1, 1, 2, 2], [3, 1, 0, 2, 4]])
    return *(F.multilabel_margin_loss(x[0], labels, reduction=r) for r in ("none", "mean", "sum")), F.multilabel_margin_loss(
        x[0, 0], labels[0])


@pytest.mark.parametrize("function", [sequences, labelled], ids=lambda f: f.__name__)
def test_losses(function: Any) -> None:
    y = torch.tensor([[2, 2, 3, 0], [4, 3, 0, 2], [3, 3, 3, 1]])
    agrees(function, normal(7, 3, 5), y, torch.tensor([7, 5, 6]), torch.tensor([4, 3, 0]))


@SLOW
def test_the_gradient_of_sequences() -> None:
    y, times, counts = torch.tensor([[2, 2, 3], [4, 3, 1]]), torch.tensor([7, 5]), torch.tensor([3, 2])
    backward_agrees(lambda x: F.ctc_loss(x.log_softmax(2), y, times, counts), normal(7, 2, 5))


@SLOW
def test_adaptive_softmax() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8], div_value=2.0)
    agrees(lambda x, y: (*layer(x, y), layer.predict(x), layer.log_prob(x)), normal(5, 8), torch.tensor([0, 11, 5, 4, 7]))


# ---- complex numbers --------------------------------------------------------------------------------------------------


def of_complex(pairs: Any) -> Any:
    z = torch.view_as_complex(pairs)
    made = (
        z.sqrt(), z.log(), z**2, z**-3, z**1.5, z ** (1 + 2j), z.sin(), z.cos(), z.tan(), z.sinh(), z.tanh(), z.sigmoid(),
        z.reciprocal(), z.rsqrt(), z.sgn(), z.cumprod(0), z.prod(0), z.prod(), z.log10(), z.square(), torch.exp2(z),
        torch.vdot(z[0], z[1]),
    )  # fmt: skip
    parts = map(torch.view_as_real, made)
    return *parts, z == z.conj(), z != z.conj(), z.var(1), z.std(0), torch.linalg.vector_norm(z, dim=1), z.isnan()


@SLOW
def test_complex_functions() -> None:
    agrees(of_complex, normal(3, 4, 2))


# ---- kernels ----------------------------------------------------------------------------------------------------------


def test_kernels_of_losses_and_masks() -> None:
    y, times, counts = torch.tensor([[2, 2, 3], [4, 3, 1]]), torch.tensor([4, 3]), torch.tensor([2, 2])

    def function(x: Any) -> Any:
        dealt = x[0].clone()
        dealt[x[0, :, 0] > -9] = x[1] * 2
        return F.ctc_loss(x.log_softmax(2), y, times, counts), dealt, torch.nanmedian(x, 1).values

    is_right(function, normal(4, 2, 5))


@SLOW
def test_kernels_of_images() -> None:
    def function(box: Any, grid: Any, samples: Any) -> Any:
        return (F.grid_sample(box, grid, align_corners=False), F.adaptive_max_pool3d(box, (2, 3, 1), return_indices=True)[1],
                F.fractional_max_pool2d(box[:, 0], 2, output_size=2, _random_samples=samples))  # fmt: skip

    samples = torch.rand(1, 3, 2, generator=torch.Generator().manual_seed(0))
    is_right(function, normal(1, 3, 3, 4, 3), normal(1, 2, 3, 3, 3), samples)


# ---- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_what_has_no_fixed_size_is_refused_with_a_way_out() -> None:
    i = torch.tensor([0, 3, 1])
    for function, words in [
        (lambda i: torch.bincount(i), "index_add"), (lambda i: i.repeat_interleave(i), "output_size"),
        (lambda i: torch.unique(i), "torch.sort"),
    ]:
        with pytest.raises(MissingRuleError, match="follows from the numbers inside an array") as caught:
            pk.from_torch(function, (i,))
        assert words in caught.value.hint
    with pytest.raises(SpecError, match="the number of classes") as error:
        pk.from_torch(lambda i: F.one_hot(i), (i,))
    assert "num_classes" in error.value.hint


@pytest.mark.quick
def test_a_generator_of_the_module_is_no_refusal() -> None:
    def function(x: Any) -> Any:
        return x + torch.rand(3, generator=torch.Generator().manual_seed(1))

    op = pk.from_torch(function, (torch.zeros(3),))
    made = oracle.evaluate(op.program(), {**widened(op.example_arrays()), "seed": np.array(1)})["out"]
    assert ((made >= 0) & (made < 1)).all()


@pytest.mark.quick
def test_what_is_written_in_other_functions_stands_on_the_users_line() -> None:
    before = torch.cov, vars(torch.Tensor).get("cov")
    op = pk.from_torch(lambda x: x.cov() + torch.corrcoef(x), (normal(3, 4),))
    assert {str(o.loc).rpartition(":")[0].rpartition("/")[2] for o in op.trace().body.ops if o.loc} == {"test_functions.py"}
    assert (torch.cov, vars(torch.Tensor).get("cov")) == before


# ---- numbers inside arrays as places ----------------------------------------------------------------------------------


def test_a_number_inside_an_array_says_where_to_write() -> None:
    """PyTorch's export refuses such a number among others, and as a 0-dim array."""
    def written(cache: Any, new: Any, at: Any) -> Any:
        for n in range(new.shape[1]):
            cache[:, at[n].item(), :] = new[:, n]
        cache[..., None, at[0], 1:] = 2.0
        cache[-1, at[1].item(), at[0].item()] = new[0, 0, 0]
        return cache

    def alone(x: Any, at: Any) -> Any:
        x[at[2].item()] = x[0]
        x[:, 1][at[0]] = 3
        return x

    given = normal(2, 5, 4), normal(2, 3, 4), torch.tensor([3, -2, 0])
    is_right(lambda cache, new, at: written(cache.clone(), new, at), *given)
    is_right(lambda x, at: alone(x.clone(), at), normal(4, 6), torch.tensor([-1, 0, 2]))


def test_what_follows_from_a_number_inside_an_array_is_no_hole() -> None:
    """The bounds of a slice pass through truths that only look like PyTorch's assertions."""
    with pytest.raises(MissingRuleError, match="numbers inside an array"):
        pk.from_torch(lambda x, y, at: x.narrow(1, at[0].item(), 2) + y, (normal(2, 8), normal(2, 2), torch.tensor([3])))


def test_constant_results_are_refused_with_a_way_out() -> None:
    with pytest.raises(MissingRuleError, match="results are constant") as refused:
        pk.from_torch(lambda n: torch.arange(n)[:, None] >= torch.arange(n), (5,))
    assert "call it once" in refused.value.hint


# ---- dtypes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float64])
def test_real_arrays_are_compared_with_complex_numbers(dtype: Any) -> None:
    x = torch.tensor([5, 0.25, -2]).to(dtype)
    agrees(lambda x: (torch.ne(x, 0.25 + 0j), torch.eq(x, 5 + 1j), x == torch.tensor(5 + 0j)), x)


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="this PyTorch has no grouped_mm")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_grouped_products_have_any_floats(dtype: Any) -> None:
    """PyTorch says their shapes for bf16 alone."""
    ends = torch.tensor([2, 3, 12], dtype=torch.int32)
    for a, b, given in (((12, 16), (3, 16, 8), (ends,)), ((3, 4, 16), (3, 16, 8), ()), ((3, 5, 16), (16, 12), (ends,)),
                        ((7, 12), (12, 5), (ends,))):  # fmt: skip
        agrees(lambda a, b, *offs: F.grouped_mm(a, b, offs=offs[0] if offs else None), normal(*a).to(dtype),
               normal(*b).to(dtype), *given)  # fmt: skip


# ---- numpy ------------------------------------------------------------------------------------------------------------


def test_functions_of_numpy_are_followed() -> None:
    """Those that PyTorch knows: the array is on its way to numpy and back, and the weight is the module's."""
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Linear(4, 4)

        def forward(self, x: Any, dim: int) -> Any:
            sums = np.cumsum(x.detach().cpu().numpy(), axis=dim, dtype=np.float32)
            return self.scale(torch.from_numpy(np.tanh(sums)))

    op = pk.from_torch(Sums(), (normal(3, 4), 1))
    assert set(op.paths.values()) == {"scale.weight", "scale.bias"}
    (row,) = pk.check(op, ["cpp:cpu"]).rows
    assert row.correct and agreement(op), row.error


# ---- memory -----------------------------------------------------------------------------------------------------------


def lies(x: Any) -> Any:
    """Strides over arrays that begin somewhere in memory, or whose dims lie in another order."""
    part, turned, middle = x[2:], (x * 2).t(), (x + 1).reshape(2, 4, 4).permute(1, 2, 0)
    return (part.as_strided((2, 2), (3, 1), 9), part.as_strided((2, 2), (3, 1)), turned.as_strided((2, 3), (4, 1), 1),
            middle.as_strided((3, 2), (5, 2)), torch.as_strided_scatter(turned, x[:2, :2], (2, 2), (5, 1), 3),
            torch.as_strided_scatter(part, x[:2, 1:3], (2, 2), (5, 1), 8))  # fmt: skip


def test_strides_go_over_memory_as_it_lies() -> None:
    is_right(lies, normal(8, 4))


@pytest.mark.parametrize(("function", "why"), [
    (lambda x: x[2:].as_strided((2, 2), (3, 1), 0), "outside of the array that it is called on"),
    (lambda x: x[:2].as_strided((3, 4), (4, 1)), "outside of the array that it is called on"),
    (lambda x: x[:, :3].as_strided((2, 2), (3, 1)), "gaps between its elements in memory"),
], ids=("before", "beyond", "gaps"))  # fmt: skip
def test_strides_into_other_memory_are_refused(function: Any, why: str) -> None:
    with pytest.raises(MissingRuleError, match=why):
        pk.from_torch(function, (normal(8, 4),))


def test_a_buffer_of_two_names_is_written_once() -> None:
    """PyTorch's export fails on what is written to a buffer that a module has twice."""
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.register_buffer("mean", self.norm.running_mean)
            self.spread = self.norm.running_var

        def forward(self, x: Any) -> Any:
            norm: Any = self.norm
            return F.batch_norm(x, cast(Any, self.mean), self.spread, norm.weight, norm.bias, training=True) + norm.running_mean

    module = Twice()
    before = [(name, id(x)) for name, x in module.named_buffers(remove_duplicate=False)]
    op = pk.from_torch(module, (normal(6, 4),))
    assert type(module.norm) is nn.BatchNorm1d
    assert [(name, id(x)) for name, x in module.named_buffers(remove_duplicate=False)] == before
    assert sorted(op.updates.values()) == ["mean", "spread"]
    (row,) = pk.check(op, ["cpp:cpu"]).rows
    assert row.correct and agreement(op), row.error


def test_an_eps_that_is_a_buffer_is_a_number() -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("eps", torch.tensor(0.5))
            self.register_buffer("momentum", torch.tensor(0.25))
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("spread", torch.ones(4))

        def forward(self, x: Any) -> Any:
            held: Any = self
            return F.batch_norm(x, held.mean, held.spread, training=True, momentum=held.momentum, eps=held.eps)

    op = pk.from_torch(Normed(), (normal(6, 4),))
    assert sorted(op.updates.values()) == ["mean", "spread"] and agreement(op)
