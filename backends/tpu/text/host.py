"""The host side of a program as Python text: sizes from shapes, the views, the ``pl.pallas_call`` of every kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

from portakern.device import Device
from portakern.ir.core import Op
from portakern.ir.program import Array, Nested, Program, Repeat, nested
from portakern.ir.size import Size, Sym
from portakern.ir.tile import Binary, BufferType, Cast, Const, Extent, Index, buffer_type

from ..planning.blocks import BlockAccess, Span, empty, host_unview, host_view, padded, shape_text, tuple_text
from ..planning.int64_arrays import Narrowed, Range
from ..planning.kernel_plan import PallasKernelPlan
from ..planning.loops import ReportMissing
from ..planning.picks import at, picked_text, reference
from ..planning.pieces import Assembly
from ..planning.scalars import scalar_text
from ..planning.turns import Scan
from ..planning.vmem_limit import limit_mb
from ..syntax import operations
from ..syntax.expressions import SUM, PlacedExpr, infix
from .assembly import assembled, filled, shape_of
from .names import read_names
from .regions import KernelBody, Line


def entry_lines(program: Program, plans: Mapping[int, tuple[PallasKernelPlan, KernelBody]], report: ReportMissing,
                device: Device, narrow: Narrowed, assemblies: Sequence[Assembly] = (),
                scans: Mapping[str, Scan] | None = None) -> list[Line]:
    """The function the operator is called by.  ``narrow`` says which inputs of 64-bit integers are made 32-bit ones first, and
    which outputs 64-bit ones in the end, where jax has such."""
    inputs, outputs = program.by_role("input", "scalar"), program.by_role("output")
    whole = {w: name for name, both in narrow.words.items() for w in both}
    given = dict.fromkeys(whole.get(a.name, a.name) for a in inputs)
    lines = [f"def {program.name}({', '.join(given)}):"]
    lines += [f"    {', '.join(both)} = words({name})" for name, both in narrow.words.items()]
    lines += [f"    {line}" for line in _read_sizes(program, report)]
    if narrow.limits:
        lines.append("    # Without jax_enable_x64 jax itself drops the upper half of int64 before it comes here.")
    lines += [f"    {_limited(a.name, narrow.limits[a.name])}" for a in inputs if a.name in narrow.limits]
    ready = {a.name for a in inputs}
    lines += [f"    {line}" for line in _assembled(program, assemblies, ready)]

    def launched(items: Sequence[int | Nested], pad: str) -> list[str]:
        made: list[str] = []
        for item in items:
            if isinstance(item, Nested):
                scan = (scans or {})[item.repeat.step]
                made += _turns(program, item.repeat, scan, ready, pad, partial(launched, item.inside))
            else:
                plan, body = plans[item]
                made += [f"{pad}{line}" for line in _launch(program, plan, body, device, ready, narrow)]
                ready.update(a.source for a in plan.made)
            made += [f"{pad}{line}" for line in _assembled(program, assemblies, ready)]
        return made

    lines += launched(nested(len(program.kernels), program.repeats), "    ")
    lines += [f"    {a.name} = {filled(a)}" for a in outputs if a.name not in ready]
    if narrow.widened:
        lines.append("    # int is int64 where jax has such numbers (jax_enable_x64), else int32; all of these fit.")
    lines += [f"    {name} = of_words({', '.join(both)})" for name, both in narrow.joined.items()]
    joined = {w: name for name, both in narrow.joined.items() for w in both}
    given = dict.fromkeys(joined.get(a.name, a.name + ".astype(int)" * (a.name in narrow.widened)) for a in outputs)
    lines.append(f"    return {', '.join(given)}")
    return [(line, "") for line in lines]


def _limited(name: str, limits: Range) -> str:
    """64-bit integers as 32-bit ones: what lies outside of ``limits`` is moved to the nearer one."""
    low, high = map(_number, limits)
    return f"{name} = jnp.clip({name}, {low}, {high}).astype(jnp.int32)"


def _number(n: int) -> str:
    """Large powers of two as such, and the last number before one."""
    size = n + 1 if n > 0 and n & (n + 1) == 0 else n
    bits = abs(size).bit_length() - 1
    if bits < 16 or abs(size) != 1 << bits:
        return str(n)
    return f"-(2**{bits})" if n < 0 else f"2**{bits}{' - 1' * (size - n)}"


def _turns(program: Program, repeat: Repeat, scan: Scan, ready: set[str], pad: str,
           body: Callable[[str], list[str]]) -> list[str]:  # fmt: skip
    """A function of one turn and the ``jax.lax.scan`` of it; what is carried and shown is ready then."""
    taken = {*program.sizes, *(a.name for a in program.arrays)}
    turn, carry, element = (_free(word, taken) for word in ("turn", "carry", "element"))
    before, after = ([pair[n] for pair in repeat.swaps] for n in (0, 1))
    elements, lines = [e for _, e in scan.taken], [a for a, _ in scan.shown]
    made = [f"{a} = {filled(program.array(a))}" for a, _ in scan.taken if a not in ready]
    ready.update(elements)
    made += ["", f"def {turn}({carry}, {element}):"]
    made += [f"    {', '.join(names)} = {given}" for names, given in ((before, carry), (elements, element)) if names]
    made = [f"{pad}{line}" if line else "" for line in made] + body(pad + "    ")
    results = f"{_several(before) if before else '_'}, {_several(lines) if lines else '_'}"
    how = f"length={repeat.count}{', reverse=True' if scan.reverse else ''}"
    made += [f"{pad}    return {_several(after)}, {_several([e for _, e in scan.shown])}", "",
             f"{pad}{results} = jax.lax.scan({turn}, {_several(before)}, {_several([a for a, _ in scan.taken])}, {how})"]
    ready.update(lines)
    return made


def _free(word: str, taken: set[str]) -> str:
    return next(name for k in count() if (name := word + "_" * k) not in taken)


def _several(names: Sequence[str]) -> str:
    """A tuple of names in parentheses, a single one as it is."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})" if names else "None"


def _assembled(program: Program, assemblies: Sequence[Assembly], ready: set[str]) -> list[str]:
    """Statements that put together the arrays of which every piece is ready now; these are ready then, and may be pieces."""
    arrays = {a.name: a for a in program.arrays}
    lines: list[str] = []
    while found := [a for a in assemblies if a.array.name not in ready and all(p.name in ready for p in a.pieces)]:
        ready |= {a.array.name for a in found}
        lines += [line for a in found for line in assembled(a, arrays)]
    return lines


def _read_sizes(program: Program, report: ReportMissing) -> list[str]:
    """Statements that give every open dim its value, read off the shapes of the inputs."""
    for a in program.by_role("input"):
        shape = a.type.shape if isinstance(a.type, BufferType) else ()
        if len(shape) > 1 and tuple(map(str, shape)) == program.sizes and all(isinstance(s, Sym) for s in shape):
            return [f"{', '.join(program.sizes)} = {a.name}.shape"]
    told = program.readings("input")
    for name in program.sizes:
        if name not in told:
            report(f"the open dim {name}, which no input's shape tells", program.array_with(name),
                   f"a fixed {name}, or an input with {name} as a dim")
    return [f"{name} = {reading}" for name, reading in told.items()]


def _launch(program: Program, plan: PallasKernelPlan, body: KernelBody, device: Device, ready: set[str],
            narrow: Narrowed) -> list[str]:  # fmt: skip
    """The statements around one ``pl.pallas_call``."""
    written = [program.array(a.source) for a in plan.made]
    lines = []
    nothing = _empty_when(program, plan)
    call = _call(program, plan, body, device)
    args = [_prefetched(program.array(x), nothing) for x in plan.prefetched]
    args += [_argument(program, plan, a, nothing) for a in plan.passed]
    args += [f"jnp.asarray({s}, {operations.JNP[program.array(s).dtype]}).reshape(1, 1)" for s in plan.scalars]
    for array in {a.source: program.array(a.source) for a in plan.reads if a.source not in ready}.values():
        lines.append(f"{array.name} = {filled(array)}")
    names = ", ".join(a.name for a in written)
    run = [f"{names} = {call[0]}", *call[1:-1], f"{call[-1]}({', '.join(args)})"]
    for access, array in zip(plan.made, written, strict=True):
        back = host_unview(array.name, access, shape_of(array))
        if back != array.name:
            run.append(f"{array.name} = {back}")
    if not nothing:
        return [*lines, *run]
    zeros = ", ".join(f"jnp.zeros({tuple_text(tuple(map(str, shape_of(a))))}, {operations.JNP[a.dtype]})" for a in written)
    whole = len(program.kernels) == 1 and not program.repeats
    outputs = [a.name for a in program.by_role("output")]
    if whole and [a.name for a in written] == outputs and not narrow.widened and not narrow.joined:
        return [f"if {nothing}:", f"    return {zeros}", *lines, *run]
    return [*lines, f"if {nothing}:", f"    {names} = {zeros}", "else:", *(f"    {line}" for line in run)]


def _prefetched(array: Array, nothing: str) -> str:
    """An array of indices as one line in scalar memory, which has one that no step reads where there are none."""
    line = array.name if len(_shape(array)) == 1 else f"{array.name}.reshape(-1)"
    text = line if array.dtype == "i32" else f"{line}.astype(jnp.int32)"
    one = "jnp.zeros(1, jnp.int32)"
    if empty(_shape(array)):
        return one
    may_be = [s for s in _shape(array) if not isinstance(s, int) and f"{s} == 0" not in nothing.split(" or ")]
    return f"{text} if {' and '.join(map(str, may_be))} else {one}" if may_be else text


def _shape(array: Array) -> tuple[Size, ...]:
    return array.type.shape if isinstance(array.type, BufferType) else ()


def _empty_when(program: Program, plan: PallasKernelPlan) -> str:
    """When a kernel has nothing to compute: a parallel axis, or a dim that all its outputs have, is 0."""
    sizes = [a.extent for a in plan.kernel.grid]
    shapes = [shape_of(program.array(a.source)) for a in plan.made]
    sizes += [s for s in shapes[0] if all(s in shape for shape in shapes)]
    return " or ".join(dict.fromkeys(f"{s} == 0" for s in sizes if not isinstance(s, int)))


def _argument(program: Program, plan: PallasKernelPlan, access: BlockAccess, nothing: str) -> str:
    """The array as the kernel takes it; ``nothing`` says which sizes cannot be 0 here."""
    array = program.array(access.source)
    text = padded(host_view(access.source, access, shape_of(array)), access)
    final = access.view.final
    parts = [e for e in _reached(plan, access) if f"{e} == 0" not in nothing.split(" or ")]
    if empty(final):
        covered = tuple(1 if s == 0 else s for s in final)
        return f"jnp.zeros({tuple_text(tuple(map(str, covered)))}, {operations.JNP[access.dtype]})"
    if parts:
        # Blocks need something to cover; no step reads it.
        covered = tuple(f"max({s}, 1)" if not isinstance(s, int) and str(s) in parts else str(s) for s in final)
        return f"{text} if {parts[0]} else jnp.zeros({tuple_text(covered)}, {operations.JNP[access.dtype]})"
    return text


def _reached(plan: PallasKernelPlan, access: BlockAccess) -> list[str]:
    """The open sizes of an array along which a loop or an index says what block is taken."""
    walked = {a.name: str(a.extent) for a in plan.kernel.axes if a.kind == "loop" and not isinstance(a.extent, int)}
    found = []
    for entry, size in zip(access.entries, access.view.final, strict=True):
        axes = (entry,) if isinstance(entry, str) else entry.axes
        found += [walked[a] for a in axes if a in walked and (isinstance(entry, str) or walked[a] == str(size))]
        if isinstance(entry, Index) and entry.gather >= 0 and not isinstance(size, int):
            found.append(str(size))
    return found


def _result(access: BlockAccess) -> str:
    """What a kernel makes.  What the host transposes lies in HBM: XLA compiles two minutes at a transpose of a result that it
    keeps in VMEM (100 x 800 x 100 on v6e, libtpu 0.0.52), and a second at one from HBM."""
    kind = "pltpu.HBM" if access.view.moved else "jax.ShapeDtypeStruct"
    return f"{kind}({tuple_text(tuple(map(str, access.view.final)))}, {operations.JNP[access.dtype]})"


def _call(program: Program, plan: PallasKernelPlan, body: KernelBody, device: Device) -> list[str]:
    kernel = f"{plan.name}_kernel"
    if plan.kernel.sizes:
        kernel = f"functools.partial({kernel}, {', '.join(f'{s}={s}' for s in plan.kernel.sizes)})"
    shapes = [_result(a) for a in plan.made]
    ins = [_spec(plan, a) for a in plan.passed]
    ins += ["pl.BlockSpec(memory_space=pltpu.SMEM)" for _ in plan.scalars]
    outs = [_spec(plan, a) for a in plan.made]
    grid, parts = [str(d.steps) for d in plan.grid], [f'"{d.semantics}"' for d in plan.grid]
    if _of_parts(plan):
        grid, parts = ["1"], ['"arbitrary"']
    semantics = tuple_text(tuple(parts))
    limit = plan.kernel.schedule.option("vmem_mb", 0) or limit_mb(plan, body.scratch, device)
    params = [f"dimension_semantics={semantics}", *([f"vmem_limit_bytes={limit} << 20"] if limit else [])]
    lines = [
        "pl.pallas_call(", f"    {kernel},", f"    out_shape={_one_or_list(shapes)},",
    ]  # fmt: skip
    walk = [f"    grid={tuple_text(tuple(grid))},", *_listed("in_specs", ins, always=True), *_listed("out_specs", outs)]
    if body.scratch:
        buffers = [f"pltpu.VMEM({plan.sizes(s.place)}, {operations.JNP[s.dtype]})" for s in body.scratch]
        walk += _listed("scratch_shapes", buffers, always=True)
    if plan.prefetched:
        walk = [f"    num_scalar_prefetch={len(plan.prefetched)},", *walk]
        walk = ["    grid_spec=pltpu.PrefetchScalarGridSpec(", *(f"    {line}" for line in walk), "    ),"]
    lines += walk
    lines += [f"    compiler_params=pltpu.CompilerParams({', '.join(params)}),", f'    name="{plan.name}",', ")"]
    return lines


def _one_or_list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"[{', '.join(items)}]"


def _listed(name: str, items: list[str], always: bool = False) -> list[str]:
    if len(items) == 1:
        return [f"    {name}=[{items[0]}]," if always else f"    {name}={items[0]},"]
    return [f"    {name}=[", *(f"        {item}," for item in items), "    ],"]


def _of_parts(plan: PallasKernelPlan) -> bool:
    """Whether a kernel without a grid reads or writes parts of an array, which Pallas takes from kernels with one only."""
    sizes = ((b, n) for a in plan.accesses for b, n in zip(a.block, a.view.final, strict=True))
    return not plan.grid and any(size != 1 if block is None else str(size) != block for block, size in sizes)


def _spec(plan: PallasKernelPlan, access: BlockAccess) -> str:
    names = ", ".join([*(["_"] if _of_parts(plan) else [d.name for d in plan.grid]), *map(reference, plan.prefetched)])
    sizes = access.view.final
    index = tuple_text(tuple(_entry(plan, access, e, n) for e, n in zip(access.entries, sizes, strict=True)))
    block = tuple_text(tuple(str(b) for b in access.block))
    return f"pl.BlockSpec({block}, lambda {names}: {index})".replace("lambda :", "lambda:")


def _entry(plan: PallasKernelPlan, access: BlockAccess, entry: str | Index, size: Size) -> str:
    """What the index map gives for one dim of ``size``: a block number, or (squeezed dims) an element."""
    if isinstance(entry, str):
        return _block_number(plan, access, entry)
    if entry.gather >= 0:
        spans = at(plan.spans, {name: _block_number(plan, access, name) for name, s in plan.spans.items() if s.size == 1})
        picked = picked_text(access.gathers[entry.gather], spans)
        last = str(max(size - 1, 0)) if isinstance(size, int) else f"max({size} - 1, 0)"
        return f"jnp.clip({picked.text if picked else 0}, 0, {last})"
    parts = []
    for term in entry.terms:
        text = _block_number(plan, access, term.axis)
        if term.div != 1:
            text = f"{text} // {term.div}"
        if term.mod:
            text = f"{text} % {term.mod}"
        inner = text if text.isidentifier() else f"({text})"
        if text != "0":
            parts.append(text if term.scale == 1 else f"{term.scale} * {inner}")
    if entry.offset != 0 or not parts:
        parts.append(str(entry.offset))
    return " + ".join(parts)


def _block_number(plan: PallasKernelPlan, access: BlockAccess, axis: str) -> str:
    span = plan.spans[axis]
    if span.dim is None:
        return "0"
    dim = next(d for d in plan.grid if d.name == span.dim)
    if dim.kind != "loop":
        return span.dim
    loops = [(n, loop) for n in access.phases for loop in plan.phases[n].loops if loop.axis == axis]
    text = _bounded(plan, span, [plan.phases[n].bounds(loop) for n, loop in loops])
    if len(dim.axes) > 1:
        text = f"jnp.minimum({text}, {span.last})"
    phases = sorted({n for n, _ in loops})
    count = len(plan.phases)
    if len(phases) in (0, count):
        return text
    # Where a phase does not touch the buffer its block stays: the first one before, the last one after.
    if phases == list(range(phases[0], count)):
        return f"{text} * phase" if count == 2 and text.isidentifier() else f"jnp.where(phase < {phases[0]}, 0, {text})"
    if phases[0] == 0 and phases == list(range(len(phases))):
        return f"jnp.where(phase > {phases[-1]}, {span.last}, {text})"
    inside = " | ".join(f"(phase == {n})" for n in phases)
    return f"jnp.where({inside}, {text}, 0)"


def _bounded(plan: PallasKernelPlan, span: Span, walks: list[tuple[Op | None, Op | None]]) -> str:
    """The block number kept inside the bounds of the walks, so that steps outside them fetch nothing new.  The upper one comes
    last: a part of a walk may begin beyond its end."""
    text = span.dim or "0"
    bounds = {hi for _, hi in walks}
    lows = {lo for lo, _ in walks}
    if len(lows) == 1 and (lo := lows.pop()) is not None and (low := picked_text(lo, _outside(plan))):
        low = low if span.size == 1 else infix("//", low, PlacedExpr(span.text))
        text = f"jnp.maximum({text}, {low.text})"
    if len(bounds) == 1 and (hi := bounds.pop()) is not None and (high := picked_text(hi, _outside(plan))):
        last = f"jnp.maximum({_less_one(hi, high, plan)}, 0)"
        text = f"jnp.minimum({text}, {last if span.size == 1 else f'{last} // {span.text}'})"
    return text


def _outside(plan: PallasKernelPlan) -> Mapping[str, Span]:
    """The spans of parallel axes as index maps see them, which no loop moves."""
    return at(plan.spans, {name: s.dim for name, s in plan.spans.items() if s.size == 1 and s.dim is not None})


def _less_one(op: Op, text: PlacedExpr, plan: PallasKernelPlan) -> str:
    """``op``, which is ``text``, minus 1: a number that it ends with is one less."""
    match op:
        case Binary(fn="add", lhs=lhs, rhs=Extent(size=int(n)) | Const(value=int(n))) if n > 0:
            left = scalar_text(lhs, plan.spans)
            if left is not None:
                return f"{left.at(SUM)} + {n - 1}"
        case Cast(x=x):
            return _less_one(x, text, plan)
    return f"{text.at(SUM)} - 1"


def reference_names(plan: PallasKernelPlan, body: KernelBody) -> list[str]:
    """The kernel's parameters in Pallas's order: inputs, scalars, outputs, scratch."""
    return [*map(reference, plan.prefetched), *dict.fromkeys(read_names(plan)), *(f"{s}_ref" for s in plan.scalars),
            *(f"{a.source}_ref" for a in plan.made), *(s.name for s in body.scratch)]


__all__ = ["buffer_type", "entry_lines", "reference_names", "shape_text"]
