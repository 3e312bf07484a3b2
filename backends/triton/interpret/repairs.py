"""Triton's interpreter in a worker process, with its faults mended; runs inside worker processes only.

The repairs, named in the simulator's ``method`` (Triton 3.9 keeps bf16 tensors as ``uint16`` bit patterns):

* Arithmetic, comparisons, reductions and scans of bf16 worked on the bit patterns; here they compute in float32 and
  round, as the hardware does.
* Casts to bf16 truncated (and took integers for bit patterns); here they round to nearest even, as the hardware does.
* ``tl.dot`` of bf16 operands multiplied bit patterns as integers; here they become float32 first, which is
  exact.
* 8-bit floats lost NaN and infinities when widened, and were rounded neither to nearest even nor past a power of two when
  narrowed; here both are as in their formats, and what is too large becomes the largest number, as PTX's ``satfinite``
  does.
* ``tl.reduce`` with a function of the kernel's own ran it once per element from Python; here it folds halves of the
  array, which is the same tree that the compiled code uses.
* Floats given to a kernel stayed Python's, without ``.to`` and in double precision; here they are tensors of the dtype that
  their parameter declares, float32 where it declares none, as they are once compiled; so are integers declared int64.
* A scalar of the kernel as the bound of a loop: Triton 3.6 asks an array of one dim for its number, which numpy 2.5 refuses.
* Triton 3.6 has no bf16 constants, as a number chosen beside bf16 elements becomes, and rounds ``tl.fma`` twice.

What takes most of its time for nothing is left out: sums, differences and products of integers are computed again in 64
bits for an assertion that is made only where debugging is asked for, the table of numpy's dtypes is made for every array,
and the language is patched at every call of a function.  :mod:`.quick` has what most operators take.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from .fused import fused
from .quick import Tiles, quicken, quicken_language

REPAIRS = "with its bf16 arithmetic, casts (8-bit floats' too), scalars and tl.dot mended, tl.reduce vectorised by portakern"
_done = False


def mend() -> None:
    """Apply the repairs once; ``TRITON_INTERPRET=1`` must be in the environment."""
    global _done
    if _done:
        return
    from triton.runtime import interpreter  # type: ignore[attr-defined]

    _mend_casts(interpreter)
    _mend_arithmetic(interpreter)
    _mend_dot(interpreter)
    _mend_reduce(interpreter)
    _mend_scalars(interpreter)
    _mend_bounds(interpreter)
    _mend_fma(interpreter)
    _first_config_only()
    _without_waste(interpreter)
    _done = True


def to_bf16(values: np.ndarray) -> np.ndarray:
    """The bits of ``values`` rounded to bf16, to nearest even; every NaN becomes the quiet one."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = np.ascontiguousarray(values, dtype=np.float32)
    bits = narrow.view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(narrow), np.uint16(0x7FC0), rounded)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """The float32 values of bf16 bits."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32)


@cache
def _eight_bit_formats() -> dict[Any, Any]:
    """Triton's 8-bit floats and numpy's of the same format."""
    import triton.language as tl

    from portakern.dtypes import numpy_dtype

    ours = {"float8e4nv": "f8e4m3", "float8e5": "f8e5m2", "float8e4b8": "f8e4m3fnuz", "float8e5b16": "f8e5m2fnuz"}
    return {getattr(tl, theirs): numpy_dtype(name) for theirs, name in ours.items()}


def to_eight_bits(values: np.ndarray, kind: Any) -> np.ndarray:
    """The bits of ``values`` rounded to nearest even in an 8-bit float; what is too large becomes the largest number."""
    from ml_dtypes import finfo

    largest = float(finfo(kind).max)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.clip(np.ascontiguousarray(values), -largest, largest).astype(kind).view(np.uint8)


def from_eight_bits(bits: np.ndarray, kind: Any) -> np.ndarray:
    """The float32 values of the bits of an 8-bit float."""
    return np.ascontiguousarray(bits).view(kind).astype(np.float32)


def _mend_casts(interpreter: Any) -> None:
    import triton.language as tl

    builder = interpreter.InterpreterBuilder
    cast_impl, fp_to_fp = builder.cast_impl, builder.create_fp_to_fp
    eight = _eight_bit_formats()

    def wide(src: Any) -> Any:
        """A tensor of a narrow float as float32, any other as it is."""
        old = src.dtype.scalar
        if old == tl.bfloat16 and src.data.dtype == np.uint16:
            return interpreter.TensorHandle(from_bf16(src.data), tl.float32)
        return interpreter.TensorHandle(from_eight_bits(src.data, eight[old]), tl.float32) if old in eight else src

    def mended(self: Any, src: Any, dst_type: Any) -> Any:
        old, new = src.dtype.scalar, dst_type.scalar
        if old != new and new in eight:
            return interpreter.TensorHandle(to_eight_bits(wide(src).data, eight[new]), new)
        if old != new and old in eight:
            src = wide(src)
            return src if new == tl.float32 else mended(self, src, dst_type)
        if old == new or tl.bfloat16 not in (old, new):
            return cast_impl(self, src, dst_type)
        if old == tl.bfloat16:
            src = wide(src)
            return src if new == tl.float32 else cast_impl(self, src, dst_type)
        return interpreter.TensorHandle(to_bf16(src.data), tl.bfloat16)

    def converted(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        old, new = src.dtype.scalar, dst_type.scalar
        toward_zero = "RTZ" in str(rounding_mode)
        if toward_zero or not ({old, new} & {tl.bfloat16, *eight}):
            return fp_to_fp(self, src, dst_type, rounding_mode)
        return mended(self, src, dst_type)

    def constant(_: Any, value: float) -> Any:
        return interpreter.TensorHandle(to_bf16(np.array([value])), tl.bfloat16)

    builder.cast_impl, builder.create_fp_to_fp = mended, converted
    if not hasattr(builder, "get_bf16"):
        builder.get_bf16 = constant


def _mend_fma(interpreter: Any) -> None:
    if hasattr(getattr(interpreter, "_interpreter", None), "fma_fp64"):
        return

    def mended(_: Any, x: Any, y: Any, z: Any) -> Any:
        return interpreter.TensorHandle(fused(x.data, y.data, z.data), z.dtype.scalar)

    interpreter.InterpreterBuilder.create_fma = mended


def _mend_arithmetic(interpreter: Any) -> None:
    import triton.language as tl

    builder = interpreter.InterpreterBuilder

    def narrowed(handle: Any) -> Any:
        is_float = handle.data.dtype.kind == "f"
        return interpreter.TensorHandle(to_bf16(handle.data) if is_float else handle.data, tl.bfloat16)

    def mended(operation: Any) -> Any:
        def run(self: Any, *operands: Any) -> Any:
            *values, op = operands
            narrow = any(v.dtype.scalar == tl.bfloat16 for v in values)
            made = operation(self, *(_widened(interpreter, v) if narrow else v for v in values), op)
            if made.data.dtype == bool:  # comparisons keep the dtype of what they compare, and are spread over a block as that
                return interpreter.TensorHandle(made.data, tl.int1)
            return narrowed(made) if narrow else made

        return run

    for name in ("unary_op", "binary_op", "ternary_op"):
        if hasattr(builder, name):
            setattr(builder, name, mended(getattr(builder, name)))
    folds = getattr(interpreter, "ReduceScanOpInterface", None)
    if folds is None:
        return
    apply = folds.apply

    def applied(self: Any, input: Any) -> Any:
        several = input if isinstance(input, tuple) else (input,)
        if not any(x.dtype.scalar == tl.bfloat16 for x in several):
            return apply(self, input)
        wide = tuple(self.to_tensor(from_bf16(x.handle.data), tl.float32) if x.dtype.scalar == tl.bfloat16 else x
                     for x in several)  # fmt: skip
        results = apply(self, wide)
        made = tuple(_as_bf16(interpreter, r) if x.dtype.scalar == tl.bfloat16 else r
                     for r, x in zip(results, several, strict=True))  # fmt: skip
        return made if isinstance(input, tuple) else made[0]

    folds.apply = applied


def _as_bf16(interpreter: Any, tensor: Any) -> Any:
    """A float32 tensor of the interpreter as bf16."""
    import triton.language as tl

    handle = interpreter.TensorHandle(to_bf16(tensor.handle.data), tl.bfloat16)
    shape = list(tensor.shape)
    return tl.core.tensor(handle, tl.block_type(tl.bfloat16, shape) if shape else tl.bfloat16)


def _mend_dot(interpreter: Any) -> None:
    builder = interpreter.InterpreterBuilder
    create_dot = builder.create_dot

    def mended(self: Any, a: Any, b: Any, d: Any, *rest: Any, **keywords: Any) -> Any:
        a, b = (_eight_bits_widened(interpreter, _widened(interpreter, x)) for x in (a, b))
        return create_dot(self, a, b, d, *rest, **keywords)

    builder.create_dot = mended


def _widened(interpreter: Any, operand: Any) -> Any:
    """A bf16 operand as float32."""
    import triton.language as tl

    if operand.dtype.scalar != tl.bfloat16:
        return operand
    if operand.data.dtype != np.uint16:
        return operand
    return interpreter.TensorHandle(from_bf16(operand.data), tl.float32)


def _eight_bits_widened(interpreter: Any, operand: Any) -> Any:
    """An operand of an 8-bit float as float32."""
    import triton.language as tl

    kind = _eight_bit_formats().get(operand.dtype.scalar)
    return operand if kind is None else interpreter.TensorHandle(from_eight_bits(operand.data, kind), tl.float32)


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


def _mend_scalars(interpreter: Any) -> None:
    import triton.language as tl

    call = interpreter.GridExecutor.__call__

    def tensor(value: Any, declared: Any) -> Any:
        if isinstance(value, int) and str(declared) in ("int64", "tl.int64"):
            return tl.tensor(interpreter.TensorHandle(np.array([value], np.int64), tl.int64), tl.int64)
        if not isinstance(value, float) or declared is tl.constexpr:
            return value
        kind = tl.float64 if str(declared) in ("fp64", "tl.float64") else tl.float32
        array = np.array([value], dtype=np.float64 if kind == tl.float64 else np.float32)
        return tl.tensor(interpreter.TensorHandle(array, kind), kind)

    def mended(self: Any, *args: Any, **kwargs: Any) -> Any:
        declared = self.fn.__annotations__
        named = {name: tensor(x, declared.get(name)) for name, x in kwargs.items()}
        return call(self, *(tensor(x, declared.get(n)) for n, x in zip(self.arg_names, args, strict=False)), **named)

    interpreter.GridExecutor.__call__ = mended


def _mend_bounds(interpreter: Any) -> None:
    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


def _first_config_only() -> None:
    """Tuning by time means nothing in an interpreter: the first configuration runs."""
    from triton.runtime.autotuner import Autotuner

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        return self.fn.run(*args, **kwargs, **self.configs[0].all_kwargs())

    Autotuner.run = run  # type: ignore[method-assign]


def _without_waste(interpreter: Any) -> None:
    builder = interpreter.interpreter_builder
    if hasattr(builder.options, "sanitize_overflow") and not builder.options.debug:
        builder.options = replace(builder.options, sanitize_overflow=False)
    find, found = interpreter._get_np_dtype, {}

    def numpy_dtype(kind: Any) -> Any:
        name = kind.scalar.name  # types themselves have no hash
        if name not in found:
            found[name] = find(kind)
        return found[name]

    interpreter._get_np_dtype = numpy_dtype
    patch, tiles = interpreter._patch_lang_tensor, Tiles(interpreter)

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        quicken(tiles, tensor, scope)

    core = interpreter._patch_lang_core

    def core_patched(language: Any, scope: Any) -> None:
        core(language, scope)
        quicken_language(tiles, language, scope)

    interpreter._patch_lang_tensor, interpreter._patch_lang_core = patched, core_patched
    _patched_once(interpreter)


def _patched_once(interpreter: Any) -> None:
    """A function that a kernel calls patches the language at every call; once in a launch is enough."""
    patch, launch, seen = interpreter._patch_lang, interpreter.GridExecutor.__call__, set()

    def once(function: Any) -> Any:
        if function in seen:
            return None
        seen.add(function)
        return patch(function)

    def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.clear()
        return launch(self, *args, **kwargs)

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = once, launched
