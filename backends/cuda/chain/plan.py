"""The plan of products of products that warpgroups make from what a producer brings."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.backend import TensorMap
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Place

from ..attention.plan import Ring
from ..hopper.plan import WARPGROUP
from ..plans import CudaKernelPlan


@dataclass(frozen=True)
class Room(p.Statement):
    """Registers for the result of a product that begins anew."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    place: Place

    def __str__(self) -> str:
        return f"{self.name}: f32 {self.place}"


@dataclass(frozen=True)
class ChainPlan(CudaKernelPlan):
    """``threads`` and ``warps`` are the consumers'; a warpgroup more produces."""

    rings: tuple[Ring, ...] = ()
    producer: tuple[p.Statement, ...] = ()
    consumers: tuple[p.Statement, ...] = ()

    def scopes(self) -> tuple[p.Scope, ...]:
        return p.Scope(self.producer), p.Scope(self.consumers)

    @property
    def block(self) -> int:
        return self.threads + WARPGROUP

    @property
    def barriers_at(self) -> int:
        return sum(r.bytes for r in self.rings)

    @property
    def dynamic_bytes(self) -> int:
        return self.barriers_at + sum(r.barrier_bytes for r in self.rings)

    @property
    def maps(self) -> tuple[TensorMap, ...]:
        return tuple(r.map for r in self.rings)

    def __str__(self) -> str:
        params = ", ".join(f"{q.name}: {q.dtype}{'' if q.role != 'array' else '*'}" for q in self.params)
        lines = [
            f"kernel {self.name}({params})",
            f"    products by {self.products}",
            f"    blocks {self.blocks}",
            f"    consumers: {self.warps} warps; producer: one thread of {WARPGROUP // 32} warps",
            *(f"    layout {x}" for x in self.layouts),
            *(f"    {x}" for x in self.rings),
            *(f"    map {m.name}: {m.array} [{', '.join(map(str, m.shape))}]" for m in self.maps),
        ]
        for role, statements in (("producer", self.producer), ("consumers", self.consumers)):
            lines.append(f"    {role}")
            lines += [f"        {line}" for s in statements for line in str(s).split("\n")]
        return "\n".join(lines) + "\n"
