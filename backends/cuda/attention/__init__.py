"""Attention as a walk of warpgroups along the keys on Hopper: the copy engine feeds, weights stay in registers.

``planning.py`` decides whether a kernel can be done so, and how; ``printer.py`` prints it.  The words are those of
``include/pk/walk.cuh``.
"""

from .plan import ComputedHere, Fetch, JoinRows, Pack, Rescale, WalkPlan
from .planning import walked
from .printer import print_walk

__all__ = ["ComputedHere", "Fetch", "JoinRows", "Pack", "Rescale", "WalkPlan", "print_walk", "walked"]
