"""The backward of an operator as an operator."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError, UsageError
from portakern.gradients.program import PREFIX, differentiated, float_outputs
from portakern.ir.core import Arg, Block, Yield
from portakern.ir.rewrite import canonicalise
from portakern.ir.size import substitute
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type
from portakern.spec.annotations import TensorSpec, star_names
from portakern.spec.inputs import Family, Offsets, index_families
from portakern.spec.operator import Operator
from portakern.spec.traced import Traced, recording
from portakern.spec.tracing import outputs_of


class Gradient(Operator):
    """The backward operator of ``forward``.

    Its inputs are those of ``forward``, then the outputs in ``save``, then ``d_<output>`` for every output of floats; its
    outputs are ``d_<input>`` for every input in ``wrt``.  What it needs of the forward it computes again from the inputs, save
    what is among its inputs.  It has the parameters, dims, cases and families of ``forward``.
    """

    reads_all = False

    def __init__(self, forward: Operator, wrt: Iterable[str] | str | None = None, save: Iterable[str] | str = ()) -> None:
        self.forward = forward
        self._primal = _representative(forward)
        self.wrt = _checked_wrt(forward, self._primal, wrt)
        self.save = _checked_save(forward, self._primal, save)
        self._written = forward.loc
        super().__init__(
            _function(self), cases=forward._raw_cases, inputs=_families(forward, self._primal), dtypes=forward.dtypes,
            name=_name(forward, self._primal, self.wrt), doc=f"The gradient of {forward.name}.",
        )  # fmt: skip
        self.file, self.line, self.bound = forward.file, forward.line, forward.bound

    def __reduce__(self) -> Any:
        return Gradient, (self.forward, self.wrt, self.save)

    @cached_property
    def source(self) -> str:
        return self.forward.source

    @property
    def cotangents(self) -> tuple[str, ...]:
        """The outputs of the forward that have a gradient, in order."""
        return tuple(float_outputs(self._primal))

    def declared(self, params: Mapping[str, Any] | None = None) -> dict[str, tuple[str | int, ...]]:
        """The dims of the forward's inputs, which all others follow from."""
        return self.forward.declared(params)

    def args_at(self, params: Mapping[str, Any], dtype: str, stars: Mapping[str, int], sizes: Mapping[str, int]
                ) -> dict[str, Arg]:  # fmt: skip
        primal = self.forward.trace(params, dtype, stars, sizes)
        outputs = dict(zip(primal.outputs, primal.results, strict=True))
        if missing := {*self.save, *self.cotangents} - {*outputs}:
            raise self.error(f"with these parameters {self.forward.name} has no output {', '.join(sorted(missing))}")
        given = self.forward.args_at(params, dtype, stars, sizes)
        known = {**{n: outputs[n] for n in self.save}, **{PREFIX + n: outputs[n] for n in self.cotangents}}
        made = {n: Arg(n, _at(tensor_type(op), sizes), loc=self.loc) for n, op in known.items()}
        numbers = {i.name for i in self.forward.scalars}
        return {**{n: a for n, a in given.items() if n not in numbers}, **made, **{n: given[n] for n in numbers}}


def _at(of: TensorType, sizes: Mapping[str, int]) -> TensorType:
    return TensorType(tuple(substitute(s, sizes) for s in of.shape), of.dtype)


def grad(op: Operator, wrt: Iterable[str] | str | None = None, save: Iterable[str] | str = ()) -> Gradient:
    """The backward operator of ``op``: an operator like any other, whose outputs are the gradients ``d_<input>``.

    Args:
        op: an operator.
        wrt: names of the inputs whose gradients are wanted; by default all arrays of floats.
        save: names of outputs of ``op`` that the backward is given, in place of computing them again.

    Raises:
        UsageError: an input or output does not exist, or is not of floats.
        SpecError: an operation on the way has no derivative; at the operator's line, when the gradient is traced.
    """
    return Gradient(op, wrt, save)


# ---- what is asked ----------------------------------------------------------------------------------------------------------


def _representative(forward: Operator) -> TensorProgram:
    """The forward under its default parameters, which says what its outputs are: in 16 bits, where what is f32 whatever its
    inputs are is told from the others, or in the first dtype that it can be traced in, beside inputs of dtypes of their own."""
    asked = dict.fromkeys((*sorted(forward.dtypes, key=lambda d: d != "bf16"), "f32", "f16", "f64"))
    first: PortakernError | None = None
    for dtype in asked:
        try:
            return forward.trace(forward.typical.params, dtype, dict.fromkeys(forward.stars, 1), _numbers(forward.typical.dims))
        except PortakernError as error:
            first = first or error
    assert first is not None
    raise first


def _numbers(dims: Mapping[str, Any]) -> dict[str, int]:
    return {n: size for n, size in dims.items() if isinstance(size, int)}


def _names(given: Iterable[str] | str) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else list(given)
    return tuple(dict.fromkeys(p.strip() for p in parts if p.strip()))


def _checked_wrt(forward: Operator, primal: TensorProgram, wrt: Iterable[str] | str | None) -> tuple[str, ...]:
    inputs = {a.name: tensor_type(a).dtype for a in primal.args}
    if not float_outputs(primal):
        raise UsageError(f"{forward.name} has no output of floats, so it has no gradient", where=str(forward.loc))
    floats = [n for n, d in inputs.items() if DTYPES[d].is_float]
    if wrt is None:
        wanted = tuple(n for n in floats if n not in primal.scalars)
    else:
        wanted = _names(wrt)
    if not wanted:
        raise UsageError(f"no input of {forward.name} is named whose gradient is wanted",
                         f"wrt names some of {', '.join(floats) or 'its inputs of floats, of which there are none'}",
                         str(forward.loc))
    for name in wanted:
        if name not in inputs:
            near = difflib.get_close_matches(name, inputs, 1)
            raise UsageError(f"{forward.name} has no input {name!r} to differentiate for",
                             f"did you mean {near[0]}?" if near else f"its inputs are {', '.join(inputs)}", str(forward.loc))
        if name not in floats:
            raise UsageError(f"{name} of {forward.name} is {inputs[name]}: only floats have gradients",
                             f"wrt names some of {', '.join(floats) or 'none, as there are none'}", str(forward.loc))
    return wanted


def _checked_save(forward: Operator, primal: TensorProgram, save: Iterable[str] | str) -> tuple[str, ...]:
    wanted = _names(save)
    for name in wanted:
        if name not in primal.outputs:
            near = difflib.get_close_matches(name, primal.outputs, 1)
            raise UsageError(f"{forward.name} has no output {name!r} to save",
                             f"did you mean {near[0]}?" if near else f"its outputs are {', '.join(primal.outputs)}",
                             str(forward.loc))
    return wanted


def _name(forward: Operator, primal: TensorProgram, wrt: Sequence[str]) -> str:
    every = {a.name for a in primal.args if DTYPES[tensor_type(a).dtype].is_float and a.name not in primal.scalars}
    return f"{forward.name}_grad" + ("" if set(wrt) == every else f"_{'_'.join(wrt)}")


def _families(forward: Operator, primal: TensorProgram) -> dict[str, Family]:
    """What the forward fills its inputs with; the backward may read indices where nothing says what they are."""
    found: dict[str, Family] = {}
    for name, family in index_families(primal).items():
        found[name] = Offsets(str(family.end)) if isinstance(family, Offsets) else family
    return {**{n: f for n, f in found.items() if isinstance(f, Offsets)}, **forward.families}


# ---- the function -----------------------------------------------------------------------------------------------------------


def _function(operator: Gradient) -> Any:
    """The backward as a function of traced arrays, which other operators may call."""
    forward, primal = operator.forward, operator._primal
    outputs = dict(zip(primal.outputs, (tensor_type(r) for r in primal.results), strict=True))
    new = {**{n: outputs[n] for n in operator.save}, **{PREFIX + n: outputs[n] for n in operator.cotangents}}
    arrays = [i for i in forward.inputs if isinstance(i.spec, TensorSpec)]
    for name in new:
        if name in {i.name for i in forward.inputs}:
            raise UsageError(f"{forward.name} has an input {name}, which is what its backward calls the gradient of an output",
                             hint="give the input another name", where=str(forward.loc))

    def called(*args: Any, **kwargs: Any) -> dict[str, Traced]:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return backward(operator, given.arguments)

    def parameter(name: str, spec: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=spec, default=default)

    own = inspect.signature(forward.function, eval_str=True, locals=forward._scope).parameters
    signature = inspect.Signature([
        *(parameter(i.name, i.spec) for i in arrays), *(parameter(n, _spec(of, forward)) for n, of in new.items()),
        *(parameter(i.name, i.spec) for i in forward.scalars), *(own[n] for n in forward.params),
    ])  # fmt: skip
    called.__signature__ = signature  # type: ignore[attr-defined]
    return called


def _spec(of: TensorType, forward: Operator) -> TensorSpec:
    """The type of an output as an input declares it."""
    stars = {name: f"*{star}" for star in forward.stars for name in star_names(star, 1)}
    return TensorSpec(tuple(s if isinstance(s, int) else stars.get(str(s), str(s)) for s in of.shape), of.dtype)


def backward(operator: Gradient, given: Mapping[str, Any]) -> dict[str, Traced]:
    """The gradients for traced inputs and the values of parameters, by output."""
    forward = operator.forward
    arrays = {i.name: Traced(Arg(i.name, given[i.name].type, loc=i.loc)) for i in forward.inputs}
    with recording() as ops:
        result = forward.function(**arrays, **{n: given[n] for n in forward.params})
        outputs = outputs_of(forward, result, set(arrays))
        ops.append(Yield(tuple(v.op for v in outputs.values())))
    body = Block(tuple(a.op for a in arrays.values()), tuple(ops))
    program = canonicalise(TensorProgram(forward.name, body, tuple(outputs)))
    return differentiated(program, {n: x for n, x in given.items() if isinstance(x, Traced)}, operator.wrt, operator.save)
