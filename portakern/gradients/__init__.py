"""Gradients: the backward of an operator by reverse mode on its tensor program, an operator like any other."""

from portakern.gradients.operator import Gradient, grad

__all__ = ["Gradient", "grad"]
