"""Losses that PyTorch has whole."""

from __future__ import annotations

import math
from dataclasses import dataclass

from portakern.ir.size import Size
from portakern.spec import elementwise as ew
from portakern.spec import pieces, recurrences, reductions, views
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, number, rule, value, wide

NONE, MEAN, SUM = range(3)
"""PyTorch's reductions."""


def reduced(loss: Traced, reduction: int) -> Traced:
    if reduction == NONE:
        return loss
    return (reductions.mean if reduction == MEAN else reductions.sum)(loss)


@rule("aten.multilabel_margin_loss_forward")
def _(call: Call, x: Traced, labels: Traced, reduction: int = MEAN) -> tuple[Traced, Traced]:
    loss, is_label = multilabel_margin(x, labels, reduction)
    return loss, views.reshape(is_label, call.results[1].shape)  # type: ignore[union-attr]


def multilabel_margin(x: Traced, labels: Traced, reduction: int) -> tuple[Traced, Traced]:
    """max(0, 1 - (x[label] - x[other])) over the number of classes, of all labels before the first -1 and all classes that are
    no label."""
    alone = x.ndim < 2
    x, labels = (views.reshape(v, (1, v.shape[-1] if v.ndim else 1)) if alone else v for v in (x, labels))
    classes = number(x.shape[1], "classes")
    x = ew.cast(x, wide(x.type.dtype))
    at = views.iota(labels.shape, 1, "i32")
    end = reductions.min(ew.where(ew.less(labels, 0), at, classes), 1, True)
    asked = ew.less(at, end)
    given = ew.where(asked, labels, -1)
    line = views.iota((*labels.shape, classes), 2, labels.type.dtype)
    is_label = reductions.any(ew.equal(line, views.expand_dims(given, 2)), 1)
    own = views.take_along(x, ew.where(asked, labels, 0), 1)
    apart = ew.maximum(ew.subtract(1.0, ew.subtract(views.expand_dims(own, 2), views.expand_dims(x, 1))), 0.0)
    counted = ew.logical_and(views.expand_dims(asked, 2), views.expand_dims(ew.logical_not(is_label), 1))
    loss = ew.divide(reductions.sum(ew.where(counted, apart, value(0.0, x.type.dtype)), (1, 2)), float(classes))
    loss = views.reshape(loss, ()) if alone else loss
    return reduced(loss, NONE if alone else reduction), is_label


# ---- connectionist temporal classification ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Labels:
    """Labels with a blank before, between and behind them, as places of one dim S.

    Args:
        emitted: [T, N, S], the logarithm of the chance of each place's label at each time.
        skips: [N, S], whether a place may follow the one two before it.
        times, counts: [N, 1], how many times and labels there are.
    """

    labels: Traced
    emitted: Traced
    skips: Traced
    times: Traced
    counts: Traced

    @staticmethod
    def of(log_probs: Traced, targets: Traced, times: Traced, counts: Traced, blank: int) -> _Labels:
        batch = log_probs.shape[1]
        if targets.ndim == 1:  # one after the other
            most: Size = targets.shape[0]
            first = ew.subtract(reductions.cumsum(counts, 0), counts)
            at = ew.add(views.expand_dims(first, 1), views.iota((batch, most), 1, counts.type.dtype))
            targets = views.take(targets, at, 0)
        most = targets.shape[1]
        places = 2 * most + 1
        number_ = views.iota((batch, places), 1, "i32")
        is_label = ew.not_equal(ew.remainder(number_, 2), 0)
        labels = ew.cast(views.take_along(targets, ew.floor_divide(number_, 2), 1), "i32") if most != 0 else number_
        labels = ew.where(is_label, labels, blank)
        before = views.take_along(labels, ew.subtract(number_, 2), 1)
        skips = ew.logical_and(ew.logical_and(is_label, ew.greater(number_, 1)), ew.not_equal(labels, before))
        index = ew.expand_at(labels, (log_probs.shape[0], batch, places), (1, 2))
        emitted = views.take_along(ew.cast(log_probs, wide(log_probs.type.dtype)), index, 2)
        return _Labels(labels, emitted, skips, *(ew.cast(views.expand_dims(v, 1), "i32") for v in (times, counts)))

    @property
    def number(self) -> Traced:
        """Of each place."""
        return views.iota(self.labels.shape, 1, "i32")

    @property
    def is_last(self) -> Traced:
        """Whether a sequence may end at a place: the last label, and the blank behind it."""
        apart = ew.subtract(ew.multiply(self.counts, 2), self.number)
        return ew.logical_and(ew.greater_equal(apart, 0), ew.less_equal(apart, 1))

    def forwards(self) -> tuple[Traced, Traced]:
        """The logarithm of the chance of all ways to each place [N, S] at the last time of each sequence, and at all times."""
        begins = ew.where(ew.equal(self.number, 0), 0.0, -math.inf)

        def step(alpha: Traced, both: tuple[Traced, Traced]) -> tuple[Traced, Traced]:
            t, emitted = both
            first = ew.logical_and(ew.equal(self.number, 1), ew.greater(self.counts, 0))
            started = ew.logical_or(first, ew.equal(self.number, 0))
            one, two = _moved(alpha, 1), _moved(alpha, 2)
            ways = _together(alpha, one, ew.where(self.skips, two, -math.inf))
            ways = ew.where(ew.equal(t, 0), ew.where(started, 0.0, -math.inf), ways)
            new = ew.where(ew.less(t, self.times), ew.add(ways, emitted), alpha)
            return new, new

        first = ew.cast(begins, self.emitted.type.dtype)
        return recurrences.scan(step, first, (views.arange(self.emitted.shape[0]), self.emitted))

    def backwards(self) -> Traced:
        """The logarithm of the chance of all ways from each place to the end, at all times [T, N, S], the place's own label
        among them."""
        skips = _moved(ew.cast(self.skips, "i32"), -2, 0)

        def step(beta: Traced, both: tuple[Traced, Traced]) -> tuple[Traced, Traced]:
            t, emitted = both
            one, two = _moved(beta, -1), _moved(beta, -2)
            ways = _together(beta, one, ew.where(ew.not_equal(skips, 0), two, -math.inf))
            ends = ew.where(self.is_last, 0.0, -math.inf)
            ways = ew.where(ew.equal(t, ew.subtract(self.times, 1)), ends, ways)
            new = ew.where(ew.less(t, self.times), ew.add(ways, emitted), beta)
            return new, new

        dtype = self.emitted.type.dtype
        first = ew.expand(value(-math.inf, dtype), self.labels.shape)
        return recurrences.scan(step, first, (views.arange(self.emitted.shape[0]), self.emitted), reverse=True)[1]

    def losses(self, alpha: Traced) -> Traced:
        """[N], of what all ways to the last time are."""
        lasts = ew.where(self.is_last, alpha, -math.inf)
        most = reductions.max(lasts, 1, True)
        near = ew.where(ew.equal(most, -math.inf), 0.0, most)
        total = reductions.sum(ew.exp(ew.subtract(lasts, near)), 1, True)
        return views.squeeze(ew.negative(ew.add(ew.log(total), near)), 1)


def _moved(x: Traced, places: int, fill: float = -math.inf) -> Traced:
    """Each place of the last dim has what lies ``places`` before it."""
    size = x.shape[-1]
    if isinstance(size, int) and abs(places) >= size:
        return ew.expand(value(fill, x.type.dtype), x.shape)
    if places > 0:
        return pieces.pad(x[..., : size - places], [*[(0, 0)] * (x.ndim - 1), (places, 0)], fill)
    return pieces.pad(x[..., -places:], [*[(0, 0)] * (x.ndim - 1), (0, -places)], fill)


def _together(*logs: Traced) -> Traced:
    """The logarithm of the sum of their exponentials."""
    most = logs[0]
    for x in logs[1:]:
        most = ew.maximum(most, x)
    near = ew.where(ew.equal(most, -math.inf), 0.0, most)
    total = ew.exp(ew.subtract(logs[0], near))
    for x in logs[1:]:
        total = ew.add(total, ew.exp(ew.subtract(x, near)))
    return ew.add(ew.log(total), near)


@rule("portakern.ctc_loss")
def _(call: Call, log_probs: Traced, targets: Traced, times: Traced, counts: Traced, blank: int) -> Traced:
    """By the forward recursion over time (Graves et al., Connectionist temporal classification, 2006, section 4.1)."""
    ways = _Labels.of(log_probs, targets, times, counts, blank)
    return ways.losses(ways.forwards()[0])


@rule("portakern.ctc_loss_backward")
def _(call: Call, grad: Traced, log_probs: Traced, targets: Traced, times: Traced, counts: Traced, blank: int) -> Traced:
    """Chances less those of all ways through each label, by the recursions in both directions; as PyTorch has it, for
    ``log_probs`` that are a softmax's."""
    ways = _Labels.of(log_probs, targets, times, counts, blank)
    alpha, alphas = ways.forwards()
    loss = ways.losses(alpha)
    through = ew.subtract(ew.add(alphas, ways.backwards()), ways.emitted)
    through = ew.exp(ew.add(through, views.expand_dims(loss, 1)))
    classes = log_probs.shape[2]
    of_class = ew.equal(views.iota((*ways.labels.shape, classes), 2, "i32"), views.expand_dims(ways.labels, 2))
    share = reductions.sum(ew.where(of_class, views.expand_dims(through, 3), value(0.0, through.type.dtype)), 2)
    made = ew.subtract(ew.exp(ew.cast(log_probs, share.type.dtype)), share)
    made = ew.multiply(made, views.expand_dims(ew.cast(grad, made.type.dtype), 1))
    time = views.iota(log_probs.shape, 0, "i32")
    return ew.where(ew.less(time, ways.times), made, value(0.0, made.type.dtype))
