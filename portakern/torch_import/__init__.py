"""From PyTorch: modules and functions become operators, one rule for each ATen operation.

``capture`` exports a module to core ATen, ``walk`` reads the graph with the rules of ``aten``, ``operator`` makes an operator
of what was read, and ``agreement`` holds it against PyTorch in float64.
"""

from portakern.torch_import.operator import ImportedOperator, from_torch

__all__ = ["ImportedOperator", "from_torch"]
