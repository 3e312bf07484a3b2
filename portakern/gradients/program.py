"""The backward of a tensor program."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from portakern.dtypes import DTYPES
from portakern.gradients.reverse import gradients
from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.rewrite import canonicalise
from portakern.ir.tensor import Convert, TensorProgram, tensor_type, verify_tensor_program
from portakern.spec import views
from portakern.spec.location import on_behalf_of
from portakern.spec.traced import Traced, record, recording

PREFIX = "d_"


def backward_program(program: TensorProgram, wrt: Sequence[str], save: Sequence[str] = ()) -> TensorProgram:
    """The gradients ``d_<input>`` of the inputs ``wrt``.  It takes the inputs of ``program``, the outputs in ``save``, and
    ``d_<output>`` for every output of floats; then the numbers that ``program`` takes."""
    outputs = dict(zip(program.outputs, program.results, strict=True))
    new = {**{n: outputs[n] for n in save}, **{PREFIX + n: outputs[n] for n in float_outputs(program)}}
    arrays = [a for a in program.args if a.name not in program.scalars]
    numbers = [a for a in program.args if a.name in program.scalars]
    args = (*arrays, *(Arg(name, op.type, loc=op.loc) for name, op in new.items()), *numbers)
    with recording() as ops:
        made = differentiated(program, {a.name: Traced(a) for a in args}, wrt, save)
        ops.append(Yield(tuple(x.op for x in made.values())))
    found = TensorProgram(f"{program.name}_grad", Block(args, tuple(ops)), tuple(made), program.scalars, program.ranges)
    found = canonicalise(found)
    verify_tensor_program(found)
    return found


def float_outputs(program: TensorProgram) -> list[str]:
    """The outputs that have gradients."""
    return [n for n, r in zip(program.outputs, program.results, strict=True) if DTYPES[tensor_type(r).dtype].is_float]


def read(program: TensorProgram) -> set[str]:
    """The inputs that ``program`` reads."""
    used = {o for op in program.body.ops for o in op.operands}
    return {a.name for a in program.args if a in used}


def differentiated(program: TensorProgram, given: Mapping[str, Traced], wrt: Sequence[str], save: Sequence[str]
                   ) -> dict[str, Traced]:  # fmt: skip
    """Records the gradients of ``program``, whose equal values are merged, for ``given`` inputs, saved outputs and gradients of
    outputs; by their names."""
    outputs = dict(zip(program.outputs, program.results, strict=True))
    args = {a.name: a for a in program.args}
    with recording() as ops:
        ops += [op for op in program.body.ops if not isinstance(op, Yield)]
        results = [(outputs[n], given[PREFIX + n]) for n in float_outputs(program)]
        found = gradients(tuple(ops), results, [args[n] for n in wrt])
        made = {n: _zeros(args[n]) if g is None else g for n, g in zip(wrt, found, strict=True)}
    new = _recorded(ops, {**{a: given[n].op for n, a in args.items()}, **{outputs[n]: given[n].op for n in save}})
    return {gradient_of(n, given): Traced(new.get(g.op, g.op)) for n, g in made.items()}


def gradient_of(name: str, taken: Container[str]) -> str:
    """What the gradient of input ``name`` is called: ``d_x``, or ``d_x_`` where an input is called so."""
    return PREFIX + name + ("_" if PREFIX + name in taken else "")


def _zeros(arg: Arg) -> Traced:
    with on_behalf_of(arg.loc):
        return views.zeros(tensor_type(arg).shape, tensor_type(arg).dtype)


def _recorded(ops: Sequence[Op], known: Mapping[Op, Op]) -> dict[Op, Op]:
    """Records ``ops`` with what is ``known`` in the place of what the forward computes, also of what it was rounded from."""
    new = dict(known)
    for op in ops:
        if op in known and isinstance(op, Convert) and DTYPES[tensor_type(op.x).dtype].is_float:
            new.setdefault(op.x, record(Convert(known[op], tensor_type(op.x).dtype)))
    for op in ops:
        if op not in new:
            new[op] = record(op.remap(lambda o: new.get(o, o)))
    return new
