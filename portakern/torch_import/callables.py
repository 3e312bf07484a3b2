"""What can be imported besides modules, each as a module: functions of Python and of PyTorch, methods, partial calls, objects
that are called."""

from __future__ import annotations

import copy
import functools
import inspect
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from portakern.errors import SpecError, UsageError


def as_module(given: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """``given`` as a ``torch.nn.Module`` that can be called with ``args`` and ``kwargs``.

    A method of a module, or a partial call of one, is a view of that module with another forward: its parameters keep
    their paths.

    Raises:
        UsageError: it cannot be called.
        SpecError: it is TorchScript, whose Python is gone.
    """
    import torch

    given = getattr(given, "_orig_mod", given)  # of torch.compile
    _refuse_scripts(given)
    if isinstance(given, torch.nn.Module):
        return given
    if isinstance(given, type) and issubclass(given, torch.nn.Module):
        raise UsageError(f"{given.__name__} is the class of a module",
                         hint=f"import a module: pk.from_torch({given.__name__}(...), ...)")  # fmt: skip
    if not callable(given):
        raise UsageError(f"{repr(given)[:80]} is neither a torch.nn.Module nor a function", hint="pk.from_torch(module, (x,))")
    owner = owner_of(given)
    if owner is not None:
        _refuse_scripts(owner)
        return owner if given == owner.forward else _view(owner, _forward_of(given))
    forward = staticmethod(_with_signature(_named_forward(given), args, kwargs))
    return type("Function", (torch.nn.Module,), {"forward": forward})()


def owner_of(given: Any) -> Any:
    """The module whose method ``given`` is, or of which it is a partial call; ``None`` for others."""
    import torch

    while isinstance(given, functools.partial):
        given = given.func
    owner = given if isinstance(given, torch.nn.Module) else getattr(given, "__self__", None)
    return owner if isinstance(owner, torch.nn.Module) else None


def name_of(given: Any) -> str:
    """What ``given`` is called: the name of a function, the class of a module or object."""
    import torch

    given = getattr(given, "_orig_mod", given)
    while isinstance(given, functools.partial):
        given = given.func
    if isinstance(given, torch.nn.Module):
        return type(given).__name__
    return getattr(given, "__name__", "").replace("<lambda>", "a lambda") or type(given).__name__


def code_of(given: Any) -> Any:
    """The code of a function, method or object that is called; ``None`` for what is not written in Python."""
    import torch

    given = getattr(given, "_orig_mod", given)
    while isinstance(given, functools.partial):
        given = given.func
    function = given.forward if isinstance(given, torch.nn.Module) and hasattr(given, "forward") else given
    found = getattr(inspect.unwrap(function), "__code__", None)
    called = inspect.getattr_static(type(function), "__call__", None)  # of an object
    return found if found is not None else getattr(called, "__code__", None)


def _refuse_scripts(given: Any) -> None:
    import torch

    if isinstance(given, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        raise SpecError("TorchScript cannot be imported: the Python that it was made of is gone",
                        hint="import the module or function that torch.jit was given")  # fmt: skip


# ---- methods --------------------------------------------------------------------------------------------------------


def _view(owner: Any, forward: Callable[[Any], Any]) -> Any:
    """A module over the parameters, buffers and parts of ``owner``, with ``forward`` of it and without its hooks, which a
    call of the method does not run."""
    view = copy.copy(owner)
    view._forward_hooks, view._forward_pre_hooks = OrderedDict(), OrderedDict()
    view.forward = forward(view)
    return view


def _forward_of(given: Any) -> Callable[[Any], Any]:
    """What makes the forward of a view: the same method, or partial call, of another module."""
    import torch

    if isinstance(given, functools.partial):
        of = _forward_of(given.func)
        return lambda view: functools.partial(of(view), *given.args, **given.keywords)
    if isinstance(given, torch.nn.Module):
        return lambda view: types.MethodType(type(given).forward, view)
    return lambda view: types.MethodType(given.__func__, view)


# ---- functions ------------------------------------------------------------------------------------------------------


def _named_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` by the name of the frames whose lines PyTorch keeps."""
    code = getattr(function, "__code__", None)
    if code is None or not isinstance(function, types.FunctionType):
        return function
    renamed = types.FunctionType(code.replace(co_name="forward"), function.__globals__, "forward", function.__defaults__,
                                 function.__closure__)  # fmt: skip
    renamed.__kwdefaults__ = function.__kwdefaults__
    return renamed


def _with_signature(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """``function`` with parameters that can be read.  Functions written in C have none: they get the names that PyTorch's own
    list of overridable functions has, where these fit the call."""
    try:
        inspect.signature(function)
        return function
    except (TypeError, ValueError):
        pass

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    signature = _listed_signature(function)
    if signature is not None and _fits(signature, args, kwargs):
        forward.__signature__ = signature  # type: ignore[attr-defined]
    return forward


def _listed_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    from torch.overrides import get_testing_overrides

    if isinstance(function, functools.partial):
        whole = _listed_signature(function.func)
        return whole and _rest(whole, function)
    listed = get_testing_overrides().get(function) if isinstance(function, Hashable) else None
    if listed is None:
        return None
    signature = inspect.signature(listed)
    return signature.replace(parameters=[p for name, p in signature.parameters.items() if name != "out"])


def _rest(whole: inspect.Signature, call: functools.partial[Any]) -> inspect.Signature | None:
    """What is left of ``whole`` in a partial call."""
    def shell() -> None: ...

    shell.__signature__ = whole  # type: ignore[attr-defined]
    try:
        return inspect.signature(functools.partial(shell, *call.args, **call.keywords))
    except ValueError:
        return None


def _fits(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True
