"""Lowering: a tensor program and a chooser of schedules become a program of kernels.

The way: :mod:`simplify` -> :mod:`split` into stages -> one family per stage (:mod:`elementwise`, :mod:`rows`,
:mod:`contraction`, :mod:`attention`) writes its kernel with :mod:`tiles` -> :mod:`cleanup`.
:mod:`hoisting` takes the program apart where some of its inputs are weights.
"""

from portakern.lower.choosing import lower_for
from portakern.lower.hoisting import Hoisted, hoisted
from portakern.lower.lowering import lower, unsupported

__all__ = ["Hoisted", "hoisted", "lower", "lower_for", "unsupported"]
