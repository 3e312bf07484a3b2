"""Functions of PyTorch that ``torch.export`` cannot follow, written in others that it can.

They branch in C++ or Python by numbers inside arrays, or have no shape before they ran.  What they compute is the same; what
they say about wrong numbers is not said.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
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
    found += [(torch.Tensor, "__setitem__", _set_at_numbers)]
    shapes: Any = importlib.import_module("torch._meta_registrations")
    name = "_meta_grouped_mm_common"
    return [*found, (shapes, name, _grouped(getattr(shapes, name)))] if hasattr(shapes, name) else found


# ---- places -----------------------------------------------------------------------------------------------------------


def _set_at_numbers(self: Any, index: Any, given: Any) -> None:
    """``x[:, p] = given`` where p is a number inside an array: a choice for each element along that dim.

    PyTorch takes such a number among others to read, not to write; and where it stands alone, asks how the memory that is
    written lies to the rest."""
    import torch

    each = index if isinstance(index, tuple) else (index,)
    numbers = [n for n, x in enumerate(each) if _is_number_inside(x)]
    if not numbers or not all(n in numbers or _is_plain(x) for n, x in enumerate(each)):
        torch._C.TensorBase.__setitem__(self, index, given)
        return
    lines = self[tuple(slice(None) if n in numbers else x for n, x in enumerate(each))]
    dims = [_dim_of(each, n, self.ndim) for n in numbers]
    here = torch.ones((), dtype=torch.bool, device=self.device)
    for n, dim in zip(numbers, dims, strict=True):
        size = lines.shape[dim]
        places = torch.arange(size, device=self.device)
        at = (places == each[n]) | (places - size == each[n])  # -1 is the last place
        here = here & at.reshape([size if d == dim else 1 for d in range(lines.ndim)])
    lines.copy_(torch.where(here, _spread_to(lines, dims, given), lines))


def _spread_to(lines: Any, dims: Sequence[int], given: Any) -> Any:
    """What is written to ``lines`` without ``dims``, with these as dims of one element."""
    import torch

    if not isinstance(given, torch.Tensor | list | tuple):
        return given
    value = torch.as_tensor(given, dtype=lines.dtype, device=lines.device)
    shape = [n for d, n in enumerate(lines.shape) if d not in dims]
    value = value.reshape(value.shape[max(value.ndim - len(shape), 0) :]).expand(shape)  # leading dims are of one element
    for dim in sorted(dims):
        value = value.unsqueeze(dim)
    return value


def _is_plain(x: Any) -> bool:
    return x is None or x is Ellipsis or (isinstance(x, int | slice) and not isinstance(x, bool))


def _is_number_inside(x: Any) -> bool:
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if isinstance(x, torch.SymInt):
        return bool(free_unbacked_symbols(x))
    return isinstance(x, torch.Tensor) and not x.ndim and x.dtype in (torch.int64, torch.int32, torch.int16, torch.int8)


def _dim_of(each: Sequence[Any], n: int, before: int) -> int:
    """The dim of the indexed array that entry ``n`` of an index of an array of ``before`` dims keeps."""
    left = before - sum(x is not None and x is not Ellipsis for x in each)
    return sum(left if x is Ellipsis else not isinstance(x, int) for x in each[:n])


# ---- products ---------------------------------------------------------------------------------------------------------


def _grouped(own: Callable[..., Any]) -> Callable[..., Any]:
    """The shape of ``torch._grouped_mm``, which PyTorch tells for bf16 alone and computes for other floats, too."""

    def shaped(a: Any, b: Any, scale_a: Any = None, scale_b: Any = None, offs: Any = None, bias: Any = None,
               scale_result: Any = None, out_dtype: Any = None, **others: Any) -> Any:  # fmt: skip
        import torch

        narrow = a.dtype == b.dtype == torch.bfloat16
        if scale_a is not None or scale_b is not None or narrow or a.dtype != b.dtype or not a.is_floating_point():
            return own(a, b, scale_a, scale_b, offs, bias, scale_result, out_dtype, **others)
        groups = [a.shape[0]] if a.ndim == b.ndim == 3 else [offs.shape[0]] if a.ndim == b.ndim == 2 else []
        return a.new_empty([*groups, a.shape[-2], b.shape[-1]], dtype=out_dtype or a.dtype)

    return shaped


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
