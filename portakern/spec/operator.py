"""``@operator``: a Python function on arrays becomes an :class:`Operator`, which traces to tensor programs."""

from __future__ import annotations

import difflib
import html
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, overload

from portakern.dtype_names import DTypeLike, dtype_name
from portakern.errors import PortakernError, SpecError, UsageError
from portakern.ir.core import Arg, Loc
from portakern.ir.size import names_of
from portakern.ir.tensor import TensorProgram
from portakern.spec.annotations import ScalarSpec, TensorSpec, is_star, resolve, star_names
from portakern.spec.bind import bind, check_size
from portakern.spec.inputs import Family, at_sizes, sizes_of
from portakern.spec.location import line_at, spec_error
from portakern.spec.signature import Input, signature
from portakern.spec.traced import Traced
from portakern.spec.tracing import arguments, depends_on_sizes, traced


class _Dynamic:
    """Given as the size of a dim, ``dynamic`` keeps that dim open: one binary for every size."""

    def __repr__(self) -> str:
        return "dynamic"


dynamic = _Dynamic()

DimValue = int | tuple[int, ...] | list[int] | _Dynamic


@dataclass(frozen=True)
class Case:
    """One size at which an operator is checked: dims (a starred dim as a tuple), parameters, and input families."""

    name: str
    dims: Mapping[str, int | tuple[int, ...]]
    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Family] = field(default_factory=dict)


class Operator:
    """An operator as its function declares it.  Calling it inside another operator inlines it.

    ``inputs`` are its arrays and run-time scalars, ``params`` its compile-time parameters, ``dims`` the names of its
    dims (starred ones without the star, see ``stars``), ``dtypes`` those it is checked in, ``families`` what its
    inputs are filled with, and ``torch`` says how PyTorch's users write it.  ``bound`` holds the values of inputs that a call
    may leave out, ``weights`` names those of them that stay as they are from call to call, mostly.  An operator that does not
    read all of its inputs is a mistake, unless ``reads_all`` says that it need not.
    """

    bound: Mapping[str, Any] = types.MappingProxyType({})
    weights: tuple[str, ...] = ()
    reads_all: bool = True
    _written: Loc | None = None
    """Where it is written, of one whose function is not."""

    def __init__(
        self,
        function: Callable[..., Any],
        shapes: Callable[..., Mapping[str, Sequence[str | int]]] | None = None,
        cases: Mapping[str, Mapping[str, Any]] | None = None,
        inputs: Mapping[str, Family] | None = None,
        torch: str = "",
        doc: str = "",
        dtypes: Sequence[DTypeLike] = ("f32", "bf16"),
        name: str = "",
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self._scope = dict(scope or {})
        self.name: str = name or function.__name__
        self.doc: str = inspect.cleandoc(doc or function.__doc__ or "")
        self.torch = torch
        self.dtypes: tuple[str, ...] = ()  # until their names are known
        self.families = dict(inputs or {})
        self.file: str = function.__code__.co_filename
        self.line: int = function.__code__.co_firstlineno
        self.__name__ = self.name
        self.__doc__ = self.doc
        self.__wrapped__ = function
        self._shapes = shapes
        self._raw_cases = cases
        self.inputs, self.params = signature(self, self._scope)
        for unknown in (n for n in self.families if n not in self._input_names):
            raise self.error(f"the family for {unknown!r} belongs to no input", f"inputs are {', '.join(self._input_names)}")
        try:
            self.dtypes = tuple(map(dtype_name, dtypes))
        except UsageError as error:
            raise self.error(error.message, error.hint) from None

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def _repr_html_(self) -> str:
        """For notebooks: what it takes, and its text behind a fold."""
        facts = [("dims", self.dims), ("parameters", self.params), ("dtypes", self.dtypes)]
        told = "".join(f"<br>{name}: {html.escape(', '.join(values))}" for name, values in facts if values)
        text = html.escape(self.source)
        return (f"<div><strong>{html.escape(self.name)}</strong>{told}"
                f"<details><summary>operator</summary><pre>{text}</pre></details></div>")  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(a, Traced) for a in (*args, *kwargs.values())):
            return self.function(*args, **kwargs)
        raise UsageError(
            f"{self.name} was called on arrays, but it only says what is to be computed",
            f'build it first: pk.build({self.name}, target="numba:cpu", ...)(x, ...)',
        )

    def __reduce__(self) -> Any:
        # Operators cross to worker processes by name, as their functions do.
        return _by_name, (self.file, self.function.__qualname__, self.function.__module__)

    def error(self, message: str, hint: str = "", loc: Loc | None = None) -> SpecError:
        """A :class:`SpecError` at ``loc``, or at the line the operator is defined on."""
        return spec_error(message, hint, loc or self.loc)

    @property
    def loc(self) -> Loc:
        """The line it is defined on."""
        return self._written or self._loc

    @cached_property
    def _loc(self) -> Loc:
        try:
            lines, first = inspect.getsourcelines(self.function)
            offset = next(i for i, line in enumerate(lines) if line.lstrip().startswith("def "))
        except (OSError, StopIteration):
            return line_at(self.file, self.line)
        return line_at(self.file, first + offset)

    @cached_property
    def source(self) -> str:
        """The text of the operator's function."""
        try:
            return inspect.getsource(self.function)
        except OSError:
            return ""

    @property
    def _input_names(self) -> tuple[str, ...]:
        return tuple(i.name for i in self.inputs)

    @property
    def scalars(self) -> tuple[Input, ...]:
        """The inputs that are numbers given at run time."""
        return tuple(i for i in self.inputs if isinstance(i.spec, ScalarSpec))

    # ---- dims and parameters

    def declared(self, params: Mapping[str, Any] | None = None) -> dict[str, tuple[str | int, ...]]:
        """The declared dims of every array under ``params``."""
        dims = {i.name: i.spec.dims for i in self.inputs if isinstance(i.spec, TensorSpec)}
        if self._shapes is not None:
            values = self.check_params(params or {})
            wanted = inspect.signature(self._shapes).parameters
            for name, shape in self._shapes(**{n: values[n] for n in wanted}).items():
                if name not in dims:
                    raise self.error(f"shapes= names {name!r}, which is no array input", f"inputs are {', '.join(dims)}")
                dims[name] = TensorSpec(tuple(shape)).dims
        return dims

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Names of the dims in order of appearance, under the default parameters."""
        return self.all_dims({})

    def all_dims(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the dims under ``params``, in order of appearance."""
        found: dict[str, None] = {}
        for shape in self.declared(params).values():
            for dim in shape:
                if is_star(dim):
                    found[str(dim)[1:]] = None
                elif isinstance(dim, str):
                    found.update(dict.fromkeys(sorted(n for s in resolve((dim,), {}) for n in names_of(s))))
        return tuple(found)

    def check_families(self, params: Mapping[str, Any], families: Mapping[str, Family]) -> None:
        """Raises :class:`SpecError` where what an input is filled with speaks of something that is no dim."""
        known = self.all_dims(params)
        for name, family in families.items():
            for size in sorted(sizes_of(family) - set(known)):
                raise self.error(f"the family of {name!r} speaks of {size!r}, which is no dim",
                                 f"dims are {', '.join(known) or 'none'}; or give a number")  # fmt: skip

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """Names of the dims that stand for any number of dims."""
        return tuple(dict.fromkeys(d[1:] for s in self.declared().values() for d in s if isinstance(d, str) and is_star(d)))

    def check_params(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter with its value; raises :class:`UsageError` for an unknown one or a value it cannot take."""
        for name in given:
            if name not in self.params:
                near = difflib.get_close_matches(name, self.params, 1)
                raise UsageError(
                    f"{self.name} has no parameter {name!r}",
                    f"did you mean {near[0]}?"
                    if near
                    else f"its parameters are {', '.join(self.params)}"
                    if self.params
                    else "it has no parameters",
                )
        return {n: p.check(given.get(n, p.default), self.name) for n, p in self.params.items()}

    def read_param(self, name: str, text: str) -> Any:
        """The value of ``--param name=text``."""
        self.check_params({name: self.params[name].default} if name in self.params else {name: None})
        return self.params[name].read(text, self.name)

    def read_dim(self, name: str, text: str) -> int | tuple[int, ...] | _Dynamic:
        """The size of ``--shape name=text``: a number, ``2x3`` for a starred dim (empty: none), ``?`` or ``dynamic``."""
        if text in ("?", "dynamic"):
            return dynamic
        try:
            if name in self.stars:
                return tuple(int(t) for t in text.split("x")) if text not in ("", "()") else ()
            return int(text)
        except ValueError:
            raise UsageError(
                f"--shape {name}={text}: not a size", "write M=4096, B=2x3 for leading dims, or M=? to keep it open"
            ) from None

    def check_dims(
        self, dims: Mapping[str, DimValue], params: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, int], dict[str, int]]:
        """(ranks of the starred dims, sizes of the named ones); open dims are left out.

        Raises :class:`UsageError` for an unknown dim, a negative size, or one that is not an integer.
        """
        known = self.all_dims(params or {})
        ranks = dict.fromkeys(self.stars, 0)
        sizes: dict[str, int] = {}
        for name, value in dims.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise UsageError(
                    f"{self.name} has no dim {name!r}",
                    f"its dims are {', '.join(known)}"
                    if not near or near[0] == name
                    else f"did you mean {near[0]}? its dims are {', '.join(known)}",
                )
            if name in ranks:
                parts = tuple(value) if isinstance(value, tuple | list) else (value,)
                ranks[name] = len(parts)
                each = zip(star_names(name, len(parts)), parts, strict=True)
            else:
                each = [(name, value)]
            for dim, size in each:
                if not isinstance(size, _Dynamic):
                    check_size(dim, size)
                    sizes[dim] = size  # type: ignore[assignment]
        return ranks, sizes

    # ---- tracing

    def trace(
        self, params: Mapping[str, Any] | None = None, dtype: str = "f32", stars: Mapping[str, int] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> TensorProgram:  # fmt: skip
        """The tensor program on symbolic dims.

        Args:
            params: compile-time parameters; those left out have their defaults.
            dtype: that of every input which declares none.
            stars: the number of dims behind each star; none unless given.
            sizes: of dims, which are bound before tracing where the operator means nothing without them (it joins arrays
                that are equally large for these sizes alone, say).

        Raises:
            SpecError: the operator is not well formed; at the user's line.
            UsageError: ``params`` or ``dtype`` make no sense.
        """
        dtype = dtype_name(dtype)
        values = self.check_params(params or {})
        asked = self, tuple(sorted(values.items(), key=lambda kv: kv[0])), dtype, tuple(sorted((stars or {}).items()))
        try:
            return traced(*asked)
        except PortakernError as error:
            if not sizes or not depends_on_sizes(error):
                raise
            return traced(*asked, tuple(sorted(sizes.items())))

    def arguments(self, params: Mapping[str, Any], dtype: str, stars: Mapping[str, int],
                  sizes: Mapping[str, int] | None = None) -> tuple[Arg, ...]:  # fmt: skip
        """The inputs on symbolic dims, or of ``sizes`` where they depend on these, as :meth:`trace` takes them."""
        values = self.check_params(params)
        try:
            return tuple(self.args_at(values, dtype, stars, {}).values())
        except PortakernError as error:
            if not sizes or not depends_on_sizes(error):
                raise
            return tuple(self.args_at(values, dtype, stars, sizes).values())

    def args_at(self, params: Mapping[str, Any], dtype: str, stars: Mapping[str, int], sizes: Mapping[str, int]
                ) -> dict[str, Arg]:  # fmt: skip
        """The inputs by name, on symbolic dims but for those of ``sizes``."""
        return arguments(self, params, dtype, stars, sizes)

    def program(
        self, dims: Mapping[str, DimValue] | None = None, params: Mapping[str, Any] | None = None, dtype: str = "f32"
    ) -> TensorProgram:
        """The tensor program with ``dims`` bound; those left out or given as :data:`dynamic` stay open."""
        ranks, sizes = self.check_dims(dims or {}, params)
        traced = self.trace(params, dtype, ranks, sizes)
        return bind(traced, {name: size for name, size in sizes.items() if name in traced.dims})

    # ---- cases

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The sizes it is checked at; where none were given, some are made up from its dims."""
        if not self._raw_cases:
            return _default_cases(self)
        return tuple(self._case(name, raw) for name, raw in self._raw_cases.items())

    def case(self, name: str) -> Case:
        """The one of :attr:`cases` with this name.  Raises :class:`UsageError` with those that there are."""
        for c in self.cases:
            if c.name == name:
                return c
        raise UsageError(f"{self.name} has no case {name!r}", f"its cases are {', '.join(c.name for c in self.cases)}")

    @property
    def typical(self) -> Case:
        """The case called typical, else the first."""
        return next((c for c in self.cases if c.name == "typical"), self.cases[0])

    def _case(self, name: str, raw: Mapping[str, Any]) -> Case:
        params = {k: v for k, v in raw.items() if k in self.params}
        families = dict(raw.get("inputs", {}))
        dims = {k: v for k, v in raw.items() if k not in params and k != "inputs"}
        known = self.all_dims(params)
        for k in dims:
            if k not in known:
                raise self.error(
                    f"the case {name!r} names {k!r}, which is no dim and no parameter",
                    f"dims are {', '.join(known)}; parameters are {', '.join(self.params) or 'none'}",
                )
        for k in known:
            if k not in dims and k not in self.stars:
                raise self.error(f"the case {name!r} gives no size for {k}")
        self.check_families(params, families)
        return Case(name, dims, params, at_sizes({**self.families, **families}, dims))


def _by_name(file: str, qualname: str, module: str) -> Operator:
    from portakern.spec.load import load_operator

    return load_operator(f"{file}:{qualname}")


def _default_cases(operator: Operator) -> tuple[Case, ...]:
    """Sizes for an operator that declares none: as long as the last dim is moderate, every kind of raggedness.

    Sizes that it refuses (a slice of more than there is) are left out; where it refuses all of them they stay, and it says why.
    """
    names = [d for d in operator.dims if d not in operator.stars]
    many = len(names) > 3
    primes = (37, 101, 13, 7, 5, 3)
    last = names[-1:] or []
    each: dict[str, dict[str, int]] = {
        "typical": dict.fromkeys(names, 16 if many else 128),
        "ragged": {n: primes[i % 6] for i, n in enumerate(names)},
        "tiny": dict.fromkeys(names, 3),
        "one": dict.fromkeys(names, 1),
        "zero": {n: 0 if i == 0 else 5 for i, n in enumerate(names)},
        "long": dict.fromkeys(names, 3) | dict.fromkeys(last, 5000 if not many else 257),
        "unaligned": dict.fromkeys(names, 33 if not many else 9),
    }
    apart = {tuple(d.items()): k for k, d in reversed(each.items())}  # an operator without dims has one size
    made = tuple(Case(k, d, {}, operator.families) for k, d in each.items() if apart[tuple(d.items())] == k)
    return tuple(c for c in made if _takes(operator, c)) or made


def _takes(operator: Operator, case: Case) -> bool:
    """Whether the operator can be computed at the sizes of ``case``; what it refuses is no fault of a made-up case's."""
    try:
        operator.program(case.dims)
    except PortakernError:
        return False
    return True


# ---- the decorator --------------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


@overload
def operator(function: Callable[..., Any], /) -> Operator: ...
@overload
def operator(
    *,
    shapes: Callable[..., Mapping[str, Sequence[str | int]]] | None = None,
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    inputs: Mapping[str, Family] | None = None,
    torch: str = "",
    doc: str = "",
    dtypes: Sequence[DTypeLike] = ("f32", "bf16"),
    name: str = "",
) -> Callable[[Callable[..., Any]], Operator]: ...


def operator(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Turns a function on arrays into an :class:`Operator`; used bare or with arguments.

    Args:
        shapes: function of some parameters giving the dims of inputs that depend on them, by input name.
        cases: named sizes it is checked at: dims and parameters, and ``inputs`` if a case needs its own families.
        inputs: the :class:`Family` an input is filled with, by name; standard normal by default.
        torch: what PyTorch's users write, to time against: an expression of its inputs and parameters, in which
            ``torch`` and ``F`` (``torch.nn.functional``) are known, such as ``"F.softmax(x, -1)"``; or a function of them,
            as ``module:name``.  Read only when needed; by default the traced program runs on tensors.
        doc: what it computes; by default the function's docstring.
        dtypes: names of the dtypes it is checked in.
        name: its name; by default that of the function.

    Raises:
        SpecError: the declaration is not well formed.
    """
    scope = sys._getframe(1).f_locals  # annotations may use names of the function that an operator is defined in
    if function is not None:
        return Operator(function, scope=scope)
    return lambda f: Operator(f, scope=scope, **options)
