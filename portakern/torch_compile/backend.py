"""The backend that ``torch.compile`` finds under the name ``portakern``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from portakern.backend import Target
from portakern.errors import PortakernError, UsageError
from portakern.registry import registry
from portakern.study.row import Row
from portakern.study.work import Work, dim_names
from portakern.torch_compile.edges import views_left
from portakern.torch_compile.parts import is_worth_it, left_to_pytorch, supported
from portakern.torch_import.arrays import as_tensor, in_pairs
from portakern.torch_import.aten.without import KEPT, base_of
from portakern.torch_import.fx import graph_of, missing_of
from portakern.torch_import.walk import Graph
from portakern.torch_swap.strided import AsTheyLie

DEFAULT_TARGET = "cpp:cpu"
OPTIONS = ("target", "strict")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """A part of a captured graph: how many operations it has, and its kernels, or why PyTorch does it."""

    operations: tuple[str, ...]
    kernels: int = 0
    eager: str = ""

    def __str__(self) -> str:
        done = f"{self.kernels} kernels" if not self.eager else f"PyTorch: {self.eager}"
        return f"{len(self.operations)} operations ({', '.join(dict.fromkeys(self.operations))}): {done}"


_parts: list[Part] = []


def report() -> tuple[Part, ...]:
    """The parts of every graph that was compiled in this process, in order."""
    return tuple(_parts)


def clear() -> None:
    """Forgets what :func:`report` tells."""
    _parts.clear()


def backend(module: Any, example_inputs: Sequence[Any], options: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
    """Compiles a graph that PyTorch captured.

    Args:
        module: the ``torch.fx.GraphModule``, in operations of torch.
        example_inputs: what it is called with.
        options: ``target`` (``language:device``, ``cpp:cpu`` where not given), and ``strict``, which raises where a part
            that can be imported cannot be built.

    Raises:
        UsageError: an option or the target does not exist.
    """
    from torch._dynamo.backends.common import aot_autograd

    options = dict(options or {})
    for name in options:
        if name not in OPTIONS:
            raise UsageError(f"the backend has no option {name!r}", hint=f"options are {', '.join(OPTIONS)}")
    target = registry().target(str(options.get("target", DEFAULT_TARGET)))
    compiler = _Compiler(target, bool(options.get("strict")))
    return aot_autograd(fw_compiler=compiler, decompositions=_decompositions())(module, example_inputs)


@cache
def _decompositions() -> Any:
    """PyTorch's decompositions to core ATen, without those of what has a rule as it is.

    One of these is wrong in training: of attention on CPUs, whose backward takes logarithms of sums, which it does not give."""
    from torch._decomp import core_aten_decompositions

    return {op: how for op, how in core_aten_decompositions().items() if base_of(str(op)) not in KEPT}


@dataclass(frozen=True)
class _Compiler:
    """Compiles graphs of core ATen, forward or backward."""

    target: Target
    strict: bool

    def __call__(self, module: Any, example_inputs: Sequence[Any]) -> Any:
        import torch
        from torch._functorch._aot_autograd.utils import make_boxed_func
        from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

        refused = missing_of(module)
        goes = supported(refused)
        goes.left_out |= views_left(module, lambda node: goes.is_node_supported({}, node))
        for (name, why), times in left_to_pytorch(module, lambda node: goes.is_node_supported({}, node), refused).items():
            _say(Part((name,) * times, eager=why))
        partitioner = CapabilityBasedPartitioner(module, goes, allows_single_node_partition=True)
        divided = partitioner.fuse_partitions(partitioner.propose_partitions())
        for name, part in list(divided.named_children()):
            if name.startswith("fused_") and (call := self.built(part)) is not None:
                replaced = torch.nn.Module()
                replaced.forward = call
                setattr(divided, name, replaced)
        divided.recompile()
        return make_boxed_func(divided.forward)

    def built(self, part: Any) -> Callable[..., Any] | None:
        """What computes ``part``; ``None`` where PyTorch does."""
        called = [str(n.target) for n in part.graph.nodes if n.op == "call_function"]
        operations = tuple(name for name in called if "getitem" not in name)
        if not is_worth_it(operations):
            _say(Part(operations, eager="it moves elements and computes nothing"))
            return None
        try:
            call, kernels = _kernels(part, self.target)
        except PortakernError as error:
            if self.strict:
                raise
            _say(Part(operations, eager=str(error)))
            return None
        _say(Part(operations, kernels))
        return call


def _say(part: Part) -> None:
    _parts.append(part)
    log.info("%s", part)


def _strides(part: Any, graph: Graph) -> dict[str, tuple[int, ...]]:
    """Strides of the inputs that do not lie contiguously where PyTorch traced the part."""
    given = [n.meta.get("val") for n in part.graph.nodes if n.op == "placeholder"]
    lie = {i.name: given[i.number] for i in graph.inputs if i.number >= 0}
    known = {n: tuple(x.stride()) for n, x in lie.items() if hasattr(x, "stride") and not x.is_contiguous()}
    return {n: strides for n, strides in known.items() if all(isinstance(s, int) for s in (*strides, *lie[n].shape))}


def _kernels(part: Any, target: Target) -> tuple[Callable[..., Any], int]:
    """A function of the part's inputs, and how many kernels it launches."""
    import torch

    graph = graph_of(part)
    if graph.random:
        raise PortakernError("random", "random numbers stay PyTorch's, whose generator says which come next")
    program = graph.program
    work = Work(program, dim_names(program.args), dict.fromkeys(program.dims, 8), {}, str(target), {},
                Row(program.name, str(target)))  # fmt: skip
    run = AsTheyLie.of(work, _strides(part, graph))
    built = run.built
    given = next(n for n in part.graph.nodes if n.op == "output").args[0]
    alone = not isinstance(given, tuple | list)
    pairs = {n for n, x in enumerate([given] if alone else given) if x.meta["val"].is_complex()}

    @cache
    def constant(name: str, device: Any) -> Any:
        return as_tensor(graph.constants[name]).to(device)

    def call(*inputs: Any) -> Any:
        device = next(x.device for x in inputs if hasattr(x, "device"))
        made = run([in_pairs(inputs[i.number].detach()) if i.number >= 0 else constant(i.name, device) for i in graph.inputs])
        if pairs:
            each = made if isinstance(made, tuple) else (made,)
            made = tuple(torch.view_as_complex(x) if n in pairs else x for n, x in enumerate(each))
            return made[0] if alone else made
        return made if alone or isinstance(made, tuple) else (made,)

    return call, len(built.program.kernels)
