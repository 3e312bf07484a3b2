"""The arrays an operator's function sees: they record what is done to them.

``Traced`` behaves like a numpy array of symbolic shape.  What depends on the numbers inside it (``if x > 0``,
``float(x)``, a numpy function) cannot be recorded and raises :class:`SpecError` at the user's line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import lcm
from typing import TYPE_CHECKING, Any, NoReturn

from portakern import dtype_names as names
from portakern.dtypes import DTYPES, DType
from portakern.errors import UsageError
from portakern.ir.core import Op
from portakern.ir.size import Size, Sym, names_of, quotients
from portakern.ir.tensor import DimSize, Literal, TensorType, tensor_type
from portakern.spec.location import spec_error

if TYPE_CHECKING:
    from types import ModuleType

Number = int | float | bool
_recordings: list[list[Op]] = []


@contextmanager
def recording() -> Iterator[list[Op]]:
    """Collects the operations made inside, in order."""
    _recordings.append([])
    try:
        yield _recordings[-1]
    finally:
        _recordings.pop()


def record(op: Op) -> Op:
    """Adds ``op`` to the operator being traced; raises :class:`SpecError` where none is."""
    if not _recordings:
        raise spec_error(
            "portakern functions work on the arrays of an operator that is being traced",
            "put the computation into a function decorated with @pk.operator",
        )
    _recordings[-1].append(op)
    return op


def make(op: Op) -> Traced:
    """Records ``op`` and wraps its result."""
    return Traced(record(op))


def _functions() -> ModuleType:
    from portakern.spec import functions

    return functions


class Traced:
    """An array inside an operator.  ``shape`` holds ints and symbolic sizes, ``dtype`` is a :class:`DType`."""

    __slots__ = ("op",)
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(self, op: Op) -> None:
        self.op = op

    # ---- what it is

    @property
    def type(self) -> TensorType:
        return tensor_type(self.op)

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return DTYPES[self.type.dtype]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Traced({self.type})"

    # ---- arithmetic

    def __add__(self, other: Any) -> Traced:
        return _functions().add(self, other)

    def __radd__(self, other: Any) -> Traced:
        return _functions().add(other, self)

    def __sub__(self, other: Any) -> Traced:
        return _functions().subtract(self, other)

    def __rsub__(self, other: Any) -> Traced:
        return _functions().subtract(other, self)

    def __mul__(self, other: Any) -> Traced:
        return _functions().multiply(self, other)

    def __rmul__(self, other: Any) -> Traced:
        return _functions().multiply(other, self)

    def __truediv__(self, other: Any) -> Traced:
        return _functions().divide(self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return _functions().divide(other, self)

    def __floordiv__(self, other: Any) -> Traced:
        return _functions().floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Traced:
        return _functions().floor_divide(other, self)

    def __mod__(self, other: Any) -> Traced:
        return _functions().remainder(self, other)

    def __rmod__(self, other: Any) -> Traced:
        return _functions().remainder(other, self)

    def __pow__(self, other: Any) -> Traced:
        return _functions().pow(self, other)

    def __rpow__(self, other: Any) -> Traced:
        return _functions().pow(other, self)

    def __matmul__(self, other: Any) -> Traced:
        return _functions().matmul(self, other)

    def __neg__(self) -> Traced:
        return _functions().negative(self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return _functions().abs(self)

    # ---- comparisons and logic

    def __lt__(self, other: Any) -> Traced:
        return _functions().less(self, other)

    def __le__(self, other: Any) -> Traced:
        return _functions().less_equal(self, other)

    def __gt__(self, other: Any) -> Traced:
        return _functions().greater(self, other)

    def __ge__(self, other: Any) -> Traced:
        return _functions().greater_equal(self, other)

    def __eq__(self, other: Any) -> Traced:  # type: ignore[override]
        return _functions().equal(self, other)

    def __ne__(self, other: Any) -> Traced:  # type: ignore[override]
        return _functions().not_equal(self, other)

    def __and__(self, other: Any) -> Traced:
        return _functions().logical_and(self, other)

    def __rand__(self, other: Any) -> Traced:
        return _functions().logical_and(other, self)

    def __or__(self, other: Any) -> Traced:
        return _functions().logical_or(self, other)

    def __ror__(self, other: Any) -> Traced:
        return _functions().logical_or(other, self)

    def __xor__(self, other: Any) -> Traced:
        return _functions().logical_xor(self, other)

    def __rxor__(self, other: Any) -> Traced:
        return _functions().logical_xor(other, self)

    def __lshift__(self, other: Any) -> Traced:
        return _functions().shift_left(self, other)

    def __rshift__(self, other: Any) -> Traced:
        return _functions().shift_right(self, other)

    def __invert__(self) -> Traced:
        return _functions().logical_not(self)

    # ---- views

    def __getitem__(self, key: Any) -> Traced:
        return _functions().getitem(self, key)

    @property
    def T(self) -> Traced:
        return _functions().transpose(self)

    def reshape(self, *shape: Any) -> Traced:
        return _functions().reshape(self, *shape)

    def transpose(self, *order: Any) -> Traced:
        return _functions().transpose(self, *order)

    def squeeze(self, axis: Any = None) -> Traced:
        return _functions().squeeze(self, axis)

    def astype(self, dtype: Any) -> Traced:
        return _functions().cast(self, dtype)

    # ---- reductions

    def sum(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _functions().sum(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _functions().mean(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _functions().max(self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _functions().min(self, axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _functions().prod(self, axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _functions().any(self, axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _functions().all(self, axis, keepdims)

    def var(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _functions().var(self, axis, keepdims)

    def argmax(self, axis: int = -1, keepdims: bool = False) -> Traced:
        return _functions().argmax(self, axis, keepdims)

    def argmin(self, axis: int = -1, keepdims: bool = False) -> Traced:
        return _functions().argmin(self, axis, keepdims)

    def cumsum(self, axis: int = -1) -> Traced:
        return _functions().cumsum(self, axis)

    # ---- what cannot be recorded

    def __bool__(self) -> bool:
        _no_number(
            "Python decides here on the numbers inside an array, which are not known while tracing",
            "use pk.where(condition, yes, no); for tests of both, (a > 0) & (b > 0) instead of `and`",
        )

    def __float__(self) -> float:
        _no_number(
            "float() of an array whose numbers are not known while tracing",
            "keep it as an array, or make it a keyword parameter of the operator",
        )

    def __int__(self) -> int:
        _no_number(
            "int() of an array whose numbers are not known while tracing",
            "keep it as an array, or make it a keyword parameter of the operator",
        )

    __index__ = __int__
    __complex__ = __float__

    def __len__(self) -> int:
        size = self.shape[0] if self.shape else 0
        if not isinstance(size, int):
            _no_number(f"len() of an array whose first dim is {size}", "use x.shape[0], or pk.size(x.shape[0]) in math")
        return size

    def __iter__(self) -> Iterator[Traced]:
        if not self.shape:
            _no_number("a scalar cannot be iterated over", "")
        if not isinstance(self.shape[0], int):
            _no_number(
                f"Python iterates here over an array whose first dim {self.shape[0]} is not a number",
                "use whole-array math such as pk.sum(x, axis=0)",
            )
        return (self[i] for i in range(self.shape[0]))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no_number("a numpy function was called on an array of the operator", "use the portakern function (pk.exp, ...)")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # A numpy scalar on the left of an operator arrives here; np.exp(x) does too and is refused.
        special = {
            "add": "add",
            "subtract": "subtract",
            "multiply": "multiply",
            "divide": "divide",
            "power": "pow",
            "greater": "greater",
            "less": "less",
            "greater_equal": "greater_equal",
            "less_equal": "less_equal",
            "equal": "equal",
            "not_equal": "not_equal",
        }
        left: Any = inputs[0]
        left_scalar = len(inputs) == 2 and not isinstance(left, Traced) and getattr(left, "ndim", 0) == 0
        if method == "__call__" and not kwargs and left_scalar and ufunc.__name__ in special:
            return getattr(_functions(), special[ufunc.__name__])(_as_python(left), inputs[1])
        name = str({"power": "pow", "absolute": "abs"}.get(ufunc.__name__, ufunc.__name__))
        use = f"pk.{name}" if hasattr(_functions(), name) else "portakern functions"
        _no_number(f"np.{ufunc.__name__} was called on an array of the operator", f"use {use}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        use = f"pk.{function.__name__}" if hasattr(_functions(), function.__name__) else "portakern functions"
        _no_number(f"np.{function.__name__} was called on an array of the operator", f"use {use}")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        _no_number("arrays of an operator cannot be written to", "build a new one: pk.where(mask, value, x) or pk.concat")


def _as_python(scalar: Any) -> Any:
    return scalar.item()


def _no_number(message: str, hint: str) -> NoReturn:
    raise spec_error(message, hint)


# ---- dtypes ---------------------------------------------------------------------------------------------------------


def dtype_name(dtype: Any) -> str:
    """The name of what :func:`portakern.dtype_names.dtype_name` reads; raises :class:`SpecError` for anything else."""
    try:
        return names.dtype_name(dtype)
    except UsageError as error:
        raise spec_error(error.message, error.hint) from None


_FLOATS = ("f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f16", "bf16", "f32", "f64")


def promote(dtypes: Sequence[str]) -> str:
    """The dtype that arrays of ``dtypes`` have together.

    The wider of two floats (f16 with bf16: f32; two 8-bit floats: f16), the wider of two integers of one signedness,
    the float of a float and an integer, and the other of bool and anything.
    """
    result = dtypes[0]
    for name in dtypes[1:]:
        result = _promote(result, name)
    return result


def _promote(a: str, b: str) -> str:
    if a == b:
        return a
    left, right = DTYPES[a], DTYPES[b]
    if left.kind == "bool" or right.kind == "bool":
        return b if left.kind == "bool" else a
    if left.is_float != right.is_float:
        return a if left.is_float else b
    if left.is_float:
        if left.bits != right.bits:
            return a if left.bits > right.bits else b
        return "f32" if left.bits == 16 else "f16"
    if left.kind != right.kind:
        raise spec_error(f"{a} and {b} have no common dtype", "cast one of them with pk.cast")
    return a if left.bits > right.bits else b


def common_dtype(values: Sequence[Any]) -> str:
    """The dtype of an elementwise operation: arrays promote, Python numbers and sizes adapt to them."""
    arrays = [v.type.dtype for v in values if isinstance(v, Traced)]
    numbers = [v for v in values if not isinstance(v, Traced)]
    has_float = any(isinstance(v, float) for v in numbers)
    if not arrays:
        return "f32" if has_float else "i32"
    result = promote(arrays)
    if DTYPES[result].kind == "bool" and any(not isinstance(v, bool) for v in numbers):
        return "f32" if has_float else "i32"
    return "f32" if has_float and not DTYPES[result].is_float else result


def as_traced(value: Any, dtype: str) -> Traced:
    """``value`` (array, Python number or size) in ``dtype``."""
    if isinstance(value, Traced):
        return _functions().cast(value, dtype)
    if isinstance(value, Sym):
        return make(DimSize(value, dtype))
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if not isinstance(value, int | float):
        raise spec_error(
            f"{value!r} is neither an array of the operator nor a number",
            "arrays that are not inputs cannot be used; make it an input",
        )
    kind = DTYPES[dtype].kind
    exact = bool(value) if kind == "bool" else float(value) if kind == "float" else int(value)
    return make(Literal(exact, dtype))


def broadcast_shapes(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The common shape by numpy's rule: dims are aligned at the right, 1 repeats, anything else must be equal."""
    rank = max(map(len, shapes))
    out: list[Size] = []
    for i in range(rank):
        sizes = [s[i - rank] for s in shapes if len(s) >= rank - i and s[i - rank] != 1]
        for size in sizes:
            if size != sizes[0]:
                shown = " and ".join(_shape_text(s) for s in shapes)
                raise spec_error(
                    f"shapes {shown} do not go together: dim {i - rank} is {sizes[0]} in one and {size} in the other",
                    _broadcast_hint(shapes, sizes[0], size),
                )
        out.append(sizes[0] if sizes else 1)
    return tuple(out)


def _broadcast_hint(shapes: Sequence[tuple[Size, ...]], a: Size, b: Size) -> str:
    if len({len(s) for s in shapes}) > 1:
        return "dims are aligned at the right; put a dim of 1 in with x[:, None] or keepdims=True"
    if isinstance(a, Sym) or isinstance(b, Sym):
        return size_hint(a, b)
    return "only a dim of 1 is repeated"


def size_hint(a: Size, b: Size) -> str:
    """What to do about two sizes that should be equal and are not known to be; one of them at least is open."""
    difference = a - b  # type: ignore[operator]
    if isinstance(difference, int):
        return f"they differ by {abs(difference)} whatever {_named(a, b)} is: slice both to one length, as x[1:] and y[:-1]"
    by: dict[str, int] = {}
    for q in (*quotients(a), *quotients(b)):
        by.update({n: lcm(by.get(n, 1), q.divisor) for n in names_of(q.numerator)})
    if by:
        dims = " and ".join(f'"{count}*H" in place of "{name}"' for name, count in by.items())
        return f"they are computed from {_named(a, b)}, and equal where it divides: declare {dims} in the annotations"
    if all(isinstance(s, int) or str(s) in names_of(s) for s in (a, b)):
        number = next((s for s in (a, b) if isinstance(s, int)), None)
        what = "give them one name" if number is None else f"write {number} in place of the name"
        return f"if {a} and {b} are always equal, {what} in the annotations"
    return f"they are computed from {_named(a, b)}: if they are always equal, declare one of the dims in terms of the others"


def _named(*sizes: Size) -> str:
    names = sorted(frozenset().union(*map(names_of, sizes)))
    return f"the dim{'s' if len(names) > 1 else ''} {' and '.join(names)}"


def _shape_text(shape: tuple[Size, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
