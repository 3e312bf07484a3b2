"""Matrix products on Blackwell by tcgen05: a pipeline between warps as on Hopper, with sums in tensor memory.

``planning.py`` decides whether a kernel can be done so, and how; ``printer.py`` prints it.  The words are those of
``include/pk/tensor_memory.cuh``.
"""

from .plan import BeginSum, CommitSum, Multiply, TakeSum, TensorPlan
from .planning import in_tensor_memory
from .printer import print_tensor_pipeline

__all__ = ["BeginSum", "CommitSum", "Multiply", "TakeSum", "TensorPlan", "in_tensor_memory", "print_tensor_pipeline"]
