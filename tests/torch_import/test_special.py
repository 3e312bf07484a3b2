"""Rules of special functions, small systems of equations and quantisers, against PyTorch at ordinary and extreme numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.ir import oracle  # noqa: E402
from portakern.ir.tensor import tensor_type  # noqa: E402
from portakern.torch_import.agreement import widened  # noqa: E402
from tests.torch_import.test_import import agrees, normal  # noqa: E402


def line(*numbers: float) -> Any:
    return torch.tensor(numbers)


def functions(x: Any, p: Any, gamma: Any) -> Any:
    s = torch.special
    return (
        torch.lgamma(gamma), torch.digamma(gamma), torch.polygamma(1, gamma.abs() + 0.1), torch.erfinv(2 * p - 1), s.ndtri(p),
        torch.erfc(x), s.erfcx(x.clamp(min=-5)), s.log_ndtr(x), torch.i0(x), s.i0e(x * 10), s.i1(x), s.i1e(x * 10),
        s.spherical_bessel_j0(x), torch.copysign(x.abs() + 1, p - 0.5), *torch.frexp(x), torch.fmax(x, x.log()),
        torch.fmin(x.log(), x), torch.dist(x, p[: x.shape[0]], 3),
    )  # fmt: skip


@pytest.mark.quick
def test_special_functions() -> None:
    agrees(functions, line(-20.0, -8.0, -1.0, -1e-3, 0.0, 0.3, 0.6, 3.0, 11.9, 12.1, 30.0),
           line(0.0, 1e-6, 1e-3, 0.02, 0.2, 0.4999, 0.5, 0.8, 0.99, 0.9999, 1.0),
           line(-3.5, -1.0, -0.1, 0.0, 1e-4, 0.5, 1.0, 1.4616, 2.0, 10.0, 1e6))  # fmt: skip


@pytest.mark.slow
def test_tails_keep_their_digits_in_f32() -> None:
    x = line(2.0, 4.0, 6.0, 9.0)
    for function in (torch.erfc, lambda x: torch.special.ndtri(torch.exp(-x * 2)), lambda x: torch.special.log_ndtr(-x)):
        k = pk.build(pk.from_torch(function, (x,)), target="numba:cpu")
        torch.testing.assert_close(k(x), function(x.double()).float(), rtol=3e-5, atol=0.0)


def whole(a: Any, b: Any, x: Any) -> Any:
    powers = a.abs() ** b.abs(), a**b, 2 ** b.abs()
    return torch.gcd(a, b), torch.lcm(a, b), *powers, torch.signbit(x), torch.nextafter(x, -x + 1)


@pytest.mark.quick
def test_whole_numbers_and_signs() -> None:
    a = torch.tensor([12, -18, 0, 7, 0, 832040, 1, -1, -3], dtype=torch.int32)
    b = torch.tensor([18, 12, 5, 0, 0, 514229, -3, -3, 3], dtype=torch.int32)
    agrees(whole, a, b, line(0.0, -0.0, 1.0, -1.0, 2.0, -7.0, 1e-3, 5.0, 0.6))


def placed(x: Any, i: Any, j: Any, t: Any) -> Any:
    return (
        torch.nonzero_static(x > 0, size=5), torch.nonzero_static(x > 0, size=20, fill_value=-7), torch.put(x, i, x[0, :4] * 2),
        x.scatter_reduce(1, i.view(2, 2), x, "prod"), torch.index_reduce(x, 0, torch.tensor([1, 1]), x[:2], "mean"),
        j.scatter_reduce(1, i.view(2, 2), j, "mean", include_self=False), torch.median(x), torch.nanmedian(x.log()),
        j.scatter_reduce(1, i.view(2, 2), j, "amax", include_self=False), torch.mode(j, 1), F.embedding(i, t, max_norm=1.0),
        torch.scatter(x, 1, i.view(2, 2), x, reduce="add"), torch.scatter(x, 1, i.view(2, 2), 1.5, reduce="multiply"),
        torch.ops.aten.mish_backward(x, x * 9),
    )  # fmt: skip


@pytest.mark.quick
def test_places_and_orders() -> None:
    j = torch.tensor([[3, 3, -9, 2, 2], [1, 5, 5, 1, 1], [0, 0, 0, 0, -7]])
    agrees(placed, normal(3, 5), torch.tensor([1, 0, 1, 2]), j, normal(3, 4))


def solved(a: Any, b: Any, small: Any) -> Any:
    spd = a @ a.mT + torch.eye(11)
    return (
        torch.linalg.solve(a, b), torch.linalg.solve(a, b[..., 0]), torch.linalg.inv(a), *torch.linalg.slogdet(a),
        torch.linalg.det(a), torch.linalg.det(small), torch.linalg.cholesky(spd),
        torch.cholesky_solve(b, torch.linalg.cholesky(spd)), torch.linalg.solve(a, b.mT, left=False),
    )  # fmt: skip


@pytest.mark.slow
def test_systems_of_equations() -> None:
    """Of matrices whose first pivot is 0."""
    a, small = normal(2, 11, 11), normal(3, 3)
    a[:, 0, 0] = 0
    agrees(solved, a, normal(2, 11, 2), small)


def test_a_small_system_of_equations() -> None:
    a = normal(2, 3, 3)
    a[:, 0, 0] = 0
    agrees(lambda a, b: (torch.linalg.solve(a, b), torch.linalg.inv(a), torch.linalg.cholesky(a @ a.mT)), a, normal(2, 3, 1))


def test_fake_quantisation_and_branches_of_arrays() -> None:
    def function(x: Any) -> Any:
        return (torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
                torch.cond(x.sum() < 0, lambda x: x.amax(1), lambda x: x.std(1), (x,)))  # fmt: skip

    agrees(function, normal(3, 4))
    channels = torch.rand(4, generator=torch.Generator().manual_seed(1)) + 0.1
    x, zeros = normal(3, 4), torch.zeros(4, dtype=torch.int32)
    op = pk.from_torch(lambda x, s: torch.fake_quantize_per_channel_affine(x, s, zeros, 1, -8, 7), (x, channels))
    made = oracle.evaluate(op.program(), widened(op.example_arrays()))["out"]  # PyTorch has no scales in float64
    np.testing.assert_allclose(made, torch.fake_quantize_per_channel_affine(x, channels, zeros, 1, -8, 7), rtol=1e-6)


@pytest.mark.quick
def test_draws_follow_their_weights() -> None:
    weights = line(0.0, 1.0, 3.0).repeat(4000, 1)

    def drawn(count: int, replacement: bool) -> Any:
        op = pk.from_torch(lambda p: torch.multinomial(p, count, replacement), (weights,))
        arrays = {**widened(op.example_arrays()), "seed": np.int64(1)}
        return oracle.evaluate(op.program(), arrays)["out"]

    assert np.bincount(drawn(1, False).ravel(), minlength=3) / 4000 == pytest.approx([0, 0.25, 0.75], abs=0.03)
    assert np.bincount(drawn(3, True).ravel(), minlength=3) / 12000 == pytest.approx([0, 0.25, 0.75], abs=0.03)
    assert (np.sort(drawn(2, False), 1) == [1, 2]).all()


@pytest.mark.quick
def test_diagonals_of_open_dims() -> None:
    def diagonals(x: Any) -> Any:
        return x.diagonal(dim1=1, dim2=2) + 1, x.diagonal(1, 1, 2), x.diagonal(-1, 1, 2)

    op = agrees(diagonals, normal(2, 6, 6), dynamic={"x": {1: "N", 2: "N"}})
    assert [str(tensor_type(r).shape[-1]) for r in op.program().results] == ["N", "N - 1", "N - 1"]


def test_images_are_resized_without_aliases() -> None:
    def resized(x: Any) -> Any:
        return (F.interpolate(x, (3, 11), mode="bicubic", antialias=True),
                F.interpolate(x, (5, 5), mode="bilinear", antialias=True),
                F.interpolate(x, scale_factor=(1.6, 0.4), mode="bilinear", antialias=True))  # fmt: skip

    agrees(resized, normal(1, 2, 8, 8))


def test_checks_of_numbers_by_pytorch_are_left_out() -> None:
    def losses(x: Any, y: Any, v: Any) -> Any:
        return F.gaussian_nll_loss(x, y, v, full=True), torch.distributions.Normal(x, v).log_prob(y)

    before = torch.distributions.Distribution._validate_args, F.gaussian_nll_loss
    agrees(losses, normal(3, 4), normal(4, 3).T, normal(3, 4).exp())
    assert (torch.distributions.Distribution._validate_args, F.gaussian_nll_loss) == before


# ---- Bessel and incomplete gamma functions ----------------------------------------------------------------------------

POSITIVE = line(1e-6, 1e-3, 0.1, 0.5, 1.0, 1.5, 1.99, 2.01, 3.3, 7.0, 7.99, 8.01, 9.9, 15.0, 40.0, 300.0)


def bessel(x: Any) -> Any:
    s = torch.special
    return (
        s.bessel_j0(x), s.bessel_j1(-x), s.bessel_y0(x), s.bessel_y1(x), s.modified_bessel_k0(x), s.modified_bessel_k1(x),
        s.scaled_modified_bessel_k0(x), s.scaled_modified_bessel_k1(x), s.modified_bessel_i0(x / 9),
        s.modified_bessel_i1(x / 9),
    )  # fmt: skip


def gammas(x: Any) -> Any:
    s, other = torch.special, x.flip(0)
    return (
        torch.igamma(x, other), torch.igammac(x, other), torch.igamma(x, x * 1.1), torch.igammac(other * 9, other * 9.5),
        s.zeta(x + 1.1, other), s.zeta(2.0, x), torch.polygamma(2, x), torch.polygamma(3, x), torch.polygamma(4, x - 5.375),
    )  # fmt: skip


def polynomials(x: Any) -> Any:
    s, t = torch.special, torch.cos(x)
    return (
        s.chebyshev_polynomial_t(t, 4), s.chebyshev_polynomial_u(t, 3), s.chebyshev_polynomial_v(t, 2),
        s.chebyshev_polynomial_w(t, 3), s.hermite_polynomial_h(t, 4), s.hermite_polynomial_he(t, 0) + t,
        s.laguerre_polynomial_l(t, 4), s.legendre_polynomial_p(t, 5), s.shifted_chebyshev_polynomial_t(t, 3),
    )  # fmt: skip


def oracle_of(function: Any, x: Any) -> list[np.ndarray]:
    return list(oracle.evaluate(pk.from_torch(function, (x,)).program(), {"x": x.numpy()}).values())


@pytest.mark.parametrize("function", [bessel, gammas, polynomials], ids=lambda f: f.__name__)
def test_series_agree_with_pytorch(function: Any) -> None:
    """To 1e-7: PyTorch's own Bessel functions have no more digits around 8."""
    x = POSITIVE.double()
    for number, (ours, theirs) in enumerate(zip(oracle_of(function, x), function(x), strict=True)):
        theirs = theirs.numpy()
        kept = np.isfinite(theirs) & (np.abs(theirs) < 1e30)
        assert kept.sum() >= 8
        np.testing.assert_allclose(ours[kept], theirs[kept], rtol=1e-7, atol=3e-8, err_msg=str(number))


def test_series_have_the_digits_of_f64() -> None:
    mp = pytest.importorskip("mpmath").mp
    s, x = torch.special, POSITIVE.double()
    exact = [lambda v: mp.besselj(0, v), lambda v: mp.bessely(1, v), lambda v: mp.besselk(0, v), lambda v: mp.polygamma(2, v),
             lambda v: mp.gammainc(v, 0, v * 1.25, regularized=True), lambda v: mp.zeta(2.5, v)]  # fmt: skip
    found = oracle_of(lambda x: (s.bessel_j0(x), s.bessel_y1(x), s.modified_bessel_k0(x), torch.polygamma(2, x),
                                 torch.igamma(x, x * 1.25), s.zeta(2.5, x)), x)  # fmt: skip
    for number, (ours, of) in enumerate(zip(found, exact, strict=True)):
        theirs = np.array([float(of(mp.mpf(float(v)))) for v in x])
        np.testing.assert_allclose(ours, theirs, rtol=3e-14, atol=1e-15, err_msg=str(number))


@pytest.mark.quick
def test_borders_of_their_domains() -> None:
    def borders(a: Any, x: Any) -> Any:
        s = torch.special
        return (torch.igamma(a, x), torch.igammac(a, x), s.bessel_y0(x), s.bessel_y1(-x), s.modified_bessel_k0(x),
                s.bessel_j0(x), s.zeta(a, x), torch.polygamma(1, a), torch.polygamma(3, a), s.modified_bessel_k1(x))

    inf = float("inf")
    a = line(0.0, 0.0, 1.0, 1.0, 5.0, 2.0, -1.5, 300.0, 300.0, 0.5)
    agrees(borders, a, line(0.0, 1.0, 0.0, inf, 2.0, inf, 1.0, 290.0, 320.0, 2.0))


@pytest.mark.parametrize("function", [
    pytest.param(lambda x: (torch.special.bessel_y1(x), torch.igamma(x, x + 1)), id="some"),
    pytest.param(bessel, marks=pytest.mark.slow, id="bessel"), pytest.param(gammas, marks=pytest.mark.slow, id="gammas"),
])  # fmt: skip
def test_kernels_of_series(function: Any) -> None:
    op = agrees(function, line(0.3, 1.0, 2.5, 9.0, 30.0))
    (row,) = pk.check(op, ["cpp:cpu"]).rows
    assert row.correct, row.error
