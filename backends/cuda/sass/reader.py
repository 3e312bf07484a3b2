"""What nvdisasm and cuobjdump print, as instructions.

The upper of an instruction's two 64-bit words holds what the compiler decided about its issue, in bits 41 to 57: 4 bits of
cycles to stall, a bit to prefer another warp, two barriers of 3 bits that it sets when it has written and when it has read (7:
none), and a mask of 6 barriers to wait for.  As found by Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking" (2018), 2.1; the same on Ampere to Blackwell, as CuAssembler reads them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINE = re.compile(r"^\s*/\*(?P<at>[0-9a-f]{4,})\*/\s+(?P<text>[^;]*?)\s*;\s*(?:/\*\s*0x(?P<low>[0-9a-f]{16})\s*\*/)?\s*$")
_SECOND = re.compile(r"^\s*/\*\s*0x([0-9a-f]{16})\s*\*/\s*$")
_WORDS = re.compile(r"^\{?\s*(?:@(?P<guard>!?U?P[0-9T]+)\s+)?(?P<opcode>[A-Z][A-Za-z0-9_.]*)\s*(?P<operands>.*)$", re.DOTALL)
_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\S+?),|^\s*Function : (\S+)")
_LABEL = re.compile(r"^([.$]\S+):$")
_SOURCE = re.compile(r'//## File "([^"]+)", line (\d+)(?P<inlined> inlined at)?')


@dataclass(frozen=True, slots=True)
class Control:
    """``stall`` in cycles before the warp's next instruction; barriers are 0 to 5, -1 for none; ``waits`` are barriers."""

    stall: int = 1
    writes: int = -1
    reads: int = -1
    waits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Instruction:
    """``opcode`` with its modifiers, as ``LDG.E.128``; ``guard`` as ``!P0``, empty where it always runs; ``target`` is the
    number of the instruction that it may jump to, ``line`` that of the file in which the kernel is, 0 where nobody knows."""

    at: int
    guard: str
    opcode: str
    operands: str
    control: Control = Control()
    target: int = -1
    line: int = 0

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])


@dataclass
class _Reading:
    found: list[tuple[int, str, str, int]] = field(default_factory=list)  # address, text, low word, line
    high: dict[int, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)


def read(text: str) -> dict[str, tuple[Instruction, ...]]:
    """The instructions of every function by its name, padding behind the last one left out."""
    kernels: dict[str, _Reading] = {}
    now: _Reading | None = None
    line = 0
    for row in text.splitlines():
        if match := _SECTION.match(row):
            now = kernels.setdefault(match[1] or match[2], _Reading())
            line = 0
        elif now is None:
            continue
        elif match := _LINE.match(row):
            now.found.append((int(match["at"], 16), match["text"], match["low"] or "", line))
        elif now.found and (match := _SECOND.match(row)):
            now.high[now.found[-1][0]] = int(match[1], 16)
        elif match := _LABEL.match(row.strip()):
            now.labels[match[1]] = len(now.found)
        elif match := _SOURCE.search(row):  # of several, the last is the outermost: where the innermost was inlined in the end
            line = int(match[2])
    return {name: _instructions(r) for name, r in kernels.items()}


def _instructions(r: _Reading) -> tuple[Instruction, ...]:
    numbers = {at: n for n, (at, *_) in enumerate(r.found)}
    made = []
    for at, text, _, line in r.found:
        words = _WORDS.match(text.strip())
        if words is None:
            continue
        made.append(Instruction(at, words["guard"] or "", words["opcode"], words["operands"].strip(), _control(r.high.get(at)),
                                _target(words["opcode"], words["operands"], r.labels, numbers), line))  # fmt: skip
    return tuple(_without_padding(made))


def _control(high: int | None) -> Control:
    if high is None:
        return Control()
    bits = high >> 41
    write, read_ = bits >> 5 & 7, bits >> 8 & 7
    waits = tuple(n for n in range(6) if bits >> 11 >> n & 1)
    return Control(bits & 15, write if write < 6 else -1, read_ if read_ < 6 else -1, waits)


def _target(opcode: str, operands: str, labels: dict[str, int], numbers: dict[int, int]) -> int:
    if opcode.partition(".")[0] not in ("BRA", "CALL", "JMP", "BRX"):
        return -1
    if label := re.search(r"`\(([^)\s]+)\)", operands):
        return labels.get(label[1], -1)
    address = re.search(r"0x([0-9a-f]+)\s*$", operands)
    return numbers.get(int(address[1], 16), -1) if address else -1


def _without_padding(made: list[Instruction]) -> list[Instruction]:
    """Without the NOPs behind the last instruction and the jump to itself before them."""
    end = len(made)
    while end and made[end - 1].name == "NOP":
        end -= 1
    if end and made[end - 1].name == "BRA" and made[end - 1].target == end - 1:
        end -= 1
    return made[:end]
