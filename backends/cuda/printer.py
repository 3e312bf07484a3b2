"""Prints the plans of CUDA kernels in the tile vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.emit.clike import TYPES, Dialect, KernelPlan, Printer
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Layout
from portakern.emit.clike.printer import indented, wrapped
from portakern.emit.clike.terms import ZERO, number

from .ahead import Taken, read_ahead
from .attention import (
    ComputedHere,
    Fetch,
    IssueFirst,
    IssueLast,
    IssueStep,
    JoinRows,
    Pack,
    Rescale,
    RescaleSum,
    TakeScores,
    TakeTotal,
    TensorWalkPlan,
    WalkPlan,
    Weigh,
    print_walk,
)
from .blackwell import BeginSum, CommitSum, Multiply, TakeSum, TensorPlan, print_tensor_pipeline
from .chain import ChainPlan, Room, print_chain
from .hopper import (
    Fetched,
    NarrowPlan,
    NarrowProduct,
    PipelinePlan,
    Refill,
    SendTile,
    SumOf,
    WriteRows,
    print_narrow,
    print_pipeline,
)
from .lines import PADDING, Lines
from .plans import (
    CudaKernelPlan,
    aligned,
    between,
    by_rows,
    by_warpgroups,
    chained,
    least_blocks,
    operands_are_static,
    precision_of,
    shared_offsets,
    statements,
    vector_width,
)
from .side_by_side import SideBySide, print_side_by_side
from .thirds import DotInThirds, SumAgain, Thirds
from .under_way import AsyncProduct, Complete, Fed, Give, StartProducts, Take

ALIGNED = "pk::Aligned"

DIALECT = Dialect(
    "CUDA C++",
    types={name: text for name, text in TYPES.items() if not name.endswith("fnuz")},
    minus="pk::minus({0}, {1})",
    register_operands=frozenset({("A", "accumulator")}),
    register_dtypes=frozenset({"bf16", "f16"}),
    unrolled_slots=3,
    private_walks=True,
    takes_pixels=True,
    takes_planes=True,
    member="PK_DEVICE",
    sorts=True,
)


UNROLLED = 32
"""Steps of a loop, and of those in it, up to which it is unrolled; longer thin ones are by ``SLID``."""
SLID = 8
"""Steps that are unrolled of a loop that carries tiles on, which costs moves in between."""


def _steps(s: p.Loop) -> int | None:
    """How many steps a loop of few has, and those in it, which only load and compute."""
    end = number(s.end)
    if s.begin != ZERO or end is None or s.pipeline is not None:
        return None
    count = -(-end // s.step)
    for x in s.body:
        inner = _steps(x) if isinstance(x, p.Loop) else 1 if isinstance(x, _PLAIN) else None
        if inner is None:
            return None
        count *= inner
    return count


_PLAIN = (p.LoadTile, p.Map, p.Assign)


def _moves(s: p.Loop) -> bool:
    return any(isinstance(x, p.Assign) for x in s.body)


class _WarpgroupDialect(Dialect):
    """Operands are announced to the matrix unit, which reads them from shared memory by itself."""

    def word(self, name: str, template: str = "", *args: object) -> str:
        if name in ("wait", "put"):
            template = ", ".join(filter(None, (template, "pk::ByMatrixUnit")))
        return super().word(name, template, *args)


WARPGROUP_DIALECT = _WarpgroupDialect(**vars(DIALECT))


class CudaPrinter(Printer):
    """Prints vectors as wide as the memory system takes them, operands in dynamic shared memory where they are large."""

    def kernel(self, k: KernelPlan) -> list[str]:
        self.dialect = WARPGROUP_DIALECT if by_warpgroups(k) else DIALECT
        if isinstance(k, PipelinePlan):
            self.plan = k
            return print_tensor_pipeline(self, k) if isinstance(k, TensorPlan) else print_pipeline(self, k)
        if isinstance(k, NarrowPlan):
            self.plan = k
            return print_narrow(self, k)
        if isinstance(k, WalkPlan):
            self.plan = k
            return print_walk(self, k)
        if isinstance(k, ChainPlan):
            self.plan = k
            return print_chain(self, k)
        if isinstance(k, SideBySide):
            return print_side_by_side(self, k)
        return super().kernel(k)

    def bounds(self, k: KernelPlan) -> str:
        """The threads of a block, and how many blocks an SM must be able to hold."""
        if isinstance(k, PipelinePlan | WalkPlan | ChainPlan):
            return f"{k.block}, 1"
        at_once = k.at_once if isinstance(k, CudaKernelPlan) else 0
        if isinstance(k, NarrowPlan):
            at_once = k.blocks_at_once
        elif any(isinstance(s, p.Dot) for s in statements(k.body)):
            at_once = least_blocks(k)  # a product pays for registers with reuse: few blocks will do
        return f"{k.threads}, {at_once}" if at_once else str(k.threads)

    def attributes(self, k: KernelPlan) -> str:
        blocks = k.parts if isinstance(k, NarrowPlan) else k.cluster[0] * k.cluster[1] if isinstance(k, PipelinePlan) else 1
        return f"__cluster_dims__({blocks}, 1, 1) " if blocks > 1 else ""

    def param(self, q: p.KernelParam) -> str:
        return f"const __grid_constant__ pk::TensorMap {q.name}" if q.role == "map" else super().param(q)

    def layout(self, x: Layout) -> str:
        if x.kind != "accumulator":
            text, width = super().layout(x), vector_width(self.plan, x)
            return text if width == 8 else text[:-1] + f", {width}>"
        element, by = self.dialect.type(x.element), ""
        if isinstance(self.plan, TensorWalkPlan):
            return self.named("TensorRows", f"{x.rows}, {x.cols}, {self.plan.warps}, {element}")
        if isinstance(self.plan, TensorPlan):
            by = "Tensor"
        elif by_warpgroups(self.plan):
            by = "Warpgroup"
        elif self._in_thirds(x) and any(isinstance(s, Thirds) for s in self.plan.shared):
            by, element = "Warpgroup", "pk::bf16"
        else:
            by = "Stacked" if chained(self.plan) else ""
            element = "pk::bf16x6" if self._in_thirds(x) else element
            element = "pk::tf32" if precision_of(self.plan, x) == "tf32" and element == "float" else element
        return self.named(f"{by}Accumulator", f"{x.rows}, {x.cols}, {self.plan.warps}, {element}")

    def _in_thirds(self, x: Layout) -> bool:
        return any(isinstance(s, DotInThirds) and s.place.layout == x for s in statements(self.plan.body))

    def on_DotInThirds(self, s: DotInThirds) -> list[str]:
        operands = f"{s.acc}, {self.operand(s.a)}, {self.operand(s.b)}, {self.turn} == 1"
        return [f"{self.sum}.add({operands});" if self.sum else self.word("dot", "", operands) + ";"]

    def on_SumAgain(self, s: SumAgain) -> list[str]:
        """Unrolled, since what is seldom done shall take no registers of what is often done."""
        assert s.fill is not None
        self.turn, self.sum, before, after = self.names.fresh("turn"), "", [], []
        if s.thirds is not None:
            self.sum = self.names.fresh("sum")
            before = [f"auto {self.sum} = {self.word('sum_of', self.place(s.fill.place), self.only(s.thirds))};"]
            after = [f"if ({self.turn} == 0) {self.sum}.complete({s.fill.name});  // of the last step"]
        return [*before, "#pragma unroll",
                f"for (int {self.turn} = 0; {self.turn} < 2; ++{self.turn}) {{",
                *indented([*self.statements(s.body), *after,
                           f"if ({self.turn} == 1 || {self.word('all_finite', '', s.fill.name)}) break;",
                           "// An operand is infinite, or a sum too large: once more, by fused multiply-adds.",
                           *self.on_Fill(s.fill)]), "}"]  # fmt: skip

    def shared(self, k: KernelPlan) -> list[str]:
        if operands_are_static(k):
            return super().shared(k)
        lines = ["extern __shared__ __align__(1024) unsigned char dynamic_shared[];"]
        for s, offset in zip(k.shared, shared_offsets(k), strict=False):
            kind = self.shared_type(s)
            place = f"dynamic_shared + {offset}" if offset else "dynamic_shared"
            lines.append(f"auto* {s.name} = reinterpret_cast<{kind}*>({place});"
                         + (f"  // {s.slots} slots" if s.slots > 1 else ""))
        return lines

    def loaded(self, s: p.LoadTile) -> str:
        template = self.place(s.place) + (f", {self.fact('loads')}" if aligned(s.access) else "")
        word = "gather" if s.picks else self.shifted(s) or "load"
        return self.word(word, template, *self.address(s.access, pad=True), *s.picks)

    def shifted(self, s: p.LoadTile) -> str:
        return "load_shifted" if by_rows(self.plan, s) else "load_between" if between(self.plan, s) else ""

    def on_StoreTile(self, s: p.StoreTile) -> list[str]:
        if s.mode == "set" and by_rows(self.plan, s) and not s.picks:
            return [self.word("store_rows", "", s.value, *self.address(s.access)) + ";"]
        if between(self.plan, s):
            return [self.word("store_between", "", s.value, *self.address(s.access)) + ";"]
        if s.mode != "set" or not aligned(s.access):
            return super().on_StoreTile(s)
        return [self.word("store", self.fact("stores"), s.value, *self.address(s.access), *s.picks) + ";"]

    def fact(self, accesses: str) -> str:
        """What aligned loads or stores are said to be."""
        return "pk::Kept" if isinstance(self.plan, CudaKernelPlan) and self.plan.keep == accesses else ALIGNED

    def on_SendTile(self, s: SendTile) -> list[str]:
        assert s.map is not None
        if s.map.pixels is not None:
            images = " x ".join(map(str, s.map.shape[1:-1]))
            return [f"outbox.send_pixels({s.value}, {s.map.name}, {', '.join(map(str, s.at))});  // of images of {images}"]
        return [f"outbox.send({s.value}, {s.map.name}, {', '.join(map(str, s.at))});"]

    def on_WriteRows(self, s: WriteRows) -> list[str]:
        return [f"writer.store({', '.join(map(str, (s.value, *self.address(s.access))))});"]

    def on_Pack(self, s: Pack) -> list[str]:
        return self.define(s.name, s.define, self.word("pack", self.dialect.type(s.element), s.value))

    def on_Rescale(self, s: Rescale) -> list[str]:
        return [f"{self.word('rescale', '', s.name, s.factor)};  // most steps change no row's factor"]

    def on_ComputedHere(self, s: ComputedHere) -> list[str]:
        return [f"{self.word('computed_here', '', s.value)};  // and not behind the wait below"]

    def on_JoinRows(self, s: JoinRows) -> list[str]:
        return [f"{self.word('join_sums', '', s.name)};  // of the threads that share a row"]

    def on_IssueFirst(self, s: IssueFirst) -> list[str]:
        return [f"walk.begin({s.query}, {s.keys});"]

    def on_IssueStep(self, s: IssueStep) -> list[str]:
        return [f"walk.step({s.query}, {s.keys}, {s.values});"]

    def on_IssueLast(self, s: IssueLast) -> list[str]:
        return [f"walk.end({s.query}, {s.values});"]

    def on_TakeScores(self, s: TakeScores) -> list[str]:
        return self.define(s.name, True, "walk.scores()")

    def on_RescaleSum(self, s: RescaleSum) -> list[str]:
        return [f"walk.rescale({s.factor});  // most steps change no row's factor"]

    def on_Weigh(self, s: Weigh) -> list[str]:
        return [f"walk.weigh({self.word('pack', self.dialect.type(s.element), s.value)});  // the issuer goes on"]

    def on_TakeTotal(self, s: TakeTotal) -> list[str]:
        return self.define(s.name, s.define, f"walk.sum({s.part if s.part != ZERO else ''})")

    def on_NarrowProduct(self, s: NarrowProduct) -> list[str]:
        matrices = [self.word("brought", "", *x) for x in s.matrices]
        return self.define(s.name, True, self.word(s.word, s.template, *s.arguments, *matrices))

    def on_SumOf(self, s: SumOf) -> list[str]:
        return self.define(s.name, True, f"{s.of}.of[{s.number}]")

    def on_Refill(self, s: Refill) -> list[str]:
        copies = [line for f in s.brought for line in self.fetched(f, s.slot)]
        return [f"const int {s.slot} = pipe.refill({s.bytes});  // once everyone has read it", *copies, "pipe.advance();"]

    def fetched(self, f: Fetched, slot: str) -> list[str]:
        if f.map.pixels is None:
            return [f"pipe.copy_{f.side}({f.shared.name}[{slot}], {f.map.name}, {', '.join(map(str, f.at))});"]
        channel, *begin = f.at[: len(f.map.shape)]
        taps = f.at[len(f.map.shape) :]
        head = f"pipe.copy_pixels({f.shared.name}[{slot}], {f.map.name}, {channel},"
        return [head, f"                 {', '.join(map(str, begin))},  // the first pixel, its image last",
                f"                 {', '.join(map(str, taps))});  // where the tap lies"]  # fmt: skip

    def on_Fetch(self, s: Fetch) -> list[str]:
        ring, pages = s.ring, s.ring.pages
        if pages is None:
            alone = "if (pk::lane() == 0) " if s.alone else ""
            return [f"{alone}{ring.name}.fetch({ring.map.name}, {', '.join(map(str, ring.at))});"]
        table = self.word("page_table", str(pages.height), pages.table, pages.count, pages.step, pages.among)
        return [f"{ring.name}.fetch_pages({ring.map.name}, {table}, {', '.join(map(str, ring.at))});"]

    def on_Take(self, s: Take) -> list[str]:
        kind, word = ("const int", "arrived") if s.feed.counts else ("auto&", "next")
        return [f"{kind} {s.name} = {s.feed.name}.{word}();"]

    def on_Relayout(self, s: p.Relayout) -> list[str]:
        """Among the consumers where a producer is beside them."""
        if not isinstance(self.plan, ChainPlan) or s.word == "copy" or s.place.side != "tile":
            return super().on_Relayout(s)
        template = f"{self.place(s.place)}, pk::Consumers<{self.plan.threads}>"
        return self.define(s.name, s.define, self.word(s.word, template, s.value))

    def on_Room(self, s: Room) -> list[str]:
        return [f"pk::Tile<float, {self.place(s.place)}> {s.name};"]

    def on_StartProducts(self, s: StartProducts) -> list[str]:
        started = [f"{self.product(x)};{f'  // {x.note}' if x.note else ''}" for x in s.products]
        return ["turns.wait();", *started, "turns.pass();"] if s.in_turn else started

    def product(self, x: AsyncProduct) -> str:
        left, right = (self.fed(y) if isinstance(y, Fed) else self.operand(y) for y in (x.left, x.right))
        return self.word("start_product" if x.anew else "start_dot", str(x.deep or ""), x.acc, left, right)

    def fed(self, x: Fed) -> str:
        text = f"{x.feed.name}.next()"
        return self.word("transposed", "", text) if x.transposed else text

    def on_BeginSum(self, s: BeginSum) -> list[str]:
        return ["pipe.begin();  // once the sum of the tile before the last has been taken"]

    def on_Multiply(self, s: Multiply) -> list[str]:
        deep = f"<{s.deep}>" if s.deep else ""
        return [f"pipe.multiply{deep}({self.operand(s.a)}, {self.operand(s.b)});"]

    def on_CommitSum(self, s: CommitSum) -> list[str]:
        return ["pipe.commit();"]

    def on_TakeSum(self, s: TakeSum) -> list[str]:
        some = f"{s.begin} < {s.end}" if s.begin is not None else ""
        arguments = [str(s.part), some] if some else [str(s.part)] if s.part != ZERO else []
        return self.define(s.name, True, f"pipe.take({', '.join(arguments)})")

    def on_Complete(self, s: Complete) -> list[str]:
        return [self.word("complete", str(s.under_way), *s.tiles) + ";"]

    def on_Give(self, s: Give) -> list[str]:
        if not s.feed.counts:
            return [f"{s.feed.name}.release();"]
        which = f"<{s.started}>();  // its products are complete, these go on" if s.started > 1 else (
            "();  // its product is complete, this one goes on")  # fmt: skip
        return [f"{s.feed.name}.release_previous{which}" if s.previous
                else f"{s.feed.name}.finish();  // while the producer fetches the next tile"]  # fmt: skip

    def on_Loop(self, s: p.Loop) -> list[str]:
        """Few steps that only load and compute are unrolled, so that their loads are on their way together."""
        steps, loads = read_ahead(s, self.plan)
        if steps:
            return self._reading_ahead(s, steps, loads)
        lines = super().on_Loop(s)
        count = _steps(s)
        if (count is None or count > UNROLLED) and self._thin(s):
            return [f"#pragma unroll {SLID}", *lines]
        if count is None or count > UNROLLED:
            return lines
        return [f"#pragma unroll{f' {SLID}' if count > SLID and _moves(s) else ''}", *lines]

    def rolled(self, s: p.Loop) -> list[str]:
        """Steps of products in parts, of which the compiler for Blackwell unrolls as many as there are: 32 of them took
        minutes, and 700 KB of code instead of 42."""
        parts = any(isinstance(x, DotInThirds) for x in statements(s.body)) and not self.sum
        return ["#pragma unroll 1  // a step is long enough"] if parts else []

    def _reading_ahead(self, s: p.Loop, steps: int, loads: Sequence[p.LoadTile | p.Scalar]) -> list[str]:
        lines = [f"// What a step reads is on its way up to {steps} steps before it."]
        turn, first = self.names.fresh("turn"), self.names.fresh(f"{s.var}_first")
        taken: dict[p.Statement, Taken] = {}
        for x in loads:
            name = self.names.fresh(f"{x.name.removesuffix('_tile').removesuffix('_value')}_ahead")
            read = self.loaded(x) if isinstance(x, p.LoadTile) else str(x.value)
            before, after = self.word("ahead", str(steps), s.end, f"[&](int64_t {s.var}) {{\0}}").split("\0")
            lines += [f"auto {name} = {before}", *indented(wrapped(f"return {read};")), f"{after};"]
            taken[x] = Taken(x.name, x.dtype, name, turn, x.note)
        end = number(s.end)
        rest = [] if end is not None and end % steps == 0 else [f"if ({s.var} >= {s.end}) break;"]
        body = [f"const int64_t {s.var} = {first} + {turn};", *rest, *self.statements([taken.get(x, x) for x in s.body]),
                *(f"{x.ahead}.again({turn}, {s.var});" for x in taken.values())]  # fmt: skip
        turns = ["#pragma unroll", f"for (int {turn} = 0; {turn} < {steps}; ++{turn}) {{", *indented(body), "}"]
        return [*lines, f"for (int64_t {first} = 0; {first} < {s.end}; {first} += {steps}) {{", *indented(turns), "}"]

    def on_Taken(self, s: Taken) -> list[str]:
        return self.define(s.name, True, f"{s.ahead}.of[{s.turn}]")

    def _thin(self, s: p.Loop) -> bool:
        """A walk one by one, as over parts that are joined, in which a thread has an element or two: some steps unrolled let it
        wait for their loads together."""
        flat = s.step == 1 and s.begin == ZERO and number(s.end) is not None and s.pipeline is None
        flat = flat and all(isinstance(x, (*_PLAIN, p.Scalar)) for x in s.body)
        few = all(x.rows * x.cols <= 2 * self.plan.threads for x in self.plan.layouts)
        return flat and few and any(isinstance(x, p.LoadTile) for x in s.body)

    def on_CopyToShared(self, s: p.CopyToShared) -> list[str]:
        slot, template = self.slot(s.shared, s.slot), str(self.plan.threads)
        if isinstance(s.shared, Lines) and s.shared.turned:
            slot = self.word("transposed", "", slot)
        elif aligned(s.access):
            template += f", {ALIGNED}"
        if s.picks:
            self.words.add("part")  # what stages elements that are picked is held where coordinates have parts
        return [self.word("stage", template, slot, *self.address(s.access), *s.picks) + ";"]

    def shared_type(self, s: p.Shared) -> str:
        if isinstance(s, Thirds):
            return self.named("Thirds", ", ".join(map(str, s.sizes)))
        sizes = f"{self.dialect.type(s.dtype)}, {s.rows}, {s.cols}"
        if not isinstance(s, Lines):
            return self.named("Shared", sizes)
        return self.named("Lines", sizes if s.padding == PADDING else f"{sizes}, {s.padding}")
