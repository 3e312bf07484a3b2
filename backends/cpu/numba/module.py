"""Numba texts as modules, and compiled kernels as bytes; runs where numba may be imported."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import math
import pickle
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.backend import Source
from portakern.errors import CompileError
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from portakern.tools import elf

from .calling import calls_through, kinds

_MEMORY = {
    "f64": np.float64, "f32": np.float32, "f16": np.uint16, "bf16": np.uint16, "i64": np.int64, "i32": np.int32,
    "i16": np.int16, "i8": np.int8, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class CompiledKernel:
    """One compiled dispatcher: its name in the text, numba's serialised result, assembly, bytes of machine code."""

    name: str
    payload: bytes
    assembly: str
    code_bytes: int
    signature: str


def load_module(source: Source) -> types.ModuleType:
    """Execute the text as a module. Raises :class:`CompileError` when it does not run or lacks the host function."""
    if source.digest in _modules:
        return _modules[source.digest]
    # Of this text alone: numba looks lines up also of helpers that an earlier text of that operator defined.
    shown = f"<{source.operator} for {source.target}, {source.digest[:8]}>"
    linecache.cache[shown] = (len(source.text), None, source.text.splitlines(keepends=True), shown)
    # A restored kernel asks for the module it was compiled in: one that every process can import.
    module = types.ModuleType(__name__)
    try:
        with not_kept():
            _execute(source.text, shown, module.__dict__, share=bool(source.schedule))
    except Exception as error:
        raise CompileError(f"the text of {source.operator} does not run: {error!r}", where=shown) from error
    if not callable(getattr(module, source.entry, None)):
        wanted = f"def {source.entry}({', '.join(a.name for a in parameters(source))})"
        raise CompileError(f"the text of {source.operator} defines no host function {source.entry!r}",
                           hint=f"define `{wanted}`")  # fmt: skip
    _modules[source.digest] = module
    return module


@contextmanager
def not_kept() -> Iterator[None]:
    """``cache=True`` keeps nothing meanwhile: a text lies in no file beside which numba could, and portakern has a cache."""
    from numba.core.dispatcher import Dispatcher
    from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

    own = {kind: kind.enable_caching for kind in (Dispatcher, UFuncDispatcher)}
    for kind in own:
        kind.enable_caching = lambda self: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        for kind, enable in own.items():
            kind.enable_caching = enable  # type: ignore[method-assign]


_modules: dict[str, types.ModuleType] = {}
"""Modules of this process by the digest of their source."""

_helpers: dict[tuple[Any, ...], Any] = {}
"""Helper functions this process has seen, by their text and that of the helpers they call: compiled once for all texts."""


def _execute(text: str, shown: str, names: dict[str, Any], share: bool) -> None:
    """Execute a text; with ``share`` (texts of our emitter) ``@njit`` functions that an earlier text defined in the same
    words are taken from there."""
    known: dict[str, tuple[Any, ...]] = {}
    for node in ast.parse(text, shown).body:
        key = _helper_key(text, node, known) if share else None
        if key is not None and key in _helpers:
            assert isinstance(node, ast.FunctionDef)
            names[node.name] = _helpers[key]
        else:
            exec(compile(ast.Module([node], []), shown, "exec"), names)
            if key is not None:
                assert isinstance(node, ast.FunctionDef)
                _helpers[key] = names[node.name]
        if isinstance(node, ast.FunctionDef):
            known.pop(node.name, None)
            if key is not None:
                known[node.name] = key


def _helper_key(text: str, node: ast.stmt, known: dict[str, tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """What a function is known by: its text and the keys of the helpers it names; ``None`` if it may not be shared.

    Only decorated functions whose every free name is an import, a builtin, ``f32`` or a shared helper qualify.
    """
    if not isinstance(node, ast.FunctionDef) or not node.decorator_list:
        return None
    words = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
    bound |= {f.name for f in ast.walk(node) if isinstance(f, ast.FunctionDef) and f is not node}
    free = words - bound - _COMMON - known.keys()
    if free:
        return None
    start = min(d.lineno for d in node.decorator_list)
    body = "\n".join(text.splitlines()[start - 1 : node.end_lineno])
    return (body, tuple(sorted((w, known[w]) for w in words & known.keys())))


_COMMON = frozenset({"np", "math", "njit", "prange", "intrinsic", "ir", "f32", *dir(builtins)})


def parameters(source: Source) -> tuple[Array, ...]:
    """What the host function takes, in order: inputs, run-time scalars, outputs."""
    return tuple(a for role in ("input", "scalar", "output") for a in source.arrays if a.role == role)


def memory_dtype(name: str) -> Any:
    """The numpy dtype of an array's memory: 16-bit floats are bit patterns."""
    return np.dtype(_MEMORY[name])


def compile_kernels(source: Source) -> list[CompiledKernel]:
    """Compile every kernel the host function calls, for the argument types it calls them with.

    The host function runs once on arrays of zeros with its kernels replaced by recorders, so that little is computed.
    """
    module = load_module(source)
    sizes = _example_sizes(source)
    arguments = [_example(array, sizes) for array in parameters(source)]
    try:
        with _recording(module) as calls:
            getattr(module, source.entry)(*arguments)
        found = [_compile(*call) for call in calls]
    except CompileError:
        raise
    except Exception as error:
        lines = [x for x in str(error).splitlines() if x.strip() and not x.startswith("Failed in nopython mode")]
        raise CompileError(f"numba cannot compile {source.operator}: {type(error).__name__}: {lines[0] if lines else ''}",
                           log=str(error)) from error  # fmt: skip
    outputs = [a for a in parameters(source) if a.role == "output"]
    if not found and not all(_example(a, sizes).size == 0 for a in outputs):
        raise CompileError(f"the host function of {source.operator} calls no numba kernel")
    return found


_EXAMPLES = (61, 31, 17, 9, 5, 3, 2)
"""What open dims count from, the first that gives arrays of at most :data:`_EXAMPLE_ELEMENTS`: five open dims from 61
on are a billion elements.  Slices and windows want some."""
_EXAMPLE_ELEMENTS = 1 << 26


def _example_sizes(source: Source) -> dict[str, int]:
    shapes = [a.type.shape for a in source.arrays if isinstance(a.type, BufferType)]
    counted = [{name: first + 2 * i for i, name in enumerate(source.sizes)} for first in _EXAMPLES]
    small = (x for x in counted if all(math.prod(evaluate(s, x) for s in shape) <= _EXAMPLE_ELEMENTS for shape in shapes))
    return next(small, counted[-1])


def _example(array: Array, sizes: dict[str, int]) -> Any:
    if not isinstance(array.type, BufferType):
        return memory_dtype(array.dtype).type(1)
    shape = tuple(evaluate(s, sizes) for s in array.type.shape)
    return np.zeros(shape, memory_dtype(array.dtype))


@contextmanager
def _recording(module: types.ModuleType) -> Iterator[list[tuple[str, Any, tuple[Any, ...]]]]:
    """Calls of the module's kernels are noted, and not done unless they give something back; other compiled functions, such as
    a host function makes, are called as they are."""
    calls: list[tuple[str, Any, tuple[Any, ...]]] = []
    own = {id(value): name for name, value in vars(module).items() if isinstance(value, kinds())}

    def launch(original: Any, kernel: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        if id(kernel) not in own:
            return original(kernel, *arguments, **named)
        if not isinstance(kernel, kinds()[0]):  # it is told types when it is called only
            result = original(kernel, *arguments, **named)
            calls.extend(c for t in kernel._dispatcher.overloads if (c := (own[id(kernel)], kernel, t)) not in calls)
            return result
        call = (own[id(kernel)], kernel, _types(kernel, arguments, named))
        if call not in calls:
            calls.append(call)
        kernel.compile(call[2])
        gives = kernel.overloads[call[2]].signature.return_type
        return original(kernel, *arguments, **named) if str(gives) != "none" else None

    with calls_through(launch):
        yield calls


def _types(kernel: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Of the arguments in the order of the parameters, as numba has them for a call."""
    from numba.core import types as nb
    from numba.misc.special import typeof

    if not named and len(arguments) == kernel.py_func.__code__.co_argcount:
        return tuple(map(typeof, arguments))
    parameters = inspect.signature(kernel.py_func)
    given = parameters.bind(*arguments, **named).arguments
    return tuple(typeof(given[n]) if n in given else nb.Omitted(p.default) for n, p in parameters.parameters.items())


def _compile(name: str, dispatcher: Any, types_: tuple[Any, ...]) -> CompiledKernel:
    from numba.core import serialize

    inner = getattr(dispatcher, "_dispatcher", dispatcher)
    if inner is dispatcher:
        dispatcher.compile(types_)
    result = inner.overloads[types_]
    library = result.library
    # Addresses that are in the code (of large arrays of the text, say) are those of this process: another one compiles anew.
    payload = b"" if library.has_dynamic_globals or inner is not dispatcher else serialize.dumps(result._reduce())
    return CompiledKernel(name, payload, library.get_asm_str(), code_bytes(library._get_compiled_object()), str(types_))


def code_bytes(data: bytes) -> int:
    """The size of the executable sections of an object file."""
    return sum(s.size for s in elf.read(data).sections if s.flags & elf.EXECUTABLE)


def pack(kernels: Sequence[CompiledKernel]) -> bytes:
    return pickle.dumps([(k.name, k.payload) for k in kernels])


def restore(source: Source, data: bytes) -> types.ModuleType:
    """The module of ``source`` with the kernels in ``data`` ready to run, nothing compiled."""
    from numba.core.compiler import CompileResult

    module = load_module(source)
    for name, payload in pickle.loads(data):
        dispatcher = getattr(module, name)
        if not payload or dispatcher.overloads:
            continue
        dispatcher.targetctx.refresh()
        result = CompileResult._rebuild(dispatcher.targetctx, *pickle.loads(payload))
        dispatcher.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
        dispatcher.add_overload(result)
    return module
