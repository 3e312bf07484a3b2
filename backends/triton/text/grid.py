"""How a program finds its block: grid axes are cut out of ``tl.program_id(0)``, in an order that suits the caches."""

from __future__ import annotations

from .axes import TritonAxisNames, TritonAxisText


class GridText(TritonAxisText):
    """Prints the coordinates of grid axes."""

    def _grid(self, walked: str = "") -> None:
        """``walked`` is the number of the block where a program has several."""
        many = self._grid_axes()
        first = walked or "tl.program_id(0)"
        pid = f"{first}.to(tl.int64)" if self._pid_is_wide() or (len(many) == 1 and many[0].wide) else first
        block: dict[str, str] = {}
        if len(many) == 1:
            block[many[0].axis.name] = pid
        elif many:
            if pid != "pid":
                self.out.line(f"pid = {pid}")
            block = self._cut(many)
        for axis in self.kernel.grid:
            self._coordinates(self.axes[axis.name], block.get(axis.name, "0"))

    def _cut(self, many: list[TritonAxisNames]) -> dict[str, str]:
        """Print how ``pid`` splits into one block number for each axis, the last axis fastest."""
        block: dict[str, str] = {}
        group = int(self.kernel.schedule.option("group_m", 0)) if self.kernel.family == "contraction" else 0
        swizzled = group > 1 and many[-2].axis.tile > 1 and many[-1].axis.tile > 1
        if self._takes_turns(many):
            self._turns(many, block)
            many = many[:-1]
            if len(many) == 1:
                block[many[0].axis.name] = "pid"
                return block
        rest = many
        for a in reversed(many[1:]):
            name = a.start if a.axis.tile == 1 else self.names.fresh(f"{a.axis.name}_block")
            steps = self._steps(a.axis)
            if a.axis.name in self.last_first:
                self.out.comment("Blocks that walk farthest start first.")
                self.out.line(f"{name} = {steps} - 1 - pid % {steps}")
            else:
                self.out.line(f"{name} = pid % {steps}")
            rest = rest[:-1]
            if len(rest) > 1:
                self.out.line(f"pid //= {steps}")
            block[a.axis.name] = name
        last = self._steps(many[1].axis)
        a = many[0]
        name = a.start if a.axis.tile == 1 else self.names.fresh(f"{a.axis.name}_block")
        self.out.line(f"{name} = pid // {last}")
        block[a.axis.name] = name
        if swizzled:
            self._swizzle(many[-2], many[-1], block, group)
        return block

    def _takes_turns(self, many: list[TritonAxisNames]) -> bool:
        """Whether blocks of several heads (all but the last grid axis) alternate, so that the longest walks start first."""
        heads = int(self.kernel.schedule.option("heads", 0))
        return heads > 1 and many[-1].axis.name in self.last_first and all(a.axis.tile == 1 for a in many[:-1])

    def _turns(self, many: list[TritonAxisNames], block: dict[str, str]) -> None:
        self.constants["HEADS"] = int(self.kernel.schedule.option("heads", 0))
        last = many[-1]
        name = block[last.axis.name] = self.names.fresh(f"{last.axis.name}_block")
        steps, heads = self._steps(last.axis), " * ".join(self._steps(a.axis) for a in many[:-1])
        self.out.comment("HEADS heads at a time, whose keys and values stay in the last-level cache; the longest walks first.")
        self.out.line(f"pid, {name} = tl.swizzle2d(pid // {steps}, pid % {steps}, {heads}, {steps}, HEADS)")
        self.out.line(f"{name} = {steps} - 1 - {name}")

    def _swizzle(self, m: TritonAxisNames, n: TritonAxisNames, block: dict[str, str], group: int) -> None:
        self.constants["GROUP"] = group
        rows, cols = block[m.axis.name], block[n.axis.name]
        self.out.comment("Walk the output in groups of GROUP block rows, so that both operands stay in the last-level cache.")
        self.out.line(f"{rows}, {cols} = tl.swizzle2d({rows}, {cols}, {self._steps(m.axis)}, {self._steps(n.axis)}, GROUP)")
