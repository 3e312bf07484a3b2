"""``pk.swap(model, target="cpp:cpu", example_inputs=(x,))``: modules of a model run on our kernels, in place.

``recording`` sees what each module is called with, ``stand_in`` is what takes the place of a module's ``forward``, ``verified``
holds it against the module in float64, and ``swap`` decides which modules keep one.
"""

from portakern.torch_swap.swap import Decision, Swapped, swap

__all__ = ["Decision", "Swapped", "swap"]
