"""The integers that one wave computes, lane by lane, while what it loads from memory stays unknown.

That is enough for loop counts and addresses: they follow from the kernel's arguments, the numbers of workgroup and lane, and
integer arithmetic.  Everything else is *unknown* (``None``), and so is what is computed from it; nothing is guessed.  Where a
branch depends on something unknown the wave goes on as most do (see :meth:`Wave._branch`), and the trace says so.

It is not the machine of :mod:`..execution`, which runs every wave of a launch on real arrays and stops where an undefined value
reaches an address, a branch or EXEC.  The model prices launches that the machine would take hours for, from a few waves without
the others, and goes on past what only memory knows.  Where nothing is unknown both take the same way
(``tests/rocm/cost/test_values.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..assembly import registers
from ..assembly.linking import destination
from ..assembly.parser import Assembly
from .arithmetic import COMPARE, M32, M64, SCALAR, SCALAR64, SETS_SCC, VECTOR, VECTOR64, signed
from .instructions import InstructionCost, Unit
from .operands import EXEC, VCC, Modifiers, integer, plain, register_range

TTMP = registers.TTMP
M0 = ("s", registers.M0)
MOST = 400_000
"""Instructions after which a wave is given up: its trace then says that it was cut."""


@dataclass(frozen=True)
class InitialWaveState:
    """What a wave finds when it begins: user and system scalars from ``s0`` on, lane numbers in ``v0``, its arguments."""

    scalars: tuple[int | None, ...]
    items: np.ndarray
    argument_address: int
    arguments: bytes
    others: Mapping[int, int] = field(default_factory=dict)
    """Scalars that do not follow the others: trap temporaries."""


@dataclass
class ExecutedAccess:
    """One executed access: byte addresses by active lane, unknown where ``None``."""

    at: int
    addresses: tuple[np.ndarray, ...] | None
    lds: np.ndarray | None = None
    """Where a load that goes to LDS writes."""


@dataclass
class Trace:
    """What a wave executed, by position in the program.  ``accesses`` are by place in ``steps``."""

    steps: list[int] = field(default_factory=list)
    accesses: dict[int, ExecutedAccess] = field(default_factory=dict)
    guesses: dict[int, int] = field(default_factory=dict)
    """Branches whose condition is unknown, by position, and how often each was met."""
    cut: bool = False


class Wave:
    """Executes one wave; where LDS accesses go is left out unless ``lds``."""

    def __init__(self, code: Assembly, costs: Sequence[InstructionCost | None], first: int, start: InitialWaveState,
                 lds: bool = True) -> None:  # fmt: skip
        self.code, self.costs, self.start = code, costs, start
        self.number = len(start.items)
        """Of lanes."""
        self.wide = self.number == 64
        self.full = (1 << self.number) - 1
        self.units = {Unit.LDS, Unit.VECTOR_MEMORY} if lds else {Unit.VECTOR_MEMORY}
        self.pc = first
        self.s: dict[int, int | None] = dict(enumerate(start.scalars)) | dict(start.others)
        self.v: dict[int, np.ndarray | None] = {0: start.items.astype(np.int64)}
        self.s[EXEC[1]] = self.s[EXEC[1] + 1] = M32
        self.scc: bool | None = None
        self.active, self.all_active = np.ones(self.number, bool), True
        self.paired: dict[int, np.ndarray | None] = {}
        self.trace = Trace()

    def run(self, most: int = MOST, until: Callable[[Trace], bool] | None = None) -> Trace:
        """Until the wave ends, ``most`` instructions were executed, or ``until`` says so after a branch."""
        steps, costs = self.trace.steps, self.costs
        while len(steps) < most:
            at = self.pc
            cost = costs[at] if at < len(costs) else None
            if cost is None:
                raise IndexError(f"the wave ran out of its kernel at instruction {at}")
            steps.append(at)
            self.pc = at + 1
            if cost.unit is Unit.BRANCH:
                if cost.name.startswith("s_endpgm"):
                    return self.trace
                self._branch(at, cost)
                if until is not None and until(self.trace):
                    return self.trace
            else:
                self._execute(at, cost)
        self.trace.cut = True
        return self.trace

    # ---- control flow

    def _branch(self, at: int, cost: InstructionCost) -> None:
        """Unknown conditions: some lane is active, a loop is not gone round again, else the next instruction."""
        name = cost.name
        taken: bool | None
        label = destination(self.code.instructions, at)
        if label is None:
            return
        if name in ("s_branch", "s_setpc_b64"):
            taken = True
        elif name in ("s_cbranch_scc0", "s_cbranch_scc1"):
            taken = None if self.scc is None else self.scc == name.endswith("1")
        else:
            mask = self.mask_at(VCC[1] if "vcc" in name else EXEC[1])
            taken = None if mask is None else (mask != 0) == name.endswith("nz")
        if taken is None:
            self.trace.guesses[at] = self.trace.guesses.get(at, 0) + 1
            taken = False
        if taken:
            self.pc = self.code.labels[label]

    # ---- registers

    def pair(self, number: int) -> int | None:
        low, high = self.s.get(number, 0), self.s.get(number + 1, 0)  # what was never written counts for nothing
        return None if low is None or high is None else low | high << 32

    def mask_at(self, number: int) -> int | None:
        """One bit a lane: a register, or two where waves have 64 lanes."""
        return self.pair(number) if self.wide else self.s.get(number, 0)

    def _set_mask(self, number: int, value: int | None) -> None:
        if self.wide:
            self._set_pair(number, value)
            return
        self.s[number] = None if value is None else value & M32
        if number == EXEC[1]:
            self._refresh()

    def _set_pair(self, number: int, value: int | None) -> None:
        self.s[number] = None if value is None else value & M32
        self.s[number + 1] = None if value is None else value >> 32 & M32
        if number == EXEC[1]:
            self._refresh()

    def _refresh(self) -> None:
        """The lanes that EXEC names; where it is unknown, those of before."""
        mask = self.mask_at(EXEC[1])
        if mask is not None:
            self.active, self.all_active = _mask_of(mask)[: self.number], mask & self.full == self.full

    def scalar(self, operand: str, double: bool = False) -> int | None:
        word = plain(operand)
        if word in ("scc", "src_scc"):
            return None if self.scc is None else int(self.scc)
        found = register_range(word)
        if found is None:
            value = integer(operand)
            if value is None:
                return 0 if word == "null" else None
            return value & (M64 if double else M32)
        if found.kind != "s":
            return None
        return self.pair(found.first) if double else self.s.get(found.first, 0)

    def lane_mask(self, operand: str) -> int | None:
        return self.scalar(operand, double=self.wide)

    def lanes(self, operand: str, double: bool = False) -> Any:
        """A source of a vector instruction: an array, a number for all lanes, or unknown."""
        if operand.startswith(("-", "|", "neg(", "abs(")) and integer(operand) is None:
            return None  # signs belong to floats
        found = register_range(operand)
        if found is None or found.kind == "s":
            return self.scalar(operand, double)
        low = self.v.get(found.first)
        if not double or low is None:
            return low
        high = self.v.get(found.first + 1)
        return None if high is None else low | high << 32

    def _write(self, number: int, value: Any) -> None:
        """Under EXEC."""
        if value is None:
            self.v[number] = None
            return
        value = np.asarray(value, np.int64) & M32
        if value.ndim == 0:
            value = np.full(self.number, value)
        old = self.v.get(number)
        self.v[number] = value if old is None or self.all_active else np.where(self.active, value, old)

    # ---- instructions

    def _execute(self, at: int, cost: InstructionCost) -> None:
        if cost.instruction.paired:
            self._first_of_two(cost)
            return
        self._alone(at, cost)
        if self.paired:
            self.v |= self.paired
            self.paired = {}

    def _first_of_two(self, cost: InstructionCost) -> None:
        """Of a pair that is issued at once, each sees the registers of before."""
        written = [n for kind, n in cost.defines if kind == "v"]
        before = {n: self.v.get(n) for n in written}
        self._vector(cost, cost.name)
        self.paired = {n: self.v.get(n) for n in written}
        self.v |= before

    def _alone(self, at: int, cost: InstructionCost) -> None:
        unit, name = cost.unit, cost.name
        if unit is Unit.VECTOR:
            self._vector(cost, name)
        elif unit is Unit.SCALAR:
            self._scalar(cost, name)
        elif unit is Unit.SCALAR_MEMORY:
            self._load_arguments(cost, name)
        elif unit is not Unit.INTERNAL:
            if unit in self.units:
                self._access(at, cost)
            if name == "ds_bpermute_b32":
                self._permute(cost)
            else:
                self._forget(cost)

    def _forget(self, cost: InstructionCost) -> None:
        for kind, number in cost.defines:
            if kind == "v":
                self.v[number] = None
            else:
                self.s[number] = None
        if ("s", EXEC[1]) in cost.defines:
            self._refresh()

    def _permute(self, cost: InstructionCost) -> None:
        """Each lane gets the value of the lane that it names in bytes; no memory is touched."""
        target, index, data = cost.instruction.operands[:3]
        which, values = self.lanes(index), self.lanes(data)
        if which is None or values is None:
            self._write(first_register(target), None)
            return
        offset = cost.modifiers.count("offset")
        lanes = (np.broadcast_to(np.asarray(which, np.int64), self.number) + offset >> 2) & self.number - 1
        self._write(first_register(target), np.broadcast_to(np.asarray(values, np.int64), self.number)[lanes])

    def _vector(self, cost: InstructionCost, name: str) -> None:
        i = cost.instruction
        operands = i.operands
        if i.modifiers and name not in ("v_bitop3_b32", "v_pk_mov_b32"):  # lanes exchanged, halves taken, signs changed
            self._forget(cost)
            return
        if name.startswith("v_cmp"):
            self._compare(cost, name)
        elif name in VECTOR:
            given = [self.lanes(o) for o in operands[1:]]
            if name == "v_bitop3_b32":
                given.append(int(cost.modifiers.by_name.get("bitop3", "0"), 0))
            self._write(first_register(operands[0]), None if unknown(given) else VECTOR[name](*given))
        elif name in VECTOR64:
            kinds, operation = VECTOR64[name]
            sources = operands[2:] if name == "v_mad_u64_u32" else operands[1:]
            given = [self.lanes(o, k == "d") for o, k in zip(sources, kinds, strict=False)]
            if name == "v_pk_mov_b32" and "op_sel" in cost.modifiers:
                given = [None]
            number = first_register(operands[0])
            if name == "v_mad_u64_u32" and given[2] is None and not unknown(given[:2]):
                # Compilers multiply 64 bits by adding to a pair of which only the lower half was written.
                low = self.lanes(sources[2])
                self._write(number, None if low is None else operation(*map(_narrow, (*given[:2], low))))
                self.v[number + 1] = None
                return
            value = None if unknown(given) else operation(*map(_narrow, given))
            self._write(number, value)
            self._write(number + 1, None if value is None else np.asarray(value, np.int64) >> 32)
        elif name == "v_cndmask_b32":
            self._select(operands)
        elif name in ("v_add_co_u32", "v_addc_co_u32", "v_sub_co_u32", "v_subb_co_u32", "v_subrev_co_u32"):
            self._carry(operands, name)
        elif name.startswith("v_mbcnt"):
            self._count_below(operands, name)
        elif name == "v_readfirstlane_b32":
            value = self.lanes(operands[1])
            number = first_register(operands[0])
            lane = int(np.argmax(self.active))
            self.s[number] = None if value is None else int(value[lane] if isinstance(value, np.ndarray) else value)
        elif name == "v_readlane_b32":
            value, lane = self.lanes(operands[1]), self.scalar(operands[2])
            if value is None or lane is None:
                self.s[first_register(operands[0])] = None
            else:
                if isinstance(value, np.ndarray):
                    value = value[lane & self.number - 1]
                self.s[first_register(operands[0])] = int(value)
        else:
            self._forget(cost)

    def _compare(self, cost: InstructionCost, name: str) -> None:
        match = re.fullmatch(r"v_cmpx?_(eq|ne|lg|lt|le|gt|ge)_([iu])(16|32|64)", name)
        result = None
        if match is not None:
            double = match[3] == "64"
            a, b = (self.lanes(o, double) for o in cost.instruction.operands[-2:])
            if a is not None and b is not None:
                a, b = np.asarray(_narrow(a)), np.asarray(_narrow(b))
                if match[2] == "i" and not double:
                    a, b = signed(a, int(match[3])), signed(b, int(match[3]))
                hit = np.broadcast_to(COMPARE[match[1]](a, b), self.number) & self.active
                result = _number_of(hit)
        target = register_range(cost.instruction.operands[0]) if len(cost.instruction.operands) == 3 else None
        if target is not None and target.kind == "s":
            self._set_mask(target.first, result)
        if name.startswith("v_cmpx"):
            self._set_mask(EXEC[1], result)

    def _mask(self, operand: str) -> np.ndarray | None:
        value = self.lane_mask(operand)
        return None if value is None else _mask_of(value)[: self.number]

    def _select(self, operands: Sequence[str]) -> None:
        a, b = self.lanes(operands[1]), self.lanes(operands[2])
        mask = self._mask(operands[3] if len(operands) > 3 else "vcc")
        value = None if a is None or b is None or mask is None else np.where(mask, b, a)
        self._write(first_register(operands[0]), value)

    def _carry(self, operands: Sequence[str], name: str) -> None:
        result, carry, left, right, *rest = operands
        a, b = self.lanes(left), self.lanes(right)
        if "rev" in name:
            a, b = b, a
        value: Any = None
        if a is not None and b is not None:
            value = np.broadcast_to(np.asarray(a - b if "sub" in name else a + b, np.int64), self.number)
            if rest:
                mask = self._mask(rest[0])
                value = None if mask is None else value - mask if "sub" in name else value + mask
        target = register_range(carry)
        if target is not None:  # not null
            over = None if value is None else ((value < 0) if "sub" in name else (value > M32)) & self.active
            self._set_mask(target.first, None if over is None else _number_of(over))
        self._write(first_register(result), value)

    def _count_below(self, operands: Sequence[str], name: str) -> None:
        mask, add = self.scalar(operands[1]), self.lanes(operands[2])
        if mask is None or add is None:
            self._write(first_register(operands[0]), None)
            return
        shift = 32 if "hi" in name else 0
        bits = np.array([mask >> n & 1 for n in range(32)])
        below = np.array([bits[: max(0, min(32, lane - shift))].sum() for lane in range(self.number)])
        self._write(first_register(operands[0]), below + add)

    def _scalar(self, cost: InstructionCost, name: str) -> None:
        operands = cost.instruction.operands
        if name.startswith(("s_cmp", "s_bitcmp")):
            self._scalar_compare(name, operands)
        elif "saveexec" in name:
            self._save_exec(name, operands)
        elif name in ("s_cselect_b32", "s_cselect_b64"):
            double = name.endswith("64")
            a, b = (self.scalar(o, double) for o in operands[1:])
            self._put(operands[0], None if self.scc is None else a if self.scc else b, double)
        elif name in ("s_addc_u32", "s_subb_u32"):
            a, b = (self.scalar(o) for o in operands[1:])
            known = a is not None and b is not None and self.scc is not None
            total = (a + b + self.scc if name == "s_addc_u32" else a - b - self.scc) if known else None  # type: ignore[operator]
            self.scc = None if total is None else not 0 <= total <= M32
            self._put(operands[0], total, False)
        elif name in ("s_addk_i32", "s_mulk_i32"):
            a, b = self.scalar(operands[0]), integer(operands[1])
            known = a is not None and b is not None
            constant = signed(b & 0xFFFF, 16) if b is not None else 0
            self._put(operands[0], (a + constant if name == "s_addk_i32" else a * constant) if known else None, False)  # type: ignore[operator]
            self.scc = None if name == "s_addk_i32" else self.scc
        elif name in SCALAR or name in SCALAR64:
            double = name in SCALAR64
            given = [self.scalar(o, double) for o in operands[1:]]
            value = None if None in given else (SCALAR64 if double else SCALAR)[name](*given)
            if name in ("s_or_b64", "s_or_b32") and operands[0] == operands[1] and operands[0] in ("exec", "exec_lo"):
                value = given[1] if value is None else value  # lanes come back: those that went on are among those saved
            self._put(operands[0], value, double)
            if name in SETS_SCC:
                self.scc = None if value is None else _scc(name, value, given, double)
        else:
            self._forget(cost)
            self.scc = None

    def _put(self, operand: str, value: int | None, double: bool) -> None:
        target = register_range(operand)
        if target is None or target.kind != "s":
            return
        if double:
            self._set_pair(target.first, None if value is None else value & M64)
        else:
            self.s[target.first] = None if value is None else value & M32
            if target.first in (EXEC[1], EXEC[1] + 1):
                self._refresh()

    def _scalar_compare(self, name: str, operands: Sequence[str]) -> None:
        match = re.fullmatch(r"s_cmpk?_(eq|lg|lt|le|gt|ge)_([iu])(32|64)", name)
        double = name.endswith("64")
        a, b = (self.scalar(o, double) for o in operands)
        if name.startswith("s_bitcmp"):
            self.scc = None if a is None or b is None else bool(a >> (b & 31) & 1) == name.startswith("s_bitcmp1")
        elif match is None or a is None or b is None:
            self.scc = None
        else:
            if match[2] == "i":
                a, b = signed(a), signed(b)
            self.scc = bool(COMPARE[match[1]](a, b))

    def _save_exec(self, name: str, operands: Sequence[str]) -> None:
        before, given = self.mask_at(EXEC[1]), self.lane_mask(operands[1])
        after = None
        if before is not None and given is not None:
            kind = name.removeprefix("s_").partition("_")[0]
            after = {
                "and": before & given,
                "or": before | given,
                "xor": before ^ given,
                "andn2": given & ~before & self.full,
                "orn2": (given | ~before) & self.full,
                "andn1": ~given & before & self.full,
            }.get(kind)
        self._put(operands[0], before, self.wide)
        if after is None:  # some lanes go in; which ones is not known
            self._set_mask(EXEC[1], None)
            self.scc = None
        else:
            self._set_mask(EXEC[1], after)
            self.scc = after != 0

    def _load_arguments(self, cost: InstructionCost, name: str) -> None:
        """Of the kernel's arguments; other memory is not known."""
        if not name.startswith("s_load"):
            self._forget(cost)
            return
        target, base, *moved = cost.instruction.operands
        address = self.scalar(base, double=True)
        offset = self.scalar(moved[0]) if moved else 0
        self._forget(cost)  # what is loaded may lie over the base
        if address is None or offset is None:
            return
        begin = address + offset + cost.modifiers.count("offset") - self.start.argument_address
        if begin >= 0 and begin + cost.bytes <= len(self.start.arguments):
            data = self.start.arguments[begin : begin + cost.bytes]
            first = first_register(target)
            for n in range(max(1, cost.bytes // 4)):
                self.s[first + n] = int.from_bytes(data[4 * n : 4 * n + 4], "little")

    # ---- memory

    def _access(self, at: int, cost: InstructionCost) -> None:
        base = self._lds_address(cost) if cost.unit is Unit.LDS else self._address(cost)
        addresses = None
        if base is not None:
            each = np.broadcast_to(np.asarray(base, np.int64), self.number)[self.active]
            addresses = tuple(each + n for n in _lds_offsets(cost)) if cost.unit is Unit.LDS else (each,)
        lds = None
        if cost.to_lds and (m0 := self.s.get(M0[1])) is not None:
            lds = (m0 & 0xFFFF) + cost.modifiers.count("offset") + np.arange(self.number)[self.active] * cost.bytes
        self.trace.accesses[len(self.trace.steps) - 1] = ExecutedAccess(at, addresses, lds)

    def _lds_address(self, cost: InstructionCost) -> Any:
        """Lane exchange has none: it goes through the LDS's crossbar and not to its banks."""
        if any(x in cost.name for x in ("permute", "swizzle")):
            return None
        return self.lanes(cost.instruction.operands[0 if cost.writes or _addressed_first(cost.name) else 1])

    def _address(self, cost: InstructionCost) -> Any:
        """Global: a pair of registers, or a scalar base and an offset; buffers: base, offsets and the resource's address."""
        operands, modifiers = list(cost.instruction.operands), cost.modifiers
        offset = modifiers.count("offset")
        if cost.name.startswith("buffer"):
            return self._buffer_address(cost, modifiers, offset)
        given = operands if cost.writes or ("atomic" in cost.name and len(operands) < 4) else operands[1:]
        if cost.name.startswith("scratch") or not given:  # the latter are of caches, such as global_inv
            return None
        base = given[-1] if cost.name.startswith("global") else "off"
        if base == "off":
            address = self.lanes(given[0], double=True)
            return None if address is None else address + offset
        scalar, each = self.scalar(base, double=True), self.lanes(given[0])
        return None if scalar is None or each is None else scalar + each + offset

    def _buffer_address(self, cost: InstructionCost, modifiers: Modifiers, offset: int) -> Any:
        operands = cost.instruction.operands
        resource = next((p for o in operands if (p := register_range(o)) is not None and p.kind == "s" and p.count == 4), None)
        if resource is None:
            return None
        low, high = self.s.get(resource.first), self.s.get(resource.first + 1)
        moved = self.scalar(operands[-1])
        if low is None or high is None or moved is None:
            return None
        each: Any = 0
        if "offen" in modifiers:
            each = self.lanes(operands[0 if cost.to_lds else 1])
        if each is None or "idxen" in modifiers:
            return None
        within = np.broadcast_to(np.asarray(each, np.int64), self.number) + moved + offset
        size = self.s.get(resource.first + 2)
        address = (low | (high & 0xFFFF) << 32) + within
        return address if size is None else np.where((within & M32) < size, address, -1)


@lru_cache(1024)
def _mask_of(value: int) -> np.ndarray:
    """The bits of a 64-bit mask as one bool a lane."""
    return np.unpackbits(np.frombuffer((value & M64).to_bytes(8, "little"), np.uint8), bitorder="little").astype(bool)


def _number_of(lanes: np.ndarray) -> int:
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def first_register(operand: str) -> int:
    found = register_range(operand)
    assert found is not None, operand
    return found.first


def _narrow(value: Any) -> Any:
    """A number as numpy's signed 64 bits hold it."""
    return signed(value, 64) if isinstance(value, int) else value


def unknown(values: Sequence[Any]) -> bool:
    return any(v is None for v in values)


def _scc(name: str, value: int, given: Sequence[int | None], double: bool) -> bool:
    a, b = (*given, 0, 0)[:2]
    if name in ("s_add_u32", "s_sub_u32"):
        return not 0 <= value <= M32
    if name in ("s_add_i32", "s_sub_i32"):
        exact = signed(a or 0) + signed(b or 0) if name == "s_add_i32" else signed(a or 0) - signed(b or 0)
        return not -(1 << 31) <= exact < 1 << 31
    if name in ("s_min_u32", "s_min_i32", "s_max_u32", "s_max_i32"):
        return value & M32 == (a or 0)
    return value & (M64 if double else M32) != 0


def _addressed_first(name: str) -> bool:
    return not any(x in name for x in ("read", "load", "rtn"))


def _lds_offsets(cost: InstructionCost) -> tuple[int, ...]:
    """One, or two where an instruction goes to two places (their offsets count elements, or 64 of them)."""
    modifiers = cost.modifiers
    if not re.match(r"ds_(read|write)2", cost.name):
        return (modifiers.count("offset"),)
    step = cost.bytes // 2 * (64 if "st64" in cost.name else 1)
    return modifiers.count("offset0") * step, modifiers.count("offset1") * step
