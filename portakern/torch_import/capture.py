"""A module or function as a graph of core ATen operations, by ``torch.export``."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from portakern.errors import IRError, PortakernError, SpecError, UsageError
from portakern.ir.core import Loc
from portakern.ir.size import Size, Sym, parse_size
from portakern.spec.location import line_at
from portakern.torch_import.aten.without import KEPT, LINES, base_of
from portakern.torch_import.callables import as_module, code_of, name_of
from portakern.torch_import.examples import check_examples, is_traced, listed
from portakern.torch_import.known import known_numbers
from portakern.torch_import.refusals import is_about_numbers, is_about_numpy, refusal
from portakern.torch_import.rewritten import rewritten
from portakern.torch_import.surroundings import converted_in_place, quiet, unchanged_globals, unchecked_numbers
from portakern.torch_import.trees import flattened, leaves, mapped, nested, plain

Dynamic = Mapping[str, Any] | Sequence[Any] | None


@dataclass(frozen=True)
class Captured:
    """An exported program with what was exported.

    Args:
        exported: the ``torch.export.ExportedProgram`` in core ATen.
        module: the module it came from; a module made of the function, where it was one.
        loc: where the module or function is written.
        symbols: the sizes that the graph's symbols stand for.
    """

    exported: Any
    module: Any
    loc: Loc | None
    symbols: Mapping[str, Size]


def capture(given: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic: Dynamic, train: bool,
            fixed: bool = False) -> Captured:  # fmt: skip
    """Exports ``given`` on example inputs.  With ``fixed`` Python may ask for the numbers of buffers, which are those of now.

    Raises:
        UsageError: the example inputs do not fit, ``dynamic`` names what there is not, or the module does not run.
        SpecError: PyTorch cannot export it; at the module's line, with what is wrong there.
    """
    import torch

    module = as_module(given, args, kwargs)
    name = name_of(given)
    check_examples(name, module, args, kwargs)
    loc = _line_of(given)
    args, kwargs = _apart((args, dict(kwargs)), module)
    simple, named = mapped(lambda x: x if is_traced(x) else None, plain((args, kwargs)))
    shapes = _shapes(module.forward, simple, named, dynamic)

    def exported(gradients: bool, known: bool, fixed: bool, strict: bool) -> Any:
        with (in_mode(module, train), state_as_buffers(module), _buffers_once(module), torch.set_grad_enabled(gradients),
              quiet(), unchecked_numbers(), converted_in_place(), rewritten(), _recurrences_of_one_step(),
              _followed(module, args, kwargs, known, fixed) as asked_for):  # fmt: skip
            found = torch.export.export(module, simple, named, dynamic_shapes=shapes.asked, strict=strict)
            found = found.run_decompositions(_decompositions())
        _refuse_changing(asked_for, found, loc)
        return found

    try:
        with unchanged_globals(given, module):
            made = _persistently(exported, fixed, stateful=any(has_state(part) for part in module.modules()))
    except PortakernError:
        raise
    except Exception as error:  # whatever the module's own code or PyTorch raises
        run = functools.partial(_run, module, args, kwargs, train)
        arrays = any(isinstance(x, torch.Tensor) for x in leaves((args, kwargs)))
        raise refusal(error, module, loc, run, listed(args, kwargs), arrays) from None
    return Captured(made, module, loc, shapes.symbols(made))


def _persistently(exported: Callable[[bool, bool, bool, bool], Any], fixed: bool, stateful: bool) -> Any:
    """What ``exported(gradients, known, fixed, strict)`` gives: with gradients if a forward asks autograd for some, with
    numbers that are known, and then with those of buffers, if Python cannot go on without.  Numpy's functions are followed by
    reading Python's bytecode (``strict``), which knows them as PyTorch's; what is refused there, is refused as before."""
    gradients, known = False, fixed
    while True:
        try:
            return exported(gradients, known, fixed, False)
        except Exception as error:  # whatever PyTorch raises
            if "require grad" in str(error) and not gradients:
                gradients = True
            elif is_about_numbers(error) and not known:
                known = True
            elif is_about_numbers(error) and stateful and not fixed:
                fixed = True
            elif is_about_numpy(error):
                with contextlib.suppress(Exception):
                    return exported(gradients, False, False, True)
                raise
            else:
                raise


def _refuse_changing(asked_for: set[str], exported: Any, loc: Loc | None) -> None:
    """Raises :class:`SpecError` if Python asked for the numbers of a buffer that the module changes: those of the next call are
    others."""
    for path in asked_for & set(exported.graph_signature.buffers_to_mutate.values()):
        raise SpecError(f"Python decides by the numbers of {path}, which the module changes", where=str(loc or ""),
                        hint=f"count {path} outside of the module, or choose by it with torch.where(condition, yes, no)")


def _run(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], train: bool) -> None:
    """The module on copies of the example, which leaves the module's state and PyTorch's random numbers as they were."""
    import torch

    state = [(b, b.clone()) for b in module.buffers()]
    given = mapped(lambda x: x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x,
                   (args, dict(kwargs)))  # fmt: skip
    with in_mode(module, train), torch.random.fork_rng(devices=[]), quiet():
        try:
            module(*given[0], **given[1])
        finally:
            for buffer, before in state:
                buffer.data.copy_(before)


def _apart(tree: tuple[tuple[Any, ...], dict[str, Any]], module: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs, each a tensor of its own: PyTorch takes one tensor in two places for one input."""
    import torch

    seen = {id(x) for x in (*module.parameters(), *module.buffers())}

    def own(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        again = id(x) in seen
        seen.add(id(x))
        return x.detach().clone() if again else x

    return mapped(own, tree) if len({id(x) for x in leaves(tree)} | seen) < len(leaves(tree)) + len(seen) else tree


@contextlib.contextmanager
def _followed(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: bool, fixed: bool
              ) -> Iterator[set[str]]:  # fmt: skip
    """``module`` taking and giving arrays in place of the objects that hold them, which torch.export does not open, and
    nothing in place of what is neither array nor number nor text: that is fixed by the import.  With ``known`` Python gets the
    numbers that are known, with ``fixed`` those of buffers, too.  Gives the paths of buffers that Python asked for."""
    own, forward = vars(module).get("forward"), module.forward
    given, form = flattened((args, dict(kwargs)))
    others = {n: x for n, x in enumerate(given) if not is_traced(x)}
    state = dict(module.named_buffers()) if fixed else {}
    asked_for: set[str] = set()

    @functools.wraps(forward)
    def plainly(*args: Any, **kwargs: Any) -> Any:
        if form.objects or others:
            args, kwargs = nested([others.get(n, x) for n, x in enumerate(leaves((args, kwargs)))], form)
        # Not where it is not asked for: `torch.cond` follows its branches under no mode.
        with known_numbers(module, state, asked_for) if known else contextlib.nullcontext():
            return plain(forward(*args, **kwargs))

    module.forward = plainly
    try:
        yield asked_for
    finally:
        del module.forward
        if own is not None:
            module.forward = own


@contextlib.contextmanager
def _recurrences_of_one_step() -> Iterator[None]:
    """Recurrent layers are kept whole, and PyTorch learns the shapes of their results by running every step on fake
    arrays.  One step says the same."""
    from torch._decomp import decompositions

    def of_one_step(layer: Callable[..., Any]) -> Callable[..., Any]:
        def shaped(lines: Any, states: Any, *args: Any, **kwargs: Any) -> Any:
            shown, last = layer(lines[:1], states, *args, **kwargs)
            several = isinstance(last, tuple | list)
            last = tuple(map(_shaped_as, last, states)) if several else _shaped_as(last, states)
            return shown.new_empty((lines.shape[0], *shown.shape[1:])), last

        return shaped

    names = ("one_layer_lstm", "one_layer_rnn")
    found = {name: layer for name in names if (layer := getattr(decompositions, name, None)) is not None}
    try:
        for name, layer in found.items():
            setattr(decompositions, name, of_one_step(layer))
        yield
    finally:
        for name, layer in found.items():
            setattr(decompositions, name, layer)


def _shaped_as(last: Any, first: Any) -> Any:
    """A state after the last step, which some versions of PyTorch (2.11) say has a dim more than the first one."""
    return last.reshape(first.shape)


def _line_of(given: Any) -> Loc | None:
    code = code_of(given)
    return line_at(code.co_filename, code.co_firstlineno) if code is not None else None


@contextlib.contextmanager
def in_mode(module: Any, train: bool) -> Iterator[None]:
    """``module`` in training or evaluation; each of its parts is afterwards as it was, with the attributes that it had.

    What a forward keeps for the next one, as a table for a size, would be of fake arrays, or of float64."""
    before = [(part, _attributes(part)) for part in module.modules()]
    module.train(train)
    try:
        yield
    finally:
        for part, attributes in before:
            held = vars(part)
            for name in [k for k in held if k not in attributes and k not in _REGISTERED]:
                del held[name]
            for name, (value, content) in attributes.items():
                held[name] = value
                if content is not None and value != content:
                    value.clear()
                    value.extend(content) if isinstance(value, list) else value.update(content)


_REGISTERED = frozenset({"_parameters", "_buffers", "_modules"})
"""Where a module keeps what it registers, which others look after."""


def _attributes(part: Any) -> dict[str, tuple[Any, Any]]:
    """The attributes of a module by name, each with a copy of what is in it if it is a container."""
    return {k: (v, copy.copy(v) if isinstance(v, list | dict | set) else None) for k, v in vars(part).items()
            if k not in _REGISTERED}  # fmt: skip


def has_state(part: Any) -> bool:
    """Whether a module itself holds tensors that are no parameters."""
    import torch

    return any(isinstance(x, torch.Tensor) for x in (*part._buffers.values(), *vars(part).values()))


@contextlib.contextmanager
def state_as_buffers(module: Any) -> Iterator[None]:
    """Tensors that are plain attributes, as a hidden state that ``forward`` sets, as buffers: their new values are outputs."""
    import torch

    moved = [(part, name, x) for part in module.modules() for name, x in list(vars(part).items())
             if isinstance(x, torch.Tensor)]
    for part, name, x in moved:
        delattr(part, name)
        part.register_buffer(name, x, persistent=False)
    try:
        yield
    finally:
        for part, name, x in moved:
            del part._buffers[name]
            part._non_persistent_buffers_set.discard(name)
            setattr(part, name, x)


@contextlib.contextmanager
def _buffers_once(module: Any) -> Iterator[None]:
    """A buffer that parts of ``module`` have under several names, as ``register_buffer("mean", norm.running_mean)`` makes them,
    under its first one; the others read and write that.  PyTorch does not export what is written to a buffer of two names."""
    first: dict[int, tuple[Any, str]] = {}
    changed: list[tuple[Any, type, dict[str, Any]]] = []
    for part in module.modules():
        held, own = dict(part._buffers), type(part)
        places = {name: first.setdefault(id(x), (part, name)) for name, x in held.items() if x is not None}
        others = {name: place for name, place in places.items() if place != (part, name)}
        if others:
            changed.append((part, own, held))
            for name in others:
                del part._buffers[name]
            part.__class__ = type(own.__name__, (own,), {"__module__": own.__module__, "__qualname__": own.__qualname__,
                                                         **{name: _kept_at(*place) for name, place in others.items()}})
    try:
        yield
    finally:
        for part, own, held in changed:
            part.__class__ = own
            part._buffers.clear()
            part._buffers.update(held)


def _kept_at(part: Any, name: str) -> property:
    return property(lambda self: getattr(part, name), lambda self, x: setattr(part, name, x))


@cache
def _decompositions() -> Any:
    """PyTorch's decompositions to core ATen, without those of what has a rule as it is."""
    import torch

    table = torch.export.default_decompositions()
    for key in list(table.keys()):
        if base_of(str(key)) in (*KEPT, *LINES):
            del table[key]
    return table


# ---- open dims ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shapes:
    """``asked`` as torch.export takes it; ``names`` the name of dim d of each flattened input."""

    asked: Any
    names: tuple[Mapping[int, str], ...]

    def symbols(self, exported: Any) -> dict[str, Size]:
        """What each symbol of the graph stands for: the size whose name was given to the dim that it is."""
        found: dict[str, Size] = {}
        users = [s.arg.name for s in exported.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        nodes = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
        for name, dims in zip(users, self.names, strict=False):
            shape = getattr(nodes[name].meta.get("val"), "shape", ())
            for dim, text in dims.items():
                if isinstance(shape[dim], int):
                    continue
                expression = shape[dim].node.expr
                _name(found, expression, parse_size(text))
        return found


def _name(found: dict[str, Size], expression: Any, size: Size) -> None:
    """Reads ``size`` as what ``expression``, a symbol or a multiple of one, is."""
    symbols = sorted(expression.free_symbols, key=str)
    if expression.is_Symbol:
        found.setdefault(str(expression), size)
    elif len(symbols) == 1 and str(symbols[0]) not in found:
        plain = re.sub(r"\W", "", str(size))
        found[str(symbols[0])] = Sym.named(f"{plain}_")


def _shapes(forward: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic: Dynamic) -> _Shapes:
    import torch

    if not dynamic:
        return _Shapes(None, ())
    flat: list[Mapping[int, str]] = []
    bound = _bound(forward, args, kwargs)
    if not isinstance(dynamic, Mapping) and len(dynamic) > len(bound):
        raise UsageError(f"dynamic has {len(dynamic)} entries for {len(bound)} inputs: {', '.join(bound)}")
    by_name = dict(dynamic) if isinstance(dynamic, Mapping) else dict(zip(bound, dynamic, strict=False))
    for name in by_name:
        if name not in bound:
            raise UsageError(f"dynamic names {name!r}, which is no input", hint=f"inputs are {', '.join(bound)}")

    def asked(value: Any, dims: Any) -> Any:
        if isinstance(value, torch.Tensor):
            named = _named_dims(value, dims)
            flat.append(named)
            return dict.fromkeys(named, torch.export.Dim.DYNAMIC) or None
        if isinstance(value, list | tuple):
            inner = dims if isinstance(dims, list | tuple) else [None] * len(value)
            return type(value)(asked(v, d) for v, d in zip(value, inner, strict=True))
        if isinstance(value, dict):
            return {k: asked(v, (dims or {}).get(k)) for k, v in value.items()}
        if value is not None:
            flat.append({})
        return None

    return _Shapes({name: asked(value, by_name.get(name)) for name, value in bound.items()}, tuple(flat))


def _bound(forward: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(inspect.signature(forward).bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise UsageError(f"the example inputs do not fit: {error}") from None


def _named_dims(value: Any, dims: Any) -> dict[int, str]:
    """{dim: name} of one array, from a mapping or from one entry per dim."""
    if dims is not None and (isinstance(dims, str) or not isinstance(dims, Mapping | Sequence)):
        raise UsageError(f"dynamic gives {dims!r} as the dims of an array", hint='write {"x": {0: "B"}}')
    pairs = dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
    found: dict[int, str] = {}
    for dim, name in pairs:
        if name is None:
            continue
        if not -value.ndim <= dim < value.ndim:
            raise UsageError(f"dynamic names dim {dim} of an array of {value.ndim} dims")
        text = name if isinstance(name, str) else getattr(name, "__name__", None)
        if not text:
            raise UsageError(f"dynamic gives {name!r} as the name of a dim", hint='write {"x": {0: "B"}}')
        try:
            parse_size(text)
        except IRError:
            raise UsageError(f"dynamic gives {text!r} as the name of a dim", hint="a name is one word, or 2*B") from None
        found[dim % value.ndim] = text
    return found
