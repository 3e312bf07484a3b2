"""``torch.compile(model, backend="portakern", options={"target": "cpp:cpu"})``.

Of each graph that PyTorch captures, the parts that can be imported become kernels for the target; the rest stays as it is.
Training works too, since PyTorch derives the backward graph.  What became of every part is in :func:`report`.
"""

from portakern.torch_compile.backend import Part, backend, clear, report

__all__ = ["Part", "backend", "clear", "report"]
