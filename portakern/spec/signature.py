"""What an operator takes, as the annotations of its function say: arrays, numbers of run time, parameters."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from portakern.errors import PortakernError, SpecError, UsageError
from portakern.ir.core import Loc
from portakern.spec.annotations import ScalarSpec, TensorSpec


@dataclass(frozen=True)
class Input:
    """A declared input: an array, or a number given at run time."""

    name: str
    spec: TensorSpec | ScalarSpec
    loc: Loc | None


@dataclass(frozen=True)
class Param:
    """A keyword parameter whose value is fixed when the operator is built."""

    name: str
    type: type
    default: Any
    optional: bool = False
    choices: tuple[Any, ...] = ()

    def check(self, value: Any, operator: str) -> Any:
        """``value`` as the parameter takes it; raises :class:`UsageError` where it does not."""
        if value is None and self.optional:
            return None
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        wrong = not isinstance(value, self.type) or (isinstance(value, bool) and self.type is not bool)
        if wrong or (self.choices and value not in self.choices):
            takes = " | ".join(map(repr, self.choices)) if self.choices else self.type.__name__
            raise UsageError(f"{operator} cannot take {self.name}={value!r}", f"{self.name} is {takes}")
        return value

    def read(self, text: str, operator: str) -> Any:
        """The value that ``text`` from a command line stands for."""
        if self.optional and text.lower() in ("none", "null", ""):
            return None
        try:
            if self.type is bool:
                return self.check({"true": True, "1": True, "false": False, "0": False}[text.lower()], operator)
            return self.check(self.type(text), operator)
        except (ValueError, KeyError):
            raise UsageError(f"{operator} cannot take {self.name}={text}", f"{self.name} is a {self.type.__name__}") from None


class Declared(Protocol):
    """An operator, as far as its declaration is read."""

    name: str
    function: Callable[..., Any]

    @property
    def loc(self) -> Loc: ...
    def error(self, message: str, hint: str = "", loc: Loc | None = None) -> SpecError: ...


def signature(operator: Declared, scope: Mapping[str, Any]) -> tuple[tuple[Input, ...], dict[str, Param]]:
    """What the function of ``operator`` takes; ``scope`` has the names that its annotations may use beside the module's.

    Raises :class:`SpecError` where the declaration is not well formed.
    """
    function = operator.function
    try:
        parameters = inspect.signature(function, eval_str=True, locals=dict(scope)).parameters.values()
    except PortakernError as error:
        raise operator.error(error.message, error.hint) from None
    except Exception as error:
        raise operator.error(f"an annotation cannot be read: {error}", 'write x: pk.Tensor["M", "N"]') from error
    inputs: list[Input] = []
    params: dict[str, Param] = {}
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise operator.error(f"*{p.name} cannot be traced", "name every input and parameter")
        if isinstance(p.annotation, TensorSpec | ScalarSpec):
            if isinstance(p.annotation, TensorSpec) and (params or any(isinstance(i.spec, ScalarSpec) for i in inputs)):
                raise operator.error(
                    f"the array {p.name!r} comes after a parameter", "arrays come first, then scalars, then parameters"
                )
            inputs.append(Input(p.name, p.annotation, operator.loc))
        else:
            params[p.name] = _param(operator, p)
    if not inputs:
        raise operator.error("an operator needs at least one array", 'annotate it: x: pk.Tensor["M", "N"]')
    return tuple(inputs), params


def _param(operator: Declared, p: inspect.Parameter) -> Param:
    if p.annotation is p.empty and p.default is p.empty:
        raise operator.error(
            f"{p.name!r} has no annotation",
            f'arrays are {p.name}: pk.Tensor["M", "N"], parameters {p.name}: float = 1.0',
        )
    if p.default is p.empty:
        raise operator.error(
            f"the parameter {p.name!r} has no default",
            f"write {p.name}: {getattr(p.annotation, '__name__', 'float')} = ...",
        )
    annotation = type(p.default) if p.annotation is p.empty else p.annotation
    optional, choices = False, ()
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        members = [a for a in typing.get_args(annotation) if a is not type(None)]
        optional = len(members) < len(typing.get_args(annotation))
        annotation = members[0] if len(members) == 1 else annotation
    if typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
        annotation = type(choices[0])
    if annotation not in (int, float, bool, str):
        raise operator.error(
            f"the parameter {p.name!r} is annotated {annotation!r}",
            "parameters are int, float, bool, str or Literal; run-time numbers are pk.Scalar[pk.f32]",
        )
    param = Param(p.name, annotation, p.default, optional, choices)
    try:
        return replace(param, default=param.check(p.default, operator.name))
    except UsageError as error:
        raise operator.error(error.message, error.hint) from None
