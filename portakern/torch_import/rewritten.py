"""Functions of PyTorch that ``torch.export`` cannot follow, written in others that it can.

They branch in C++ or Python by numbers inside arrays, or have no shape before they ran.  What they compute is the same; what
they say about wrong numbers is not said.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


@contextlib.contextmanager
def rewritten() -> Iterator[None]:
    """PyTorch with these functions in place of its own."""
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in _functions()]
    try:
        for owner, name, function in _functions():
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, own in before:
            if own is None:  # inherited
                delattr(owner, name)
            else:
                setattr(owner, name, own)


@cache
def _functions() -> list[tuple[Any, str, Callable[..., Any]]]:
    import torch

    adaptive = torch.nn.AdaptiveLogSoftmaxWithLoss
    found: list[tuple[Any, str, Callable[..., Any]]] = [
        (torch.linalg, "lstsq", _lstsq), (torch, "combinations", _combinations), (torch, "ctc_loss", _ctc_loss),
        (adaptive, "predict", _predict), (adaptive, "forward", _adaptive_loss),
    ]  # fmt: skip
    for owner in (torch, torch.Tensor):
        found += [(owner, "cov", _cov), (owner, "corrcoef", _corrcoef)]
    return found


# ---- statistics -------------------------------------------------------------------------------------------------------


def _cov(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    import torch

    lines = x.reshape(1, -1) if x.ndim < 2 else x
    lines = lines if lines.is_floating_point() or lines.is_complex() else lines.to(torch.get_default_dtype())
    weights = None if fweights is None else fweights.to(lines.real.dtype)
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        total: Any = lines.shape[1]
        apart = lines - lines.mean(1, keepdim=True)
        other, left = apart, max(total - correction, 0)
    else:
        total = weights.sum()
        apart = lines - (lines * weights).sum(1, keepdim=True) / total
        other = apart * weights
        left = total - correction if aweights is None or not correction else (
            total - correction * (weights * aweights).sum() / total)
        left = left.clamp(min=0)
    return (torch.matmul(apart, other.mT.conj()) / left).squeeze()


def _corrcoef(x: Any) -> Any:
    made = _cov(x)
    if not made.ndim:
        return made / made
    deviation = made.diagonal().real.sqrt() if made.is_complex() else made.diagonal().sqrt()
    made = made / deviation[:, None] / deviation[None, :]
    return made if made.is_complex() else made.clamp(-1, 1)


def _combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    import torch

    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(x.shape[0]), r))
    if not places or not r:
        return x.new_empty((0, r) if r else (0,))
    return x[torch.tensor(places)]


# ---- least squares ----------------------------------------------------------------------------------------------------


def _lstsq(a: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """By QR for ``gels``, which is of matrices of full rank, and else by singular values."""
    import torch

    m, n = a.shape[-2:]
    line = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    b = b.unsqueeze(-1) if line else b
    rank, values = a.new_empty((0,), dtype=torch.int64), a.new_empty((0,))
    if driver == "gels" and m >= n:
        q, r = torch.linalg.qr(a)
        found = torch.linalg.solve_triangular(r, q.mH @ b, upper=True)
    elif driver == "gels":
        q, r = torch.linalg.qr(a.mH)
        found = q @ torch.linalg.solve_triangular(r.mH, b, upper=False)
    else:
        share = torch.finfo(a.dtype).eps * max(m, n) if rcond is None or rcond <= 0 else rcond
        found = torch.linalg.pinv(a, rtol=share) @ b
        spectrum = torch.linalg.svdvals(a)
        rank = (spectrum > share * spectrum[..., :1]).sum(-1)
        values = spectrum if driver in ("gelsd", "gelss") else values
    residuals = a.new_empty((0,))
    if m > n and driver in ("gels", "gelsd", "gelss"):
        apart = a @ found - b
        residuals = (apart * apart.conj()).real.sum(-2) if a.is_complex() else apart.square().sum(-2)
    found = found.squeeze(-1) if line else found
    kind: Any = torch.return_types
    return kind.linalg_lstsq((found, residuals, rank, values))


# ---- layers and losses ------------------------------------------------------------------------------------------------


def _predict(self: Any, input: Any) -> Any:
    """Of the shortlist the best, or of all where the best is a cluster."""
    import torch

    head = self.head(input)
    first = torch.argmax(head, dim=1)
    return torch.where(first >= self.shortlist_size, self._get_full_log_prob(input, head).argmax(1), first)


def _adaptive_loss(self: Any, input_: Any, target_: Any) -> Any:
    """The logarithm of the chance of each target, and their mean."""
    from torch.nn.modules.adaptive import _ASMoutput

    batched = target_.dim() > 0
    input, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
    every = self._get_full_log_prob(input, self.head(input))
    output = every.gather(1, target.unsqueeze(1).long()).squeeze(1)
    loss = (-output).mean()
    return _ASMoutput(output if batched else output.squeeze(0), loss)


def _ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
              zero_infinity: bool = False) -> Any:  # fmt: skip
    import torch

    alone = log_probs.dim() == 2
    log_probs = log_probs.unsqueeze(1) if alone else log_probs
    inputs, labels = (torch.as_tensor(v, device=targets.device).reshape(-1) for v in (input_lengths, target_lengths))
    targets = targets.unsqueeze(0) if alone and targets.dim() == 1 else targets
    losses = ctc_operation()(log_probs, targets, inputs, labels, blank)
    if zero_infinity:
        losses = torch.where(losses == float("inf"), 0.0, losses)
    if reduction == 1:
        return (losses / labels.clamp(min=1).to(losses.dtype)).mean()
    return losses.sum() if reduction == 2 else losses.squeeze(0) if alone else losses


@cache
def ctc_operation() -> Any:
    """The losses [N] of ``torch.ctc_loss`` as a function of operations that have shapes."""
    import torch
    from torch import Tensor

    def loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
        return torch.ops.aten._ctc_loss(log_probs, targets, input_lengths, target_lengths, blank)[0]

    def gradient(grad: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
                 ) -> Tensor:  # fmt: skip
        given = log_probs, targets, input_lengths, target_lengths, blank
        losses, alpha = torch.ops.aten._ctc_loss(*given)
        lengths = [v.tolist() for v in (input_lengths, target_lengths)]
        return torch.ops.aten._ctc_loss_backward(grad, log_probs, targets, *lengths, losses, alpha, blank)

    for function in (loss, gradient):
        function.__annotations__ = {n: {"Tensor": Tensor, "int": int}[str(t)] for n, t in function.__annotations__.items()}
    of_loss = torch.library.custom_op("portakern::ctc_loss", loss, mutates_args=())
    of_gradient = torch.library.custom_op("portakern::ctc_loss_backward", gradient, mutates_args=())
    of_loss.register_fake(lambda log_probs, *rest: log_probs.new_empty(log_probs.shape[1]))
    of_gradient.register_fake(lambda grad, log_probs, *rest: torch.empty_like(log_probs))

    class Losses(torch.autograd.Function):
        @staticmethod
        def forward(*given: Any) -> Any:
            return of_loss(*given)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            *arrays, ctx.blank = inputs
            ctx.save_for_backward(*arrays)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return of_gradient(grad, *ctx.saved_tensors, ctx.blank), None, None, None, None

    return Losses.apply
