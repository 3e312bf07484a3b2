"""Lowering: a tensor program and a chooser of schedules become a program of kernels.

The way: :mod:`simplify` -> :mod:`split` into stages -> one family per stage (:mod:`elementwise`, :mod:`rows`,
:mod:`contraction`, :mod:`attention`) writes its kernel with :mod:`tiles` -> :mod:`cleanup`.
:mod:`laid` lays weights out as products walk them, and :mod:`hoisting` takes the program apart where some of its inputs are
weights.
"""

from portakern.lower.choosing import lower_for
from portakern.lower.hoisting import Hoisted, hoisted
from portakern.lower.laid import LaidOut, laid_out, with_layouts
from portakern.lower.lowering import lower, unsupported

__all__ = ["Hoisted", "LaidOut", "hoisted", "laid_out", "lower", "lower_for", "unsupported", "with_layouts"]
