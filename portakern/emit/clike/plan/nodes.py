"""What a plan says, statement by statement, and what statements are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from portakern.emit.clike.layouts import Place
from portakern.emit.clike.terms import PlanTerm


@dataclass(frozen=True)
class StatementPart:
    """Base of what statements are made of and is looked into with them; ``UNREAD`` as of statements."""

    UNREAD: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Access(StatementPart):
    """Where a tile lies in memory: pointer to its first element, the strides of its dims in elements, and how many
    elements are left in the buffer along each dim (empty: none is ever outside).  ``pad`` is what a load has there."""

    origin: PlanTerm
    strides: tuple[PlanTerm, ...]
    left: tuple[PlanTerm, ...] = ()
    pad: PlanTerm | None = None

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
    value: PlanTerm
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
    args: tuple[PlanTerm, ...]
    locals: tuple[tuple[str, str, PlanTerm], ...]
    result: PlanTerm
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
    value: PlanTerm
    define: bool = True
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {self.place} = fill({self.value})"


@dataclass(frozen=True)
class LoadTile(Statement):
    """``picks`` are the coordinates that tiles give (calls of ``along``): then the access has none along those dims."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    place: Place
    access: Access
    define: bool = True
    note: str = ""
    picks: tuple[PlanTerm, ...] = ()

    def __str__(self) -> str:
        picks = f" at ({_listed(self.picks)})" if self.picks else ""
        return f"{self.name}: {self.dtype} {self.place} = {'gather' if picks else 'load'} {self.access}{picks}"


@dataclass(frozen=True)
class StoreTile(Statement):
    """``mode`` is set, add or max; ``place`` is ``None`` for a scalar, which one thread stores.  ``picks`` as of loads."""

    value: PlanTerm
    dtype: str
    place: Place | None
    access: Access
    mode: str = "set"
    note: str = ""
    picks: tuple[PlanTerm, ...] = ()

    def __str__(self) -> str:
        picks = f" at ({_listed(self.picks)})" if self.picks else ""
        return f"store {self.value} ({self.mode}) {self.access}{picks}"


@dataclass(frozen=True)
class Reduce(Statement):
    """Along each row (``cols`` go away) or each column; ``into`` is where the vector must be (``None``: a scalar)."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    fn: str
    gone: str  # "cols" or "rows"
    value: PlanTerm
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
    value: PlanTerm
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
class ScanBy(Statement):
    """Running values along each row of the tiles ``values``, whose elements together are a ``part`` with ``members`` (dtype,
    name); two of them, ``sides``, are joined as ``results`` say, ``locals`` being (dtype, name, value) computed first."""

    NAMES = ("name",)
    MADE = ("name",)
    INSIDE = ("locals",)
    GIVEN = ("values",)

    name: str
    part: str
    members: tuple[tuple[str, str], ...]
    values: tuple[PlanTerm, ...]
    place: Place
    sides: tuple[str, str]
    locals: tuple[tuple[str, str, PlanTerm], ...]
    results: tuple[PlanTerm, ...]
    note: str = ""

    def __str__(self) -> str:
        body = "; ".join([*(f"{n} = {x}" for _, n, x in self.locals), _listed(self.results)])
        return f"{self.name}: {self.place} = scan_by({_listed(self.values)}) {{ {body} }}"


@dataclass(frozen=True)
class Order(Statement):
    """Which element of its row comes to each of the places in ``place`` once ``keys`` are in ascending order; only the first
    ``count`` are asked for where it is not 0."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str  # of the keys
    keys: PlanTerm
    of: Place
    place: Place
    count: int = 0
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name}: i32 {self.place} = order({self.keys}{f', the first {self.count}' if self.count else ''})"


@dataclass(frozen=True)
class InOrder(Statement):
    """The elements of ``value`` that ``order`` names, in its place."""

    NAMES = ("name", "order")
    MADE = ("name",)

    name: str
    dtype: str
    place: Place
    value: PlanTerm
    order: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {self.place} = in_order({self.value}, {self.order})"


@dataclass(frozen=True)
class Member(Statement):
    """One member of what a :class:`ScanBy` has made: of its running values, or of the ``last`` ones of its rows (``place`` is
    ``None`` where there is one row)."""

    NAMES = ("name", "source")
    MADE = ("name",)

    name: str
    dtype: str
    place: Place | None
    source: str
    part: str
    member: str
    last: bool = False
    note: str = ""

    def __str__(self) -> str:
        of = "last" if self.last else "tile"
        return f"{self.name}: {self.dtype} {self.place or 'scalar'} = {self.source}.{of}.{self.member}"


@dataclass(frozen=True)
class Relayout(Statement):
    """The same values elsewhere: ``word`` is relayout, transpose or copy."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    place: Place
    word: str
    value: PlanTerm
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
    locals: tuple[tuple[str, str, PlanTerm], ...]
    results: tuple[PlanTerm, ...]
    note: str = ""

    def __str__(self) -> str:
        body = "; ".join([*(f"{n} = {x}" for _, n, x in self.locals), _listed(self.results)])
        return f"{self.name} = combine({', '.join(n for _, n in self.fields)}) {{ {body} }}"


@dataclass(frozen=True)
class Assign(Statement):
    """A carried value takes its next value."""

    NAMES = ("name",)

    name: str
    value: PlanTerm

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


@dataclass(frozen=True)
class CopyToShared(Statement):
    """Start copying an operand to slot ``slot`` of a shared buffer; zero outside.  ``picks`` are coordinates of its rows; of
    its columns and its rows, which are contracted, if they are ``planes``."""

    NAMES = ("slot",)

    shared: Shared
    slot: str
    access: Access
    picks: tuple[PlanTerm, ...] = ()
    planes: bool = False

    def __str__(self) -> str:
        picks = f" at {_listed(self.picks)}" if self.picks else ""
        return f"stage {self.shared.name}[{self.slot}] {self.access}{picks}"


@dataclass(frozen=True)
class StoreToShared(Statement):
    """A tile in registers to a shared buffer."""

    shared: Shared
    value: PlanTerm

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
    copies: tuple[CopyToShared, ...]

    def __str__(self) -> str:
        return f"pipeline of {self.slots} slots: {'; '.join(map(str, self.copies))}"


@dataclass(frozen=True)
class Loop(Statement):
    """``for (var = begin; var < end; var += step)``."""

    NAMES = ("var",)
    MADE = ("var",)

    var: str
    begin: PlanTerm
    end: PlanTerm
    step: int
    body: tuple[Statement, ...]
    pipeline: Pipeline | None = None
    note: str = ""

    def __str__(self) -> str:
        head = [f"loop {self.var} from {self.begin} below {self.end} by {self.step}"]
        if self.pipeline:
            head.append(f"    {self.pipeline}")
        return "\n".join([*head, *(indented(str(s)) for s in self.body)])


@dataclass(frozen=True)
class Block(Statement):
    """Statements with names of their own, done ``when`` a condition holds that is the same for all threads."""

    body: tuple[Statement, ...]
    note: str = ""
    when: PlanTerm | None = None

    def __str__(self) -> str:
        head = f"block: {self.note}" if self.when is None else f"when {self.when}: {self.note}"
        return "\n".join([head, *(indented(str(s)) for s in self.body)])


def _listed(terms: Iterable[PlanTerm]) -> str:
    return ", ".join(map(str, terms))


def indented(text: str) -> str:
    """A listing one level further in."""
    return "\n".join("    " + line for line in text.split("\n"))
