"""An Intel GPU that is not there: found on ``sys.path`` of a process that is to have one, before anything else is imported.

The GPU is SYCL's CPU device under a GPU's number, so that SPIR-V, queues, memory and events are those of the real runtime.
"""

import os

if os.environ.get("STANDIN_GPU"):
    os.environ["ONEAPI_DEVICE_SELECTOR"] = "opencl:cpu"
    from portakern.backends.sycl.sycl import gpus, library, runtime

    library._FLAGS = (*library._FLAGS, f"-DPK_GPU_STANDIN={os.environ['STANDIN_GPU']}")
    gpus.loader_missing = lambda: os.environ.get("STANDIN_LOADER", "")
    runtime.OPTIONS = ("-DPK_WITHOUT_DPAS",)
