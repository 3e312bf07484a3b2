"""Tile programs as Triton: the kernels, and the host function that launches them.

The text needs ``triton`` alone (and ``torch`` where the program has temporaries), runs with Triton 3.6 and later on
NVIDIA and AMD, and is called as ``entry(inputs..., scalars..., outputs...)``; outputs are written in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portakern.backend import Missing, Source, Target
from portakern.device import Device
from portakern.emit.host import called, host_names, write_launches
from portakern.emit.python_like import PythonWriter, call, with_helpers
from portakern.emit.where import where
from portakern.errors import MissingRuleError, UnsupportedDtype
from portakern.ir.core import Op
from portakern.ir.program import Array, Program
from portakern.ir.tile import ArgReduce, Binary, BufferType, Dot, Load, Reduce, Scan, Store, TileType, Unary, tile_type

from ..prepare.dots import shortest
from ..prepare.packing import packed
from . import operations
from .axes import RESERVED
from .kernel import TritonKernelText, print_kernel


@dataclass(frozen=True)
class TritonEmitter:
    """Needs no Triton to emit."""

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        device = target.device
        found: dict[tuple[str, str], Missing] = {}

        def report(what: str, line: str, alternative: str = "") -> None:
            found.setdefault((what, line), Missing(what, line, alternative))

        for array in program.arrays:
            if array.dtype not in device.dtypes:
                report(f"{array.dtype} arrays on {device.name}", where(program, array),
                       device.alternatives.get(array.dtype, ""))
        told = program.readings("input", "output")
        for name in program.sizes:
            if name not in told:
                report(f"the open dim {name}, which no array's shape tells", where(program, program.array_with(name)),
                       f"a fixed {name}, or an array with {name} as a dim")
        for kernel in program.kernels:
            for op in kernel.body.walk():
                what = _unsupported(op, device)
                if what:
                    report(what, where(program, op, kernel))
        return tuple(found.values())

    def plan(self, program: Program, target: Target) -> None:
        """Triton's compiler plans layouts and stages itself."""
        return None

    def emit(self, program: Program, target: Target) -> Source:
        self._check(program, target)
        program = packed(program)
        names = host_names(program, {*RESERVED, entry_of(program), "TensorDescriptor", "blocks",
                                     *(f"{k.name}_kernel" for k in program.kernels)})  # fmt: skip
        kernels = [print_kernel(k, target.device, names) for k in program.kernels]
        body = "\n\n".join(k.text for k in kernels)
        helpers = "\n".join(operations.HELPERS[name] for name in with_helpers(body, operations.HELPERS))
        host = _host_function(program, kernels, names)
        imports = ["import triton", "import triton.language as tl"]
        if "torch." in host:
            imports.insert(0, "import torch")
        if "TensorDescriptor" in host:
            imports.append("from triton.tools.tensor_descriptor import TensorDescriptor")
        head = f'"""{program.name} for {target}, written by portakern."""\n\n' + "\n".join(imports) + "\n"
        text = "\n\n".join(part.strip("\n") + "\n" for part in (head, helpers, body, host) if part.strip())
        return Source(target, program.name, entry_of(program), text, ".py", program.arrays, program.sizes,
                      schedule=tuple(k.schedule for k in program.kernels))  # fmt: skip

    def standalone(self, source: Source) -> str:
        """The text is whole already."""
        return source.text

    def _check(self, program: Program, target: Target) -> None:
        missing = self.missing(program, target)
        dtypes = [m for m in missing if m.what.endswith(f"arrays on {target.device.name}")]
        if dtypes:
            hint = f"use {dtypes[0].alternative}" if dtypes[0].alternative else ""
            raise UnsupportedDtype(f"{program.name}: {dtypes[0].what} are not possible", hint)
        if missing:
            raise MissingRuleError(f"{program.name} for {target}: Triton's emitter has no rule for",
                                   missing=tuple(f"{m.what} ({m.where})" if m.where else m.what for m in missing))  # fmt: skip


def _computes(device: Device, dtype: str) -> bool:
    """Whether values of ``dtype`` may be made inside a kernel: Triton converts 8-bit floats in software where arrays of them
    are not taken, but for ``fp8e4nv`` before sm_89 ("not supported in this architecture")."""
    if dtype == "f8e4m3" and device.vendor == "NVIDIA":
        return dtype in device.dtypes
    return dtype in operations.DTYPE


def _unsupported(op: Op, device: Device) -> str:
    """What about ``op`` this emitter cannot say; empty if nothing."""
    if isinstance(op.type, TileType) and not _computes(device, op.type.dtype):
        return f"{op.type.dtype} values on {device.name}"
    match op:
        case Scan(x=x, axis=axis, exclusive=True) if tile_type(x).axes[-1] != axis:
            return "an exclusive scan along a dim of the tile that is not its last"
        case ArgReduce(fn=fn):
            return f"arg{fn}"
        case Unary(fn=fn, x=x):
            wanting = fn in ("erf", "tanh", "sigmoid") and not tile_type(x).dtype.startswith("f")
            return f"{fn} of {tile_type(x).dtype}" if fn not in operations.UNARY or wanting else ""
        case Binary(fn="pow", lhs=lhs) if tile_type(lhs).dtype not in ("f32", "f64"):
            return f"pow of {tile_type(lhs).dtype}"
        case Dot(acc=acc) if len(tile_type(acc).dims) != 2:
            return f"a contraction giving {acc.type}; Triton contracts tiles of two dims"
        case Dot(lhs=lhs, axis=axis) if tile_type(lhs).size(axis) < (least := shortest(device, tile_type(lhs).dtype)):
            return f"a product of {tile_type(lhs).dtype} over {tile_type(lhs).size(axis)}; tl.dot sums {least} or more"
        case Reduce(x=x) if not tile_type(x).dims:
            return "a reduction of a scalar"
        case Load(dims=dims) if len(dims) > 3:
            return f"a tile of {len(dims)} dims"
        case Store(mode="max", value=value) if tile_type(value).dtype not in ("f32", "i32", "i64"):
            return f"an atomic max of {tile_type(value).dtype}"
        case Store(mode="add", value=value) if tile_type(value).dtype in ("bf16", "bool", "i8"):
            return f"an atomic add of {tile_type(value).dtype}"
    return ""


# ---- the host function -----------------------------------------------------------------------------------------------


def entry_of(program: Program) -> str:
    """The host function's name: the operator's, unless that means something else in the text."""
    return f"run_{program.name}" if program.name in RESERVED else program.name


def _host_function(original: Program, kernels: Sequence[TritonKernelText], names: Mapping[str, str]) -> str:
    program = called(original, names)
    out = PythonWriter()
    given = program.by_role("input", "scalar", "output")
    with out.block(f"def {entry_of(program)}({', '.join(a.name for a in given)}):"):
        out.line(f'"""{_signature(program)}"""')
        for size, reading in program.readings("input", "output").items():
            out.line(f"{size} = {reading}")
        for array in program.by_role("temporary"):
            _allocate(out, array, given[0].name)
        for array in program.by_role("output"):
            if array.init is not None:
                out.line(f"{array.name}.fill_({operations.constant(array.init, array.dtype)})")

        def launch(number: int) -> None:
            _describe(out, kernels[number], program, names)
            _launch(out, kernels[number], names)

        write_launches(out, original, names, launch)
    return str(out)


def _signature(program: Program) -> str:
    """``x[M, 1000] bf16, b[1000] bf16 -> y[M, 1000] bf16``."""

    def said(array: Array) -> str:
        shape = f"[{', '.join(map(str, array.type.shape))}]" if isinstance(array.type, BufferType) else ""
        return f"{array.name}{shape} {array.dtype}"

    inputs = ", ".join(map(said, program.by_role("input", "scalar")))
    return f"{inputs} -> {', '.join(map(said, program.by_role('output')))}"


def _allocate(out: PythonWriter, array: Array, beside: str) -> None:
    assert isinstance(array.type, BufferType)
    shape = ", ".join(map(str, array.type.shape))
    shape = f"({shape},)" if len(array.type.shape) == 1 else f"({shape})"
    keywords = {"dtype": operations.TORCH_DTYPE[array.dtype], "device": f"{beside}.device"}
    if array.init is None:
        made = call("torch.empty", shape, **keywords)
    else:
        made = call("torch.full", shape, operations.constant(array.init, array.dtype).text, **keywords)
    out.line(f"{array.name} = {made}")


def _describe(out: PythonWriter, kernel: TritonKernelText, program: Program, names: Mapping[str, str]) -> None:
    """The descriptors a kernel takes, of the array as it is or as the kernel sees it.  A dim of one element may come with any
    stride, which the engine would refuse: there the strides are written out."""
    shapes = {a.name: a.type.shape for a in program.arrays if isinstance(a.type, BufferType)}
    for name, buffer, seen, block in kernel.descriptors:
        array = names[buffer]
        if shapes[array] == seen.shape and 1 not in seen.shape:
            out.line(f"{name} = TensorDescriptor.from_tensor({array}, {list(block)})")
        else:
            out.line(f"{name} = TensorDescriptor({array}, {list(seen.shape)}, {list(seen.element_strides)}, {list(block)})")


def _launch(out: PythonWriter, kernel: TritonKernelText, names: Mapping[str, str]) -> None:
    arguments = [names.get(x, x) for x in kernel.parameters]
    keywords = {**{k: str(v) for k, v in kernel.constants}, **{k: str(v) for k, v in kernel.options}}
    launched = call(f"{kernel.name}[(blocks,)]", *arguments, **keywords).text
    if kernel.static:
        out.line(launched.replace("[(blocks,)]", f"[({kernel.blocks},)]"))
        return
    out.line(f"blocks = {kernel.blocks}")
    with out.block("if blocks > 0:"):
        out.line(launched)

