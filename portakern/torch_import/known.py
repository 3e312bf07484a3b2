"""Numbers inside arrays that Python asks for, and that follow from nothing that a call gives: they are known at the import.

``torch.export`` follows Python on arrays without numbers, so it refuses ``if mask.any():`` even where ``mask`` is made of
``torch.arange``.  Here the graph that was recorded so far says what the array follows from, and PyTorch computes it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.overrides import TorchFunctionMode

LARGEST = 1 << 20
"""Elements of an array above which its numbers are not followed."""

SIZED = frozenset({"pad", "reshape", "view", "expand", "repeat", "split", "zeros", "ones", "full", "new_zeros", "new_ones",
                   "new_full", "permute", "roll"})  # fmt: skip
"""Operations whose sequences are numbers, and no arrays to join."""


NUMBERED = frozenset({"batch_norm", "instance_norm", "layer_norm", "group_norm"})
"""Functions that take arrays of one for their numbers (eps, momentum), and ask for them in C++."""


class Values:
    """The arrays of a graph that is being recorded whose numbers are known, each with the buffers that it follows from.

    Operations in place are done as well, in the order of the graph.  What an unknown array was written to is unknown.
    """

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.origins: dict[Any, frozenset[str]] = {}
        self.spoilt: set[int] = set()
        self.last: Any = None

    def give(self, node: Any, tensor: Any, path: str) -> None:
        self._keep(node, _apart_from_modes(_clone, [tensor], {}), frozenset([path]))

    def of(self, node: Any, root: Any) -> Any:
        """The tensor of ``node``, or ``None``; ``root`` holds the constants of the graph."""
        self._follow(node.graph, root)
        found = self.values.get(node)
        return None if found is None or self._is_spoilt(found) else found

    def _follow(self, graph: Any, root: Any) -> None:
        node = graph._root.next if self.last is None else self.last.next
        while node is not graph._root:
            self._visit(node, root)
            self.last, node = node, node.next

    def _visit(self, node: Any, root: Any) -> None:
        if node.op == "get_attr":
            tensor = getattr(root, str(node.target), None)
            if hasattr(tensor, "untyped_storage") and not _is_fake(tensor):
                self._keep(node, _apart_from_modes(_clone, [tensor], {}), frozenset())
        elif node.op == "call_function":
            before = node.all_input_nodes
            if _is_followed(node) and all(self._is_known(n) for n in before):
                self._keep(node, self._computed(node), frozenset().union(*(self.origins[n] for n in before)))
            else:
                for n in _written(node):
                    if n in self.values:
                        self.spoilt.add(_memory(self.values[n]))

    def _keep(self, node: Any, value: Any, origin: frozenset[str]) -> None:
        self.values[node], self.origins[node] = value, origin

    def _computed(self, node: Any) -> Any:
        from torch.fx.node import map_arg

        args, kwargs = (map_arg(x, lambda n: self.values[n]) for x in (node.args, node.kwargs))
        return _apart_from_modes(node.target, args, kwargs)

    def _is_known(self, node: Any) -> bool:
        return node in self.values and not self._is_spoilt(self.values[node])

    def _is_spoilt(self, value: Any) -> bool:
        return bool(self.spoilt) and hasattr(value, "untyped_storage") and _memory(value) in self.spoilt


def _clone(tensor: Any) -> Any:
    return tensor.detach().clone()


def _memory(tensor: Any) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_fake(tensor: Any) -> bool:
    return type(tensor).__name__ == "FakeTensor"


def _is_followed(node: Any) -> bool:
    """Whether a node gives the same numbers each time, and not too many of them."""
    import torch

    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    fakes = node.meta.get("val")
    return all(isinstance(s, int) for f in _tensors(fakes) for s in f.shape) and all(
        f.numel() <= LARGEST for f in _tensors(fakes))  # fmt: skip


def _tensors(fakes: Any) -> list[Any]:
    return [f for f in (fakes if isinstance(fakes, list | tuple) else [fakes]) if hasattr(f, "shape")]


def _written(node: Any) -> list[Any]:
    """The arrays that a node changes in place."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return []
    given = {**dict(zip((a.name for a in schema.arguments), node.args, strict=False)), **node.kwargs}
    writes = [given.get(a.name) for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return [n for x in writes for n in (x if isinstance(x, list | tuple) else [x]) if hasattr(n, "all_input_nodes")]


# ---- what Python asks for -------------------------------------------------------------------------------------------


def known_numbers(module: Any, state: Mapping[str, Any], asked_for: set[str]) -> TorchFunctionMode:
    """The mode under which a forward is followed.

    Args:
        state: the module's buffers by path that are fixed by the import.
        asked_for: to which the paths of buffers are added whose numbers Python gets.
    """
    return _mode()(module, state, asked_for)


@cache
def _mode() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    numbers = {tensor.item: lambda x: x.item(), tensor.__bool__: bool, tensor.__int__: int, tensor.__float__: float,
               tensor.__index__: int, tensor.tolist: lambda x: x.tolist()}  # fmt: skip
    counted = {torch.nonzero, tensor.nonzero, torch.argwhere, tensor.argwhere, torch.unique, tensor.unique, torch.bincount,
               tensor.bincount, torch.unique_consecutive, tensor.unique_consecutive}  # fmt: skip

    class Known(TorchFunctionMode):
        def __init__(self, module: Any, state: Mapping[str, Any], asked_for: set[str]) -> None:
            super().__init__()
            self.module, self.state, self.asked_for = module, state, asked_for
            self.known, self.begun = Values(), False

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if function in numbers and not self.stays(function, args[0]) and (x := self.value(args[0])) is not None:
                return _apart_from_modes(numbers[function], [x], {})
            if function in counted or (function in (torch.where, tensor.where) and len(args) == 1):
                found = [self.value(x) if isinstance(x, tensor) else x for x in args]
                if all(x is not None for x in found):
                    return _as_constants(_apart_from_modes(function, found, kwargs))
            if function is tensor.__getitem__ or (function is tensor.__setitem__ and _are_several(args[2])):
                args = (args[0], self.places(args[1]), *args[2:])
            elif any(isinstance(x, list | tuple) for x in args):
                sized = getattr(function, "__name__", "") in SIZED
                args = tuple(self.sizes(x, sized) if type(x) in (list, tuple) else x for x in args)
            if getattr(function, "__name__", "") in NUMBERED:
                args, kwargs = tuple(self.number(x) for x in args), {k: self.number(x) for k, x in kwargs.items()}
            return function(*args, **kwargs)

        def number(self, x: Any) -> Any:
            """A number in place of an array of one without dims, if it is known."""
            known = self.value(x) if isinstance(x, tensor) and not x.ndim else None
            return x if known is None else _apart_from_modes(lambda v: v.item(), [known], {})

        def stays(self, function: Any, x: Any) -> bool:
            """Whether a number is a scalar of the program, which may be another one at the next call."""
            return bool(self.state) and function in (tensor.item, tensor.__float__) and x.is_floating_point()

        def value(self, x: Any) -> Any:
            """The numbers of a tensor of the graph, or ``None``."""
            from torch.fx.experimental.proxy_tensor import get_proxy_mode

            node, mode = self.node_of(x), get_proxy_mode()
            if node is None or mode is None:
                return None
            if not self.begun:
                self.begin()
            found = self.known.of(node, mode.tracer.root)
            if found is not None:
                self.asked_for |= self.known.origins[node]
            return found

        def begin(self) -> None:
            self.begun = True
            for path, fake in self.module.named_buffers():
                node = self.node_of(fake) if path in self.state else None
                if node is not None and self.state[path].numel() <= LARGEST:
                    self.known.give(node, self.state[path], path)

        def node_of(self, x: Any) -> Any:
            from torch.fx.experimental import proxy_tensor

            mode = proxy_tensor.get_proxy_mode()
            if mode is None or not isinstance(x, tensor):
                return None
            slot = proxy_tensor.get_proxy_slot(x, mode.tracer, None)
            return None if slot is None else slot.proxy.node

        def sizes(self, each: Any, sized: bool = False) -> Any:
            """Sizes with whole numbers for arrays of one, which PyTorch takes for numbers among others, or everywhere where
            an operation takes sizes."""
            arrays = [isinstance(x, tensor) for x in each]
            if not any(arrays) or (all(arrays) and not sized):
                return each
            return type(each)(self.size(x) for x in each)

        def size(self, x: Any) -> Any:
            whole = isinstance(x, tensor) and not x.ndim and not x.is_floating_point()
            known = self.value(x) if whole else None
            return x if known is None else _apart_from_modes(int, [known], {})

        def places(self, index: Any) -> Any:
            """An index with the places where a mask holds instead of the mask, if these are known."""
            each = index if isinstance(index, tuple) else (index,)
            found: list[Any] = []
            for x in each:
                mask = isinstance(x, tensor) and x.dtype == torch.bool and x.ndim > 0
                known = self.value(x) if mask else None
                if isinstance(x, slice):
                    x = slice(*self.sizes((x.start, x.stop, x.step)))
                found += [x] if known is None else _as_constants(_apart_from_modes(torch.where, [known], {}))
            return index if len(found) == len(each) and all(a is b for a, b in zip(found, each, strict=True)) else tuple(found)

    return Known


def _are_several(x: Any) -> bool:
    """Whether numbers are dealt out to places; one number where a mask holds is a choice for each element."""
    return hasattr(x, "numel") and x.numel() != 1


def _apart_from_modes(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    """What PyTorch computes: nothing is recorded."""
    from torch import no_grad
    from torch._C import DisableTorchFunction
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), DisableTorchFunction(), no_grad():
        return function(*args, **kwargs)


def _as_constants(found: Any) -> Any:
    """Tensors as constants of the graph that is recorded."""
    import torch

    if isinstance(found, list | tuple):
        return tuple(_as_constants(x) for x in found)
    values = _apart_from_modes(torch.Tensor.tolist, [found], {})
    return torch.tensor(values, dtype=found.dtype).reshape(found.shape)
