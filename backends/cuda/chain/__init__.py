"""Products of products, as attention's gradients are, by warpgroups: the copy engine feeds.

A producer brings what the walk needs through rings of slots, as for :mod:`..attention`; warpgroups have blocks of rows, and
what a product has made in registers is the left operand of the next.  ``planning.py`` makes the plan from the plain one,
``order.py`` decides which product of a step is started when, ``printer.py`` prints it.
"""

from .plan import ChainPlan, Room
from .planning import fed_chain
from .printer import print_chain

__all__ = ["ChainPlan", "Room", "fed_chain", "print_chain"]
