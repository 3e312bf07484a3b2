"""Matrix products as a pipeline between warps on Hopper: the copy engine feeds, warpgroups multiply, tiles follow each other.

``planning.py`` decides whether a kernel can be done so, and how; ``printer.py`` prints it.  The words are those of
``include/pk/pipeline.cuh``.
"""

from .narrow import NarrowPlan, NarrowProduct, SumOf, narrowed, print_narrow
from .packing import packed
from .plan import Fetched, PipelinePlan, Refill, SendTile, WriteRows
from .planning import MOVERS, obstacle_to_pipeline, pipelined
from .printer import print_pipeline

__all__ = [
    "MOVERS", "Fetched", "NarrowPlan", "NarrowProduct", "PipelinePlan", "Refill", "SendTile", "SumOf", "WriteRows", "narrowed",
    "obstacle_to_pipeline", "packed", "pipelined", "print_narrow", "print_pipeline",
]  # fmt: skip
