"""Four waves that read and copy between their own products (CDNA 4): the order of one step of two slices, and its text."""

from __future__ import annotations

from dataclasses import dataclass

from .operand import StagedOperand

WAVES = (2, 2)


@dataclass(frozen=True)
class Quarter:
    """One quarter's products, and what is done between them: halves read into registers, halves sent on their way to LDS.

    :mod:`.order` derives the rest: ``needs`` names the registers that must have arrived before; before a ``barrier`` all of the
    slot has been read, and the other slot's copies are waited for.
    """

    quarter: tuple[int, int]
    rows: str
    cols: str
    reads: tuple[tuple[StagedOperand, int, int, str], ...]  # operand, half, slot, registers
    sends: tuple[tuple[StagedOperand, int, int], ...]  # operand, half, slices ahead
    needs: tuple[str, ...] = ()
    barrier: bool = False

    def __str__(self) -> str:
        lines = [f"wait for {', '.join(self.needs)}"] if self.needs else []
        lines += ["wait until all copies have landed", "barrier"] if self.barrier else []
        lines.append(f"multiply quarter {self.quarter} += {self.rows} * {self.cols}; between the products:")
        lines += [f"    read {to} = half {h} of {x.name}, slot {slot} (LDS to registers)" for x, h, slot, to in self.reads]
        lines += [f"    copy half {h} of {x.name}, {ahead} slices ahead (memory to LDS)" for x, h, ahead in self.sends]
        return "\n".join(lines)


def quarters(a: StagedOperand, b: StagedOperand) -> tuple[Quarter, ...]:
    """Two slices, one from each slot, without what they wait for.

    The second goes through the quarters the other way round, so that registers whose last use is over take what comes next.
    """

    def one(slot: int, first: tuple[int, str], other: tuple[int, str]) -> tuple[Quarter, ...]:
        (h, near), (g, far) = first, other
        ahead, next_ = 2 + slot, 1 - slot
        copies = [tuple((x, half, ahead) for half in (0, 1)) for x in (a, b)]
        return (
            Quarter((h, 0), near, "left", ((a, g, slot, far), (b, 1, slot, "right")), ()),
            Quarter((g, 0), far, "left", (), copies[0]),
            Quarter((g, 1), far, "right", ((b, 0, next_, "left"),), copies[1]),
            Quarter((h, 1), near, "right", ((a, g, next_, far),), ()),
        )

    upper, lower = (0, "upper"), (1, "lower")
    return (*one(0, upper, lower), *one(1, lower, upper))


def print_quarters(made: tuple[Quarter, ...], acc: str) -> list[str]:
    """The body of the loop, whose variable ``step`` counts slices."""
    lines: list[str] = []
    for n, q in enumerate(made):
        if n in (0, len(made) // 2):
            lines += ([""] if n else []) + [f"// The slice in slot {n and 1}."]
        if q.needs:
            lines.append(f"pk::arrived({', '.join(q.needs)});")
        if q.barrier:
            lines += ["pk::wait_for_copies<0>();", "pk::turn();  // this slot has been read, the other one is complete"]
        work = [f"{x.reader}.reading<{h}>({to}, {slot})" for x, h, slot, to in q.reads]
        work += [f"{x.feed}.starting<{h}>(step + {ahead})" for x, h, ahead in q.sends]
        head = f"pk::multiply_while<{q.quarter[0]}, {q.quarter[1]}>({acc}, {q.rows}, {q.cols},"
        line = f"{head} {', '.join(work)});"
        lines += [line] if len(line) < 110 else [head, f"                         {', '.join(work)});"]
    return lines
