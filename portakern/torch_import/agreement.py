"""A second oracle: what PyTorch computes in float64, held against ours.

Both evaluate the same module on the same numbers, so they agree to float64's rounding; where they do not, the import is wrong.
float32 in eager mode is no measure: deep networks with batch statistics amplify its own rounding.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError, UsageError
from portakern.ir import oracle
from portakern.ir.core import Op
from portakern.ir.tensor import ArgFold, Convert, KeySort, RandomBits, Sort, TensorProgram, tensor_type
from portakern.torch_import.arrays import as_numpy
from portakern.torch_import.capture import in_mode, state_as_buffers
from portakern.torch_import.in_parts import in_parts
from portakern.torch_import.operator import ImportedOperator
from portakern.torch_import.trees import leaves, mapped

RELATIVE = 1e-6
"""How far both may be apart, as a share of the largest number of an output: constants that PyTorch keeps in float32 are
rounded there and exact here."""


ABSOLUTE = 1e-12
"""What is left of numbers about 1 that cancel in float64."""


@dataclass(frozen=True)
class Disagreement:
    """An output that differs from PyTorch's in float64."""

    output: str
    difference: float
    largest: float

    def __str__(self) -> str:
        return f"{self.output} differs from PyTorch in float64 by {self.difference:.3g}, of numbers up to {self.largest:.3g}"


@dataclass(frozen=True)
class Agreement:
    """``compared`` outputs were held against PyTorch; ``apart`` are those random numbers reach, which cannot be."""

    compared: tuple[str, ...]
    apart: tuple[str, ...]
    disagreements: tuple[Disagreement, ...]

    def __bool__(self) -> bool:
        return not self.disagreements

    def raise_if_wrong(self, operator: ImportedOperator) -> None:
        """Raises :class:`PortakernError` of kind ``import`` where anything differs."""
        if self.disagreements:
            raise PortakernError("import", f"{operator.name}: {'; '.join(map(str, self.disagreements[:3]))}",
                                 hint="the import is wrong: please report the module", where=str(operator.loc or ""))


def agreement(operator: ImportedOperator) -> Agreement:
    """Holds the oracle's results on the example inputs against PyTorch's in float64.

    Code that asks for the dtype of its inputs makes other constants in float64.  So where both differ, but the exported graph
    is what the module computes in its own dtypes, this graph is run in float64, with the constants that it has.  And where
    elements are put in order, both are held against each other on an example without equal ones."""
    program = operator.program(operator.typical.dims)
    random = reached_by_random(program)
    own = [n for n in program.outputs if n not in operator.updates]

    def differences(theirs: list[np.ndarray], moved: Mapping[str, np.ndarray]) -> tuple[Disagreement, ...]:
        ours = oracle.evaluate(program, {**widened(operator.example_arrays()), **moved})
        by_name, narrow = dict(zip(own, theirs, strict=False)), _roundings(program)
        found = (_difference(n, ours[n], x, narrow) for n, x in by_name.items() if n not in random)
        return tuple(d for d in found if d is not None)

    theirs = _in_float64_or_graph(operator)
    compared = tuple(n for n in own[: len(theirs)] if n not in random)
    found = differences(theirs, {})
    if found and _graph_is_the_modules(operator):
        found = differences(_graph(operator, double=True), {})
    if found and any(isinstance(op, ORDERS) for op in program.body.walk()):
        example = _moved(operator.example)
        given = leaves(example)
        arrays = {n: as_numpy(given[k]) for n, k in operator.numbers.items() if isinstance(given[k], _tensor())}
        found = differences(_run(operator, True, example), {n: x for n, x in widened(arrays).items() if x.dtype.kind == "f"})
    return Agreement(compared, tuple(n for n in program.outputs if n not in compared), found)


def _in_float64_or_graph(operator: ImportedOperator) -> list[np.ndarray]:
    """The module's outputs in float64; those of its graph, if it fixes dtypes inside, and so does not run in float64."""
    try:
        return in_float64(operator)
    except PortakernError:
        if not _graph_is_the_modules(operator):
            raise
        return _graph(operator, double=True)


ORDERS = (KeySort, Sort, ArgFold)
"""Which of equal elements comes first is not PyTorch's word in ``topk`` and unstable sorts."""


def _moved(example: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example in float64, each float moved a little, so that none are equal."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def moved(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        wide = x.detach().cpu().double()
        size = wide[torch.isfinite(wide)].abs().mean().nan_to_num(1.0)
        by = 1e-4 * size * torch.randn(wide.shape, generator=generator, dtype=torch.float64)
        return _placed(wide + by, int(x.storage_offset()))

    return mapped(moved, (example[0], dict(example[1])))


def _tensor() -> type:
    import torch

    return torch.Tensor


def _graph(operator: ImportedOperator, double: bool) -> list[np.ndarray]:
    """The outputs of the exported graph, which has the constants that the module makes in the dtypes of the example."""
    from portakern.torch_import.graph_in_double import graph_outputs

    made = graph_outputs(operator.exported, operator.module, leaves(operator.example), double)
    return [as_numpy(x) for x in made]


def _graph_is_the_modules(operator: ImportedOperator) -> bool:
    """Whether the exported graph gives what the module does, both in the dtypes that they have."""
    theirs = _run(operator, double=False)
    try:
        graphs = _graph(operator, double=False)
    except Exception:  # whatever PyTorch raises: then nothing speaks for the import
        return False
    return len(theirs) == len(graphs) and all(
        a.shape == b.shape and _difference("", a, b, 64 * _step(a)) is None for a, b in zip(theirs, graphs, strict=True))


def _step(x: np.ndarray) -> float:
    """The rounding of an array's dtype; 0 of integers."""
    return float(ml_dtypes.finfo(x.dtype).eps) if x.dtype.kind not in "iub" else 0.0


def in_float64(operator: ImportedOperator) -> list[np.ndarray]:
    """The outputs of the module itself, run by PyTorch with every float in float64.

    Raises :class:`PortakernError` of kind ``no-float64`` where the module or PyTorch cannot do that.
    """
    return _run(operator, double=True)


def _run(operator: ImportedOperator, double: bool, example: tuple[tuple[Any, ...], dict[str, Any]] | None = None
         ) -> list[np.ndarray]:  # fmt: skip
    """The outputs of the module on its example, or another one, with every float in float64 where ``double`` is set."""
    import torch

    args, kwargs = example or operator.example
    module = operator.module

    def wide(x: Any) -> Any:
        return _wide(x) if double else x.cpu()

    def copied(x: Any) -> Any:
        return _placed(wide(x.detach().clone()), int(x.storage_offset())) if isinstance(x, torch.Tensor) else x

    default = _default_float64(torch) if double else contextlib.nullcontext()
    with (torch.no_grad(), default, warnings.catch_warnings(), in_mode(module, operator.train),
          state_as_buffers(module), _on_the_host(module, double), in_parts()):  # fmt: skip
        warnings.simplefilter("ignore")
        given = mapped(copied, (args, dict(kwargs)))
        try:
            made = module(*given[0], **given[1])
        except Exception as error:  # whatever PyTorch or the module's own code raises
            raised, where = f"{type(error).__name__}: {error}", str(operator.loc or "")
            if double:
                raise PortakernError("no-float64", f"PyTorch does not run {operator.name} in float64: {raised}",
                                     where=where) from error  # fmt: skip
            raise UsageError(f"PyTorch does not run {operator.name} on its example: {raised}", where=where,
                             hint="give an example that fits: imports look at shapes and not at numbers, as indices beyond "
                                  "an array") from error  # fmt: skip
    return [as_numpy(x) for x in leaves(made) if isinstance(x, torch.Tensor)]


def _placed(x: Any, offset: int) -> Any:
    """``x``, which lies at the beginning of its memory, at ``offset`` of another: a module may ask where its inputs lie."""
    if not offset:
        return x
    memory = x.new_empty(offset + x.untyped_storage().nbytes() // x.itemsize)
    return memory.as_strided(x.shape, x.stride(), offset).copy_(x)


def _wide(x: Any) -> Any:
    """A tensor on the host in float64, or complex128."""
    import torch

    return x.cpu().to(torch.complex128) if x.is_complex() else x.cpu().double() if x.is_floating_point() else x.cpu()


@contextlib.contextmanager
def _on_the_host(module: Any, double: bool) -> Iterator[None]:
    """``module`` with its numbers on the host, in float64 where ``double`` is set; afterwards they are as they were, whatever
    it wrote to them.

    A copy would not do: what a module keeps in closures, as a lambda over its own layers, is not copied."""
    held = [(x, x.data) for x in (*module.parameters(), *module.buffers())]
    try:
        for x, data in held:
            wide = double and (data.is_floating_point() or data.is_complex())
            x.data = _wide(data) if wide else data.cpu().clone()
        yield
    finally:
        for x, data in held:
            x.data = data


@contextlib.contextmanager
def _default_float64(torch: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def widened(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Floats in float64, as the oracle takes them."""
    return {n: np.asarray(x, np.float64) if x.dtype.kind not in "iub" else np.asarray(x) for n, x in arrays.items()}


def _difference(name: str, ours: np.ndarray, theirs: np.ndarray, narrow: float) -> Disagreement | None:
    if ours.shape != theirs.shape:
        return Disagreement(f"the shape {ours.shape} of {name} against {theirs.shape}: it", float("nan"), float("nan"))
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return None
    finite = np.abs(b[np.isfinite(b)])
    largest = float(finite.max()) if finite.size else 1.0
    with np.errstate(invalid="ignore"):
        apart = float(np.nanmax(np.where(same, 0.0, np.abs(a - b)))) if (np.isnan(a) == np.isnan(b)).all() else float("inf")
    return Disagreement(name, apart, largest) if not apart <= max(RELATIVE, narrow) * largest + ABSOLUTE else None


def _roundings(program: TensorProgram) -> float:
    """What a cast to a narrow dtype that the module asks for may bring apart: in float64 it is none."""
    narrow = [DTYPES[op.dtype].rounding for op in program.body.ops
              if isinstance(op, Convert) and DTYPES[op.dtype].is_float and DTYPES[tensor_type(op.x).dtype].is_float]
    return 64 * max(narrow, default=0.0)


def reached_by_random(program: TensorProgram) -> set[str]:
    """The outputs that random numbers have a part in."""
    reached: set[Op] = set()
    for op in program.body.ops:
        if isinstance(op, RandomBits) or any(o in reached for o in op.operands):
            reached.add(op)
    return {n for n, op in zip(program.outputs, program.results, strict=True) if op in reached}
