"""Attention as a walk of warpgroups along the keys: the copy engine feeds.

On Hopper weights stay in registers: ``planning.py``, with the words of ``include/pk/walk.cuh``.  On Blackwell an issuer
starts products of what is in tensor memory: ``tensor_planning.py``, ``include/pk/tensor_walk.cuh``.  ``walked.py`` decides
whether a kernel can be done so; ``printer.py`` prints it.
"""

from .plan import ComputedHere, Fetch, JoinRows, Pack, Rescale, WalkPlan
from .printer import print_walk
from .tensor_plan import IssueFirst, IssueLast, IssueStep, RescaleSum, TakeScores, TakeTotal, TensorWalkPlan, Weigh
from .walked import walked

__all__ = [
    "ComputedHere", "Fetch", "IssueFirst", "IssueLast", "IssueStep", "JoinRows", "Pack", "Rescale", "RescaleSum", "TakeScores",
    "TakeTotal", "TensorWalkPlan", "WalkPlan", "Weigh", "print_walk", "walked",
]  # fmt: skip
