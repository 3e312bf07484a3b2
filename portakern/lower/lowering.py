"""The door to lowering: everything that cannot be lowered is known first, then every stage becomes a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from portakern.backend import Missing
from portakern.dtypes import DTYPES
from portakern.errors import IRError, LoweringError, MissingRuleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Loc, Op
from portakern.ir.program import Array, ArrayFacts, Program, verify_program
from portakern.ir.size import product, quotients
from portakern.lower.associative import lower_associative
from portakern.lower.attention import lower_attention
from portakern.lower.classes import axis_classes
from portakern.lower.contraction import lower_contraction
from portakern.lower.cuts import ANCHORS, program_of
from portakern.lower.domain import array_types, of_result
from portakern.lower.elementwise import lower_elementwise
from portakern.lower.kernel import Choose, Lowered, NoSchedule, Request
from portakern.lower.placing import Placed
from portakern.lower.row_parts import lower_rows_or_parts
from portakern.lower.scan import lower_scan
from portakern.lower.simplify import simplify
from portakern.lower.sort import lower_sort
from portakern.lower.split import Stage, stages
from portakern.lower.tiles import wide

LOWERED = (tt.Literal, tt.DimSize, tt.Iota, tt.Map, tt.Convert, tt.BitConvert, tt.Expand, tt.Reshape, tt.Transpose,
           tt.Slice, tt.Flip, tt.Fold, tt.Cumulate, tt.AssociativeScan, tt.KeySort, tt.Contract, tt.Gather, tt.Windows,
           tt.Assemble)

Facts = Mapping[str, ArrayFacts]


def unsupported(program: tt.TensorProgram) -> list[Missing]:
    """Every operation of ``program`` that no family lowers, with the operator's line."""
    return [Missing(_why_not(op), str(op.loc or ""))
            for op in program.body.ops
            if not isinstance(op, LOWERED) and op.mnemonic() not in ("give", "result")]


def _why_not(op: Op) -> str:
    if isinstance(op, tt.ArgFold):
        return f"arg{op.fn} along a dim of 0 elements, which has no {'largest' if op.fn == 'max' else 'smallest'}"
    return f"no lowering of {op.mnemonic()} yet"


def _check_reshapes(program: tt.TensorProgram) -> None:
    """Raises :class:`LoweringError` for a reshape that keeps the elements of some sizes of open dims only."""
    for op in program.body.ops:
        if isinstance(op, tt.Reshape) and product(tt.tensor_type(op.x).shape) != product(op.shape):
            shapes = [f"[{', '.join(map(str, s))}]" for s in (tt.tensor_type(op.x).shape, op.shape)]
            asked = {f"{q.numerator} is a multiple of {q.divisor}": f'"{q.divisor}*H" for {q.numerator}'
                     for s in (*tt.tensor_type(op.x).shape, *op.shape) for q in quotients(s)}  # fmt: skip
            raise LoweringError(f"a reshape from {shapes[0]} to {shapes[1]} is right only where {' and '.join(asked)}, and an "
                                f"open dim need not be",
                                hint=f"declare it so ({', '.join(asked.values())} in the annotation), or build for given sizes",
                                where=str(op.loc or ""))


def _said(missing: Missing) -> str:
    where, instead = missing.where and f" ({missing.where})", missing.alternative and f"; instead: {missing.alternative}"
    return f"{missing.what}{where}{instead}"


def lower(program: tt.TensorProgram, choose: Choose, names: Mapping[str, tuple[str, ...]] | None = None,
          facts: Facts | None = None, reach: bool = False, picks: bool = True, run: int = 1024) -> Program:
    """Kernels for ``program`` with the schedule that ``choose`` answers for each nest.

    ``names`` gives names of the axes of arguments' dims; ``facts`` what is known of arrays that are not contiguous and
    16-byte aligned; ``reach`` is whether loads may take pixels of convolutions one by one, some of them outside of their array,
    ``picks`` whether they may take single elements at computed coordinates, ``run`` how many elements a tile sorts (see
    :class:`portakern.backend.Language`).  Raises :class:`MissingRuleError` listing every operation that has no lowering,
    and :class:`LoweringError` or :class:`IRError` for what no kernel can be made of.
    """
    _check_reshapes(program)
    simplified = simplify(program, reach, picks, run)
    missing = unsupported(simplified)
    if missing:
        raise MissingRuleError(f"{program.name} cannot be lowered",
                               missing=tuple(map(_said, missing)))
    scalars = frozenset(program.scalars)
    hints = {a: tuple(n.lower() for n in dims) for a, dims in (names or {}).items()}
    arrays = _arrays(program, scalars, facts)
    simple = _peel(simplified)
    temporaries: dict[str, Op] = {}
    pieces: dict[str, Placed] = {}  # arrays that are stored piece by piece
    unrounded: dict[str, str] = {}
    extra: list[Array] = []
    kernels: list[t.Kernel] = []
    full_names = dict(hints)
    fresh = _fresh({a.name for a in arrays})
    left = [(f"_{n}", s) for n, s in enumerate((s for s in stages(simple, full_names, fresh) if _work(s)), 1)]
    left = [("", s) for _, s in left] if len(left) == 1 else left
    while left:
        (suffix, stage), *left = left
        try:
            unrounded |= _unrounded(stage, simple.outputs)
            made = _lowered(program.name + suffix, stage, choose, full_names, scalars, facts, unrounded)
        except NoSchedule as error:
            if stage.attention is None:
                error.where = error.where or str(_line(stage) or "")
                raise
            apart = stages(stage.program, full_names, fresh, attention=False)  # what cannot go together goes by itself
            left = [*((f"{suffix}_{n}", s) for n, s in enumerate(apart, 1)), *left]
            continue
        except (LoweringError, IRError) as error:
            error.where = error.where or str(_line(stage) or "")
            raise
        kernels += made.kernels
        extra += made.temporaries
        for out, op in zip(stage.program.outputs, stage.program.results, strict=True):
            if (place := stage.placed.get(out)) is not None:
                pieces[place.array] = place
                names_of = axis_classes(stage.program, full_names)
                axes = of_result(stage.program, names_of, stage.program.outputs.index(out))
                full_names.setdefault(place.array, tuple(c.name for c in axes))
                continue
            if out not in simple.outputs:
                temporaries[out] = op
            if out not in full_names and not isinstance(op, Arg):
                full_names[out] = tuple(c.name for c in axis_classes(stage.program, full_names).of(op))
    between = [Array(n, t.BufferType((x := tt.tensor_type(op)).shape, unrounded.get(n, x.dtype)), "temporary", loc=op.loc)
               for n, op in temporaries.items()]
    between += [Array(n, t.BufferType(p.of.shape, p.of.dtype), "temporary", p.fill) for n, p in pieces.items()
                if n not in simple.outputs]  # fmt: skip
    arrays = [replace(a, init=pieces[a.name].fill) if a.name in pieces else a for a in arrays]
    result = Program(program.name, (*arrays, *between, *extra), tuple(kernels))
    verify_program(result)
    return result


def _arrays(program: tt.TensorProgram, scalars: frozenset[str], facts: Facts | None) -> list[Array]:
    types = array_types(program, scalars, facts)
    inputs = [Array(a.name, types[a.name], "scalar" if a.name in scalars else "input", loc=a.loc)
              for a in program.args]
    inputs.sort(key=lambda a: a.role == "scalar")
    return [*inputs, *(Array(o, types[o], "output", loc=op.loc)
                       for o, op in zip(program.outputs, program.results, strict=True))]


def _peel(program: tt.TensorProgram) -> tt.TensorProgram:
    """Outputs that are reshapes are stored in the shape of what they reshape: the array is seen under that shape."""
    results = []
    for op in program.results:
        while isinstance(op, tt.Reshape) and not isinstance(op.x, Arg):
            op = op.x
        results.append(op)
    return program_of(program, results, program.outputs)


def _fresh(taken: set[str]) -> Iterator[str]:
    n = 0
    while True:
        if (name := f"t{n}") not in taken:
            yield name
        n += 1


def _unrounded(stage: Stage, outputs: Sequence[str]) -> dict[str, str]:
    """The results of ``stage`` that are kept as they are computed, with that dtype: what reductions of rows give, which are
    few.  Only a conversion that the operator asks for rounds them."""
    program = stage.program
    of_rows: set[Op] = set()
    for op in program.body.ops:
        if isinstance(op, tt.Fold) or (isinstance(op, tt.Map) and any(o in of_rows for o in op.operands)):
            of_rows.add(op)
    return {name: wide(tt.tensor_type(op).dtype) for name, op in zip(program.outputs, program.results, strict=True)
            if op in of_rows and name not in outputs and name not in stage.placed and DTYPES[tt.tensor_type(op).dtype].is_float}


def _work(stage: Stage) -> bool:
    """Whether a stage stores anything: one whose outputs are all empty has no kernel."""
    return any(0 not in tt.tensor_type(r).shape for r in stage.program.results)


def _line(stage: Stage) -> Loc | None:
    """The line of what a stage is built around, for errors that know none."""
    ops = [op for op in stage.program.body.ops if op.loc is not None]
    return next((op.loc for op in ops if isinstance(op, ANCHORS)), ops[-1].loc if ops else None)


def _lowered(name: str, stage: Stage, choose: Choose, names: Mapping[str, tuple[str, ...]], scalars: frozenset[str],
             facts: Facts | None, unrounded: Mapping[str, str]) -> Lowered:  # fmt: skip
    classes = axis_classes(stage.program, names, stage.apart)
    request = Request(name, stage.program, classes, choose, scalars, facts, dict(unrounded), stage.placed)
    match stage.family:
        case "elementwise":
            return Lowered((lower_elementwise(request),))
        case "rows":
            return lower_rows_or_parts(request)
        case "scan":
            return Lowered((lower_scan(request),))
        case "associative":
            return Lowered((lower_associative(request),))
        case "sort":
            return Lowered((lower_sort(request),))
        case "contraction":
            return lower_contraction(request)
        case "attention":
            return Lowered((lower_attention(request, stage),))
    raise LoweringError(f"no family {stage.family}")
