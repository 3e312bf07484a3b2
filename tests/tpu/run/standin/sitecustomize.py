"""A TPU that is not there: found on ``sys.path`` of a process that is to have one, before anything else is imported.

The chip is jax's CPU device under another name.  Kernels run in Pallas's interpreter, and traces get a plane of the device, in
the format that jax's profiler writes.  What is replaced are the few functions by which the backend asks jax for a chip.
"""

import os

if os.environ.get("STANDIN_TPU"):
    os.environ["JAX_PLATFORMS"] = "cpu"
    import standin_tpu

    standin_tpu.install()
