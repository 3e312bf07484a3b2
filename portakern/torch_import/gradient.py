"""The backward pass of a module as a module of its own, which is imported like any other.

PyTorch's autograd writes it: the gradients of a scalar product of the module's results with given arrays, by the floating-point
inputs and then by the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portakern.torch_import.rewritten import rewritten
from portakern.torch_import.trees import leaves


def gradient_of(module: Any, args: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """A module that computes the gradients of ``module`` at ``args``, and example inputs of it.

    Its inputs are those of ``module`` and a gradient for each floating-point result (random numbers in the example); its
    results are a gradient for each floating-point input and each parameter, in their order.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    args = tuple(args)
    floats = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    names = [name for name, _ in module.named_parameters()]
    state = {name: x.detach() for name, x in module.named_buffers()}

    def results(parameters: Sequence[Any], *inputs: Any) -> tuple[Any, ...]:
        given = dict(zip(names, parameters, strict=True))
        made = torch.func.functional_call(module, {**state, **given}, inputs)
        return tuple(x for x in leaves(made) if isinstance(x, torch.Tensor) and x.is_floating_point())

    def gradients(parameters: Sequence[Any], inputs: Sequence[Any], seeds: Sequence[Any]) -> tuple[Any, ...]:
        def of_floats(parameters: Sequence[Any], *moved: Any) -> tuple[Any, ...]:
            return results(parameters, *_with(inputs, floats, moved))

        back = torch.func.vjp(of_floats, parameters, *(inputs[i] for i in floats))[1]
        by_parameters, *by_inputs = back(tuple(seeds))
        return (*by_inputs, *by_parameters)

    parameters = [p.detach() for p in module.parameters()]
    args = tuple(x.detach() if isinstance(x, torch.Tensor) else x for x in args)
    with rewritten():
        seeds = [torch.randn_like(x) for x in results(parameters, *args)]
        graph = make_fx(gradients)(parameters, args, seeds)
    return _backward(torch)(module, graph, len(args)), (*args, *seeds)


def _with(inputs: Sequence[Any], places: Sequence[int], others: Sequence[Any]) -> list[Any]:
    filled = list(inputs)
    for place, other in zip(places, others, strict=True):
        filled[place] = other
    return filled


def _backward(torch: Any) -> Any:
    class Backward(torch.nn.Module):
        """``graph`` on the parameters of ``module``, which stay its own."""

        def __init__(self, module: Any, graph: Any, count: int) -> None:
            super().__init__()
            self.of, self.passed, self.count = module, graph, count  # `graph` is what PyTorch's own modules of graphs have

        def forward(self, *given: Any) -> Any:
            return self.passed(list(self.of.parameters()), given[: self.count], list(given[self.count :]))

    return Backward
