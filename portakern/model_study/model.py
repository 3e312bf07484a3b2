"""``pk.model(module, example_inputs).plan(targets)``: the porting study of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portakern.backend import Target
from portakern.check.sampled import affordable
from portakern.errors import UsageError
from portakern.ir import oracle
from portakern.ir.tensor import tensor_type
from portakern.model_study.making import Expected, Progress, plans
from portakern.model_study.roof import needs_of_model
from portakern.model_study.study import ModelStudy
from portakern.registry import registry
from portakern.study.provenance import environment
from portakern.study.work import like_typical, works
from portakern.torch_import import from_torch
from portakern.torch_import.agreement import in_float64, reached_by_random, widened
from portakern.torch_import.operator import Weights


def model(
    module: Any,
    example_inputs: Any,
    train: bool = False,
    weights: Weights = "inputs",
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
) -> Model:
    """A PyTorch module or function, to study on many targets.

    Args:
        module, example_inputs, train, weights, kwargs, name: as for :func:`portakern.from_torch`.

    Raises:
        UsageError: what is given is no module or function.
        SpecError, MissingRuleError: it cannot be imported; all reasons are listed with the module's lines.
        ToolMissing: torch is not installed.
    """
    if not callable(module):
        raise UsageError(f"a model is a torch.nn.Module or a function of tensors, not {type(module).__name__}",
                         hint="pk.model(module, (x,)), with example inputs that it can be called with")
    return Model(module, example_inputs, train, weights, kwargs, name)


class Model:
    """An imported module.  ``operator`` is what :func:`portakern.from_torch` gives of it."""

    def __init__(self, module: Any, example_inputs: Any, train: bool, weights: Weights, kwargs: Mapping[str, Any] | None,
                 name: str) -> None:  # fmt: skip
        self.operator = from_torch(module, example_inputs, train=train, weights=weights, kwargs=kwargs, name=name)

    def __repr__(self) -> str:
        return f"<model {self.operator.name}, {self._inputs()}>"

    def plan(self, targets: str | Sequence[str | Target], jobs: int = 2, progress: Progress | None = None) -> ModelStudy:
        """Where the time goes on each target, what each kernel could gain, and so the model.

        Kernels are compiled for each target that has a compiler here, timed where its silicon is here, and estimated where
        there is a model of it; what failed is in the study.

        Args:
            targets: names or patterns, as a list or separated by commas.
            jobs: number of worker processes.
            progress: called with (jobs done, jobs known so far, target).

        Raises:
            UsageError: a target does not exist.
        """
        op = self.operator
        patterns = targets if isinstance(targets, str) else ",".join(map(str, targets))
        asked = works(like_typical(op, {}, {}), registry().match(patterns), [op.dtypes[0]])
        bound = asked[0].program
        made = plans(op, asked, op.example_arrays(), self._reference, jobs, progress)
        weights = sum(np.asarray(x).nbytes for n, x in op.example_arrays().items() if n in op.paths)
        return ModelStudy(op.name, self._inputs(), tuple(made), needs_of_model(bound), weights, environment())

    def _inputs(self) -> str:
        op = self.operator
        program = op.program(op.typical.dims)
        types = {a.name: tensor_type(a) for a in program.args if a.name in op.examples}
        return ", ".join(f"{n} {t.dtype}[{', '.join(map(str, t.shape))}]" for n, t in types.items())

    def _reference(self) -> Expected:
        """The outputs of the module in float64; of the oracle, where it can be afforded, those that random numbers reach and
        the buffers' new values."""
        op = self.operator
        program = op.program(op.typical.dims)
        random = reached_by_random(program)
        names = [n for n in program.outputs if n not in op.updates]
        theirs = {n: x for n, x in zip(names, in_float64(op), strict=False) if n not in random}
        rest = [n for n in program.outputs if n not in theirs]
        if not rest or not affordable(program):
            return Expected(theirs)
        ours = oracle.evaluate(program, widened(op.example_arrays()))
        return Expected(theirs, {n: ours[n] for n in rest})
