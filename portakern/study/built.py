"""A built operator: its source, IR and machine code to look at, and a callable where its silicon is here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from portakern import launch
from portakern.backend import CompiledBinary, Executable, Plan, Prepared, Target
from portakern.errors import CompileError, PortakernError, RuntimeFault, ScheduleError, UsageError
from portakern.gradients.program import backward_program
from portakern.ir.program import Array, ArrayFacts
from portakern.ir.schedule import Schedule
from portakern.ir.size import evaluate
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.ir.tile import BufferType
from portakern.launch.detached import detaching_refused, not_traced, refuse_detaching
from portakern.launch.facts import dtype_of, extent_of, facts_of, shape_of, signature
from portakern.launch.hoisted import HoistedExecutable, Part
from portakern.launch.streams import stream_handle
from portakern.registry import registry
from portakern.spec.bind import solve_dims
from portakern.study import steps
from portakern.study.bound import Bound
from portakern.study.preparation import Preparation, binary_of
from portakern.study.row import resources_dict
from portakern.study.work import Work
from portakern.torch_op import TorchKernel, torch_op

CALLERS = 256
"""How many signatures of inputs a build remembers the checks of; more only matter to those who call with ever new shapes."""


class Built:
    """What :func:`portakern.build` gives.

    Attributes:
        target: what it was built for.
        source: the emitted text with its launches; ``print(k.source)`` prints the text.
        program: the kernels on the tile level.
        preparation: what hangs on weights alone and is not done at every call; ``None`` where nothing is.
        tensor_program: the math.
        bound: the values of inputs that calls may leave out.
        schedule_note: why a tuned schedule is not used, where there is one that no longer fits; else empty.
    """

    def __init__(self, work: Work, bound: Mapping[str, Any] | None = None) -> None:
        self.bound = Bound(tuple(a.name for a in work.program.args), bound or {})
        found = steps.emission(work)
        self.target: Target = registry().target(work.target)
        self._language = registry().language(self.target.language)
        self._take(found)
        self._variants: dict[tuple[tuple[str, ArrayFacts], ...], Built] = {}
        self._callers: dict[tuple[Hashable, ...], Callable[[Sequence[Any]], Any]] = {}
        self._lock = threading.RLock()
        if self._language.toolchain is not None and self._language.toolchain.available(self.target):
            self._compile()  # what a compiler has to say is said now

    def _take(self, found: steps.Emission) -> None:
        self.__dict__.pop("binary", None)  # of what was taken before
        self._work, self.schedule_note = found.work, found.note
        self._source, self.program = found.source, found.program
        self.source = Text(self._source.text)
        self.preparation = Preparation(*found.preparation, self._language) if found.preparation is not None else None
        taken = {a.name for a in self._source.by_role("input", "scalar")}
        self._apart = {n for n in self.bound.names if n not in taken}  # only the preparation reads them

    def _compile(self) -> None:
        try:
            steps.must_fit(self._source, self.binary)
            _ = self.preparation and self.preparation.binary
        except (CompileError, ScheduleError) as error:
            if self._takes_the_next_schedule(error):
                return
            if self._work.chosen is None:
                raise
            # A tuned schedule that does not compile any more must not keep the operator from being built.
            default, note = steps.without_tuned(self._work, error)
            self._take(replace(steps.emission(default), note=note))
            self._compile()

    def _takes_the_next_schedule(self, error: PortakernError) -> bool:
        """Whether there is one after that for which a block has no room, as compilers alone know in the end."""
        other = steps.without(self._work, error) if isinstance(error, ScheduleError) else None
        if other is None or (found := steps.emission(other)).source.digest == self._source.digest:
            return False
        self._take(found)
        self._compile()
        return True

    def __repr__(self) -> str:
        from portakern.study.table import case_text

        return f"<{self._work.row.operator} built for {self.target}, {self._work.row.dtype}, {case_text(self._work.row)}>"

    def _repr_html_(self) -> str:
        from portakern.study.report.notebook import built_html

        return built_html(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Built, (self._work, self.bound.values)  # copies and other processes build it again, from the cache

    # ---- to look at

    @property
    def tensor_program(self) -> TensorProgram:
        return self._work.program

    @property
    def schedule(self) -> tuple[Schedule, ...]:
        """The schedule of each kernel."""
        return tuple(k.schedule for k in self.program.kernels if k.schedule is not None)

    @property
    def schedule_from(self) -> str:
        """Whether the schedule was ``given``, is ``tuned``, or the backend's ``default``."""
        return steps.schedule_from(self._work)

    @cached_property
    def plan(self) -> Plan | None:
        """The emitter's decisions between tile level and text; ``None`` for a language that needs none."""
        return self._language.emitter.plan(self.program, self.target)

    def standalone(self) -> Text:
        """The text with the headers it uses inlined: one file that compiles by itself."""
        return Text(self._language.emitter.standalone(self._source))

    @cached_property
    def binary(self) -> CompiledBinary:
        """The machine code.  Raises :class:`CompileError`, or :class:`ToolMissing` where nothing here compiles for it."""
        return binary_of(self._source, self._language)

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

    @not_traced
    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run on arrays that speak DLPack, on their own device; outputs are new arrays of the same library.

        Inputs come in the operator's order, run-time scalars after the arrays.  Those that the operator has values of (an
        imported module's weights) may be left out, or given by name.  An array that is not contiguous, or less
        than 16-byte aligned, gets a variant built for it on first use.  Inputs are checked once for every combination of
        library, device, dtype, shape, strides and alignment.  May be called from several threads.

        A tensor that needs a gradient is refused, as the result would be cut off from it: :meth:`as_torch_op` has a backward.
        Weights that the operator has values of are taken as they are.

        Raises:
            UsageError: an array has another dtype or shape than the build takes, or needs a gradient.
            RuntimeFault: there is no silicon of this kind here, or the kernel failed.
        """
        if self.bound.values:
            refuse_detaching(self.tensor_program, {**dict(enumerate(inputs)), **named})
            inputs = self.bound.completed(inputs, named, self._apart)
        elif named:
            raise UsageError(f"{self._work.row.operator} takes its inputs by place", hint=", ".join(self.bound.names))
        signed = tuple([signature(x) for x in inputs])
        call = self._callers.get(signed)
        if call is None:
            call = self._admitted(signed, inputs)
        return call(inputs)

    def refresh(self) -> None:
        """Weights were written where nobody counts it (through ``.data``, by another library): prepare anew at the next call.

        Writes of torch's own operations in place, and other arrays in a weight's place, are seen without it.
        """
        with self._lock:
            self.bound.refresh()
            for build in (self, *self._variants.values()):
                if isinstance(executable := build.__dict__.get("executable"), HoistedExecutable):
                    executable.refresh()

    def prepare(self, *inputs: Any, out: Any = None, stream: Any = None) -> Prepared:
        """One call with everything decided: calling what this gives runs again on the same arrays, with nothing checked.

        Args:
            inputs: as for a call.  Their contents may change between calls; the prepared call keeps them alive.
            out: the array to write, or a sequence of them where there are several outputs; contiguous, 16-byte aligned,
                apart from the inputs.  New arrays of the inputs' library where ``None``.
            stream: what calls queue on unless told otherwise: a native handle, or a stream object of torch or cupy.  The
                inputs' library's current stream, as it is now, where ``None``.

        Returns:
            ``p`` with ``p()`` and ``p(stream)`` (a native handle) to run, and ``p.outputs``, the arrays it writes.

        Raises:
            UsageError, RuntimeFault: as a call does.
        """
        refuse_detaching(self.tensor_program, dict(enumerate(inputs)))
        inputs = self.bound.completed(inputs, {}, self._apart) if self.bound.values else inputs
        given = self._named(inputs)
        sizes = self._sizes(given)
        outputs = None if out is None else self._checked_outputs(out, given, sizes)
        handle = None if stream is None else stream_handle(stream)
        prepared = launch.prepare(self._fitting(given).executable, inputs, sizes, outputs)
        if handle is not None:
            prepared.stream = handle
        return prepared

    def as_torch_op(self, name: str | None = None) -> Any:
        """This build as an operator of ``torch.library``, for eager code and under ``torch.compile`` without a graph break.

        Args:
            name: ``name`` or ``namespace::name``; ``portakern::<operator>_<target>_<hash>`` where ``None``.

        Returns:
            The ``OpOverload``, called with the operator's inputs in order, run-time scalars after the arrays.  The same one
            for the same build and name.

        Raises:
            UsageError: the name is taken by another operator, or an input has a dtype that torch does not have.
            ToolMissing: torch is not installed.
        """
        return torch_op(self._whole._torch_kernel(), name)

    @cached_property
    def _whole(self) -> Built:
        """Where weights are arguments like others: PyTorch may train them, and record calls to repeat them later."""
        return self if self.preparation is None else Built(replace(self._work, weights=()), self.bound.values)

    def _torch_kernel(self) -> TorchKernel:
        def backward(wrt: tuple[str, ...], save: tuple[str, ...]) -> TorchKernel:
            return self.backward(wrt, save)._torch_kernel()

        return TorchKernel(self._source, self.tensor_program, self.__call__, self._named, backward)

    def backward(self, wrt: Sequence[str], save: Sequence[str] = ()) -> Built:
        """The backward of this build (see :func:`portakern.grad`) for the same target and sizes, by its default schedule."""
        program = backward_program(self.tensor_program, wrt, save)
        row = replace(self._work.row, operator=program.name)
        return Built(replace(self._work, program=program, row=row, schedule={}, facts={}, foreign=None, torch="", key=None,
                             chosen=None, weights=()))  # fmt: skip

    def _admitted(self, signed: tuple[Hashable, ...], inputs: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        """``inputs`` checked, and what runs on them and all that are like them."""
        given = self._named(inputs)
        sizes = self._sizes(given)
        call = launch.specialise(self._fitting(given).executable, inputs, sizes)
        if not self.bound.values:
            call = detaching_refused(self.tensor_program, given, call)
        if None not in signed:
            with self._lock:
                while len(self._callers) >= CALLERS:
                    del self._callers[next(iter(self._callers))]
                self._callers[signed] = call
        return call

    def _named(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Inputs by name, their number and dtypes checked."""
        names = [a.name for a in self._work.program.args]
        if len(inputs) != len(names):
            raise UsageError(f"{self._work.row.operator} takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}")
        given = dict(zip(names, inputs, strict=True))
        self._check_dtypes(given)
        return given

    def _sizes(self, given: Mapping[str, Any]) -> dict[str, int]:
        return solve_dims(self._work.program, {n: shape_of(x) for n, x in given.items()})

    @cached_property
    def executable(self) -> Executable:
        runtime = self._language.runtime
        if runtime is None or not (found := runtime.available(self.target)):
            why = found.detail if runtime is not None else f"{self._language.name} has no runtime"
            raise RuntimeFault(f"{self.target} cannot be run here: {why}",
                               hint="`portakern check` runs it in a simulator where there is one", kind="no-silicon")
        for name, value in self._language.environment.items():
            if not name.startswith("PORTAKERN_"):  # our own marks say that a process is a worker, which this one is not
                os.environ.setdefault(name, value)  # before the runtime's library is loaded; what the user set stays
        main = runtime.load(self._source, self.binary if self._language.toolchain is not None else None)
        if self.preparation is None:
            return main
        return HoistedExecutable(self.preparation.loaded(runtime), Part(self._source, main), self.bound.names,
                                 self.bound.beside, self.bound.origin)  # fmt: skip

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
            # What a device without i64 takes as i32 may be so already: libraries for it may have no other.
            as_taken = have == "i32" and t.dtype == "i64" and "i64" not in self.target.device.dtypes
            if have != t.dtype and not as_taken:
                raise UsageError(f"{arg.name} is {have}, this build takes {t.dtype}",
                                 hint=f"build it for {have}, or cast the array")

    def _checked_outputs(self, out: Any, given: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Any, ...]:
        """The arrays to write, checked for all that a kernel assumes of its outputs."""
        outputs = tuple(out) if isinstance(out, tuple | list) else (out,)
        wanted = self._source.by_role("output")
        if len(outputs) != len(wanted):
            names = ", ".join(a.name for a in wanted)
            raise UsageError(f"{self._work.row.operator} writes {len(wanted)} arrays ({names}), and out has {len(outputs)}")
        taken = {name: extent_of(x) for name, x in given.items() if hasattr(x, "dtype")}
        for array, x in zip(wanted, outputs, strict=True):
            check_output(array, x, self._source_shape(array, sizes))
            mine = extent_of(x)
            for name, other in taken.items():
                if mine[0] < other[1] and other[0] < mine[1]:
                    raise UsageError(f"the array given for the output {array.name} overlaps {name}",
                                     hint="kernels read and write in no fixed order: pass another array")
            taken[array.name] = mine
        return outputs

    def _source_shape(self, array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(evaluate(n, sizes) for n in array.type.shape) if isinstance(array.type, BufferType) else ()

    def _fitting(self, given: Mapping[str, Any]) -> Built:
        """This build, or the variant for arrays that are strided or less aligned than it assumes, ready to run."""
        facts = {}
        for arg in self._work.program.args:
            mine = self._work.facts.get(arg.name, ArrayFacts())
            have = facts_of(given[arg.name])
            if have is not None and (have.strides != mine.strides or have.align < mine.align):
                facts[arg.name] = have
        with self._lock:
            chosen = self._variant(facts) if facts else self
            _ = chosen.executable  # loaded once, whichever thread comes first
        return chosen

    def _variant(self, facts: Mapping[str, ArrayFacts]) -> Built:
        key = tuple(sorted(facts.items(), key=lambda kv: kv[0]))
        if key not in self._variants:
            try:
                self._variants[key] = Built(replace(self._work, facts={**self._work.facts, **facts}))
                self._variants[key].bound = self.bound
            except PortakernError as error:
                which = ", ".join(f"{n} ({_described(f)})" for n, f in facts.items())
                raise UsageError(f"no build of {self._work.row.operator} for {self.target} takes {which}: {error.message}",
                                 hint="make the arrays contiguous") from error
        return self._variants[key]


def check_output(array: Array, x: Any, shape: tuple[int, ...]) -> None:
    """Raises :class:`UsageError` where ``x`` cannot take the results of the output ``array`` of ``shape``."""
    if not hasattr(x, "dtype"):
        raise UsageError(f"what is given for the output {array.name} is {type(x).__name__}, not an array")
    if dtype_of(x) != array.dtype or shape_of(x) != shape:
        raise UsageError(f"the output {array.name} is {array.dtype}{list(shape)}, and the array given for it is "
                         f"{dtype_of(x)}{list(shape_of(x))}")
    facts = facts_of(x)
    if facts is not None and facts != ArrayFacts():
        raise UsageError(f"the array given for the output {array.name} has {_described(facts)}; outputs are contiguous and "
                         f"aligned to {ArrayFacts().align} bytes")
    if not getattr(getattr(x, "flags", None), "writeable", True):
        raise UsageError(f"the array given for the output {array.name} is read-only")


class Text(str):
    """Text that shows itself as it is, so that ``k.source`` reads well at a prompt too."""

    def __repr__(self) -> str:
        return str(self)


def _described(facts: ArrayFacts) -> str:
    strides = "contiguous" if facts.strides is None else f"strides {facts.strides}"
    return f"{strides}, aligned to {facts.align} bytes"
