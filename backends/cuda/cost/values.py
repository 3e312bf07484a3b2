"""The integers of one thread, followed through its machine code: how often each instruction runs.

What is loaded from memory is unknown (``None``), and so is what is computed from it.  Semantics of the instructions are those
of the table in NVIDIA's "CUDA Binary Utilities", in the detail in which public disassemblies show them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..sass.reader import Instruction

Value = int | None
M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
LIMIT = 600_000
"""Instructions of one thread; what takes longer is not followed to its end."""


class TooLong(Exception):
    """A thread that goes on and on."""


@dataclass
class State:
    """Registers of a thread: R, UR, P and UP by name; the constants of bank 0 and the special registers."""

    constants: bytes
    special: Mapping[str, int]
    r: dict[str, Value] = field(default_factory=lambda: {"RZ": 0, "URZ": 0, "PT": 1, "UPT": 1, "SRZ": 0})

    def constant(self, at: int) -> Value:
        return int.from_bytes(self.constants[at : at + 4], "little") if at + 4 <= len(self.constants) else None


Read = Callable[[State], Value]
Step = Callable[[State], int | None]


@dataclass
class Followed:
    """``issued`` and ``done`` by number of instruction: predicated ones that do nothing are issued all the same; ``trace`` are
    the instructions in order; ``doubts`` are branches that hang on unknown values; ``described`` are the instruction
    descriptors of products of tcgen05, as far as they are known."""

    issued: list[int]
    done: list[int]
    trace: list[int]
    doubts: set[int]
    described: dict[int, int] = field(default_factory=dict)


def follow(code: tuple[Instruction, ...], state: State, limit: int = LIMIT) -> Followed:
    """Raises :class:`TooLong`."""
    steps = [_step(x, code) for x in code]
    guards = [_predicate(x.guard) if x.guard else None for x in code]
    count = len(code)
    found = Followed([0] * count, [0] * count, [], set())
    at = 0
    while 0 <= at < count:
        found.trace.append(at)
        if len(found.trace) > limit:
            raise TooLong
        found.issued[at] += 1
        guard = guards[at]
        if guard is not None:
            holds = guard(state)
            if holds is None and code[at].name in _JUMPS:
                holds = int(_avoids_a_call(code, at))
                if not holds:
                    found.doubts.add(at)
            if holds == 0:
                at += 1
                continue
        found.done[at] += 1
        if (where := _DESCRIBED.search(code[at].operands)) and (what := state.r.get(where[1])) is not None:
            found.described[at] = what
        step = steps[at]
        to = step(state) if step is not None else None
        at = at + 1 if to is None else to
    return found


_DESCRIBED = re.compile(r"idesc\[(UR\d+)\]")
_JUMPS = ("BRA", "EXIT", "RET", "BRX")


def _avoids_a_call(code: tuple[Instruction, ...], at: int) -> bool:
    """Whether it jumps over a call: divisions and roots call a function for the numbers that are special."""
    return any(x.name == "CALL" for x in code[at + 1 : min(code[at].target, at + 16)])


# ---- operands ------------------------------------------------------------------------------------------------------------


def split(operands: str) -> list[str]:
    return [x.strip() for x in re.split(r",(?![^\[\]{}()]*[\]})])", operands)] if operands else []


def _predicate(text: str) -> Read:
    negated, name = text.startswith("!"), text.lstrip("!")
    if not negated:
        return lambda s: s.r.get(name)
    return lambda s: None if (v := s.r.get(name)) is None else 1 - v


def _source(text: str, wide: bool = False) -> Read:
    text = text.replace(".reuse", "")
    sign = text[:1] if text[:1] in "-~" and not re.fullmatch(r"-0x[0-9a-f]+|-\d+", text) else ""
    plain = text[len(sign) :].strip("|")
    name = re.fullmatch(r"(U?R(?:\d+|Z))(?:\.64|\.U32|\.X4|\.X8|\.X16)?", plain)
    if name:
        get = _register(name[1], wide)
    elif match := re.fullmatch(r"c\[0x0\]\[(0x[0-9a-f]+)\]", plain):
        at = int(match[1], 16)
        get = (lambda s: _pair(s.constant(at), s.constant(at + 4))) if wide else (lambda s: s.constant(at))
    elif match := re.fullmatch(r"-?0x[0-9a-f]+|-?\d+", plain):
        number = int(plain, 0) & (M64 if wide else M32)
        return lambda s: number
    elif re.fullmatch(r"!?U?P(?:\d|T)", plain):
        return _predicate(plain)
    else:
        return lambda s: None
    mask = M64 if wide else M32
    if sign == "-":
        return lambda s: None if (v := get(s)) is None else -v & mask
    if sign == "~":
        return lambda s: None if (v := get(s)) is None else ~v & mask
    return get


def _register(name: str, wide: bool) -> Read:
    if not wide:
        return lambda s: s.r.get(name)
    high = _next(name)
    return lambda s: _pair(s.r.get(name), s.r.get(high))


def _pair(low: Value, high: Value) -> Value:
    return None if low is None or high is None else high << 32 | low


def _next(name: str, by: int = 1) -> str:
    match = re.fullmatch(r"(U?R)(\d+)", name)
    return f"{match[1]}{int(match[2]) + by}" if match else name


def _put(s: State, name: str, value: Value, words: int = 1) -> None:
    for n in range(words):
        where = _next(name, n)
        if where not in ("RZ", "URZ", "PT", "UPT"):
            s.r[where] = None if value is None else value >> 32 * n & M32


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


# ---- instructions --------------------------------------------------------------------------------------------------------


def _step(x: Instruction, code: tuple[Instruction, ...]) -> Step | None:
    if x.name in ("BRA", "JMP"):
        return _branch(x)
    if x.name in ("EXIT", "KILL"):
        return lambda s: len(code)
    if x.name == "CALL":
        return (lambda s: x.target) if x.target >= 0 else None
    if x.name == "RET":
        return _return(x, {y.at: n for n, y in enumerate(code)})
    operands = split(x.operands)
    name = x.name[1:] if x.name.startswith("U") and x.name[1:] in MAKERS else x.name
    maker = MAKERS.get(name)
    if maker is not None:
        try:
            made = maker(x, operands)
        except (IndexError, ValueError, OverflowError):
            made = None
        if made is not None:
            return made
    return _unknown(x, operands)


def _branch(x: Instruction) -> Step:
    if "DIV" in x.modifiers or x.target < 0:
        return lambda s: None
    tested = [_predicate(o) for o in split(x.operands)[:-1] if re.fullmatch(r"!?U?P(?:\d|T)", o)]
    if not tested:
        return lambda s: x.target
    return lambda s: x.target if all(p(s) for p in tested) else None


def _return(x: Instruction, at: Mapping[int, int]) -> Step:
    where = _source(split(x.operands.split("`")[0].strip())[0])

    def step(s: State) -> int | None:
        address = where(s)
        return at.get(address, len(at)) if address is not None else len(at)

    return step


_NO_RESULT = re.compile(r"ST\w*|RED\w*|BAR|BSSY|BSYNC|MEMBAR|FENCE|NOP|WARPSYNC|DEPBAR|LDGDEPBAR|LDGSTS|UTMA\w+|UBLK\w+|ERRBAR"
                        r"|CCTL\w*|YIELD|NANOSLEEP|BREAK|WARPGROUP|USETMAXREG|UCGABAR\w*|ARRIVES|BMOV|PREEXIT")  # fmt: skip


def _unknown(x: Instruction, operands: list[str]) -> Step | None:
    """What it writes is not known any more."""
    if _NO_RESULT.fullmatch(x.name) or not operands:
        return None
    if x.name == "FCHK":  # a division is of ordinary numbers
        return lambda s: s.r.update({operands[0]: 0})
    if x.name == "B2R" and "RESULT" in x.modifiers:  # what threads ask of each other is whether something rare happened
        return lambda s: s.r.update((o, 0) for o in operands if re.fullmatch(r"U?P\d", o))
    if x.name == "SYNCS" or x.name == "ELECT":  # what is waited for comes, and a lane is elected: this one
        arrived = [o for o in operands if re.fullmatch(r"U?P\d", o)]
        return lambda s: s.r.update((o, 1) for o in arrived)
    words = 4 if "128" in x.modifiers or x.name in ("HMMA", "IMMA") else 2 if "64" in x.modifiers or x.name[0] == "D" else 1
    names = []
    for o in operands:
        if not re.fullmatch(r"U?R(?:\d+|Z)|U?P(?:\d|T)", o):
            break
        names.append(o)
        if o[-2:-1] != "P" and "R" in o:
            break
    lost = [_next(n, k) for n in names for k in range(words if "R" in n else 1)]
    return lambda s: s.r.update((n, None) for n in lost if n not in ("RZ", "URZ", "PT", "UPT"))


def _known(*values: Value) -> bool:
    return None not in values


def _simple(words: int, of: Callable[..., int], *reads: Read, to: str) -> Step:
    def step(s: State) -> None:
        values = [r(s) for r in reads]
        _put(s, to, of(*values) if None not in values else None, words)

    return step


def _mov(x: Instruction, o: list[str]) -> Step:
    wide = "64" in x.modifiers
    return _simple(2 if wide else 1, lambda v: v, _source(o[1], wide), to=o[0])


def _split_predicates(o: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Results that are predicates, sources, and predicates behind them."""
    rest = o[1:]
    out = []
    while rest and re.fullmatch(r"U?P(?:\d|T)", rest[0]):
        out.append(rest.pop(0))
    behind = []
    while rest and re.fullmatch(r"!?U?P(?:\d|T)", rest[-1]):
        behind.insert(0, rest.pop())
    return out, rest, behind


def _iadd3(x: Instruction, o: list[str]) -> Step:
    wide = "64" in x.modifiers
    out, sources, carries = _split_predicates(o)
    reads = [_source(v, wide) for v in sources]
    carry = [_predicate(p) for p in carries] if "X" in x.modifiers else []
    bits = 64 if wide else 32

    def step(s: State) -> None:
        values = [r(s) for r in (*reads, *carry)]
        total = sum(values) if None not in values else None  # type: ignore[arg-type]
        _put(s, o[0], None if total is None else total & ((1 << bits) - 1), bits // 32)
        for n, p in enumerate(out):
            if p not in ("PT", "UPT"):
                s.r[p] = None if total is None else int(total >> bits > n)

    return step


def _imad(x: Instruction, o: list[str]) -> Step:
    out, sources, carries = _split_predicates(o)
    unsigned, wide, high = "U32" in x.modifiers, "WIDE" in x.modifiers, "HI" in x.modifiers
    a, b = (_source(v) for v in sources[:2])
    c = _source(sources[2], wide or high)
    carry = [_predicate(p) for p in carries] if "X" in x.modifiers else []

    def step(s: State) -> None:
        va, vb, vc = a(s), b(s), c(s)
        extra = [p(s) for p in carry]
        if va == 0 or vb == 0:  # a move, whatever the other one is
            va = vb = 0
        known = _known(va, vb, vc, *extra)
        total = 0
        if known:
            if (wide or high) and not unsigned:
                va, vb = signed(va), signed(vb)  # type: ignore[arg-type]
            total = va * vb + vc + sum(extra)  # type: ignore[operator, arg-type]
        if high:
            _put(s, o[0], total >> 32 & M32 if known else None)
        else:
            _put(s, o[0], total & M64 if known else None, 2 if wide else 1)
        for p in out:
            if p not in ("PT", "UPT"):
                s.r[p] = int(total >> (64 if wide else 32) > 0) if known else None

    return step


def _lea(x: Instruction, o: list[str]) -> Step:
    out, sources, carries = _split_predicates(o)
    a, b = (_source(v) for v in sources[:2])
    shift = int(sources[-1], 0)
    top = _source(sources[2]) if "HI" in x.modifiers and len(sources) == 4 else None
    carry = [_predicate(p) for p in carries] if "X" in x.modifiers else []
    extended = "SX32" in x.modifiers

    def step(s: State) -> None:
        va, vb, vt = a(s), b(s), top(s) if top is not None else 0
        extra = [p(s) for p in carry]
        if not _known(va, vb, vt, *extra):
            _put(s, o[0], None)
            for p in out:
                s.r[p] = None if p not in ("PT", "UPT") else 1
            return
        whole = signed(va) & M64 if extended else vt << 32 | va  # type: ignore[arg-type, operator]
        part = whole << shift >> 32 & M32 if "HI" in x.modifiers else whole << shift & M32
        total = part + vb + sum(extra)  # type: ignore[operator, arg-type]
        _put(s, o[0], total & M32)
        for p in out:
            if p not in ("PT", "UPT"):
                s.r[p] = int(total >> 32 > 0)

    return step


def _looked_up(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for n in range(8):
        if table >> n & 1:
            result |= (a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c)
    return result & M32


def _lop3(x: Instruction, o: list[str]) -> Step:
    out = []
    while re.fullmatch(r"U?P(?:\d|T)", o[0]):
        out.append(o[0])
        o = o[1:]
    to, sources, table = o[0], [_source(v) for v in o[1:4]], int(o[4], 0)

    def step(s: State) -> None:
        values = [r(s) for r in sources]
        known = [0 if v is None else v for v in values]
        result = None
        if None not in values or _independent(table, values):
            result = _looked_up(known[0], known[1], known[2], table)
        _put(s, to, result)
        for p in out:
            if p not in ("PT", "UPT"):
                s.r[p] = None if result is None else int(result != 0)

    return step


def _independent(table: int, values: list[Value]) -> bool:
    """An unknown source does not matter where a zero decides, as in ``a & 0``."""
    rows = [n for n in range(8) if all(not (v == 0 and n >> (2 - k) & 1) for k, v in enumerate(values))]
    lost = [4 >> k for k, v in enumerate(values) if v is None]
    return all(table >> n & 1 == table >> (n ^ bit) & 1 for bit in lost for n in rows)


def _plop3(x: Instruction, o: list[str]) -> Step:
    outs, sources = o[:2], [_predicate(p) for p in o[2:5]]
    tables = [int(t, 0) for t in o[5:7]]

    def step(s: State) -> None:
        values = [p(s) for p in sources]
        for p, table in zip(outs, tables, strict=False):
            if p not in ("PT", "UPT"):
                possible = {
                    table >> (a << 2 | b << 1 | c) & 1
                    for a in ((0, 1) if values[0] is None else (values[0],))
                    for b in ((0, 1) if values[1] is None else (values[1],))
                    for c in ((0, 1) if values[2] is None else (values[2],))
                }
                s.r[p] = possible.pop() if len(possible) == 1 else None

    return step


def _shf(x: Instruction, o: list[str]) -> Step:
    low, by, high = (_source(v) for v in o[1:4])
    left, top, arithmetic = "L" in x.modifiers, "HI" in x.modifiers, "S32" in x.modifiers or "S64" in x.modifiers
    wide = "U64" in x.modifiers or "S64" in x.modifiers
    wraps = "W" in x.modifiers

    def of(a: int, n: int, c: int) -> int:
        n = n & (63 if wide else 31) if wraps else min(n, 64 if wide else 32)
        whole = c << 32 | a
        if left:
            return (whole << n >> 32 if top else a << n) & M32
        if top:
            return (signed(c) if arithmetic else c) >> n & M32
        return ((signed(whole, 64) if arithmetic else whole) >> n) & M32

    return _simple(1, of, low, by, high, to=o[0])


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "T": lambda a, b: True, "F": lambda a, b: False,
}  # fmt: skip


def _isetp(x: Instruction, o: list[str]) -> Step:
    compare = next(m for m in x.modifiers if m in _COMPARE)
    test, wide = _COMPARE[compare], "U64" in x.modifiers or "S64" in x.modifiers or "64" in x.modifiers
    unsigned = "U32" in x.modifiers or "U64" in x.modifiers
    join = next((m for m in x.modifiers if m in ("AND", "OR", "XOR")), "AND")
    a, b = _source(o[2], wide), _source(o[3], wide)
    other = _predicate(o[4])
    low = _predicate(o[5]) if "EX" in x.modifiers and len(o) > 5 else None
    bits = 64 if wide else 32

    def step(s: State) -> None:
        va, vb, vo = a(s), b(s), other(s)
        below = low(s) if low is not None else None
        if not _known(va, vb) or (low is not None and below is None):
            holds: Value = None
        else:
            x_, y_ = (va, vb) if unsigned else (signed(va, bits), signed(vb, bits))  # type: ignore[arg-type]
            if low is None:
                holds = int(test(x_, y_))  # type: ignore[arg-type]
            elif compare == "EQ":
                holds = int(x_ == y_ and bool(below))
            elif compare == "NE":
                holds = int(x_ != y_ or bool(below))
            else:
                holds = below if x_ == y_ else int(test(x_, y_))  # type: ignore[arg-type]
        for p, value in ((o[0], holds), (o[1], None if holds is None else 1 - holds)):
            if p not in ("PT", "UPT"):
                s.r[p] = _joined(value, vo, join)

    return step


def _joined(a: Value, b: Value, how: str) -> Value:
    if how == "AND":
        return 0 if 0 in (a, b) else None if None in (a, b) else 1
    if how == "OR":
        return 1 if 1 in (a, b) else None if None in (a, b) else 0
    return None if a is None or b is None else a ^ b


def _sel(x: Instruction, o: list[str]) -> Step:
    a, b, p = _source(o[1]), _source(o[2]), _predicate(o[3])

    def step(s: State) -> None:
        which = p(s)
        _put(s, o[0], None if which is None else a(s) if which else b(s))

    return step


def _imnmx(x: Instruction, o: list[str]) -> Step:
    _, sources, behind = _split_predicates(o)
    a, b, p = _source(sources[0]), _source(sources[1]), _predicate(behind[-1])
    read = (lambda v: v) if "U32" in x.modifiers else signed
    return _simple(1, lambda m, n, least: (min if least else max)(read(m), read(n)) & M32, a, b, p, to=o[0])


def _viaddmnmx(x: Instruction, o: list[str]) -> Step:
    _, sources, behind = _split_predicates(o)
    a, b, c, p = *(_source(v) for v in sources[:3]), _predicate(behind[-1])
    read = (lambda v: v) if "U32" in x.modifiers else signed
    return _simple(1, lambda m, n, k, least: (min if least else max)(read(m + n & M32), read(k)) & M32, a, b, c, p, to=o[0])


def _s2r(x: Instruction, o: list[str]) -> Step:
    return lambda s: _put(s, o[0], s.special.get(o[1]))


def _cs2r(x: Instruction, o: list[str]) -> Step:
    return lambda s: _put(s, o[0], 0 if o[1] == "SRZ" else None, 1 if "32" in x.modifiers else 2)


def _ldc(x: Instruction, o: list[str]) -> Step | None:
    match = re.fullmatch(r"c\[0x0\]\[(?:(U?R\w+)\+?)?(-?0x[0-9a-f]+)?\]", o[1])
    if match is None:
        return None
    base, offset = _register(match[1], False) if match[1] else None, int(match[2] or "0", 0)
    words = 4 if "128" in x.modifiers else 2 if "64" in x.modifiers else 1

    def step(s: State) -> None:
        start = base(s) if base is not None else 0
        for n in range(words):
            _put(s, _next(o[0], n), None if start is None else s.constant(start + offset + 4 * n))

    return step


def _shfl(x: Instruction, o: list[str]) -> Step | None:
    """What one lane tells all is this one's own value."""
    return _simple(1, lambda v: v, _source(o[2]), to=o[1]) if "IDX" in x.modifiers else None


def _prmt(x: Instruction, o: list[str]) -> Step:
    a, select, b = (_source(v) for v in o[1:4])

    def of(low: int, chosen: int, high: int) -> int:
        whole, result = high << 32 | low, 0
        for n in range(4):
            code = chosen >> 4 * n & 15
            byte = whole >> 8 * (code & 7) & 255
            result |= (255 * (byte >> 7) if code & 8 else byte) << 8 * n
        return result

    return _simple(1, of, a, select, b, to=o[0])


def _i2f(x: Instruction, o: list[str]) -> Step:
    read = (lambda v: v) if "U32" in x.modifiers else signed
    return _simple(1, lambda v: _bits(float(read(v))), _source(o[1]), to=o[0])


def _mufu(x: Instruction, o: list[str]) -> Step | None:
    if "RCP" not in x.modifiers:
        return None
    return _simple(1, lambda v: _bits(1 / f) if (f := _float(v)) else 0x7F800000, _source(o[1]), to=o[0])


def _f2i(x: Instruction, o: list[str]) -> Step:
    return _simple(1, lambda v: int(f) & M32 if abs(f := _float(v)) < 2**32 else M32, _source(o[1]), to=o[0])


def _hfma2(x: Instruction, o: list[str]) -> Step | None:
    """With a product of zeros it loads two halves, which are often an integer."""
    if o[1].lstrip("-") != "RZ" or o[2] != "RZ" or len(o) < 5:
        return None
    high, low = (struct.unpack("<H", struct.pack("<e", float(v.replace("QNAN", "NAN"))))[0] for v in o[3:5])
    return lambda s: _put(s, o[0], high << 16 | low)


def _float(bits: int) -> float:
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value if value == value else 0.0


def _bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


MAKERS: dict[str, Callable[[Instruction, list[str]], Step | None]] = {
    "MOV": _mov, "MOV32I": _mov, "R2UR": _mov, "IADD3": _iadd3, "VIADD": _iadd3, "IADD": _iadd3, "IMAD": _imad, "LEA": _lea,
    "LOP3": _lop3, "PLOP3": _plop3, "SHF": _shf, "ISETP": _isetp, "SEL": _sel, "IMNMX": _imnmx, "VIMNMX": _imnmx,
    "VIADDMNMX": _viaddmnmx, "S2R": _s2r, "S2UR": _s2r, "CS2R": _cs2r, "LDC": _ldc, "LDCU": _ldc, "ULDC": _ldc, "SHFL": _shfl,
    "PRMT": _prmt, "I2F": _i2f, "I2FP": _i2f, "HFMA2": _hfma2, "MUFU": _mufu, "F2I": _f2i,
    "IABS": lambda x, o: _simple(1, lambda v: abs(signed(v)) & M32, _source(o[1]), to=o[0]),
    "POPC": lambda x, o: _simple(1, lambda v: v.bit_count(), _source(o[1]), to=o[0]),
    "FLO": lambda x, o: _simple(1, lambda v: v.bit_length() - 1 & M32, _source(o[1]), to=o[0]),
    "SGXT": lambda x, o: _simple(1, lambda v, n: signed(v & (1 << n) - 1, n) & M32, _source(o[1]), _source(o[2]), to=o[0]),
}  # fmt: skip
