"""From an operator's function to its tensor program: it runs once, on arrays that record what is done to them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from portakern.dtypes import DTYPES
from portakern.errors import IRError, PortakernError
from portakern.ir.core import Arg, Block, Loc, Yield
from portakern.ir.rewrite import canonicalise
from portakern.ir.size import substitute
from portakern.ir.tensor import TensorProgram, TensorType, verify_tensor_program
from portakern.spec import functions
from portakern.spec.annotations import ScalarSpec, TensorSpec, resolve
from portakern.spec.inputs import Family
from portakern.spec.location import traceback_location
from portakern.spec.nibbles import in_memory, unpack
from portakern.spec.signature import Declared, Input
from portakern.spec.traced import Traced, recording


class Traceable(Declared, Protocol):
    """An operator, as far as tracing reads it."""

    inputs: tuple[Input, ...]
    families: dict[str, Family]
    reads_all: bool

    @property
    def scalars(self) -> tuple[Input, ...]: ...
    def declared(self, params: Mapping[str, Any] | None = None) -> dict[str, tuple[str | int, ...]]: ...
    def check_families(self, params: Mapping[str, Any], families: Mapping[str, Family]) -> None: ...
    def args_at(self, params: Mapping[str, Any], dtype: str, stars: Mapping[str, int], sizes: Mapping[str, int]
                ) -> dict[str, Arg]: ...  # fmt: skip


@lru_cache(maxsize=256)
def traced(
    operator: Traceable, params: tuple[tuple[str, Any], ...], dtype: str, stars: tuple[tuple[str, int], ...],
    sizes: tuple[tuple[str, int], ...] = (),
) -> TensorProgram:  # fmt: skip
    """The tensor program of ``operator``, as :meth:`Operator.trace` says."""
    operator.check_families(dict(params), operator.families)
    args = operator.args_at(dict(params), dtype, dict(stars), dict(sizes))
    with recording() as ops:
        result = _run(operator, _arrays(operator, args, dict(params), dtype, dict(stars), dict(sizes)), dict(params))
        outputs = outputs_of(operator, result, set(args))
        ops.append(Yield(tuple(t.op for t in outputs.values()), loc=operator.loc))
    program = TensorProgram(operator.name, Block(tuple(args.values()), tuple(ops)), outputs=tuple(outputs),
                            scalars=tuple(i.name for i in operator.scalars))
    program = canonicalise(program)
    used = {o for op in program.body.ops for o in op.operands}
    for i in operator.inputs if operator.reads_all else ():
        if args[i.name] not in used:
            raise operator.error(f"the input {i.name!r} is not used", "use it or take it out of the signature", i.loc)
    verify_tensor_program(program)
    return program


def depends_on_sizes(error: PortakernError) -> bool:
    """Whether what is wrong may be right for some sizes: it is said of an open dim, or of a size that is a quotient.  Dims of
    two names never go together, were they equally large."""
    return any(said in error.message for said in ("open dim", "open size", "//"))


def _run(operator: Traceable, arrays: dict[str, Traced], params: dict[str, Any]) -> Any:
    try:
        return operator.function(**arrays, **params)
    except PortakernError as error:
        if isinstance(error, IRError):
            raise operator.error(error.message, error.hint, _raised_at(operator, error)) from error
        raise
    except Exception as error:
        raise operator.error(f"{type(error).__name__}: {error}", _advice(error), _raised_at(operator, error)) from error


def _raised_at(operator: Traceable, error: BaseException) -> Loc | None:
    return traceback_location(error.__traceback__, operator.function.__code__)


def _advice(error: Exception) -> str:
    text = str(error)
    if isinstance(error, AttributeError) and error.name:
        near = difflib.get_close_matches(error.name, functions.__all__, 1)
        use = f"pk.{near[0]}(x)" if near and isinstance(error.obj, Traced) else f"pk.{near[0]}" if near else ""
        return f"did you mean {use}?" if use else "the functions there are: dir(portakern.spec.functions)"
    if "Sym" in text and isinstance(error, TypeError):
        return "sizes take +, -, * and // by a number; for other math with a size use pk.size(x.shape[0], pk.f32)"
    if "Traced" in text:
        return "use the functions of portakern on arrays (pk.exp, pk.sum, pk.where, ...)"
    return ""


def outputs_of(operator: Traceable, result: Any, taken: set[str]) -> dict[str, Traced]:
    """The outputs by name: ``out``, or ``out0``, ``out1``, ... or as a dict or named tuple names them."""
    if result is None:
        raise operator.error("the function returns nothing", "end it with `return ...`")
    if isinstance(result, Mapping):
        named = {str(k): v for k, v in result.items()}
    elif isinstance(result, tuple | list):
        names = getattr(result, "_fields", None) or [f"out{i}" for i in range(len(result))]
        named = dict(zip(names, result, strict=True))
    else:
        named = {"out": result}
    if not named:
        raise operator.error("the function returns no array")
    for name, value in named.items():
        if not isinstance(value, Traced):
            raise operator.error(
                f"the output {name!r} is {value!r}, not an array", "return arrays: one, a tuple, or a dict of them"
            )
        if name in taken and isinstance(result, Mapping):
            raise operator.error(f"the output {name!r} has the name of an input", "give it another key")
    return {(f"{n}_" if n in taken else n): v for n, v in named.items()}


def arguments(operator: Traceable, params: Mapping[str, Any], dtype: str, stars: Mapping[str, int],
              sizes: Mapping[str, int]) -> dict[str, Arg]:  # fmt: skip
    """The inputs by name, on symbolic dims or of ``sizes``."""
    declared = operator.declared(dict(params))
    args: dict[str, Arg] = {}
    for i in operator.inputs:
        if isinstance(i.spec, ScalarSpec):
            of = TensorType((), i.spec.dtype)
        else:
            shape = tuple(substitute(size, sizes) for size in resolve(declared[i.name], dict(stars)))
            of = in_memory(shape, i.spec.dtype or dtype)
        args[i.name] = Arg(i.name, of, loc=i.loc)
    return args


def _arrays(operator: Traceable, args: Mapping[str, Arg], params: Mapping[str, Any], dtype: str, stars: Mapping[str, int],
            sizes: Mapping[str, int]) -> dict[str, Traced]:  # fmt: skip
    """The arguments as the function takes them: integers of four bits out of their bytes."""
    found = {n: Traced(a) for n, a in args.items()}
    for i in operator.inputs:
        kind = i.spec.dtype or dtype
        if DTYPES[kind].bits == 4 and isinstance(i.spec, TensorSpec):
            last = substitute(resolve(operator.declared(params)[i.name], dict(stars))[-1], sizes)
            found[i.name] = unpack(found[i.name], kind, last)
    return found
