"""Factors, systems of equations, exponentials and spectra of matrices, against PyTorch and on kernels."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import portakern as pk  # noqa: E402
from portakern.errors import MissingRuleError  # noqa: E402
from tests.torch_import.test_functions import backward_agrees, is_right  # noqa: E402
from tests.torch_import.test_import import agrees, normal  # noqa: E402

L = torch.linalg
SLOW = pytest.mark.slow


def without_first_pivot(*shape: int) -> Any:
    a = normal(*shape)
    a[..., 0, 0] = 0
    return a


def definite(*shape: int) -> Any:
    a = normal(*shape)
    return a @ a.mT + torch.eye(shape[-1])


def factors(a: Any, wide: Any, b: Any) -> Any:
    lu = L.lu_factor(a)
    return (
        *L.lu(a), *L.lu(wide), *L.lu(wide.mT), *L.lu_factor_ex(a), *torch.lu_unpack(*lu), L.lu_solve(*lu, b),
        L.lu_solve(*lu, b, adjoint=True), L.lu_solve(*lu, b.mT, left=False), *L.qr(a), *L.qr(wide), *L.qr(wide.mT),
        *L.qr(wide.mT, "complete"), L.qr(wide, "r").R, *torch.geqrf(wide), torch.ormqr(*torch.geqrf(wide.mT), b),
        torch.ormqr(*torch.geqrf(wide.mT), b.mT, left=False, transpose=True),
    )  # fmt: skip


def systems(a: Any, wide: Any, b: Any) -> Any:
    spd = definite(5, 5) + 0 * a[..., :1, :1]
    low = L.cholesky(spd)
    return (
        L.solve(a, b), L.solve(a, b[..., 0]), L.solve(a, b.mT, left=False), *L.solve_ex(a, b)[1:], *L.inv_ex(a), L.det(a * 0),
        *torch.slogdet(a), *torch.slogdet(a * 0), torch.cholesky_inverse(low), torch.cholesky_inverse(low.mT, upper=True),
        *L.cholesky_ex(spd, upper=True), L.cholesky_ex(a - 9 * torch.eye(5))[1],
        L.solve_triangular(low, b.mT, upper=False, left=False),
        L.solve_triangular(low, b, upper=False, unitriangular=True), L.matrix_power(a, -2), L.cond(a, 1),
        torch.triangular_solve(b, low.mT, transpose=True).solution, torch.matrix_exp(a), torch.matrix_exp(a * 20),
        torch.matrix_exp(a * 1e-3), torch.cholesky_solve(b, low),
    )  # fmt: skip


def spectra(a: Any, wide: Any, b: Any) -> Any:
    low_rank = wide.mT[..., :2] @ wide[..., :2, :]
    both = a + a.mT
    u, s, v = L.svd(low_rank, full_matrices=True)
    values, vectors = L.eigh(both)
    return (
        L.svdvals(a), L.svdvals(wide), (u * s[..., None, :]) @ v, u.mT @ u, values,
        (vectors * values[..., None, :]) @ vectors.mT,
        L.eigvalsh(a, UPLO="U"), L.pinv(wide), L.pinv(low_rank), L.pinv(a, atol=1.0, rtol=0.1), L.pinv(both, hermitian=True),
        L.matrix_rank(low_rank), L.cond(a), L.matrix_norm(wide, 2), L.matrix_norm(wide, "nuc"),
        L.lstsq(wide.mT, b).solution, L.lstsq(low_rank, b).solution, L.lstsq(wide.mT, b, driver="gels").residuals,
        L.lstsq(wide, b[..., :3, :], driver="gels").solution,
    )  # fmt: skip


@pytest.mark.parametrize("function", [factors, pytest.param(systems, marks=SLOW), spectra], ids=lambda f: f.__name__)
def test_matrices(function: Any) -> None:
    """Of a batch of matrices whose first pivot is 0: more than are unrolled."""
    agrees(function, without_first_pivot(2, 5, 5), normal(2, 3, 5), normal(2, 5, 2))


def test_small_matrices_are_factorised_element_by_element() -> None:
    a = without_first_pivot(2, 3, 3)
    op = agrees(lambda a, b: (*L.lu_factor(a), L.solve(a, b), L.slogdet(a)[0]), a, normal(3, 1))
    assert not any(o.mnemonic() == "recur" for o in op.trace().body.ops)


@SLOW
def test_large_matrices_are_factorised_in_loops() -> None:
    a, b = normal(40, 40), normal(40, 2)
    op = agrees(lambda a, b: (L.solve(a, b), L.cholesky(a @ a.mT + 40 * torch.eye(40))), a, b)
    assert len(op.trace().body.ops) < 400


@SLOW
def test_complex_matrices() -> None:
    def function(a: Any, b: Any) -> Any:
        a, b = torch.view_as_complex(a), torch.view_as_complex(b)
        made = L.solve(a, b), L.inv(a), torch.matrix_exp(a / 3), L.solve(a, b.T, left=False)
        return tuple(torch.view_as_real(x.resolve_conj()) for x in made)

    agrees(function, normal(4, 4, 2), normal(4, 3, 2))


@pytest.mark.parametrize("function", [
    pytest.param(lambda a, b: (L.solve(a, b), L.det(a)), id="solve"),
    pytest.param(lambda a, b: L.pinv(a[:, :3]) @ b, id="pinv", marks=SLOW),
    pytest.param(lambda a, b: tuple(L.qr(a[:, :3])), id="qr", marks=SLOW),
    pytest.param(lambda a, b: (torch.matrix_exp(a), torch.cholesky_inverse(a @ a.mT)), id="exponential", marks=SLOW),
    pytest.param(lambda a, b: L.eigvalsh(a), id="eigenvalues", marks=SLOW),
])  # fmt: skip
def test_kernels(function: Any) -> None:
    is_right(function, without_first_pivot(5, 5), normal(5, 2))


@pytest.mark.parametrize("function", [
    pytest.param(lambda a: (L.inv(a), L.slogdet(a)[1], L.det(a)), id="solve"),
    pytest.param(lambda a: L.qr(a[:, :3]), id="qr", marks=SLOW),
    pytest.param(lambda a: (L.svdvals(a), L.eigvalsh(a + a.mT), L.pinv(a[:, :2])), id="spectra", marks=SLOW),
    pytest.param(lambda a: (torch.matrix_exp(a), L.cholesky(a @ a.mT)), id="others", marks=SLOW),
])  # fmt: skip
def test_gradients(function: Any) -> None:
    backward_agrees(function, without_first_pivot(4, 4))


def test_a_matrix_that_is_too_large_for_rotations_is_refused() -> None:
    with pytest.raises(MissingRuleError, match="at most 256"):
        pk.from_torch(lambda a: L.svdvals(a), (torch.zeros(300, 300),))
