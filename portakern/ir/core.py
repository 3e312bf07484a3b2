"""The intermediate representation shared by every level: types, operations, blocks and functions.

An operation *is* its result.  Subclassing :class:`Op` defines an operation: a field annotated ``Op`` is an operand,
``tuple[Op, ...]`` several operands, ``Block`` a region, and every other field an attribute.  Operations are frozen and
compare by identity; two pure ones with equal :func:`key` compute the same value.  A :class:`Function` is a named block
with attributes; the tensor level and the tile level each subclass it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn, dataclass_transform

from portakern.errors import IRError

TEXT_VERSION = 1
"""Version of the text form; raised whenever old text would no longer be read back to the same program."""


# ---- where an operation comes from -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loc:
    """A line of the user's program: file, line number (from 1) and the text of that line; ``within`` is the path of the
    module whose line it is (``layer1.0.conv1``), where a model is made of modules."""

    file: str
    line: int
    text: str = ""
    within: str = ""

    def __str__(self) -> str:
        return f"{self.within} ({self.file}:{self.line})" if self.within else f"{self.file}:{self.line}"


_ambient: list[Loc | None] = [None]


@contextmanager
def at(loc: Loc | None) -> Iterator[None]:
    """Operations built inside take ``loc`` unless they name their own."""
    _ambient.append(loc)
    try:
        yield
    finally:
        _ambient.pop()


# ---- types ---------------------------------------------------------------------------------------------------------


class Type:
    """Base of all types.  ``head`` is the word a type's text starts with, as in ``tile[m:8, f32]``."""

    registry: ClassVar[dict[str, type[Type]]] = {}
    head: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.head:
            Type.registry[cls.head] = cls

    @classmethod
    def read(cls, parts: list[str]) -> Type:
        """Build the type from the comma-separated parts between its brackets."""
        raise NotImplementedError

    @staticmethod
    def parse(text: str) -> Type:
        match = re.fullmatch(r"(\w+)\[(.*)\]", text.strip(), re.DOTALL)
        if not match or match[1] not in Type.registry:
            raise IRError(f"not a type: {text!r}", hint=f"types are {', '.join(sorted(Type.registry))}")
        return Type.registry[match[1]].read(split_commas(match[2]))


def split_commas(text: str) -> list[str]:
    """``text`` cut at the commas that stand in no bracket."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


@dataclass(frozen=True)
class NoType(Type):
    """The type of an operation without a result."""

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True)
class ManyType(Type):
    """The type of an operation with several results; :class:`Result` picks one."""

    types: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.types))})"


NONE = NoType()


# ---- operations ------------------------------------------------------------------------------------------------------

_ROLES = {"Op": "operand", "Op | None": "optional", "tuple[Op, ...]": "operands", "Block": "region"}


@dataclass_transform(frozen_default=True, eq_default=False)
@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """Base of all operations.  :meth:`infer` gives the result type and checks operands and attributes.

    ``pure`` operations may be merged, moved and dropped; the others have an effect and stay where they are.
    """

    registry: ClassVar[dict[str, type[Op]]] = {}
    pure: ClassVar[bool] = True
    closed: ClassVar[bool] = False  # whether its regions use nothing from outside of them, constants neither
    word: ClassVar[str] = ""  # its word in the text form; the class's name in snake case where empty
    roles: ClassVar[dict[str, str]]
    kinds: ClassVar[dict[str, str]]  # field -> its annotation, which names the attribute's text form

    loc: Loc | None = field(default=None, kw_only=True)

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)
        cls.kinds = {f.name: str(f.type) for f in fields(cls) if f.name != "loc"}  # type: ignore[arg-type]
        cls.roles = {name: _ROLES.get(kind, "attribute") for name, kind in cls.kinds.items()}
        mnemonic = cls.mnemonic()
        if Op.registry.setdefault(mnemonic, cls).__module__ != cls.__module__:
            raise IRError(f"the operation {mnemonic!r} is defined by both {cls.__module__} and "
                                f"{Op.registry[mnemonic].__module__}")

    def __post_init__(self) -> None:
        if self.loc is None and _ambient[-1] is not None:
            object.__setattr__(self, "loc", _ambient[-1])
        for name, role in self.roles.items():
            value = getattr(self, name)
            if role == "operand" and not isinstance(value, Op):
                self.fail(f"operand {name!r} is {value!r}, not an operation")
        _ = self.type  # infers, and so checks, every operation as it is built

    @classmethod
    def mnemonic(cls) -> str:
        return cls.word or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @cached_property
    def type(self) -> Type:
        return self.infer()

    def infer(self) -> Type:
        return NONE

    def fail(self, message: str, hint: str = "") -> NoReturn:
        raise IRError(f"{self.mnemonic()}: {message}", hint=hint, where=str(self.loc or ""))

    def check(self, ok: bool, message: str, hint: str = "") -> None:
        if not ok:
            self.fail(message, hint)

    def _field(self, name: str) -> Any:
        return getattr(self, name)

    @cached_property
    def operands(self) -> tuple[Op, ...]:
        out: list[Op] = []
        for name, role in self.roles.items():
            value = self._field(name)
            if role == "operand" or (role == "optional" and value):
                out.append(value)
            elif role == "operands":
                out.extend(value)
        return tuple(out)

    @property
    def regions(self) -> tuple[Block, ...]:
        return tuple(getattr(self, name) for name, role in self.roles.items() if role == "region")

    def remap(self, operand: Callable[[Op], Op], region: Callable[[Block], Block] = lambda b: b) -> Op:
        """This operation with operands and regions mapped; itself when nothing changed."""
        new: dict[str, Any] = {}
        for name, role in self.roles.items():
            old = self._field(name)
            if role == "operand" or (role == "optional" and old):
                value: Any = operand(old)
            elif role == "operands":
                value = tuple(map(operand, old))
            elif role == "region":
                value = region(old)
            else:
                continue
            if (value != old) if role == "operands" else (value is not old):
                new[name] = value
        return replace(self, **new) if new else self  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Block:
    """Straight-line code: arguments, then operations in order."""

    args: tuple[Op, ...]
    ops: tuple[Op, ...]

    def walk(self) -> Iterator[Op]:
        """Every operation of this block and of the regions inside it, in order."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()

    @cached_property
    def says(self) -> tuple[Any, ...]:
        """What the block computes, whatever objects it is made of: equal for blocks that differ in names and places alone."""
        number: dict[Op, int] = {}

        def said(x: Any) -> Any:
            if isinstance(x, Op):
                return number.get(x, x)
            if isinstance(x, Block):
                return x.says
            return tuple(map(said, x)) if isinstance(x, tuple) else repr(x) if isinstance(x, float) else x

        for arg in self.args:
            number[arg] = len(number)
        lines: list[Any] = []
        for op in self.ops:
            lines.append((type(op), *(said(getattr(op, name)) for name in op.roles)))
            number[op] = len(number)
        return (tuple(a.type for a in self.args), tuple(lines))


class Arg(Op):
    """A named argument of a block."""

    name: str
    of: Type

    def infer(self) -> Type:
        return self.of


class Result(Op):
    """One of the results of an operation that has several."""

    source: Op
    index: int

    def infer(self) -> Type:
        many = self.source.type
        self.check(isinstance(many, ManyType), f"{self.source.mnemonic()} has a single result")
        assert isinstance(many, ManyType)
        self.check(0 <= self.index < len(many.types), f"there is no result {self.index} of {len(many.types)}")
        return many.types[self.index]


class Yield(Op):
    """The values a block hands back; always its last operation."""

    values: tuple[Op, ...]
    pure = False
    word = "give"  # "yield" is a keyword of the text form's host language


def yielded(block: Block) -> tuple[Op, ...]:
    """The values ``block`` hands back."""
    last = block.ops[-1] if block.ops else None
    if not isinstance(last, Yield):
        raise IRError("a block must end in a yield")
    return last.values


@dataclass_transform(frozen_default=True, eq_default=False)
@dataclass(frozen=True, eq=False, repr=False)
class Function:
    """A named block; every further field of a subclass is an attribute, printed in its decorator."""

    registry: ClassVar[dict[str, type[Function]]] = {}
    kinds: ClassVar[dict[str, str]]

    name: str
    body: Block

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)
        cls.kinds = {f.name: str(f.type) for f in fields(cls) if f.name not in ("name", "body")}  # type: ignore[arg-type]
        Function.registry[cls.keyword()] = cls

    @classmethod
    def keyword(cls) -> str:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @property
    def args(self) -> tuple[Arg, ...]:
        return self.body.args  # type: ignore[return-value]

    def __str__(self) -> str:
        return format_function(self)

    @cached_property
    def digest(self) -> str:
        """A stable hash of what the function says; locations do not count."""
        return hashlib.sha256(format_function(self, locations=False).encode()).hexdigest()



# ---- the text form: functions print as Python, one operation a line ----------------------------------------------------

Codec = tuple[Callable[[Any], str], Callable[[str], Any]]
CODECS: dict[str, Codec] = {"Type": (str, Type.parse)}
"""Text form of attributes that are not plain Python values, by the annotation of one element."""


def codec(annotation: str, write: Callable[[Any], str], read: Callable[[str], Any]) -> None:
    """Teach the text form attributes annotated ``annotation``, ``tuple[annotation, ...]`` or ``annotation | None``."""
    CODECS[annotation] = (write, read)


def element_codec(kind: str) -> Codec | None:
    match = re.fullmatch(r"tuple\[(\w+), \.\.\.\]|(\w+) \| None|(\w+)", kind)
    return CODECS.get(next(filter(None, match.groups()))) if match else None


def _encode(kind: str, value: Any) -> str:
    coder = element_codec(kind)
    if coder is None:
        return repr(value)
    if isinstance(value, tuple):
        return f"({''.join(repr(coder[0](v)) + ', ' for v in value).rstrip()})"
    return "None" if value is None else repr(coder[0](value))


def decode(kind: str, value: Any) -> Any:
    coder = element_codec(kind)
    if coder is None or value is None:
        return value
    return tuple(coder[1](v) for v in value) if isinstance(value, tuple) else coder[1](value)


class _Printer:
    def __init__(self, locations: bool) -> None:
        self.names: dict[Op | Block, str] = {}
        self.taken: set[str] = set()
        self.count = 0
        self.written: set[Block] = set()
        self.lines: list[str] = []
        self.locations = locations

    def name(self, x: Op | Block) -> str:
        if x not in self.names:
            if isinstance(x, Arg):
                base = x.name
                fresh, n = base, 1
                while fresh in self.taken:
                    n += 1
                    fresh = f"{base}_{n}"
            else:
                fresh = f"{'b' if isinstance(x, Block) else 'v'}{self.count}"
                while fresh in self.taken:
                    fresh += "_"
            self.count += 1
            self.taken.add(fresh)
            self.names[x] = fresh
        return self.names[x]

    def operand(self, role: str, kind: str, value: Any) -> str:
        if role == "attribute":
            return _encode(kind, value)
        if role == "operands":
            return f"({''.join(self.name(v) + ', ' for v in value).rstrip()})"
        return "None" if value is None else self.name(value)

    def block(self, label: str, block: Block, indent: str) -> None:
        """Blocks may be made of the same operations; read back they are not, so each names its own."""
        for x in (*block.args, *block.ops):
            self.names.pop(x, None)
        arguments = ", ".join(f"{self.name(a)}: {a.type}" for a in block.args)
        self.lines.append(f"{indent}def {label}({arguments}):")
        inner = indent + "    "
        if not block.ops:
            self.lines.append(inner + "pass")
        for op in block.ops:
            for region in op.regions:
                if region not in self.written:
                    self.written.add(region)
                    self.block(self.name(region), region, inner)
            call = ", ".join(self.operand(role, op.kinds[n], getattr(op, n)) for n, role in op.roles.items())
            text = f"{op.mnemonic()}({call})"
            if op.type == NONE:
                line = text
            elif isinstance(op.type, ManyType):
                line = f"{self.name(op)} = {text}"
            else:
                line = f"{self.name(op)}: {op.type} = {text}"
            where = f"  # at {op.loc}" if self.locations and op.loc else ""
            self.lines.append(inner + line + where)


def format_function(function: Function, locations: bool = True) -> str:
    """The text of ``function``, without attributes that have their default.  Without ``locations`` it depends only on what the
    function computes."""
    printer = _Printer(locations)
    said = {n: getattr(function, n) for n in function.kinds if getattr(function, n) != getattr(type(function), n, None)}
    attributes = ", ".join(f"{n}={_encode(function.kinds[n], value)}" for n, value in said.items())
    printer.lines += [f"# portakern ir {TEXT_VERSION}", f"@{function.keyword()}({attributes})"]
    printer.block(function.name, function.body, "")
    return "\n".join(printer.lines) + "\n"


def sources(op: Op, follow: Callable[[Op], Sequence[Op]] = lambda op: op.operands) -> Iterator[Op]:
    """``op`` and what it is computed from, each once however many ways lead there, first operands first; ``follow`` gives the
    operands that count."""
    waiting, seen = [op], set[Op]()
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            yield found
            waiting += reversed(follow(found))


# ---- verification -----------------------------------------------------------------------------------------------------


def verify(function: Function) -> None:
    """Check that every operand is defined before its use in an enclosing scope; types were checked when built.

    Raises :class:`IRError` naming the operation and the line it comes from.
    """

    def visit(block: Block, visible: set[Op]) -> None:
        visible = visible | set(block.args)
        for number, op in enumerate(block.ops):
            for operand in op.operands:
                if operand not in visible:
                    raise IRError(f"{function.name}, operation {number} ({op.mnemonic()}): uses a "
                                           f"{operand.mnemonic()} that is not defined before it in this scope",
                                  where=str(op.loc or ""))
            if isinstance(op, Yield) and number != len(block.ops) - 1:
                raise IRError(f"{function.name}: a yield stands before the end of its block", where=str(op.loc or ""))
            for region in op.regions:
                visit(region, set() if op.closed else visible)
            visible.add(op)

    visit(function.body, set())


def key(op: Op) -> tuple[Any, ...]:
    """Two pure operations with equal keys compute the same value.  Constants are told apart by sign of zero."""
    return (type(op), *(_part_of_key(getattr(op, name)) for name in op.roles))


def _part_of_key(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value.says if isinstance(value, Block) else value
