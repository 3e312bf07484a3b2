"""Losses that PyTorch has whole."""

from __future__ import annotations

from portakern.spec import elementwise as ew
from portakern.spec import reductions, views
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
    """max(0, 1 - (x[label] - x[other])) over the number of classes, of all labels before the first -1 and all classes that are
    no label."""
    alone = x.ndim < 2
    x, labels = (views.reshape(v, (1, number(v.shape[-1] if v.ndim else 1, "classes"))) if alone else v for v in (x, labels))
    classes = x.shape[1]
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
    return reduced(loss, NONE if alone else reduction), views.reshape(is_label, call.results[1].shape)  # type: ignore[union-attr]
