"""The plan of a kernel: what its text will say, decided statement by statement, before any text.

A plan is frozen and prints as a listing (``portakern emit --ir plan``).  Every value has its place (layout), every shared
operand its number of slots and its role, every loop its pipeline.  Expressions on elements and addresses are trees
(:mod:`.terms`); text is the printer's.  What a statement reads (:func:`reads`) and how it is with other names
(:func:`renamed`) can be asked of every statement, those of a platform too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

from portakern.emit.clike.layouts import Layout, Place
from portakern.emit.clike.names import Names
from portakern.emit.clike.terms import Apply, Name, Term, Word
from portakern.ir.size import Size


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel: a buffer (``array``, written or not), a run-time ``scalar``, or a ``size``."""

    name: str
    dtype: str
    role: str
    written: bool = False
    source: str = ""  # the name of the array, or of the open dim


@dataclass(frozen=True)
class Part:
    """Base of what statements are made of and is looked into with them; ``UNREAD`` as of statements."""

    UNREAD: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Access(Part):
    """Where a tile lies in memory: pointer to its first element, the strides of its dims in elements, and how many
    elements are left in the buffer along each dim (empty: none is ever outside).  ``pad`` is what a load has there."""

    origin: Term
    strides: tuple[Term, ...]
    left: tuple[Term, ...] = ()
    pad: Term | None = None

    def __str__(self) -> str:
        left = f" left ({_listed(self.left)})" if self.left else ""
        pad = f" pad {self.pad}" if self.pad is not None else ""
        return f"[{self.origin}] strides ({_listed(self.strides)}){left}{pad}"


@dataclass(frozen=True)
class Shared:
    """An operand of a matrix product in shared memory: ``slots`` buffers of ``rows`` x ``cols``.

    ``role`` is A (left) or B (right) and ``transposed`` whether it is stored k x m or n x k.
    """

    name: str
    dtype: str
    rows: int
    cols: int
    slots: int
    role: str
    transposed: bool
    why: str

    def __str__(self) -> str:
        t = ", transposed" if self.transposed else ""
        return f"shared {self.name}: {self.dtype} [{self.rows}, {self.cols}] x {self.slots}, operand {self.role}{t}, {self.why}"


# ---- statements ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """Base of all statements.  ``note`` is a comment for the reader of the kernel.

    ``NAMES`` lists the fields that hold names of variables, and ``MADE`` those of them that the statement gives a value to
    and does not read, unless it says otherwise (``define``).  ``INSIDE`` lists those with names of its own: (dtype, name, ..),
    which may be called like outer ones; ``GIVEN`` those that are read outside all the same.  ``UNREAD`` lists those that say
    something of it and are not looked at.
    """

    NAMES: ClassVar[tuple[str, ...]] = ()
    MADE: ClassVar[tuple[str, ...]] = ()
    INSIDE: ClassVar[tuple[str, ...]] = ()
    GIVEN: ClassVar[tuple[str, ...]] = ()
    UNREAD: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Scalar(Statement):
    """A value without dims, the same for every thread."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    value: Term
    define: bool = True
    constant: bool = True
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} = {self.value}"


@dataclass(frozen=True)
class Map(Statement):
    """``result`` on each element of the tiles ``args``, whose elements are called ``params`` (dtype, name).

    ``locals`` are (dtype, name, value) computed first.  ``captures`` is whether outer names are used, ``once`` whether only
    one reduction or store reads the result.
    """

    NAMES = ("name",)
    MADE = ("name",)
    INSIDE = ("params", "locals")
    GIVEN = ("args",)

    name: str
    dtype: str
    place: Place
    params: tuple[tuple[str, str], ...]
    args: tuple[Term, ...]
    locals: tuple[tuple[str, str, Term], ...]
    result: Term
    captures: bool
    define: bool = True
    note: str = ""
    once: bool = False

    def __str__(self) -> str:
        params = ", ".join(f"{name}={arg}" for (_, name), arg in zip(self.params, self.args, strict=True))
        body = "; ".join([*(f"{n} = {x}" for _, n, x in self.locals), str(self.result)])
        return f"{self.name}: {self.dtype} {self.place} = map({params}) {{ {body} }}"


@dataclass(frozen=True)
class Fill(Statement):
    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    place: Place
    value: Term
    define: bool = True
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {self.place} = fill({self.value})"


@dataclass(frozen=True)
class LoadTile(Statement):
    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    place: Place
    access: Access
    define: bool = True
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {self.place} = load {self.access}"


@dataclass(frozen=True)
class StoreTile(Statement):
    """``mode`` is set, add or max; ``place`` is ``None`` for a scalar, which one thread stores."""

    value: Term
    dtype: str
    place: Place | None
    access: Access
    mode: str = "set"
    note: str = ""

    def __str__(self) -> str:
        return f"store {self.value} ({self.mode}) {self.access}"


@dataclass(frozen=True)
class Reduce(Statement):
    """Along each row (``cols`` go away) or each column; ``into`` is where the vector must be (``None``: a scalar)."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    fn: str
    gone: str  # "cols" or "rows"
    value: Term
    source: Place
    into: Place | None
    define: bool = True
    note: str = ""
    own: bool = False  # of the thread's own elements only

    @property
    def made(self) -> Place | None:
        """Where the reduction itself leaves the vector."""
        if self.into is None:
            return None
        return Place(self.source.layout, "row" if self.gone == "cols" else "col")

    def __str__(self) -> str:
        gone = "own" if self.own else self.gone
        return f"{self.name}: {self.dtype} {self.into or 'scalar'} = reduce_{gone}({self.fn}, {self.value})"


@dataclass(frozen=True)
class Scan(Statement):
    """Running ``fn`` along each row; ``carry`` is the variable with what came before, which takes what goes on (empty:
    nothing came before, and nobody asks)."""

    NAMES = ("name", "carry")
    MADE = ("name",)

    name: str
    dtype: str
    fn: str
    value: Term
    place: Place
    carry: str = ""
    reverse: bool = False
    exclusive: bool = False
    define: bool = True
    note: str = ""

    def __str__(self) -> str:
        how = "".join([", from the end" if self.reverse else "", ", exclusive" if self.exclusive else ""])
        carry = f", carry {self.carry}" if self.carry else ""
        return f"{self.name}: {self.dtype} {self.place} = scan_cols({self.fn}, {self.value}{carry}{how})"


@dataclass(frozen=True)
class Convert(Statement):
    """The same values elsewhere: ``word`` is relayout, transpose or copy."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    place: Place
    word: str
    value: Term
    define: bool = True
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {self.place} = {self.word}({self.value})"


@dataclass(frozen=True)
class Combine(Statement):
    """Join what every thread holds in the variables named by ``fields`` (dtype, name), as ``results`` of two ``sides`` say;
    ``part`` names the type that holds them, ``locals`` are (dtype, name, value) computed first."""

    NAMES = ("name",)
    MADE = ("name",)
    INSIDE = ("locals",)

    name: str
    part: str
    fields: tuple[tuple[str, str], ...]
    place: Place
    sides: tuple[str, str]
    locals: tuple[tuple[str, str, Term], ...]
    results: tuple[Term, ...]
    note: str = ""

    def __str__(self) -> str:
        body = "; ".join([*(f"{n} = {x}" for _, n, x in self.locals), _listed(self.results)])
        return f"{self.name} = combine({', '.join(n for _, n in self.fields)}) {{ {body} }}"


@dataclass(frozen=True)
class Assign(Statement):
    """A carried value takes its next value."""

    NAMES = ("name",)

    name: str
    value: Term

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


@dataclass(frozen=True)
class Stage(Statement):
    """Start copying an operand to slot ``slot`` of a shared buffer; zero outside."""

    NAMES = ("slot",)

    shared: Shared
    slot: str
    access: Access

    def __str__(self) -> str:
        return f"stage {self.shared.name}[{self.slot}] {self.access}"


@dataclass(frozen=True)
class Put(Statement):
    """A tile in registers to a shared buffer."""

    shared: Shared
    value: Term

    def __str__(self) -> str:
        return f"put {self.shared.name}[0] = {self.value}"


@dataclass(frozen=True)
class Commit(Statement):
    def __str__(self) -> str:
        return "commit"


@dataclass(frozen=True)
class Wait(Statement):
    """Until at most ``groups`` committed groups of copies are in flight."""

    groups: int
    note: str = ""

    def __str__(self) -> str:
        return f"wait {self.groups}"


@dataclass(frozen=True)
class Sync(Statement):
    """A barrier of the block; one is as good as another, whatever it is for."""

    note: str = field(default="", compare=False)

    def __str__(self) -> str:
        return "sync"


@dataclass(frozen=True)
class Operand:
    """An operand of :class:`Dot`: ``slot`` of a shared buffer, or the variable of a tile in registers."""

    held: Shared | str
    slot: str = "0"
    transposed: bool = False  # the other way round than the product wants it

    @property
    def shared(self) -> Shared | None:
        return self.held if isinstance(self.held, Shared) else None

    @property
    def name(self) -> str:
        return self.held.name if isinstance(self.held, Shared) else self.held

    def __str__(self) -> str:
        where = f"{self.name}[{self.slot}]" if self.shared else self.name
        return f"transposed({where})" if self.transposed else where


@dataclass(frozen=True)
class Dot(Statement):
    """``acc += a * b`` in place."""

    NAMES = ("acc",)

    acc: str
    place: Place
    a: Operand
    b: Operand
    depth: int  # how many products each element sums
    element: str
    precision: str = "ieee"

    def __str__(self) -> str:
        return f"dot {self.acc} += {self.a} * {self.b} over {self.depth} ({self.element}, {self.precision})"


@dataclass(frozen=True)
class Pipeline:
    """Operands that are copied ``slots - 1`` steps ahead of their use; ``stage`` names the function that starts a step's
    copies, ``slot`` the variable that names the current slot, ``step`` is how far the loop goes at a time."""

    slots: int
    stage: str
    slot: str
    copies: tuple[Stage, ...]

    def __str__(self) -> str:
        return f"pipeline of {self.slots} slots: {'; '.join(map(str, self.copies))}"


@dataclass(frozen=True)
class Loop(Statement):
    """``for (var = begin; var < end; var += step)``."""

    NAMES = ("var",)
    MADE = ("var",)

    var: str
    begin: Term
    end: Term
    step: int
    body: tuple[Statement, ...]
    pipeline: Pipeline | None = None
    note: str = ""

    def __str__(self) -> str:
        head = [f"loop {self.var} from {self.begin} below {self.end} by {self.step}"]
        if self.pipeline:
            head.append(f"    {self.pipeline}")
        return "\n".join([*head, *(_indent(str(s)) for s in self.body)])


@dataclass(frozen=True)
class Block(Statement):
    """Statements with names of their own."""

    body: tuple[Statement, ...]
    note: str = ""

    def __str__(self) -> str:
        return "\n".join([f"block: {self.note}", *(_indent(str(s)) for s in self.body)])


def _listed(terms: Iterable[Term]) -> str:
    return ", ".join(map(str, terms))


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.split("\n"))


# ---- kernels and programs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scope:
    """Statements that follow each other, and the names that they are ``given`` by what the printer writes around them."""

    statements: tuple[Statement, ...]
    given: frozenset[str] = frozenset()


@dataclass(frozen=True)
class KernelPlan:
    """One kernel: parameters, layouts, shared operands and statements.  ``blocks`` is the size of the linear grid."""

    name: str
    family: str
    params: tuple[Param, ...]
    layouts: tuple[Layout, ...]
    shared: tuple[Shared, ...]
    body: tuple[Statement, ...]
    blocks: Size
    warps: int
    threads: int
    note: str = ""
    names: frozenset[str] = frozenset()
    """All that stand for something in it."""

    def scopes(self) -> Sequence[Scope]:
        """Its statements, in the blocks that :mod:`.verify` looks through."""
        return (Scope(self.body),)

    def free_names(self) -> Names:
        """Gives names that the kernel has not taken."""
        return Names({*self.names, *(q.name for q in self.params)})

    def __str__(self) -> str:
        params = ", ".join(f"{p.name}: {p.dtype}{'' if p.role != 'array' else '*'}" for p in self.params)
        lines = [f"kernel {self.name}({params})", f"    blocks {self.blocks}, warps {self.warps}, threads {self.threads}"]
        lines += [f"    layout {x}" for x in self.layouts]
        lines += [f"    {x}" for x in self.shared]
        return "\n".join([*lines, *(_indent(str(s)) for s in self.body)]) + "\n"


@dataclass(frozen=True)
class ProgramPlan:
    """The plans of a program's kernels, in launch order."""

    name: str
    kernels: tuple[KernelPlan, ...]

    def __str__(self) -> str:
        return f"plan {self.name}\n" + "\n".join(map(str, self.kernels))


# ---- walking one -----------------------------------------------------------------------------------------------------


def statements(block: Sequence[Statement]) -> list[Statement]:
    """All statements, those inside loops (and the copies of their pipelines) too."""
    found: list[Statement] = []
    for s in block:
        found.append(s)
        if isinstance(s, Loop | Block):
            found += statements(s.body)
        if isinstance(s, Loop) and s.pipeline:
            found += s.pipeline.copies
    return found


# ---- what statements read, and under which names --------------------------------------------------------------------------

S = TypeVar("S", bound="Statement | Part | Operand | Pipeline")


def reads(*parts: Any) -> frozenset[str]:
    """The names that statements, terms and parts of these read; sequences are looked through."""
    return frozenset().union(*map(_reads, parts))


def _reads(x: Any) -> frozenset[str]:
    match x:
        case Term():
            return x.reads
        case Shared():
            return frozenset({x.name})
        case Operand():
            return frozenset({x.name, x.slot} if x.shared and not x.slot.isdigit() else {x.name})
        case Pipeline():
            return reads(x.copies) - {x.slot}
        case Statement():
            return _read_by(x)
        case Part():
            return reads(*(getattr(x, f.name) for f in fields(x) if f.name not in x.UNREAD))
        case tuple() | list():
            return reads(*x)
    return frozenset()


def _read_by(s: Statement) -> frozenset[str]:
    made = s.MADE if getattr(s, "define", True) else ()
    named = frozenset(getattr(s, f).partition(".")[0] for f in s.NAMES if f not in made and getattr(s, f))
    named = frozenset(x for x in named if not x.isdigit())  # a slot may be the only one
    inside = {name for f in s.INSIDE for _, name, *_ in getattr(s, f)}
    if isinstance(s, Combine):
        named, inside = named | {name for _, name in s.fields}, inside | {*s.sides}
    parts = reads(*(getattr(s, f.name) for f in fields(s) if f.name not in (*s.UNREAD, *s.GIVEN)))
    given = reads(*(getattr(s, f) for f in s.GIVEN))
    return named | given | (parts - inside - {getattr(s, f) for f in made if isinstance(s, Loop)})


def made(s: Statement) -> frozenset[str]:
    """The names that ``s`` makes, for those after it to read."""
    return frozenset(getattr(s, f) for f in s.MADE) if getattr(s, "define", True) else frozenset()


def words(*parts: Any) -> frozenset[str]:
    """Words of the platform, as the index of the block, in statements, terms and parts of these."""
    return frozenset(x.text for term in _terms(parts) for x in term.parts() if isinstance(x, Word))


def calls(*parts: Any) -> frozenset[str]:
    """Words of the vocabulary that terms call, in statements, terms and parts of these."""
    return frozenset(x.word for term in _terms(parts) for x in term.parts() if isinstance(x, Apply) and x.word)


def _terms(x: Any) -> Iterator[Term]:
    if isinstance(x, Term):
        yield x
    elif isinstance(x, tuple | list):
        for y in x:
            yield from _terms(y)
    elif isinstance(x, Statement | Part | Operand | Pipeline):
        for f in fields(x):
            yield from _terms(getattr(x, f.name))


def used(block: Sequence[Statement], *later: Any) -> tuple[Statement, ...]:
    """``block`` without the scalars that nobody reads, in it or ``later``."""
    wanted = reads(*block, *later)
    return tuple(s for s in block if not isinstance(s, Scalar) or s.name in wanted)


def relaid(x: Any, layouts: Mapping[Layout, Layout]) -> Any:
    """A plan, a statement or a part of one with other layouts in place of these."""
    match x:
        case Layout():
            return layouts.get(x, x)
        case Statement() | Part() | Operand() | Pipeline() | Place() | KernelPlan():
            return replace(x, **{f.name: relaid(getattr(x, f.name), layouts) for f in fields(x)})
        case tuple():
            return tuple(relaid(y, layouts) for y in x)
    return x


def renamed(x: S, names: Mapping[str, str]) -> S:
    """A statement, or a part of one, with other names for variables; those inside it change with them."""
    changed: dict[str, Any] = {}
    for f in fields(x):
        flagged = isinstance(x, Statement) and f.name in (*x.NAMES, *x.INSIDE)
        changed[f.name] = _renamed(getattr(x, f.name), names, flagged or f.name in ("held", "slot", "sides", "fields"))
    return replace(x, **changed)


def _renamed(x: Any, names: Mapping[str, str], named: bool) -> Any:
    match x:
        case Term():
            return x.renamed(names)
        case Statement() | Part() | Operand() | Pipeline():
            return renamed(x, names)
        case str() if named:
            return str(Name(x).called(names))
        case tuple():
            return tuple(_renamed(y, names, named) for y in x)
    return x
