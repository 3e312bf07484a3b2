"""The sum of several gradients of one array.  Pieces that do not meet become one array, as the gates of an LSTM do."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.gradients.rules import Piece
from portakern.ir.size import Size, Sym, product
from portakern.ir.tensor import Assemble, TensorType
from portakern.spec import views
from portakern.spec.traced import Traced, make


def summed(shares: Sequence[Traced | Piece], of: TensorType) -> Traced:
    """The sum of ``shares`` as an array of type ``of``."""
    terms = [s for s in shares if isinstance(s, Traced)]
    batches: list[list[Piece]] = []
    for piece in (s for s in shares if isinstance(s, Piece) and 0 not in s.part.shape):
        batch = next((b for b in batches if all(_apart(piece, other) for other in b)), None)
        if batch is None:
            batches.append([piece])
        else:
            batch.append(piece)
    terms += [_assembled(batch, of) for batch in batches]
    if not terms:
        return views.zeros(of.shape, of.dtype)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _assembled(batch: Sequence[Piece], of: TensorType) -> Traced:
    covered: Size = 0
    for piece in batch:
        covered = covered + product(piece.part.shape)
    fill = None if covered == product(of.shape) else 0.0
    offsets = tuple(s for piece in batch for s in piece.starts)
    steps = tuple(s for piece in batch for s in piece.steps)
    return make(Assemble(tuple(p.part.op for p in batch), of.shape, offsets, steps, fill))


def _apart(a: Piece, b: Piece) -> bool:
    """Whether two pieces surely share no element: along one dim one ends before the other begins, or their steps never meet."""
    for d in range(len(a.starts)):
        if _not_negative(b.starts[d] - _end(a, d)) or _not_negative(a.starts[d] - _end(b, d)):
            return True
        step, distance = a.steps[d], a.starts[d] - b.starts[d]
        if step == b.steps[d] and isinstance(distance, int) and distance % step:
            return True
    return False


def _end(piece: Piece, d: int) -> Size:
    return piece.starts[d] + (piece.part.shape[d] - 1) * piece.steps[d] + 1


def _not_negative(size: Size) -> bool:
    """Whether ``size`` is at least 0 for all sizes of its dims: every coefficient of the polynomial is."""
    return size >= 0 if isinstance(size, int) else isinstance(size, Sym) and all(c >= 0 for _, c in size.terms)
