"""From PyTorch: modules and functions become operators, one rule for each ATen operation.

``examples`` looks at what is given, ``capture`` exports a module to core ATen (``refusals`` says why not), ``tables`` finds
what PyTorch itself computes at once, ``walk`` reads the rest of the graph with the rules of ``aten``, ``operator`` makes an
operator of what was read, and ``agreement`` holds it against PyTorch in float64.
"""

from portakern.torch_import.operator import ImportedOperator, from_torch

__all__ = ["ImportedOperator", "from_torch"]
