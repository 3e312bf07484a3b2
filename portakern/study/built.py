"""A built operator: its source, IR and machine code to look at, and a callable where its silicon is here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from portakern.backend import Binary, Executable, Plan, Target
from portakern.errors import PortakernError, RuntimeFault, ToolMissing, UsageError
from portakern.ir.program import ArrayFacts
from portakern.ir.schedule import Schedule
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.registry import registry
from portakern.spec.bind import solve_dims
from portakern.study import steps
from portakern.study.row import resources_dict
from portakern.study.work import Work

ALIGNMENT = 16
"""Bytes that kernels assume to divide the address of an array unless they are built for another."""

_DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16",
    "int8": "i8", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip


class Built:
    """What :func:`portakern.build` gives.

    Attributes:
        target: what it was built for.
        source: the emitted text with its launches; ``print(k.source)`` prints the text.
        program: the kernels on the tile level.
        tensor_program: the math.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self.target: Target = registry().target(work.target)
        self._language = registry().language(self.target.language)
        self.source: Text
        self._source, self.program = steps.emit(work)
        self.source = Text(self._source.text)
        self._variants: dict[tuple[tuple[str, ArrayFacts], ...], Built] = {}
        if self._language.toolchain is not None and self._language.toolchain.available(self.target):
            _ = self.binary  # what a compiler has to say is said now

    def __repr__(self) -> str:
        from portakern.study.table import case_text

        return f"<{self._work.row.operator} built for {self.target}, {self._work.row.dtype}, {case_text(self._work.row)}>"

    # ---- to look at

    @property
    def tensor_program(self) -> TensorProgram:
        return self._work.program

    @property
    def schedule(self) -> tuple[Schedule, ...]:
        """The schedule of each kernel."""
        return tuple(k.schedule for k in self.program.kernels if k.schedule is not None)

    @cached_property
    def plan(self) -> Plan | None:
        """The emitter's decisions between tile level and text; ``None`` for a language that needs none."""
        return self._language.emitter.plan(self.program, self.target)

    def standalone(self) -> Text:
        """The text with the headers it uses inlined: one file that compiles by itself."""
        return Text(self._language.emitter.standalone(self._source))

    @cached_property
    def binary(self) -> Binary:
        """The machine code.  Raises :class:`CompileError`, or :class:`ToolMissing` where nothing here compiles for it."""
        toolchain = self._language.toolchain
        if toolchain is None:
            raise ToolMissing(f"{self._language.name} has no compiler")
        if not (found := toolchain.available(self.target)):
            raise ToolMissing(f"nothing here compiles for {self.target}: {found.detail}",
                              hint=steps.install_hint(self._language))
        return steps.compile_cached(self._language, self._source)[1]

    @property
    def asm(self) -> Text:
        """The assembly of the machine code."""
        if self.binary.assembly is None:
            raise PortakernError("no-assembly", f"{self.binary.tool} gives no assembly for {self.target}")
        return Text(self.binary.assembly)

    @property
    def resources(self) -> dict[str, Any] | None:
        """Registers, spills, shared memory and more, as the binary tells; see :class:`portakern.backend.Resources`."""
        return resources_dict(self.binary.resources)

    # ---- to call

    def __call__(self, *inputs: Any) -> Any:
        """Run on arrays that speak DLPack, on their own device; outputs are new arrays of the same library.

        Inputs come in the operator's order, run-time scalars after the arrays.  An array that is not contiguous, or less
        than 16-byte aligned, gets a variant built for it on first use.

        Raises:
            UsageError: an array has another dtype or shape than the build takes.
            RuntimeFault: there is no silicon of this kind here, or the kernel failed.
        """
        names = [a.name for a in self._work.program.args]
        if len(inputs) != len(names):
            raise UsageError(f"{self._work.row.operator} takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}")
        given = dict(zip(names, inputs, strict=True))
        self._check_dtypes(given)
        sizes = solve_dims(self._work.program, {n: shape_of(x) for n, x in given.items()})
        return self._fitting(given)._executable.call(inputs, sizes)

    @cached_property
    def _executable(self) -> Executable:
        runtime = self._language.runtime
        if runtime is None or not (found := runtime.available(self.target)):
            why = found.detail if runtime is not None else f"{self._language.name} has no runtime"
            raise RuntimeFault(f"{self.target} cannot be run here: {why}",
                               hint="`portakern check` runs it in a simulator where there is one", kind="no-silicon")
        for name, value in self._language.environment.items():
            os.environ.setdefault(name, value)  # before the runtime's library is loaded; what the user set stays
        return runtime.load(self._source, self.binary if self._language.toolchain is not None else None)

    def _check_dtypes(self, given: Mapping[str, Any]) -> None:
        for arg in self._work.program.args:
            t = tensor_type(arg)
            x = given[arg.name]
            if not hasattr(x, "dtype"):
                if t.shape or not isinstance(x, int | float):
                    raise UsageError(f"{arg.name} is {type(x).__name__}, not an array",
                                     hint="pass numpy, torch, cupy or jax arrays, or anything else that speaks DLPack")
                continue
            have = dtype_of(x)
            if have != t.dtype:
                raise UsageError(f"{arg.name} is {have}, this build takes {t.dtype}",
                                 hint=f"build it for {have}, or cast the array")

    def _fitting(self, given: Mapping[str, Any]) -> Built:
        """This build, or the variant for arrays that are strided or less aligned than it assumes."""
        facts = {}
        for arg in self._work.program.args:
            mine = self._work.facts.get(arg.name, ArrayFacts())
            have = facts_of(given[arg.name])
            if have is not None and (have.strides != mine.strides or have.align < mine.align):
                facts[arg.name] = have
        if not facts:
            return self
        key = tuple(sorted(facts.items(), key=lambda kv: kv[0]))
        if key not in self._variants:
            try:
                self._variants[key] = Built(replace(self._work, facts={**self._work.facts, **facts}))
            except PortakernError as error:
                which = ", ".join(f"{n} ({_described(f)})" for n, f in facts.items())
                raise UsageError(f"no build of {self._work.row.operator} for {self.target} takes {which}: {error.message}",
                                 hint="make the arrays contiguous") from error
        return self._variants[key]


class Text(str):
    """Text that shows itself as it is, so that ``k.source`` reads well at a prompt too."""

    def __repr__(self) -> str:
        return str(self)


# ---- arrays of any library ---------------------------------------------------------------------------------------------


def shape_of(x: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in x.shape) if hasattr(x, "shape") else ()


def dtype_of(x: Any) -> str:
    """Our name of the dtype of an array of any library; its own name where we have none."""
    name = str(getattr(x.dtype, "name", x.dtype)).rpartition(".")[2]
    return _DTYPES.get(name, name)


def facts_of(x: Any) -> ArrayFacts | None:
    """Strides in elements (``None`` where contiguous) and alignment of an array's address; ``None`` for a number."""
    shape = shape_of(x)
    if not hasattr(x, "dtype") or not shape or 0 in shape:
        return None
    strides, address = _layout(x)
    contiguous = strides is None or all(n == 1 or have == want
                                        for n, have, want in zip(shape, strides, _row_major(shape), strict=True))
    align = ALIGNMENT if not address else min(ALIGNMENT, address & -address)
    return ArrayFacts(None if contiguous else strides, align)


def _layout(x: Any) -> tuple[tuple[int, ...] | None, int]:
    """(strides in elements or ``None`` for contiguous, address or 0 where the library does not tell)."""
    if callable(getattr(x, "stride", None)) and hasattr(x, "data_ptr"):  # torch
        return tuple(x.stride()), int(x.data_ptr())
    for protocol in ("__cuda_array_interface__", "__array_interface__"):
        told = getattr(x, protocol, None)
        if isinstance(told, dict):
            width = int(told["typestr"][2:])
            strides = told.get("strides")
            return None if strides is None else tuple(s // width for s in strides), int(told["data"][0])
    if hasattr(x, "strides") and hasattr(x, "itemsize"):
        return tuple(s // x.itemsize for s in x.strides), 0
    return None, 0


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _described(facts: ArrayFacts) -> str:
    strides = "contiguous" if facts.strides is None else f"strides {facts.strides}"
    return f"{strides}, aligned to {facts.align} bytes"


