"""A function that calls Pallas kernels, traced: its kernels, their grids, and what the index maps read.

Nothing here depends on how the text calls Pallas (through a jitted function, from a helper, by another name): what is
looked at is the jaxpr that comes out.  Imports jax; used in worker processes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from portakern.errors import RuntimeFault

INLINED = ("pjit", "jit", "closed_call", "core_call", "remat", "checkpoint", "custom_jvp_call", "custom_vjp_call")
"""Primitives that call their one jaxpr once, on their own operands."""


def trace(function: Callable[..., Any], arguments: Sequence[Any], mode: Any = None) -> Any:
    """The jaxpr of ``function`` on ``arguments``; its kernels run in interpreter ``mode`` (``None``: on a TPU)."""
    import jax
    from jax.experimental.pallas import tpu as pltpu

    with pltpu.force_tpu_interpret_mode(mode):
        return jax.make_jaxpr(lambda *args: function(*args))(*arguments)


@dataclass(frozen=True)
class KernelCall:
    """One ``pl.pallas_call``, in the jaxpr of ``scope``."""

    equation: Any
    scope: JaxprScope

    @property
    def name(self) -> str:
        """What the kernel is called: its ``name``, or its function's."""
        return self.equation.params["name"] or self.place.partition(" at ")[0]

    @property
    def place(self) -> str:
        """``kernel at file.py:12``, where the kernel's function is defined."""
        return self.kernel.debug_info.func_src_info or ""

    @property
    def where(self) -> str:
        """The line that calls it, or where its function is defined."""
        return line_of(self.equation) or self.place.rpartition(" at ")[2]

    @property
    def kernel(self) -> Any:
        """The jaxpr of the kernel itself."""
        return self.equation.params["jaxpr"]

    @property
    def mapping(self) -> Any:
        return self.equation.params["grid_mapping"]

    @property
    def interpreted(self) -> bool:
        """Whether the text itself asks for an interpreter."""
        return bool(self.equation.params["interpret"])

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """Steps along each axis.  Raises :class:`UnknownValue` where one depends on what is computed in a loop."""
        bounds = iter(self.scope.value(v) for v in self.equation.invars[: self.mapping.num_dynamic_grid_bounds])
        return tuple(n if isinstance(n, int) else int(next(bounds)) for n in self.mapping.grid)

    @property
    def semantics(self) -> tuple[str, ...]:
        """``parallel`` or ``arbitrary`` for each axis of the grid."""
        params = self.equation.params["compiler_params"]
        said = getattr(params, "dimension_semantics", None) or ("arbitrary",) * len(self.mapping.grid)
        return tuple(str(getattr(s, "value", s)) for s in said)

    @property
    def prefixed(self) -> bool:
        """Whether no ``parallel`` axis comes after another: others cannot be shared by the cores that are interpreted."""
        parallel = ["parallel" in s.lower() for s in self.semantics]
        return parallel == sorted(parallel, reverse=True)

    @property
    def aliases(self) -> dict[int, int]:
        """Which window of an input is the same array as which output's, both counted among the windows."""
        skipped, inputs = self.mapping.num_index_operands, self.mapping.num_inputs
        pairs = self.equation.params["input_output_aliases"]
        return {i - skipped: o + inputs for i, o in pairs if i >= skipped}

    @property
    def unread(self) -> set[int]:
        """Outputs that nothing reads after the kernel, counted among the outputs: blocks that a kernel keeps between its
        steps, say, and that are never looked at in HBM."""
        read = set(filter(_is_variable, self.scope.jaxpr.outvars))
        for equation in self.scope.jaxpr.eqns:
            read.update(filter(_is_variable, equation.invars))
        return {n for n, v in enumerate(self.equation.outvars) if v not in read}

    @property
    def names(self) -> list[str]:
        """What the kernel's function calls the blocks of inputs and outputs."""
        found = self.kernel.debug_info.arg_names
        windows = self.mapping.block_mappings
        if found is None:
            return [w.origin for w in windows]
        first = self.mapping.num_index_operands
        return [n or w.origin for n, w in zip(found[first : first + len(windows)], windows, strict=True)]

    @cached_property
    def scalars(self) -> list[Any]:
        """Values of the prefetched scalars.  Raises :class:`UnknownValue`."""
        first = self.mapping.num_dynamic_grid_bounds
        return [self.scope.value(v) for v in self.equation.invars[first : first + self.mapping.num_index_operands]]


def _is_variable(atom: Any) -> bool:
    return not hasattr(atom, "val")


class UnknownValue(RuntimeFault):
    """A value that only a run of a loop or a branch around the kernel would tell."""


class JaxprScope:
    """A jaxpr on values that may be asked for: ``given`` gives those of its inputs."""

    def __init__(self, jaxpr: Any, given: Callable[[int], Any]) -> None:
        self.jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        self.given = given
        self.known: dict[Any, Any] = dict(zip(getattr(self.jaxpr, "constvars", ()), getattr(jaxpr, "consts", ()), strict=False))

    def calls(self) -> Iterator[KernelCall]:
        """The kernels called here and in the jaxprs inside, in the order of the text."""
        for equation in self.jaxpr.eqns:
            if equation.primitive.name == "pallas_call":
                yield KernelCall(equation, self)
                continue
            for inner in jaxprs_of(equation):
                yield from self._inside(equation, inner).calls()

    def _inside(self, equation: Any, inner: Any) -> JaxprScope:
        if equation.primitive.name in INLINED:
            return JaxprScope(inner, lambda n: self.value(equation.invars[n]))
        return JaxprScope(inner, lambda n: _raise(f"it is computed in a {equation.primitive.name}"))

    def value(self, atom: Any) -> Any:
        """The value of an atom, computed from the inputs by as little as it takes."""
        if hasattr(atom, "val"):
            return atom.val
        if atom not in self.known:
            self._compute(atom)
        return self.known[atom]

    def _compute(self, atom: Any) -> None:
        if atom in self.jaxpr.invars:
            self.known[atom] = self.given(self.jaxpr.invars.index(atom))
            return
        equation = next(e for e in self.jaxpr.eqns if atom in e.outvars)
        if equation.primitive.name == "pallas_call":
            _raise("it is the result of another kernel")
        parameters = equation.primitive.get_bind_params(equation.params)
        found = equation.primitive.bind(*map(self.value, equation.invars), **parameters)
        values = found if equation.primitive.multiple_results else [found]
        self.known.update(zip(equation.outvars, values, strict=True))


def _raise(why: str) -> Any:
    raise UnknownValue(f"not known before the kernel runs: {why}")


def calls_of(jaxpr: Any, arguments: Sequence[Any]) -> list[KernelCall]:
    """The kernels that a traced function calls on ``arguments`` (the leaves of what it was traced on)."""
    return list(JaxprScope(jaxpr, lambda n: arguments[n]).calls())


def jaxprs_of(equation: Any) -> Iterator[Any]:
    """The jaxprs among an equation's parameters."""
    for value in equation.params.values():
        for inner in value if isinstance(value, tuple | list) else (value,):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield inner


def copies(call: KernelCall) -> bool:
    """Whether the kernel itself starts copies or signals semaphores."""
    words = ("dma_start", "dma_wait", "semaphore_signal", "semaphore_wait")
    return any(equation.primitive.name in words for equation, _ in _walk(call.kernel))


def _walk(jaxpr: Any, around: str = "") -> Iterator[tuple[Any, str]]:
    """Every equation with its line, which for those inside jax's own functions is the line that calls these."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        line = line_of(equation) or around
        yield equation, line
        for inner in jaxprs_of(equation):
            yield from _walk(inner, line)


def rewritten(jaxpr: Any, rule: Callable[[Any, str], list[Any]], around: str = "") -> Any:
    """``jaxpr`` with every equation, also of those inside, replaced by what ``rule`` makes of it and its line."""
    inner = getattr(jaxpr, "jaxpr", None)
    if inner is not None and inner is not jaxpr:  # from jax 0.11 on a closed jaxpr is its own
        return jaxpr.replace(jaxpr=rewritten(inner, rule, around))
    equations = []
    for old in jaxpr.eqns:
        line = line_of(old) or around
        if any(True for _ in jaxprs_of(old)):
            old = old.replace(params={k: _parameter(v, rule, line) for k, v in old.params.items()})
        equations += rule(old, line)
    return jaxpr.replace(eqns=equations)


def _parameter(value: Any, rule: Callable[[Any, str], list[Any]], line: str) -> Any:
    if type(value) in (tuple, list):
        return type(value)(_parameter(v, rule, line) for v in value)
    return rewritten(value, rule, line) if hasattr(value, "eqns") or hasattr(value, "jaxpr") else value


def line_using(calls: Sequence[KernelCall], operation: str) -> str:
    """The first line of the kernels that uses a primitive (empty where none does); for no primitive, that of the launch."""
    if not operation:
        return calls[0].where if calls else ""
    found = (line for call in calls for equation, line in _walk(call.kernel) if equation.primitive.name == operation)
    return next(found, "")


def line_of(equation: Any) -> str:
    """``file.py:12`` of the text an equation was traced from."""
    from jax._src import source_info_util

    said = source_info_util.summarize(equation.source_info)
    parts = said.partition(" (")[0].split(":")
    return ":".join(parts[:2]) if len(parts) > 1 else ""
