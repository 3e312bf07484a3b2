"""What walks windows: convolutions, pools, stencils, and what users put before and after them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from portakern.fuzz.grammar.draws import Draw, chance, pick
from portakern.fuzz.grammar.products import TAME, asked, times
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import add, production
from portakern.ir.size import Size, names_of

# ---- how windows walk -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Walk:
    """Windows along one dim: ``window`` elements ``dilation`` apart, ``stride`` from one to the next, and the padding."""

    window: int
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1

    @property
    def reach(self) -> int:
        return self.dilation * (self.window - 1) + 1

    def least(self, count: int = 1) -> int:
        """The smallest dim that has ``count`` windows, 0 or 1."""
        return max(self.reach - self.low - self.high - 1 + count, 0)

    def least_transposed(self) -> int:
        """The smallest dim whose transposed convolution has a position."""
        return max(1 - (self.reach - self.low - self.high - 1) // self.stride, 1)


def walk(draw: Draw, padded: bool = True, dilated: bool = True) -> Walk:
    window = pick(draw, (3, 2, 1, 5, 4), (45, 25, 12, 10, 8))
    stride = pick(draw, (1, 2, 3), (60, 30, 10))
    dilation = pick(draw, (1, 2, 3), (80, 15, 5)) if dilated else 1
    if not padded or chance(draw, 40):
        return Walk(window, stride, 0, 0, dilation)
    low = pick(draw, range(window + 1))
    return Walk(window, stride, low, pick(draw, range(window + 1)) if chance(draw, 30) else low, dilation)


def walks(s: FuzzScope, n: int, padded: bool = True, dilated: bool = True) -> list[Walk]:
    """The same along every dim, or another along each."""
    first = walk(s.draw, padded, dilated)
    return [first, *(walk(s.draw, padded, dilated) if chance(s.draw, 30) else first for _ in range(n - 1))]


def each(values: list[int]) -> str:
    """One number where all are equal."""
    return str(values[0]) if len(set(values)) == 1 else str(tuple(values))


def options(along: list[Walk], stride: int | None = 1) -> str:
    """Arguments that say how windows walk; nothing where it is the usual: ``stride`` None is the window itself."""
    found = ""
    if any(w.stride != (w.window if stride is None else stride) for w in along):
        found += f", stride={each([w.stride for w in along])}"
    if any(w.low or w.high for w in along):
        same = all(w.low == w.high for w in along)
        found += f", padding={each([w.low for w in along]) if same else tuple((w.low, w.high) for w in along)}"
    if any(w.dilation != 1 for w in along):
        found += f", dilation={each([w.dilation for w in along])}"
    return found


# ---- images ---------------------------------------------------------------------------------------------------------------

DIMS = (2, 1, 3)
"""How many dims windows walk along, and how often."""


def spatial(s: FuzzScope) -> int:
    return pick(s.draw, DIMS, (65, 27, 8))


def _may_be(size: Size, least: int) -> bool:
    """Whether a dim can be asked to be at least this large."""
    return size >= least if isinstance(size, int) else len(names_of(size)) == 1


def image(s: FuzzScope, leasts: list[int], first: int = 1, channels: Size | None = None) -> tuple[Var, list[Need]]:
    """An array [N, *spatial, C], or with ``first=2`` [N, C, *spatial], and what its dims must be at least."""
    n = len(leasts)
    at = 1 if first == 2 else n + 1

    def fits(v: Var) -> bool:
        return (v.is_number and v.rank == n + 2 and v.range.within(TAME) and channels in (None, v.shape[at])
                and all(_may_be(v.shape[first + i], least) for i, least in enumerate(leasts)))  # fmt: skip

    def fresh() -> Var:
        sizes: list[Size] = [s.dim()]
        for _ in range(n):
            sizes.append(s.fresh_dim() if chance(s.draw, 80) else s.fresh_dim() * 2)
        sizes.insert(at, s.dim(sizes) if channels is None else channels)
        return s.input(sizes)

    x = s.operand(fits, fresh)
    return x, [Need(x.shape[first + i], least) for i, least in enumerate(leasts) if least]


def given_image(s: FuzzScope, leasts: list[int]) -> Var:
    """An array [N, *spatial, C] whose spatial sizes are numbers."""
    sizes = [least + pick(s.draw, (1, 0, 2, 4, 5, 8)) for least in leasts]
    return s.input((s.dim(), *sizes, s.dim()))


def _leasts(s: FuzzScope, along: list[Walk]) -> list[int]:
    return [w.least(0 if chance(s.draw, 2) else 1) for w in along]


def outputs(s: FuzzScope, x: Var) -> Size:
    """The channels of a convolution's result: those of ``x``, or others."""
    return x.shape[-1] if chance(s.draw, 20) else s.dim(x.shape)


# ---- convolutions ---------------------------------------------------------------------------------------------------------


def convolve(s: FuzzScope, along: list[Walk], x: Var, needs: list[Need]) -> Var:
    window = [w.window for w in along]
    w = s.input((*window, x.shape[-1], outputs(s, x)), hint="w")
    return s.let(f"pk.conv({x}, {w}{options(along)}{asked(s, x)})", times(x, w), needs=needs)


@production(9.0)
def conv(s: FuzzScope) -> Var:
    along = walks(s, spatial(s))
    return convolve(s, along, *image(s, _leasts(s, along)))


@production(2.5)
def conv_channels_first(s: FuzzScope) -> Var:
    """As PyTorch has arrays."""
    along = walks(s, spatial(s))
    x, needs = image(s, _leasts(s, along), first=2)
    w = s.input((s.dim(x.shape), x.shape[1], *(a.window for a in along)), hint="w")
    return s.let(f'pk.conv({x}, {w}{options(along)}, layout="NCHW")', times(x, w), needs=needs)


@production(2.5)
def conv_transposed(s: FuzzScope) -> Var:
    n = spatial(s)
    along = walks(s, n)
    first = chance(s.draw, 25)
    x, needs = image(s, [a.least_transposed() for a in along], first=2 if first else 1)
    channels, made = x.shape[1 if first else -1], s.dim(x.shape)
    window = [a.window for a in along]
    w = s.input((channels, made, *window) if first else (*window, channels, made), hint="w")
    layout = ', layout="NCHW"' if first else ""
    return s.let(f"pk.conv({x}, {w}{options(along)}, transposed=True{layout})", times(x, w), needs=needs)


@production(2.0)
def conv_depthwise(s: FuzzScope) -> Var:
    """Every channel by itself."""
    along = walks(s, spatial(s))
    x, needs = image(s, _leasts(s, along), channels=pick(s.draw, (3, 1, 8, 17)))
    w = s.input((*(a.window for a in along), 1, int(str(x.shape[-1])) * pick(s.draw, (1, 2), (85, 15))), hint="w")
    groups = pick(s.draw, (f"{x}.shape[-1]", str(x.shape[-1])))
    return s.let(f"pk.conv({x}, {w}{options(along)}, groups={groups})", times(x, w), needs=needs)


@production(2.0)
def conv_grouped(s: FuzzScope) -> Var:
    groups, mine = pick(s.draw, (2, 3, 4)), pick(s.draw, (2, 1, 3, 8))
    along = walks(s, spatial(s))
    first, transposed = chance(s.draw, 30), chance(s.draw, 20)
    leasts = [a.least_transposed() for a in along] if transposed else _leasts(s, along)
    x, needs = image(s, leasts, 2 if first else 1, channels=groups * mine)
    made = groups * pick(s.draw, (2, 1, 5))
    window = [a.window for a in along]
    weights = (*window, mine, made)
    if first:
        weights = (groups * mine, made // groups, *window) if transposed else (made, mine, *window)
    w = s.input(weights, hint="w")
    more = (", transposed=True" if transposed else "") + (', layout="NCHW"' if first else "")
    return s.let(f"pk.conv({x}, {w}{options(along)}, groups={groups}{more})", times(x, w), needs=needs)


@production(2.0)
def conv_of_integers(s: FuzzScope) -> Var:
    """Of 8 bits mostly, as quantised networks have them, whose sums have more; in groups or channel by channel too."""
    along, kind = walks(s, spatial(s)), pick(s.draw, ("i8", "u8", "i16", "i32"), (60, 15, 10, 15))
    transposed = chance(s.draw, 20)
    leasts = [a.least_transposed() for a in along] if transposed else _leasts(s, along)
    groups, mine = pick(s.draw, (1, 2, 5), (70, 15, 15)), pick(s.draw, (4, 1, 16, 40))
    sizes = [s.fresh_dim() for _ in along]
    x = s.input((s.dim(), *sizes, groups * mine), kind)
    w = s.input((*(a.window for a in along), mine, groups * pick(s.draw, (2, 1, 8))), kind, "w")
    needs = [Need(size, least) for size, least in zip(sizes, leasts, strict=True) if least]
    more = (f", groups={groups}" if groups > 1 else "") + (", transposed=True" if transposed else "")
    y = s.let(f"pk.conv({x}, {w}{options(along)}{more}, dtype=pk.i32)", Range(-1e6, 1e6), needs=needs)
    if chance(s.draw, 40):
        return s.let(f"pk.relu({y})", Range(0.0, 1e6))
    scale = s.input((y.shape[-1],), "f32", "scale")
    return s.let(f"pk.cast({y}, pk.f32) * {scale}", Range(-5e6, 5e6))


@production(2.5)
def conv_block(s: FuzzScope) -> Var:
    """A convolution with what usually follows it: a bias, a norm, an activation, the array it was made from."""
    along = [Walk(3, 1, 1, 1)] * spatial(s)
    x, needs = image(s, [1] * len(along))
    w = s.input((*(3 for _ in along), x.shape[-1], x.shape[-1] if chance(s.draw, 50) else s.dim(x.shape)), hint="w")
    y = s.let(f"pk.conv({pick(s.draw, ('{}', 'pk.relu({})', '1.0 - {}')).format(x)}, {w}, padding=1)", times(x, w), needs=needs)
    if y.shape == x.shape and chance(s.draw, 50):
        y = s.let(f"{x} + {y}", x.range + y.range)
    if chance(s.draw, 50):
        axes = pick(s.draw, (tuple(range(y.rank - 1)), tuple(range(1, y.rank - 1)), (y.rank - 1,)))
        m = s.let(f"{y} - pk.mean({y}, axis={axes}, keepdims=True)", y.range - y.range)
        y = s.let(f"{m} * pk.rsqrt(pk.mean({m} * {m}, axis={axes}, keepdims=True) + 1e-2)", Range(-50.0, 50.0))
    if chance(s.draw, 50):
        y = s.let(f"{y} + {s.like(y.shape[-1:], hint='bias')}", y.range + Range(-5.0, 5.0))
    return s.let(pick(s.draw, ("pk.relu({})", "pk.silu({})", "pk.tanh({})")).format(y), y.range | Range(-1.0, 1.0))


@production(1.5)
def conv_layers(s: FuzzScope) -> Var:
    """Two convolutions, or one and a pool."""
    along = walks(s, spatial(s), padded=False, dilated=False)
    more = [Walk(2, 2) if chance(s.draw, 50) else Walk(3) for _ in along]
    needed = [a.reach + (b.reach - 1) * a.stride for a, b in zip(along, more, strict=True)]
    x, needs = image(s, needed)
    y = convolve(s, along, x, needs)
    y = s.let(f"pk.relu({y}) * 0.1", y.range.magnitude() * Range(0.0, 0.1))
    if chance(s.draw, 40):
        return s.let(f"pk.max_pool({y}, {each([m.window for m in more])}{options(more, None)})", y.range)
    return convolve(s, more, y, [])


@production(1.0)
def patches(s: FuzzScope) -> Var:
    """An image cut into patches, each a row, times a matrix."""
    p = pick(s.draw, (2, 4, 3))
    x, needs = image(s, [p, p], channels=pick(s.draw, (3, 1, 4)))
    y = convolve(s, [Walk(p, p)] * 2, x, needs)
    return s.let(f"{y}.reshape({y}.shape[0], -1, {y}.shape[3])", y.range)


# ---- pools ----------------------------------------------------------------------------------------------------------------


def _pool_walks(s: FuzzScope, dilated: bool) -> list[Walk]:
    """Windows one after the other, or overlapping, padded by half of them at most."""
    along = walks(s, spatial(s), dilated=dilated)
    if chance(s.draw, 40):
        along = [Walk(w.window, w.window) for w in along]
    return [Walk(w.window, w.stride, min(w.low, w.window // 2), min(w.high, w.window // 2), w.dilation) for w in along]


POOLS = ("max", "min", "avg")


def _pool(fn: str, s: FuzzScope) -> Var:
    along = _pool_walks(s, dilated=fn != "avg")
    x, needs = image(s, _leasts(s, along))
    window = each([w.window for w in along])
    more = ", count_pads=False" if fn == "avg" and chance(s.draw, 40) else ""
    return s.let(f"pk.{fn}_pool({x}, {window}{options(along, None)}{more})", x.range | Range(0.0, 0.0), needs=needs)


for _fn in POOLS:
    add(f"{_fn}_pool", 2.0, partial(_pool, _fn))


@production(1.2)
def lp_pool(s: FuzzScope) -> Var:
    along = [Walk(w.window, w.stride) for w in _pool_walks(s, False)]
    x, needs = image(s, _leasts(s, along))
    power = pick(s.draw, (2, 1, 3))
    source = str(x) if power == 2 else f"pk.abs({x})"
    return s.let(f"pk.lp_pool({source}, {power}, {each([w.window for w in along])}{options(along, None)})",
                 Range(0.0, 9 * x.range.reach), needs=needs)  # fmt: skip


@production(1.5)
def max_pool_places(s: FuzzScope) -> Var:
    """Where the largest of every window stands; of whole numbers many are equal."""
    along = _pool_walks(s, True)
    x, needs = image(s, _leasts(s, along))
    of = f"pk.round({x})" if chance(s.draw, 50) else str(x)
    return s.let(f"pk.max_pool({of}, {each([w.window for w in along])}{options(along, None)}, indices=True)[1]",
                 Range(0.0, 1e4), needs=needs)  # fmt: skip


@production(1.5)
def pool_ceil(s: FuzzScope) -> Var:
    """With a last window that ends outside."""
    fn = pick(s.draw, (*POOLS, "lp"))
    along = _pool_walks(s, dilated=fn in ("max", "min"))
    along = [Walk(w.window, w.stride) for w in along] if fn == "lp" else along
    x = given_image(s, [max(w.reach - w.low, w.least()) for w in along])
    of, power = (f"pk.abs({x})", " 3,") if fn == "lp" else (str(x), "")
    more = ", count_pads=False" if fn == "avg" and chance(s.draw, 40) else ""
    return s.let(f"pk.{fn}_pool({of},{power} {each([w.window for w in along])}{options(along, None)}, ceil=True{more})",
                 x.range | Range(0.0, 9 * x.range.reach))  # fmt: skip


@production(1.5)
def pool_adaptive(s: FuzzScope) -> Var:
    """As many windows as asked, of sizes that differ by one."""
    counts = [pick(s.draw, (2, 1, 3, 4)) for _ in range(spatial(s))]
    fn = pick(s.draw, ("avg", "max"))
    if chance(s.draw, 40):
        x = s.input((s.dim(), *(s.fresh_dim() * c for c in counts), s.dim()))
    else:
        x = given_image(s, counts)
    return s.let(f"pk.adaptive_{fn}_pool({x}, {each(counts)})", x.range)


@production(1.0)
def pool_global(s: FuzzScope) -> Var:
    x, _ = image(s, [1] * spatial(s))
    fn = pick(s.draw, ("mean", "max"))
    return s.let(f"pk.{fn}({x}, axis={tuple(range(1, x.rank - 1))})", x.range)


@production(1.0)
def pool_difference(s: FuzzScope) -> Var:
    """An array against the pool of its neighbourhood."""
    x, needs = image(s, [1] * spatial(s))
    fn = pick(s.draw, ("max", "avg", "min"))
    return s.let(f"{x} - pk.{fn}_pool({x}, 3, 1, 1)", x.range - x.range, needs=needs)


# ---- windows of any array -------------------------------------------------------------------------------------------------


@production(2.0)
def stencil(s: FuzzScope) -> Var:
    """Sums over windows along one dim, weighted or not, or another statistic of them."""
    a = walk(s.draw, padded=False)

    def fits(v: Var) -> bool:
        return v.is_number and v.rank in (1, 2, 3) and v.range.within(TAME) and any(_may_be(d, a.reach) for d in v.shape)

    x = s.operand(fits, lambda: s.input((*s.shape((2, 1))[:-1], s.fresh_dim())))
    axis = next(i for i in reversed(range(x.rank)) if _may_be(x.shape[i], a.reach))
    more = f", axes={axis}" if axis != x.rank - 1 or chance(s.draw, 20) else ""
    found = f"pk.windows({x}, {a.window}{more}{options([a])})"
    needs = [Need(x.shape[axis], a.reach)]
    kind = pick(s.draw, ("weighted", "statistic", "product", "stored"))
    if kind == "stored" and x.rank < 4:
        return s.let(f"{found} * 2.0", x.range + x.range, needs=needs)
    if kind == "statistic":
        fn = pick(s.draw, ("max", "sum", "mean", "var"))
        return s.let(f"pk.{fn}({found}, axis=-1)", Range(-2e4, 2e4), needs=needs)
    w = s.input((a.window,), hint="w")
    if kind == "product":
        return s.let(f"{found} @ {w}", times(x, w), needs=needs)
    return s.let(f"pk.sum({found} * {w}, axis=-1)", times(x, w), needs=needs)


@production(1.5)
def unfold(s: FuzzScope) -> Var:
    """Every window a row, perhaps times a matrix: a convolution by hand."""
    along = walks(s, pick(s.draw, (2, 1)))
    x, needs = image(s, _leasts(s, along))
    rows = s.let(f"pk.unfold({x}, {each([a.window for a in along])}{options(along)})", x.range | Range(0.0, 0.0), needs=needs)
    if chance(s.draw, 50):
        return rows
    w = s.input((rows.shape[-1], s.dim(rows.shape)), hint="w")
    return s.let(f"{rows} @ {w}", times(rows, w))


@production(1.0)
def lrn(s: FuzzScope) -> Var:
    x = s.number((2, 3, 4), within=TAME)
    size = pick(s.draw, (3, 5, 2, 4))
    more = f", axis={s.axis(x)}" if chance(s.draw, 40) else ""
    return s.let(f"pk.local_response_norm({x}, {size}, alpha=0.1{more})", x.range)
