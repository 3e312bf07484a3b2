"""Matrix products on CDNA whose waves take turns at reading and multiplying (``include/pk/pingpong.h``).

``planning.py`` decides whether a kernel can be done so and makes its plan (``plan.py``); ``printer.py`` prints it.
"""

from .operand import StagedOperand
from .plan import PingPongPlan, Turn
from .planning import WAVES, pingpong, slice_of, takes_turns
from .printer import print_pingpong

__all__ = ["WAVES", "PingPongPlan", "StagedOperand", "Turn", "pingpong", "print_pingpong", "slice_of", "takes_turns"]
