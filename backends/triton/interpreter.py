"""Triton's interpreter in a worker process, with its faults mended; runs inside worker processes only.

Two repairs, each named in the simulator's ``method``:

* ``tl.dot`` of bf16 operands multiplied bit patterns as integers (Triton 3.9 keeps bf16 tensors as ``uint16``); here
  they become float32 first, whose products of bf16 values are exact.
* ``tl.reduce`` with a function of the kernel's own ran it once per element from Python; here it folds halves of the
  array, which is the same tree that the compiled code uses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

REPAIRS = "with bf16 tl.dot mended and tl.reduce vectorised by portakern"
_done = False


def mend() -> None:
    """Apply the repairs once; ``TRITON_INTERPRET=1`` must be in the environment."""
    global _done
    if _done:
        return
    from triton.runtime import interpreter

    _mend_dot(interpreter)
    _mend_reduce(interpreter)
    _first_config_only()
    _done = True


def _mend_dot(interpreter: Any) -> None:
    builder = interpreter.InterpreterBuilder
    create_dot = builder.create_dot

    def mended(self: Any, a: Any, b: Any, d: Any, *rest: Any, **keywords: Any) -> Any:
        return create_dot(self, _widened(interpreter, a), _widened(interpreter, b), d, *rest, **keywords)

    builder.create_dot = mended


def _widened(interpreter: Any, operand: Any) -> Any:
    """A bf16 operand as float32."""
    import triton.language as tl

    if operand.dtype.scalar != tl.bfloat16:
        return operand
    bits = np.ascontiguousarray(operand.data)
    if bits.dtype != np.uint16:
        return operand
    return interpreter.TensorHandle((bits.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _mend_reduce(interpreter: Any) -> None:
    operations = getattr(interpreter, "ReduceOps", None)
    if operations is None or not hasattr(operations, "generic_reduce"):
        return
    generic = operations.generic_reduce

    def folded(self: Any, input: Any) -> Any:
        if self.axis is None or len(input) != 1:
            return generic(self, input)
        tensor = input[0]
        data = np.moveaxis(tensor.handle.data, self.axis, -1)
        while data.shape[-1] > 1:
            size = data.shape[-1]
            half = size // 2
            left = self.to_tensor(np.ascontiguousarray(data[..., :half]), tensor.dtype.scalar)
            right = self.to_tensor(np.ascontiguousarray(data[..., half : 2 * half]), tensor.dtype.scalar)
            joined = self.combine_fn.fn(left, right).handle.data
            data = np.concatenate([joined, data[..., 2 * half :]], axis=-1) if size % 2 else joined
        result = np.moveaxis(data, -1, self.axis) if self.keep_dims else data[..., 0]
        return [self.to_tensor(result, tensor.dtype)]

    operations.generic_reduce = folded


def _first_config_only() -> None:
    """Tuning by time means nothing in an interpreter: the first configuration runs."""
    from triton.runtime.autotuner import Autotuner

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        return self.fn.run(*args, **kwargs, **self.configs[0].all_kwargs())

    Autotuner.run = run  # type: ignore[method-assign]
