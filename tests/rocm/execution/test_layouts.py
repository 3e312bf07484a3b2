"""The AMD machine's matrix instructions with operands packed, and results read, as AMD's own calculator says.

``PORTAKERN_AMD_MATRIX_CALCULATOR`` names matrix_calculator.py of github.com/ROCm/amd_matrix_instruction_calculator.  Every
instruction that it lists is executed with every modifier that moves, negates or broadcasts elements, on small whole numbers
whose sums are exact.  Registers hold random bits wherever the calculator puts nothing.  It knows no CDNA4: those layouts are
tested by the formulas in test_machine_matrix.py alone.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from portakern.backends.rocm.amdgcn.isa.matrix import FORMS
from tests.rocm.execution.calculator import Layout, ask, instructions, layout, supported
from tests.rocm.execution.lanes_bench import execute, lanes_of

ml_dtypes = pytest.importorskip("ml_dtypes")
Array = np.ndarray

CALCULATOR = os.environ.get("PORTAKERN_AMD_MATRIX_CALCULATOR", "")
ARCHITECTURES = {"cdna1": "gfx90a", "cdna2": "gfx90a", "cdna3": "gfx942", "rdna3": "gfx1100", "rdna4": "gfx1201"}
"""The calculator's, and what executes its instructions here: CDNA2 has all of CDNA1."""

SPARSE = re.compile(r"v_(smfmac|swmmac)_")
"""Half of A is held, and a register says which: they have a test of their own."""


@dataclass(frozen=True)
class Variant:
    """An instruction with modifiers: as the calculator takes them, and as assembly does."""

    mnemonic: str
    options: tuple[str, ...] = ()
    text: str = ""

    def questions(self, architecture: str) -> list[list[str]]:
        wave = ["-w", "32"] if architecture.startswith("rdna") else []
        common = ["-a", architecture, "-i", self.mnemonic, *wave, "--register-layout", "--csv"]
        return [[*common, f"-{matrix}", *self.options] for matrix in "ABCD"]


@dataclass(frozen=True)
class Kinds:
    """Element types of a mnemonic: of D and C, of A and of B."""

    mnemonic: str

    @cached_property
    def all(self) -> tuple[str, str, str]:
        result, _, rest = self.mnemonic.split("_", 2)[2].partition("_")
        tail = re.sub(r"^\d+x\d+x\d+(_\d+b)?_?", "", rest).removesuffix("_1k")
        first, _, second = tail.partition("_")
        return result, first, second or first


def variants(mnemonic: str, blocks: int) -> list[Variant]:
    if mnemonic.startswith("v_wmma"):
        found = [Variant(mnemonic), Variant(mnemonic, ("--opsel", "4"), "op_sel:[0,0,1]")]
        for low, high in [(n, 0) for n in range(1, 8)] + [(0, n) for n in range(1, 8)] + [(7, 7)]:
            if "_iu" not in mnemonic:  # there the bits say whether numbers have a sign
                text = "".join(
                    f" {name}:[{n & 1},{n >> 1 & 1},{n >> 2}]" for name, n in (("neg_lo", low), ("neg_hi", high)) if n
                )
                found.append(Variant(mnemonic, ("--neg", str(low), "--neg_hi", str(high)), text))
        return found
    found = [Variant(mnemonic)]
    found += [Variant(mnemonic, ("--cbsz", str(c), "--abid", str(a)), f"cbsz:{c} abid:{a}")
              for c in range(1, blocks.bit_length()) for a in range(1 << c)]  # fmt: skip
    for n in range(1, 8):
        negates = "_f64_" in mnemonic[:11] and mnemonic.endswith("_f64")  # spelled so from CDNA3 on
        text = f"neg:[{n & 1},{n >> 1 & 1},{n >> 2}]" if negates else f"blgp:{n}"
        found.append(Variant(mnemonic, ("--blgp", str(n)), text))
    return found


@pytest.mark.skipif(not CALCULATOR, reason="PORTAKERN_AMD_MATRIX_CALCULATOR does not name AMD's matrix_calculator.py")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_layouts_are_those_of_the_calculator(architecture: str) -> None:
    (listed,) = ask(CALCULATOR, [["-a", architecture, "-L"]])
    names = instructions(listed)
    dense = [n for n in names if not SPARSE.match(n)]
    assert dense and set(dense) <= set(FORMS)
    plain = {v.mnemonic: [layout(x) for x in answers] for v, answers in asked(architecture, [Variant(n) for n in dense])}
    every = [v for n in dense for v in variants(n, blocks=1 + max(b for b, _, _ in plain[n][3]))]
    rng = np.random.default_rng(7)
    tested = set()
    for v, answers in asked(architecture, every):
        if all(map(supported, answers)):
            check(ARCHITECTURES[architecture], v, [layout(x, p) for x, p in zip(answers, plain[v.mnemonic], strict=True)], rng)
            tested.add(v.mnemonic)
    assert tested == set(dense)


@pytest.mark.skipif(not CALCULATOR, reason="PORTAKERN_AMD_MATRIX_CALCULATOR does not name AMD's matrix_calculator.py")
@pytest.mark.parametrize("architecture", ["cdna3", "rdna4"])
def test_sparse_layouts_are_those_of_the_calculator(architecture: str) -> None:
    (listed,) = ask(CALCULATOR, [["-a", architecture, "-L"]])
    names = [n for n in instructions(listed) if SPARSE.match(n)]
    assert names and set(names) <= set(FORMS)
    rng = np.random.default_rng(11)
    wave = ["-w", "32"] if architecture.startswith("rdna") else []
    for name in names:
        common = ["-a", architecture, "-i", name, *wave, "--register-layout", "--csv"]
        answers = ask(CALCULATOR, [[*common, f"-{matrix}"] for matrix in "AkBD"])
        check_sparse(ARCHITECTURES[architecture], name, [layout(x) for x in answers], rng)


def asked(architecture: str, given: list[Variant]) -> list[tuple[Variant, list[str]]]:
    """The calculator's answers for A, B, C and D of each."""
    answers = ask(CALCULATOR, [q for v in given for q in v.questions(architecture)])
    return [(v, answers[4 * n : 4 * n + 4]) for n, v in enumerate(given)]


# ---- one instruction -------------------------------------------------------------------------------------------------------

_TYPES = {"f32": np.float32, "xf32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
          "i32": np.int32, "i8": np.int8, "iu8": np.int8, "iu4": np.int8}  # fmt: skip
_BITS = {"f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16, "iu4": 4}
_AT = {"A": 2, "B": 40, "C": 80, "D": 120}
"""The first register of each operand."""


def type_of(kind: str, isa: str) -> type:
    fnuz = isa == "gfx942"
    small = {
        "fp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz),
        "bf8": (ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz),
    }
    return small[kind][fnuz] if kind in small else _TYPES[kind]


def check(isa: str, v: Variant, layouts: list[Layout], rng: np.random.Generator) -> None:
    result, kind_a, kind_b = Kinds(v.mnemonic).all
    a, b, c = (matrix(rng, x, kind, isa) for x, kind in zip(layouts, (kind_a, kind_b, result), strict=False))
    words = [max(1, _BITS.get(kind, 8) // 32) for kind in (kind_a, kind_b, result, result)]
    held = [n + max(p.register for places in x.values() for p in places) for n, x in zip(words, layouts, strict=True)]
    rows = rng.integers(0, 2**32, (4, max(held), lanes_of(isa)), dtype=np.uint64).astype(np.uint32)
    for x, values, kind, to in zip(layouts, (a, b, c), (kind_a, kind_b, result), rows, strict=False):
        put(x, values, kind, to)
    inputs = {_AT[m] + r: rows[n, r] for n, m in enumerate("ABCD") for r in range(held[n])}
    signs = " neg_lo:[1,1,0]" if "_iu" in v.mnemonic else ""
    operands = ", ".join(span(_AT[m], held["ABCD".index(m)]) for m in "DABC")
    body = f"{v.mnemonic} {operands} {v.text}{signs}\n" + "s_nop 15\n" * 4
    found = np.array(execute(isa, body, inputs, range(_AT["D"], _AT["D"] + held[3])))
    d = taken(layouts[3], found, result, c.shape)
    expected = np.einsum("bik,bkj->bij", effective(layouts[0], a), effective(layouts[1], b)) + effective(layouts[2], c)
    np.testing.assert_array_equal(d.astype(np.float64), expected, err_msg=f"{isa} {v}")


def check_sparse(isa: str, name: str, layouts: list[Layout], rng: np.random.Generator) -> None:
    """Two of four neighbouring depths of A are held where the calculator shows the four, the first one in the lower bits."""
    result, kind_a, kind_b = Kinds(name).all
    where_a, where_k, where_b, where_d = layouts
    rows, depth = (1 + max(at[n] for at in where_a) for n in (1, 2))
    kept = np.sort(np.argsort(rng.random((rows, depth // 4, 4)))[..., :2])  # which two of each four
    values = rng.integers(-3, 4, (rows, depth // 4, 2)).astype(type_of(kind_a, isa))
    a = np.zeros((1, rows, depth))
    np.put_along_axis(a.reshape(rows, depth // 4, 4), kept, values.astype(np.float64), -1)
    b = matrix(rng, where_b, kind_b, isa)
    c = rng.integers(-9, 10, (1, rows, b.shape[2])).astype(_TYPES[result])
    held = [1 + max(p.register for places in x.values() for p in places) for x in layouts]
    registers = rng.integers(0, 2**32, (4, max(held), lanes_of(isa)), dtype=np.uint64).astype(np.uint32)
    bits = _BITS.get(kind_a, 8)
    for i in range(rows):
        for g in range(depth // 4):
            (place,), (index,) = where_a[0, i, 4 * g], where_k[0, i, 4 * g]
            for n in range(2):
                raw = int(values[i, g, n].view(f"u{values.itemsize}")) & ((1 << bits) - 1)
                insert(registers[0], place.register, place.lane, place.low + n * bits, bits, raw)
                insert(registers[1], index.register, index.lane, index.low + 2 * n, 2, int(kept[i, g, n]))
    put(where_b, b, kind_b, registers[2])
    put(where_d, c, result, registers[3])
    inputs = {_AT[m] + r: registers[n, r] for n, m in enumerate("ACBD") for r in range(held[n])}
    signs = " neg_lo:[1,1,0]" if "_iu" in name else ""
    operands = ", ".join(span(_AT[m], held["ACBD".index(m)]) for m in "DABC")
    body = f"{name} {operands}{signs}\n" + "s_nop 15\n" * 4
    found = np.array(execute(isa, body, inputs, range(_AT["D"], _AT["D"] + held[3])))
    d = taken(where_d, found, result, c.shape)
    expected = a @ b.astype(np.float64) + c.astype(np.float64)
    np.testing.assert_array_equal(d.astype(np.float64), expected, err_msg=f"{isa} {name}")


def insert(rows: Array, register: int, lane: int, low: int, bits: int, value: int) -> None:
    mask = ((1 << bits) - 1) << low
    rows[register, lane] = int(rows[register, lane]) & ~mask & 0xFFFFFFFF | value << low


def matrix(rng: np.random.Generator, x: Layout, kind: str, isa: str) -> Array:
    """Small whole numbers, equal wherever the modifiers make elements share their place."""
    shape = tuple(1 + max(at[n] for at in x) for n in range(3))
    values = rng.integers(-3, 4, shape).astype(type_of(kind, isa))
    first: dict[object, object] = {}
    for at, places in x.items():
        values[at] = first.setdefault(places[0], values[at])
    return values


def put(x: Layout, values: Array, kind: str, rows: Array) -> None:
    bits = _BITS.get(kind, 8)
    raw = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    for at, places in x.items():
        for p in places:
            for word in range(max(1, bits // 32)):
                mask = (1 << min(bits, 32)) - 1
                part = (int(raw[at]) >> 32 * word & mask) << p.low
                rows[p.register + word, p.lane] = int(rows[p.register + word, p.lane]) & ~(mask << p.low) & 0xFFFFFFFF | part


def taken(x: Layout, rows: Array, kind: str, shape: tuple[int, ...]) -> Array:
    bits = _BITS[kind]
    raw = np.zeros(shape, f"u{bits // 8}")
    for at, (p,) in x.items():
        word = int(rows[p.register, p.lane]) >> p.low & ((1 << min(bits, 32)) - 1)
        raw[at] = word | (int(rows[p.register + 1, p.lane]) << 32 if bits == 64 else 0)
    return raw.view(_TYPES[kind])


def effective(x: Layout, values: Array) -> Array:
    """The numbers as the instruction takes them."""
    wide = values.astype(np.float64)
    for at, (p, *_) in x.items():
        wide[at] = abs(wide[at]) if p.absolute else wide[at]
        wide[at] = -wide[at] if p.negative else wide[at]
    return wide


def span(first: int, count: int) -> str:
    return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"
