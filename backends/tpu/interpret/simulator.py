"""Pallas's interpreters on the CPU, as the simulator of this backend (evidence ``interpreted``), stage by stage.

``grid``         the index maps walked at every step, at any size (:mod:`.grid_walk`)
``interpreter``  the source executed: small arrays in the interpreter that models a TPU's memories, large ones in the plain one
``memory``       what the former says: memory read before it was written, accesses outside, copies not waited for
``races``        small arrays once more on two cores, in another order, under a race detector: the same bits must come out

Dots of f32 that ask for no precision are rounded as a TPU would (:mod:`.dot_rounding`); sums of products are in f32, and
neither interpreter models the order of a matrix unit.  The source holds no word of any of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from portakern.backend import Availability, CompiledBinary, HostBuffer, Source, Target
from portakern.errors import PortakernError, RuntimeFault, SimulatorError
from portakern.tools.cache import Cache, digest

from ..trace.environment import ENVIRONMENT, HINT, package_version
from ..trace.faces import must_be
from ..trace.host_arrays import as_numpy, entering, like, store, widened
from .diagnostics import Diagnostic, fault

STRICT_ELEMENTS = 65536
"""Inputs and outputs of up to this many elements in all run in the interpreter that models memories, several times slower."""

ALONE_ELEMENTS = 1 << 22
"""The same for a kernel that belongs to no operator, which is run a few times and not through dozens of inputs; and for the
first run of a kernel from elsewhere that belongs to one."""

RACE_STEPS = 160
"""Kernels whose grids have more steps are not run on two cores: the detector compares every access with all before it."""

ALL_STEPS = 256
"""Programs whose kernels have more steps together are run in the interpreter that models memories for their first inputs alone,
on one core: a thousand steps take ten seconds of CPU there, on two cores thirty."""
ALL_TEXT = 100_000
"""Characters of a program from which on the same is done: an LSTM with dropout has 220 thousand, in 31 kernels of 46 steps, for
which XLA needs a minute on two cores."""

RACE_MODULES = ("interpret/simulator.py", "interpret/interpretation.py", "interpret/dot_rounding.py",
                "interpret/nan_propagation.py", "trace/kernel_calls.py")  # fmt: skip
"""Files of this backend that decide what a search for races finds: what it found is forgotten when they change."""

UNSUPPORTED = r"(JaxRuntimeError: )?(NotImplementedError|AttributeError): "
"""What an interpreter raises of itself where it has no rule for something: it says nothing against the kernel."""

FULL = r"(JaxRuntimeError: )?RESOURCE_EXHAUSTED: |MemoryError"
"""What it raises where this machine's memory does not do: it fills the last block of every array up, which a TPU does not."""


class PallasInterpreter:
    """Runs a Pallas source on the CPU."""

    evidence = "interpreted"
    alone = True
    parts = ("kernels", "host")
    recalls = False
    environment = ENVIRONMENT

    def available(self, target: Target) -> Availability:
        jax = package_version("jax")
        return Availability(jax is not None, f"Pallas interpreter of jax {jax}" if jax else f"jax not installed: {HINT}")

    def method(self, target: Target) -> str:
        return f"Pallas interpreter of jax {package_version('jax')} on the CPU"

    def load(self, source: Source, binary: CompiledBinary | None) -> PallasExecutable:
        return PallasExecutable(source, binary.log if binary is not None else "")


class PallasExecutable:
    """A source ready to be interpreted.  Arrays are copied in and out, so guard bands are out of a kernel's reach."""

    guards = False

    def __init__(self, source: Source, compiled: str = "") -> None:
        """``compiled`` is what the compiler's log says."""
        from ..trace.source_module import entry_function, example_inputs

        self.source, self.compiled = source, compiled
        self.function = entry_function(source)
        self.example = example_inputs(source)
        self._prepared: dict[Any, _ShapedSource] = {}

    @property
    def method(self) -> str:
        """Which stages the runs so far went through."""
        said = list(dict.fromkeys(word for shaped in self._prepared.values() for word in shaped.done))
        return "; ".join(said)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Interpret once; outputs are written into their buffers.  Raises :class:`RuntimeFault`.

        A source that declares no outputs belongs to no operator: there is nothing to compare its results with but themselves,
        so more is run (see :meth:`_ShapedSource.alone`).
        """
        outputs = self.source.by_role("output")
        inputs = self.source.by_role("input", "scalar")
        given = self.example
        arrays = list(given) if given is not None else entering(self.source, [buffers[a.name].array for a in inputs])
        shaped = self._shaped(arrays)
        if not outputs:
            shaped.alone(arrays)
            return
        store(self.source, shaped.run(arrays), buffers)

    def watch(self) -> None:
        """There is nothing to note: what a traced function does hangs on nothing but shapes."""

    def run_part(self, part: str, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> str:
        from .alone import Part
        from .interpretation import trace_for

        arrays = entering(self.source, [buffers[a.name].array for a in self.source.by_role("input", "scalar")])
        only, whole = Part(self.function, part), self._shaped(arrays)
        with _tracing_faults(self.source):
            trace_for(self.source.target.device.isa, only, arrays)
        # Where nothing is taken away the function is the one that is interpreted already.
        shaped = whole if part == "kernels" and not only.work else _ShapedSource(self.source, only, arrays)
        store(self.source, shaped.once_more(arrays, plainly=bool(whole.unable)), buffers)
        return only.words

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Interpret on arrays of any library; outputs come back as arrays of the first input's library."""
        arrays = entering(self.source, [as_numpy(x) for x in inputs])
        found = zip(self.source.by_role("output"), self._shaped(arrays).run(arrays), strict=True)
        results = tuple(like(inputs[0], widened(a, r)) for a, r in found)
        return results[0] if len(results) == 1 else results

    def _shaped(self, arrays: Sequence[np.ndarray]) -> _ShapedSource:
        key = tuple((x.shape, x.dtype) for x in arrays)
        if key not in self._prepared:
            self._prepared[key] = _ShapedSource(self.source, self.function, arrays)
            if is_foreign(self.source):
                must_be(self._prepared[key].jaxpr, self.compiled)
        return self._prepared[key]


def _steps(calls: Sequence[Any]) -> int:
    """Steps of all grids together, of which those count a quarter whose blocks indices choose: other inputs take other blocks.
    0 where data decide how many there are."""
    if any(c.mapping.num_dynamic_grid_bounds for c in calls):
        return 0
    return sum(math.prod(c.grid) // (4 if c.mapping.num_index_operands else 1) for c in calls)


def is_foreign(source: Source) -> bool:
    """Whether it was not emitted here."""
    return "origins" not in dict(source.options)


class _ShapedSource:
    """The source at fixed shapes: its kernels, and an interpretation for each mode that was asked for."""

    def __init__(self, source: Source, function: Any, arrays: Sequence[np.ndarray]) -> None:
        from ..trace.kernel_calls import calls_of
        from .interpretation import trace_for

        self.source, self.function = source, function
        self.done: list[str] = []
        self.modes: dict[str, Any] = {}
        self.unable = ""
        """Why jax's TPU interpreter cannot run it."""
        with _tracing_faults(source):
            self.jaxpr = jaxpr = trace_for(source.target.device.isa, function, arrays)
            self.calls = calls_of(jaxpr, arrays)
        elements = sum(math.prod(v.aval.shape) for v in (*jaxpr.jaxpr.invars, *jaxpr.jaxpr.outvars))
        self.limit = STRICT_ELEMENTS if source.by_role("output") else ALONE_ELEMENTS
        self.small = elements <= self.limit
        long = _steps(self.calls) > ALL_STEPS or len(source.text) > ALL_TEXT
        self.long = self.small and not is_foreign(source) and long
        self.begun = ""
        """The digest of the first inputs of a long program."""
        self.once = self.long or (is_foreign(source) and not self.small and elements <= ALONE_ELEMENTS)
        """Whether the memories of a TPU are modelled in the first run alone."""
        self._walk()

    def _walk(self) -> None:
        from .grid_walk import walk

        self.walks = walks = [walk(call) for call in self.calls]
        if found := [f for w in walks for f in w.diagnostics]:
            raise fault(found)
        if self.calls:
            self.done += ["grids walked", *(f"not walked: {w.skipped}" for w in walks if w.skipped)]

    def run(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results; what the stages find is raised."""
        first = not self.modes
        again = first
        if self.long:  # the same inputs come twice, and must give the same bits
            given = digest(*(x.tobytes() for x in arrays))
            self.begun = self.begun or given
            again = given == self.begun
        if self.calls and ((self.small and not self.long) or (again and self.once)) and not self.unable:
            try:
                return self._strictly(arrays, first)
            except SimulatorError as error:
                if error.kind != SimulatorError.default_kind:
                    raise
                self.unable = error.message
                self.done.append(f"memory and races not looked at: {error.message}")
        return self._results("plain", arrays)

    def once_more(self, arrays: Sequence[np.ndarray], plainly: bool) -> tuple[np.ndarray, ...]:
        """The results alone; ``plainly`` where jax's TPU interpreter cannot run it."""
        return self._results("memory" if self.calls and self.small and not self.long and not plainly else "plain", arrays)

    def _strictly(self, arrays: Sequence[np.ndarray], first: bool) -> tuple[np.ndarray, ...]:
        results = self._results("memory", arrays)
        self._unwritten(arrays, results)
        if first and self._shared():
            self._on_two_cores(arrays, results)
        return results

    def alone(self, arrays: Sequence[np.ndarray]) -> None:
        """All stages, whatever they cost up to the limits, with no oracle: NaN must not come of finite numbers, zeros in
        place of what was never written must change nothing, nor must another order on two cores."""
        results = self.run(arrays)
        if not self.small:
            self.done.append(f"more than {self.limit} elements: for memory and races, ask with smaller arrays")
        if self.small and self.calls and not self.unable:
            self._unwritten(arrays, results, always=True)
        finite = all(np.isfinite(_floats(a)).all() for a in arrays)
        for n, result in enumerate(results):
            if finite and (count := int(np.isnan(_floats(result)).sum())):
                raise fault([Diagnostic("interpreter", "nan", f"output {n} holds {count} NaN though every input is finite",
                                     "mask what lies past the end of a ragged axis")])  # fmt: skip

    def _results(self, mode: str, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        from .interpretation import MODE_TITLES, Interpretation

        if mode not in self.modes:
            with _tracing_faults(self.source):
                self.modes[mode] = Interpretation(self.function, arrays, mode, self.source.target.device.isa)
            if lines := self.modes[mode].roundings:
                self.done.append(f"f32 dots at default precision rounded to bf16 as a TPU does ({', '.join(lines[:3])})")
        ran = self.modes[mode].run(arrays)
        if ran.diagnostics:
            raise fault(ran.diagnostics)
        if re.match(UNSUPPORTED, ran.error):
            raise SimulatorError(f"jax's {MODE_TITLES[mode].partition(' (')[0]} cannot run it ({ran.error[:300]})",
                                 "smaller kernels may still run; what it computes is not known")  # fmt: skip
        if re.match(FULL, ran.error):
            raise SimulatorError("jax's interpreter fills arrays up to whole blocks, for which there is no room "
                                 f"({ran.error[:200]})",
                                 "give sizes instead of open dims, or tiles no larger than dims are")  # fmt: skip
        if slow := re.search(r"portakern-slow: (.*)", ran.error):
            raise SimulatorError(f"{self.source.operator} in {MODE_TITLES[mode].partition(' (')[0]}: {slow[1]}",
                                 "a simulator takes seconds for what a device does at once: check a smaller size",
                                 kind="timeout")  # fmt: skip
        if MODE_TITLES[mode] not in self.done:
            self.done.append(MODE_TITLES[mode])
        if ran.error:
            raise RuntimeFault(f"{self.source.operator} in the Pallas interpreter: {ran.error[:1000]}")
        return ran.results

    def _unwritten(self, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray], always: bool = False) -> None:
        """NaN where finite numbers came in may be memory that was never written: zeros in its place would tell."""
        suspicious = any(np.isnan(_floats(r)).any() for r in results) and all(np.isfinite(_floats(a)).all() for a in arrays)
        if not (suspicious or always):
            return
        other = self._results("zeros", arrays)
        for n, (x, y) in enumerate(zip(results, other, strict=True)):
            if not _same(x, y):
                raise fault([Diagnostic(
                    "memory", "unwritten",
                    f"output {n} depends on memory that was never written: {_differing(x, y)} of {x.size} elements change with "
                    "what it held",
                    "write scratch and accumulators on the first step of the reduction, mask both operands of a dot past the "
                    "end of a ragged axis", self.calls[0].where)])  # fmt: skip

    def _shared(self) -> bool:
        """Whether there is work that cores share or copies that the kernel makes, on grids small enough."""
        from ..trace.kernel_calls import copies

        try:
            steps = [math.prod(c.grid) for c in self.calls]
        except RuntimeFault:
            return False
        shared = any("parallel" in s.lower() and n > 1 for c in self.calls for s, n in zip(c.semantics, c.grid, strict=True))
        if not shared and not any(map(copies, self.calls)):
            return False
        if not all(c.prefixed for c in self.calls):
            self.done.append("races not looked for: parallel axes that are not the first ones")
            return False
        if any(w.private for w in self.walks):
            self.done.append("races not looked for: cores keep blocks of their own in outputs that nothing reads")
            return False
        if self.long:
            self.done.append(f"races not looked for, and memory in the first run alone: more than {ALL_STEPS} steps in "
                             f"all, or {ALL_TEXT} characters")
            return False
        if max(steps) > RACE_STEPS:
            self.done.append(f"races not looked for: more than {RACE_STEPS} steps")
            return False
        return True

    def _on_two_cores(self, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        """Nothing here depends on the generation, so what passed is not run again for another one with the same text."""
        from .interpretation import MODE_TITLES

        key = self._race_key(arrays)
        if Cache().get(key) is not None:
            self.done.append(MODE_TITLES["races"])
            return
        for n, (x, y) in enumerate(zip(results, self._results("races", arrays), strict=True)):
            if not _same(x, y):
                raise fault([Diagnostic(
                    "races", "order", f"output {n} differs in {_differing(x, y)} of {x.size} elements when two cores share the "
                    "parallel axes", 'what is carried from step to step belongs to an axis that is declared "arbitrary"',
                    self.calls[0].where)])  # fmt: skip
        Cache().put(key, b"passed")

    def _race_key(self, arrays: Sequence[np.ndarray]) -> str:
        given = [(x.shape, str(x.dtype), digest(x.tobytes())) for x in arrays]
        ours = [(Path(__file__).parents[1] / name).read_bytes() for name in RACE_MODULES]
        return digest("pallas races", self.source.text, self.source.entry, given, str(package_version("jax")), *ours)


class _tracing_faults:
    """Failures of tracing, said as faults of the kernel."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, PortakernError):
            raise RuntimeFault(f"{self.source.operator} in the Pallas interpreter: {type(error).__name__}: "
                               f"{str(error)[:1000]}") from error  # fmt: skip


def _floats(x: np.ndarray) -> np.ndarray:
    """``x`` where it can hold NaN, else nothing."""
    return x.astype(np.float64) if x.dtype.kind in "fV" else np.zeros(0)


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    return _differing(x, y) == 0


def _differing(x: np.ndarray, y: np.ndarray) -> int:
    """Elements that differ; NaN is like NaN."""
    if x.dtype.kind in "fV":
        a, b = x.astype(np.float64), y.astype(np.float64)
        return int((~((a == b) | (np.isnan(a) & np.isnan(b)))).sum())
    return int((x != y).sum())
