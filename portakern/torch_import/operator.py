"""An imported module as an operator: its inputs first, then its parameters, which calls may leave out."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NoReturn

from portakern.dtypes import DTYPES
from portakern.errors import MissingRuleError, PortakernError, UsageError
from portakern.ir.collecting import without_collections
from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.rewrite import canonicalise
from portakern.ir.size import Size, Sym
from portakern.ir.tensor import Expand, TensorProgram, tensor_type
from portakern.ir.tensor import Literal as Constant
from portakern.spec.annotations import ScalarSpec, TensorSpec
from portakern.spec.bind import substituted
from portakern.spec.inputs import Held, like
from portakern.spec.operator import Operator
from portakern.spec.traced import Traced, record
from portakern.torch_import.arrays import as_numpy, as_tensor, in_pairs
from portakern.torch_import.callables import name_of
from portakern.torch_import.capture import Captured, Dynamic, capture
from portakern.torch_import.trees import leaves
from portakern.torch_import.types import need_torch
from portakern.torch_import.walk import SEED, Graph, GraphInput, read
from portakern.torch_import.weights import ModuleWeights

Weights = Literal["inputs", "constants"]

UNSETTLED = ("{}: whole numbers follow from rounded floats, in a table of open or very large size, so that PyTorch cannot fill "
             "it at the import; next to a boundary a kernel may give another one than PyTorch ({}). For the same numbers, "
             "import with fixed sizes")  # fmt: skip


def from_torch(
    module: Any,
    example_inputs: Any,
    dynamic: Dynamic = None,
    train: bool = False,
    weights: Weights = "inputs",
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
) -> ImportedOperator:
    """A PyTorch module or function as an operator, like one that was written in portakern.

    Its inputs are those of the module, then its parameters and buffers by their paths (``layer1_0_weight``).  A call of the
    built operator may leave these out: ``pk.build(op, target=...)(x)`` uses the module's own, as they are at that time.
    Buffers that the module updates are further outputs, ``new_`` and their path.  Random operations draw from ``seed``, a
    further number that is 0 by default.

    Args:
        module: a ``torch.nn.Module``, or a function of tensors.
        example_inputs: a tensor or a tuple of what it is called with.  Dtypes are theirs and the module's.
        dynamic: names of dims that stay open: ``{"x": {0: "B"}}`` by the input's name, or a list by place.
        train: as in training (dropout, the batch's own statistics), or as in evaluation.
        weights: ``"constants"`` writes those that are one number throughout into the kernels; the others are inputs all
            the same.
        kwargs: example inputs by keyword.
        name: of the operator; by default that of the module's class or of the function.

    Raises:
        SpecError: ``torch.export`` refuses it.
        MissingRuleError: it uses what has no counterpart here; all of it is listed with the module's lines.
    """
    need_torch()
    if weights not in ("inputs", "constants"):
        raise UsageError(f"weights={weights!r}", hint='weights is "inputs" or "constants"')
    args = tuple(example_inputs) if isinstance(example_inputs, tuple | list) else (example_inputs,)
    called = name or _name(module)
    with without_collections():
        captured, graph = _captured(module, args, dict(kwargs or {}), dynamic, train, called)
        if graph.unsettled:
            warnings.warn(UNSETTLED.format(called, "; ".join(graph.unsettled)), stacklevel=2)
        return ImportedOperator(called, captured, graph, args, dict(kwargs or {}), train, weights == "constants")


def _captured(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic: Dynamic, train: bool, name: str
              ) -> tuple[Captured, Graph]:  # fmt: skip
    """The exported graph and what was read of it; if sizes follow from numbers, with those of buffers fixed by the import."""
    captured = capture(module, args, kwargs, dynamic, train)
    try:
        return captured, read(captured, name)
    except MissingRuleError as error:
        if "numbers inside" not in str(error):
            raise
        try:
            captured = capture(module, args, kwargs, dynamic, train, fixed=True)
            return captured, read(captured, name)
        except PortakernError:
            raise error from None


def _name(given: Any) -> str:
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name_of(given)).lower()
    text = re.sub(r"\W", "_", text)
    return text if text.isidentifier() else "function"


class ImportedOperator(Operator):
    """An operator that was read from PyTorch.

    Attributes:
        bound: the module's parameters and buffers by input, and the seed: what a call may leave out.
        updates: outputs that are new values of buffers, and the buffers' paths.
        weights: those of them that calls of inference leave as they are: not in training, nor what the module itself updates.
        unused: inputs of the module that nothing reads, which are no inputs here.
        module, example, train: what was imported, the (args, kwargs) it was imported on, and in which mode.
        exported: the ``torch.export.ExportedProgram`` that was read.
        examples: those of the example's arrays that are inputs, by name.
        numbers: of these, by name, among all that the example has.
        paths: of parameters and buffers in the module, by input.
        random: whether it draws random numbers.
        unsettled: lines of the module where whole numbers follow from rounded floats of open sizes: next to a boundary kernels
            may decide otherwise than PyTorch.
    """

    def __init__(self, name: str, captured: Captured, graph: Graph, args: tuple[Any, ...], kwargs: Mapping[str, Any],
                 train: bool, folded: bool) -> None:  # fmt: skip
        bound = _bound(captured, graph)
        self._program = _folded(graph.program, bound) if folded else graph.program
        names = {a.name for a in self._program.args}
        self.bound = bound.only(names)
        self.module, self.example, self.train = captured.module, (args, dict(kwargs)), train
        self.exported = captured.exported
        self.unused, self.updates = graph.unused, dict(graph.updates)
        given = leaves((args, dict(kwargs)))
        self.numbers = {i.name: i.number for i in graph.inputs if i.number >= 0}
        self.examples = {name: given[number] for name, number in self.numbers.items()}
        self.paths = {i.name: i.path for i in graph.inputs if i.number < 0 and i.path}
        self.random, self.unsettled = graph.random, graph.unsettled
        updated = set(self.updates.values())
        self.weights = () if train else tuple(n for n in self.bound if n != SEED and self.paths.get(n) not in updated)
        self._written = captured.loc
        super().__init__(
            _function(self._program),
            cases={"typical": _sizes(self._program, self.examples)},
            inputs={**{n: Held(as_numpy(v)) for n, v in self.bound.items() if n != SEED},
                    **{n: like(as_numpy(x)) for n, x in self.examples.items()}},
            dtypes=(_main_dtype(self._program),),
            name=name,
            doc="imported from PyTorch",
        )  # fmt: skip
        if captured.loc is not None:
            self.file, self.line = captured.loc.file, captured.loc.line

    def __reduce__(self) -> NoReturn:
        raise UsageError(f"{self.name} was imported from PyTorch and cannot be handed to another process",
                         hint="hand over what pk.build gives, or import it there")

    def trace(self, params: Mapping[str, Any] | None = None, dtype: str = "", stars: Mapping[str, int] | None = None,
              sizes: Mapping[str, int] | None = None) -> TensorProgram:  # fmt: skip
        """The tensor program, which was read when the module was imported."""
        self.check_params(params or {})
        if dtype and dtype not in self.dtypes:
            to = DTYPES[dtype].long_name if dtype in DTYPES else dtype
            raise UsageError(f"{self.name} was imported in {self.dtypes[0]}, not {dtype}",
                             hint=f"import the module in {dtype}: module.to(torch.{to})")
        return self._program

    def program(self, dims: Mapping[str, Any] | None = None, params: Mapping[str, Any] | None = None, dtype: str = ""
                ) -> TensorProgram:  # fmt: skip
        return super().program(dims, params, dtype)

    def example_arrays(self) -> dict[str, Any]:
        """The example's arrays and the module's weights by input, as numpy arrays."""
        return {i.name: as_numpy({**self.bound, **self.examples}[i.name]) for i in self.inputs}


def _main_dtype(program: TensorProgram) -> str:
    """That of the first floats, which most of a module is in."""
    dtypes = [tensor_type(a).dtype for a in program.args if a.name not in program.scalars]
    return next((d for d in dtypes if DTYPES[d].is_float), dtypes[0] if dtypes else "f32")


def _sizes(program: TensorProgram, examples: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that open dims have in the example."""
    from portakern.ir.reading import readings

    shapes = {n: tuple(x.shape) for n, x in examples.items()}
    told = readings({a.name: tensor_type(a).shape for a in program.args if a.name in shapes})
    found: dict[str, int] = {}
    for name, reading in told.items():
        found[name] = reading.value(shapes[reading.array][reading.dim], found)
    return found


# ---- what the module holds ------------------------------------------------------------------------------------------


def _bound(captured: Captured, graph: Graph) -> ModuleWeights:
    """The module's parameters, buffers and constants by input; they share its memory."""
    exported, module = captured.exported, captured.module
    live = {*dict(module.named_parameters()), *dict(module.named_buffers())}

    def found(path: str) -> Any:
        if path in live:
            owner, _, name = path.rpartition(".")
            return module.get_submodule(owner), name
        value = exported.state_dict.get(path)
        value = exported.constants.get(path) if value is None else value
        return in_pairs(value.detach()) if value is not None else None

    def value(given: GraphInput) -> Any:
        return as_tensor(graph.constants[given.name]) if given.name in graph.constants else found(given.path)

    held = {i.name: value(i) for i in graph.inputs if i.kind != "USER_INPUT"}
    return ModuleWeights({**{n: x for n, x in held.items() if x is not None}, **({SEED: 0} if graph.random else {})})


def _folded(program: TensorProgram, bound: Mapping[str, Any]) -> TensorProgram:
    """``program`` with numbers in place of the weights that are one number throughout."""
    numbers = {n: v.reshape(-1)[0].item() for n, v in bound.items()
               if n != SEED and v.numel() and bool((v == v.reshape(-1)[0]).all())}  # fmt: skip
    new: dict[Op, Op] = {}
    ops: list[Op] = []
    for arg in program.args:
        if arg.name in numbers:
            of = tensor_type(arg)
            kind = DTYPES[of.dtype].kind
            one = Constant({"float": float, "bool": bool}.get(kind, int)(numbers[arg.name]), of.dtype)
            new[arg] = Expand(one, of.shape, ())
            ops += [one, new[arg]]
        else:
            new[arg] = arg
    for op in program.body.ops:
        new[op] = op.remap(lambda o: new.get(o, o))
        ops.append(new[op])
    args = tuple(a for a in program.args if a.name not in numbers)
    return canonicalise(replace(program, body=Block(args, tuple(ops))))


# ---- the program as a function --------------------------------------------------------------------------------------


def _function(program: TensorProgram) -> Any:
    """``program`` as a function that an operator can be made of, and that other operators can call."""

    def imported(**arrays: Traced) -> dict[str, Traced]:
        return replayed(program, arrays)

    parameters = [inspect.Parameter(a.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_annotation(program, a))
                  for a in program.args]  # fmt: skip
    signature = inspect.Signature(parameters)

    def called(*args: Any, **kwargs: Any) -> Any:
        made = imported(**signature.bind(*args, **kwargs).arguments)
        return made if len(made) > 1 else next(iter(made.values()))

    called.__signature__ = signature  # type: ignore[attr-defined]
    return called


def _annotation(program: TensorProgram, arg: Arg) -> TensorSpec | ScalarSpec:
    of = tensor_type(arg)
    if arg.name in program.scalars:
        return ScalarSpec(of.dtype)
    return TensorSpec(tuple(s if isinstance(s, int) else str(s) for s in of.shape), of.dtype)


def replayed(program: TensorProgram, arrays: Mapping[str, Traced]) -> dict[str, Traced]:
    """The operations of ``program`` once more, on other arrays, whose sizes take the place of its open dims."""
    dims: dict[str, Size] = {}
    for arg in program.args:
        for want, have in zip(tensor_type(arg).shape, arrays[arg.name].shape, strict=True):
            if isinstance(want, Sym) and str(want) in want.names:
                dims.setdefault(str(want), have)
    new: dict[Any, Any] = {a: arrays[a.name].op for a in program.args}
    for op in program.body.ops:
        if not isinstance(op, Yield):
            new[op] = record(substituted(op, new, dims))
    return {name: Traced(new[op]) for name, op in zip(program.outputs, program.results, strict=True)}
