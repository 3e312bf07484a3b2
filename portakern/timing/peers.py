"""What a kernel is timed against: numpy, PyTorch as it is and compiled, XLA through jax, or a function in a file.

An operator may say how PyTorch's users write it (``@operator(torch=...)``); where it does not, and for numpy, the peer is the
traced program itself, run on that library's arrays.  Compiling a peer is not part of its time; its results are compared with
ours before it is timed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from portakern.array_program import array_function
from portakern.errors import PortakernError, ToolMissing, UsageError
from portakern.ir import tensor as t
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.native import now_ns
from portakern.timing.inputs import to_numpy

NAMES = ("numpy", "torch.eager", "torch.compile", "xla")

COMPILE_MODES = {False: "default", True: "max-autotune-no-cudagraphs"}
"""Mode of torch.compile for programs without and with a contraction or convolution: the better one for either kind."""

_PRODUCTS = (t.Contract, t.Convolve)


@dataclass(frozen=True)
class Peer:
    """``call(*inputs)`` does the work on arrays of ``library`` (``numpy``, ``torch`` or ``jax``).

    ``form`` says what is called, ``notes`` where it differs from the operator, ``mode`` and ``compile_s`` how and how long it
    was compiled (not timed).
    """

    name: str
    library: str
    call: Callable[..., Any]
    form: str
    notes: tuple[str, ...] = ()
    mode: str | None = None
    compile_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The part of its entry in a row that is no time."""
        told = {"name": self.name, "form": self.form, "notes": list(self.notes) or None, "mode": self.mode,
                "compile_s": self.compile_s}  # fmt: skip
        return {k: v for k, v in told.items() if v is not None}


@dataclass(frozen=True)
class Subject:
    """The operator that peers are found for.

    Args:
        program: its tensor program with every dim bound.
        torch: what it declares as its counterpart in PyTorch.
        params: its compile-time parameters.
    """

    program: TensorProgram
    torch: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.program.args)

    @property
    def has_products(self) -> bool:
        return any(isinstance(op, _PRODUCTS) for op in self.program.body.ops)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """In which inputs and outputs are held."""
        return tuple(dict.fromkeys(tensor_type(v).dtype for v in (*self.program.args, *self.program.results)))


def check_names(names: Sequence[str]) -> None:
    """Raises :class:`UsageError` for what is no peer and no file:function."""
    for name in names:
        if name in NAMES:
            continue
        path, _, function = name.rpartition(":")
        if not path.endswith(".py") or not function:
            raise UsageError(f"unknown peer {name!r}", hint=f"peers are {', '.join(NAMES)} and FILE.py:FUNCTION")
        if not Path(path).is_file():
            raise UsageError(f"there is no file {path}", hint="a peer in a file is given as FILE.py:FUNCTION")


def import_soon(names: Sequence[str]) -> None:
    """Imports the library of peers beside what this process does now, such as waiting for a compiler."""
    global _importing
    if _importing is None and any(n.startswith("torch.") for n in names) and importlib.util.find_spec("torch") is not None:
        _importing = threading.Thread(target=importlib.import_module, args=("torch",), daemon=True)
        _importing.start()


_importing: threading.Thread | None = None


def find(name: str, subject: Subject) -> Peer:
    """The peer called ``name`` (as in :func:`check_names`).

    Raises :class:`PortakernError` where the operator has no such peer, or what the peer needs is not installed.
    """
    if name == "numpy":
        return _program_peer(name, "numpy", subject)
    if _importing is not None:
        _importing.join()
    if name in ("torch.eager", "torch.compile"):
        if importlib.util.find_spec("torch") is None:
            raise ToolMissing(f"{name} needs torch", hint="pip install 'portakern[torch]'")
        set_precision(subject)
        return _declared(name, subject) if subject.torch else _program_peer(name, "torch", subject)
    if name == "xla":
        return _xla(subject)
    return _from_file(name, subject.params)


def compiled(peer: Peer, subject: Subject, arrays: Sequence[Any]) -> Peer:
    """``torch.compile`` of a peer, compiled by a first call on ``arrays``, whose seconds are noted; as it was compiled before,
    where this process has done so for another target."""
    import torch

    key = (peer.form, str(subject.program), repr(sorted(subject.params.items())), *map(_described, arrays))
    if key not in _compiled:
        mode = COMPILE_MODES[subject.has_products]
        if len(_compiled) % KEPT == 0:
            fresh_compiler()
        call = torch.compile(peer.call, mode=mode, dynamic=False)
        begun = now_ns()
        call(*arrays)
        _compiled[key] = {"call": call, "mode": mode, "compile_s": (now_ns() - begun) / 1e9}
    return replace(peer, **_compiled[key])


def _described(x: Any) -> tuple[str, ...]:
    return (str(x.dtype), str(tuple(x.shape)), str(x.stride()), str(x.device)) if hasattr(x, "stride") else (repr(x),)


_compiled: dict[tuple[Any, ...], dict[str, Any]] = {}

KEPT = 6
"""So many compiled peers are kept in a process."""


def fresh_compiler() -> None:
    """Forgets what PyTorch has compiled: after eight functions in a process it would run the ninth as it is, and only warn."""
    import torch._dynamo

    _compiled.clear()
    torch._dynamo.reset()
    torch._dynamo.config.fail_on_recompile_limit_hit = True


def host_outputs(result: Any) -> list[np.ndarray]:
    """What a peer returned, as numpy arrays."""
    several = result if isinstance(result, tuple | list) else (result,)
    return [to_numpy(x) if hasattr(x, "detach") else np.asarray(x) for x in several]


def set_precision(subject: Subject) -> None:
    """Products of f32 in tf32 only where the operator asks for it, convolutions too; PyTorch has switches for the process."""
    _set_precision(subject.program)


@contextlib.contextmanager
def precision_of(program: TensorProgram) -> Iterator[None]:
    """The same for ``program``, and as it was afterwards."""
    import torch

    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    _set_precision(program)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        _allow_tf32_in_convolutions(convolutions)


def _set_precision(program: TensorProgram) -> None:
    import torch

    tf32 = any(isinstance(op, t.Contract) and op.precision == "tf32" for op in program.body.ops)
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    _allow_tf32_in_convolutions(tf32)


def _allow_tf32_in_convolutions(allowed: bool) -> None:
    """``torch.backends.cudnn.allow_tf32``, which PyTorch's own testing modules, once imported, let nobody set by its name."""
    import torch

    torch._C._set_cudnn_allow_tf32(allowed)


def _program_peer(name: str, library: str, subject: Subject) -> Peer:
    made = array_function(subject.program, library)
    return Peer(name, library, made.call, "the traced program", made.notes)


def _xla(subject: Subject) -> Peer:
    """The traced program in jax.numpy as one program of XLA; a call has ended when it returns."""
    if importlib.util.find_spec("jax") is None:
        raise ToolMissing("xla needs jax", hint="pip install 'portakern[tpu]'")
    if "jax" not in sys.modules:
        # Where the kernel is no TPU's, a TPU or GPU that jax would find is not asked for.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    made = array_function(subject.program, "jax")
    made.call.__name__ = "xla"  # what traces call the program
    program = jax.jit(made.call)

    def call(*arrays: Any) -> Any:
        return jax.block_until_ready(program(*arrays))

    return Peer("xla", "jax", call, "the traced program, by jax.jit", made.notes)


def _declared(name: str, subject: Subject) -> Peer:
    """The operator's own counterpart: ``module:name``, or an expression of its inputs and parameters."""
    text = subject.torch
    if re.fullmatch(r"[\w.]+:[\w.]+", text):
        module, _, attribute = text.partition(":")
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part, None)
        if not callable(found):
            raise PortakernError("no-peer", f"{subject.program.name} names {text} as its counterpart, which is no function")
        return Peer(name, "torch", _with(found, subject.params), text)
    return Peer(name, "torch", expression(text, subject), text)


def expression(text: str, subject: Subject) -> Callable[..., Any]:
    """An expression of an operator's inputs and parameters as a function of the inputs."""
    import torch

    scope = {"torch": torch, "F": importlib.import_module("torch.nn.functional"), **subject.params}
    function = f"lambda {', '.join(subject.inputs)}: {text}"
    try:
        return eval(compile(function, f"<torch= of {subject.program.name}>", "eval"), scope)
    except SyntaxError as error:
        raise PortakernError("no-peer", f"the torch= of {subject.program.name} is neither module:name nor an expression: "
                             f"{error.msg}", hint=f"it is {text!r}") from None  # fmt: skip


def _with(function: Callable[..., Any], params: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda *arrays: function(*arrays, **params)


def _from_file(name: str, params: Mapping[str, Any]) -> Peer:
    path, _, function = name.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"portakern_peer_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise PortakernError("peer", f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PortakernError("peer", f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    found = getattr(module, function, None)
    if not callable(found):
        raise PortakernError("peer", f"{path} has no function {function!r}")
    # A file that works with torch imports it; any other is given numpy arrays.
    library = "torch" if hasattr(module, "torch") else "numpy"
    return Peer(name, library, _with(found, params), f"{Path(path).name}:{function}")
