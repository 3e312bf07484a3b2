"""Forward error propagation: beside each exact value, how far a correct kernel may be from it.

A :class:`Val` is a float64 value with a bound.  The bound of an operation is what its operands' bounds do to it
(evaluated at both ends where a function is curved) plus its own rounding as :mod:`portakern.check.accuracy` allows.

*   Results that are exactly representable and computed from exact operands get no bound: small integers are exact.
*   A sum of n passes each element through at most ``chain(n)`` roundings, so any reasonable order passes.
*   At a discontinuity (a comparison whose operands are too close, a floor, a tie) the bound spans both answers.
*   An explicit :class:`Convert` rounds the value, and the bound is what rounding does to both ends: a kernel that
    leaves it out fails.  Two exceptions: a stranger's may leave out some (:mod:`.free`), and what a contraction consumes
    may be rounded at another scale (an online softmax rounds before it divides), so there the bound is one rounding.
*   Where this says little, after many products one after the other, the error of a correct kernel is measured (:mod:`.probes`).
*   A bound of infinity means that anything goes: an overflow that cannot be decided.
"""

from .probes import says_little
from .propagation import propagate
from .value import Choice, Val

__all__ = ["Choice", "Val", "propagate", "says_little"]
