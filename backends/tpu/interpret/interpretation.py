"""Running a traced function in one of Pallas's interpreters, and reading what they say while they run.

``plain``   blocks as jax operations: quick, and blind to most of what can go wrong on a TPU
``memory``  models the memories of a TPU: what was never written is NaN, an access outside a buffer raises, a copy happens
            when it is waited for
``zeros``   the same with zeros in place of NaN: what differs from ``memory`` has read what was never written
``races``   the same on two cores that share the ``parallel`` axes in random order, watched by a happens-before detector; a
            copy happens when it is started, so that between the two a copy is both as late and as early as it can be
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..trace.kernel_calls import JaxprScope, KernelCall, rewritten, trace
from . import idle_updates
from .deadlocks import watched
from .diagnostics import Diagnostic
from .dot_rounding import rounded
from .nan_propagation import with_nan
from .quotients import divided

MODE_TITLES = {
    "plain": "plain interpreter",
    "memory": "TPU interpreter (NaN in unwritten memory, out-of-bounds accesses raise)",
    "zeros": "again with zeros in unwritten memory",
    "races": "races looked for on two cores",
}
"""The modes, as a row's method names them."""


def parameters(mode: str) -> Any:
    """What Pallas is asked for.  Raises ``KeyError`` for an unknown mode."""
    from jax.experimental.pallas import tpu as pltpu

    if mode == "plain":
        return True
    return {
        "memory": lambda: pltpu.InterpretParams(uninitialized_memory="nan", out_of_bounds_reads="raise"),
        "zeros": lambda: pltpu.InterpretParams(uninitialized_memory="zero", out_of_bounds_reads="raise"),
        "races": lambda: pltpu.InterpretParams(uninitialized_memory="nan", out_of_bounds_reads="raise", detect_races=True,
                                               dma_execution_mode="eager", num_cores_or_threads=2, random_seed=1),
    }[mode]()  # fmt: skip


def trace_for(isa: str, function: Callable[..., Any], arguments: Sequence[Any], mode: Any = None) -> Any:
    """The jaxpr of ``function``, as if for a generation where it asks for that (``emit_pipeline`` does, for its tilings)."""
    import jax

    try:
        return trace(function, arguments, mode)
    except ValueError as error:
        if "Unsupported TPU device kind" not in str(error):
            raise
    from ..compile.worker import device_of

    with jax.default_device(device_of(isa)):
        return trace(function, arguments, mode)


@dataclass(frozen=True)
class RunResult:
    """What a run gave.  ``error`` is what the interpreter raised, where it did not get to its end."""

    results: tuple[np.ndarray, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    error: str = ""


class Interpretation:
    """One function at fixed shapes, ready to run in one mode."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], mode: str, isa: str = "v5e") -> None:
        import jax
        from jax.extend.core import jaxpr_as_fun

        self.mode = mode
        with _on_cpu():
            traced = trace_for(isa, function, arguments, parameters(mode))
            jaxpr, self.roundings = rounded(divided(with_nan(rewritten(traced, _in_order))))
        self._function = jax.jit(jaxpr_as_fun(jaxpr))

    @property
    def stage(self) -> str:
        return {"races": "races", "plain": "interpreter"}.get(self.mode, "memory")

    def run(self, arguments: Sequence[Any]) -> RunResult:
        said = io.StringIO()
        with _logged() as logged:
            return self._ran(arguments, said, logged)

    def _ran(self, arguments: Sequence[Any], said: io.StringIO, logged: list[str]) -> RunResult:
        import jax

        try:
            with _on_cpu(), contextlib.redirect_stdout(said), watched(self.mode != "plain"), idle_updates.left_out():
                results = jax.block_until_ready(self._function(*arguments))
        except Exception as error:
            self._reset()
            text = "\n".join([str(error), *logged])
            found = (*self._heard(said.getvalue()), *self._raised(text))
            return RunResult((), found, f"{type(error).__name__}: {_last(str(error))}")
        return RunResult(tuple(map(np.asarray, results)), tuple(self._heard(said.getvalue())))

    def _reset(self) -> None:
        """After an error: the memories go, and the token that would hand the error on to the next interpretation."""
        from jax._src import dispatch
        from jax.experimental.pallas import tpu as pltpu

        if self.mode != "plain":
            pltpu.reset_tpu_interpret_mode_state()
            dispatch.runtime_tokens.clear()

    def _heard(self, said: str) -> Iterator[Diagnostic]:
        """Races and semaphores, which interpreters print."""
        races = re.findall(r"RACE DETECTED\n  (\w+) of .*?\n  clock.*?\n  (\w+) of .*?(?=\n  clock)", said, re.DOTALL)
        for text in re.findall(r"RACE DETECTED\n(.*?)(?=\nRACE DETECTED|\Z)", said, re.DOTALL)[:1]:
            yield _race(text, len(races))
        found = re.search(r"Semaphore (\S+) has non-zero count for .*?: (\d+)", said)
        if found:
            yield Diagnostic(
                self.stage, "semaphore",
                f"a semaphore is left with a count of {found[2]} at the kernel's end: a copy or a signal was never waited for",
                "wait for every copy that is started, the last ones after the loop",
            )  # fmt: skip

    def _raised(self, text: str) -> Iterator[Diagnostic]:
        for kind, pattern, message, fix in RAISED:
            if found := re.search(pattern, text, re.DOTALL):
                words = {k: _words(v or "") for k, v in found.groupdict().items()}
                yield Diagnostic(self.stage, kind, message.format(**words), fix, found.groupdict().get("where") or _frame(text))
                return


RAISED: tuple[tuple[str, str, str, str], ...] = (
    ("deadlock", r"portakern-stuck: (?P<what>[^\n]*?)(?: at (?P<where>\S+\.py:\d+))?(?=\n|\Z)", "deadlock: {what}",
     "every wait needs a copy or a signal of its own on the same semaphore, and only one"),
    ("outside", r"Out-of-bounds block index \S* ?(?P<index>.*?) for (?P<role>input|output) \"(?P<name>.*?)\" in iteration "
     r"(?P<step>.*?) on device.*?but \w+ has shape (?P<shape>\([\d, ]*\))",
     "the block at {index} of {role} {name} {shape} is outside it, at grid point {step}", "look at its index map"),
    ("outside", r"Out-of-bounds (?P<what>read|write|swap|masked swap) of.*?\[(?P<range>.*?)\] but buffer has shape "
     r"(?P<shape>\([\d, ]*\))",
     "a {what} outside a buffer: [{range}] of one with shape {shape}", "keep start + size within the block"),
    ("revisit", r"Revisited block (?P<block>.*?) of output (?P<n>\d+) in iteration (?P<step>\(.*?\))",
     "the block {block} of output {n} is come back to at step {step} after it was left",
     "make the axes that do not move this block the last of the grid"),
)  # fmt: skip
"""What the interpreters raise: kind, pattern, message, fix."""


def _words(text: str) -> str:
    """One line, slices as ``64:72``."""
    return re.sub(r"slice\((\d+), (\d+), (?:1|None)\)", r"\1:\2", " ".join(text.split()))


def _last(text: str) -> str:
    """The line that says what was raised, below the stacks of the callbacks that it came through."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((x for x in reversed(lines) if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", x)), text[:1000])


def _race(text: str, more: int) -> Diagnostic:
    accesses = re.findall(r"(read|write) of (.*?)(?=\n  clock|\Z)", text, re.DOTALL)[:2]
    lines = [re.search(r"(\S+\.py):(\d+)", a[1]) for a in accesses]
    places = [f"{f[1]}:{f[2]}" if f else "the copy of a block" for f in lines]
    what = " and a ".join(f"{kind} ({place})" for (kind, _), place in zip(accesses, places, strict=True))
    again = f", and {more - 1} more such pairs" if more > 1 else ""
    return Diagnostic("races", "race", f"a {what} of the same memory are not ordered{again}",
                   "wait for a copy before its buffer is used again; steps of a parallel axis must not share what they write",
                   next((p for p in places if ".py:" in p), ""))  # fmt: skip


def _frame(text: str) -> str:
    """The innermost line that an error names and that belongs to neither jax, Python nor us."""
    frames = re.findall(r'File "([^"<][^"]*|<[^">]*>\.py)", line (\d+)', text)
    mine = [f"{file}:{line}" for file, line in frames if not file.startswith(_elsewhere())]
    return mine[-1] if mine else ""


@cache
def _elsewhere() -> tuple[str, ...]:
    """Folders of Python, its packages and ours."""
    import portakern

    ours = [str(Path(portakern.__file__).parent), str(Path(__file__).parents[1])]
    return (*(f"{folder}/" for folder in (*sysconfig.get_paths().values(), *ours) if folder), "<frozen")


@contextlib.contextmanager
def _logged() -> Iterator[list[str]]:
    """What jax logs of errors in callbacks, with the kernel's line, in place of writing it to standard error."""
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                said.append("".join(traceback.format_exception(record.exc_info[1])))

    logger, handler = logging.getLogger("jax._src.callback"), Keep()
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _in_order(equation: Any, line: str) -> list[Any]:
    """A launch whose parallel axes are not its first ones, which compilers take and interpreters do not, with every axis in
    order; what its steps write at once, the walk of its grid tells."""
    if equation.primitive.name != "pallas_call" or KernelCall(equation, JaxprScope(None, lambda n: None)).prefixed:
        return [equation]
    said = dataclasses.replace(equation.params["compiler_params"], dimension_semantics=None)
    return [equation.replace(params={**equation.params, "compiler_params": said})]


@contextlib.contextmanager
def _on_cpu() -> Iterator[None]:
    import jax

    with jax.default_device(jax.devices("cpu")[0]):
        yield
