"""The words of SYCL for kernels of one work-item: functions of ``pk/cpu.hpp``."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.emit.loops.plan import KernelLoopPlan

from ..loops.spelling import C_TYPE, IDENTITY, REGISTER, constant

MEMORY = {
    "f64": "double", "f32": "float", "f16": "pk::f16", "bf16": "pk::bf16", "i64": "int64_t", "i32": "int32_t",
    "i16": "int16_t", "i8": "int8_t", "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "bool",
}  # fmt: skip
SCALAR = {"f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t", "u64": "uint64_t", "u32": "uint32_t"}


_NAMES = {"fabs": "abs", "rint": "round"}


class SyclWords:
    """Implements :class:`portakern.backends.sycl.loops.words.Words`; every function is a template of the header.
    ``asked`` are the headers of their own that a text has asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def held(self, dtype: str, lanes: int = 1) -> str:
        kind = REGISTER[dtype]
        return f"pk::{C_TYPE[kind]}{lanes}" if lanes > 1 else SCALAR[kind]

    def call(self, fn: str) -> str:
        return f"pk::{_NAMES.get(fn, fn)}"

    def constant(self, value: float | int | bool, dtype: str) -> str:
        return constant(value, dtype).replace("INT_MIN", "INT32_MIN").replace("LONG_MIN", "INT64_MIN")

    def limit(self, dtype: str, fn: str) -> str:
        return self.constant(IDENTITY[fn][REGISTER[dtype]], dtype)

    def count(self, left: str, lanes: int, index: str) -> str:
        return f"pk::min<{index}>({left}, {lanes})"

    def element(self, dtype: str, pointer: str, offset: str) -> str:
        plain = REGISTER[dtype] == dtype
        return f"{pointer}[{offset}]" if plain else f"pk::read({pointer}[{offset}])"

    def write_element(self, dtype: str, pointer: str, offset: str, value: str) -> str:
        plain = REGISTER[dtype] == dtype
        return f"{pointer}[{offset}] = {value}" if plain else f"pk::write({pointer}[{offset}], {value})"

    def load(self, dtype: str, lanes: int, address: str, left: str | None, step: str | None) -> str:
        return f"pk::load{_ending(left, step)}<{lanes}>({', '.join(_given(address, step, left))})"

    def store(self, dtype: str, lanes: int, address: str, value: str, left: str | None, step: str | None) -> str:
        return f"pk::store{_ending(left, step)}({', '.join(_given(value, address, step, left))})"

    def read_local(self, lanes: int, address: str) -> str:
        return f"pk::load<{lanes}>({address})"

    def write_local(self, lanes: int, address: str, value: str) -> str:
        return f"pk::store({value}, {address})"

    def vector(self, dtype: str, lanes: int, parts: Sequence[str]) -> str:
        return f"{self.held(dtype, lanes)}{{{', '.join(parts)}}}"

    def select(self, dtype: str, lanes: int, mask: str, yes: str, no: str) -> str:
        return f"pk::select({mask}, {yes}, {no})"

    def convert(self, dtype: str, lanes: int, value: str) -> str:
        return f"pk::convert<{self.held(dtype, lanes)}>({value})"

    def wrap(self, dtype: str, lanes: int, value: str) -> str:
        narrow = f"pk::vec<{MEMORY[dtype]}, {lanes}>" if lanes > 1 else MEMORY[dtype]
        return f"pk::convert<{self.held('i32', lanes)}>(pk::convert<{narrow}>({value}))"

    def bits(self, dtype: str, lanes: int, value: str) -> str:
        return f"pk::bits<{self.held(dtype, lanes)}>({value})"

    def lanes(self, lanes: int) -> str:
        return f"pk::lanes<{lanes}>()"

    def keep(self, dtype: str, lanes: int) -> str:
        return "pk::keep"

    def extreme(self, fn: str, dtype: str, lanes: int) -> str:
        return f"pk::{fn}"

    def across(self, fn: str, dtype: str, lanes: int) -> str:
        return {"sum": "pk::sum_of", "prod": "pk::product_of", "max": "pk::largest_of", "min": "pk::smallest_of"}[fn]

    def division(self, fn: str, dtype: str, lanes: int) -> str:
        return f"pk::{fn}"

    def round_narrow(self, dtype: str, lanes: int) -> str:
        return f"pk::round_{dtype}"

    def atomic(self, mode: str, dtype: str) -> str:
        self.asked.add("pk/atomic.hpp")
        return f"pk::atomic_{mode}"

    def sort(self, dtype: str) -> str:
        return "pk::sort_order"

    def product(self, dtype: str, rows: int, lanes: int, vectors: int, depth: int, turned: tuple[bool, bool]) -> str:
        if not any(turned):
            return f"pk::product<{rows}, {lanes}, {vectors}>"
        self.asked.add("pk/turned.hpp")
        return f"pk::product<{rows}, {lanes}, {vectors}, {depth}, {_flags(turned)}>"

    def product_of_pairs(self, rows: int, vectors: int, depth: int, turned: tuple[bool, bool]) -> str:
        self.asked.add("pk/pairs.hpp")
        return f"pk::product_of_pairs<{rows}, {vectors}, {depth}{f', {_flags(turned)}' if any(turned) else ''}>"

    def half_type(self, lanes: int) -> str:
        return f"pk::vec<uint16_t, {lanes}>" if lanes > 1 else "uint16_t"

    def half_bits(self, lanes: int, value: str, exact: bool) -> str:
        return f"pk::{'upper_half' if exact else 'bf16_bits'}({value})"

    def group(self, dim: int) -> str:
        return f"pk::group({dim})"

    def head(self, plan: KernelLoopPlan, params: Sequence[str]) -> str:
        joined = ", ".join(params)
        joined = joined if len(joined) <= 100 else ",\n    ".join(params)
        return f"PK_KERNEL {plan.kernel.name}({joined}) {{"

    def parameter(self, dtype: str, name: str, written: bool) -> str:
        return f"{'' if written else 'const '}{MEMORY[dtype]}* __restrict {name}"

    def size(self, name: str) -> str:
        return f"int64_t {name}"

    def local_array(self, dtype: str, name: str, count: int, about: str) -> list[str]:
        kind = "uint16_t" if dtype == "bf16" else SCALAR[dtype]  # the bits of bf16
        return [f"static pk::local<{kind}, {count}> {name}_memory;  // {about}", f"{kind}* const {name} = &{name}_memory[0];"]


def _flags(turned: tuple[bool, bool]) -> str:
    return ", ".join(str(x).lower() for x in turned)


def _ending(left: str | None, step: str | None) -> str:
    return ("_step" if step else "") + ("_part" if left else "")


def _given(*parts: str | None) -> list[str]:
    return [p for p in parts if p]
