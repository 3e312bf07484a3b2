"""The small functions an OpenCL kernel is written in terms of; a source holds those it uses.

Names say the dtype and the number of lanes: ``load_bf16x16``.  A ``_part`` function touches only the first ``left``
elements and gives 0 in the other lanes, a ``_step`` function elements ``step`` apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from portakern.emit.loops.plan import KernelLoopPlan

from ..loops.spelling import C_TYPE, IDENTITY, MEMORY, REGISTER, constant, held
from .pairs import ADD_PAIRS, product_of_pairs
from .product import STEPS, product, turn


class Helpers:
    """The words of OpenCL C (see :class:`portakern.backends.sycl.loops.words.Words`).

    Collects the functions a source needs, in the order they must be defined.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def __str__(self) -> str:
        return "\n\n".join(self.texts.values())

    def use(self, name: str, make: Callable[[], str]) -> str:
        if name not in self.texts:
            self.texts[name] = ""  # holds the place; what ``make`` uses itself comes before it
            text = make()
            del self.texts[name]
            self.texts[name] = text
        return name

    # ---- what the language has by itself

    def held(self, dtype: str, lanes: int = 1) -> str:
        return held(dtype, lanes)

    def call(self, fn: str) -> str:
        return fn

    def constant(self, value: float | int | bool, dtype: str) -> str:
        return constant(value, dtype)

    def limit(self, dtype: str, fn: str) -> str:
        return constant(IDENTITY[fn][REGISTER[dtype]], dtype)

    def count(self, left: str, lanes: int, index: str) -> str:
        return f"min({left}, ({index}){lanes})"

    def read_local(self, lanes: int, address: str) -> str:
        return f"vload{lanes}(0, {address})"

    def write_local(self, lanes: int, address: str, value: str) -> str:
        return f"vstore{lanes}({value}, 0, {address})"

    def vector(self, dtype: str, lanes: int, parts: Sequence[str]) -> str:
        return f"({held(dtype, lanes)})({', '.join(parts)})"

    def select(self, dtype: str, lanes: int, mask: str, yes: str, no: str) -> str:
        if REGISTER[dtype] in ("f64", "i64", "u64"):
            mask = f"convert_long{lanes}({mask})"
        return f"select({no}, {yes}, {mask})"

    def convert(self, dtype: str, lanes: int, value: str) -> str:
        return f"convert_{held(dtype, lanes)}({value})"

    def wrap(self, dtype: str, lanes: int, value: str) -> str:
        x = str(lanes) if lanes > 1 else ""
        return f"convert_int{x}(convert_{MEMORY[dtype]}{x}({value}))"

    def bits(self, dtype: str, lanes: int, value: str) -> str:
        return f"as_{held(dtype, lanes)}({value})"

    def group(self, dim: int) -> str:
        return f"get_group_id({dim})"

    def head(self, plan: KernelLoopPlan, params: Sequence[str]) -> str:
        joined = ", ".join(params)
        joined = joined if len(joined) <= 100 else ",\n    ".join(params)
        return f"__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\nvoid {plan.kernel.name}({joined})\n{{"

    def parameter(self, dtype: str, name: str, written: bool) -> str:
        return f"__global {'' if written else 'const '}{MEMORY[dtype]} *restrict {name}"

    def size(self, name: str) -> str:
        return f"const long {name}"

    def local_array(self, dtype: str, name: str, count: int, about: str) -> list[str]:
        return [f"__local {MEMORY[dtype]} {name}[{count}] __attribute__((aligned(64)));  // {about}"]

    # ---- one element

    def element(self, dtype: str, pointer: str, offset: str) -> str:
        """The value at ``pointer[offset]``."""
        if dtype == "f16":
            return f"vload_half({offset}, {pointer})"
        if dtype == "bf16":
            return f"{self.load_bf16()}({pointer} + {offset})"
        if dtype == "bool":
            return f"({pointer}[{offset}] != 0)"
        return f"{pointer}[{offset}]"

    def write_element(self, dtype: str, pointer: str, offset: str, value: str) -> str:
        if dtype == "f16":
            return f"vstore_half_rte({value}, {offset}, {pointer})"
        if dtype == "bf16":
            return f"{pointer}[{offset}] = {self.bits_bf16(1)}({value})"
        if dtype in ("i8", "i16", "u8", "u16"):
            return f"{pointer}[{offset}] = ({MEMORY[dtype]})({value})"
        return f"{pointer}[{offset}] = {value}"

    def load_bf16(self) -> str:
        return self.use("load_bf16", lambda: (
            "// A bf16 is the upper half of a float.\n"
            "float load_bf16(__global const ushort *p)\n{\n    return as_float((uint)*p << 16);\n}"))

    def bits_bf16(self, lanes: int) -> str:
        """float to the bits of bf16, rounding halves to even; a NaN stays one."""
        x = str(lanes) if lanes > 1 else ""
        name = f"bf16_bits{'x' + x if x else ''}"
        tail = (
            f"    return convert_ushort{x}(select(rounded, (uint{x})(0x7fc0), v != v));" if x
            else "    return (ushort)(isnan(v) ? 0x7fc0 : rounded);"
        )
        return self.use(name, lambda: (
            f"// The bits of v as bf16: halves are rounded to even, a NaN stays a NaN.\n"
            f"ushort{x} {name}(float{x} v)\n{{\n"
            f"    const uint{x} bits = as_uint{x}(v);\n"
            f"    const uint{x} rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;\n{tail}\n}}"))

    def round_narrow(self, dtype: str, lanes: int) -> str:
        """float to float, rounded to what f16 or bf16 can hold."""
        x = str(lanes) if lanes > 1 else ""
        name = f"round_{dtype}{'x' + x if x else ''}"
        if dtype == "bf16":
            bits = self.bits_bf16(lanes)
            body = f"    return as_float{x}(convert_uint{x}({bits}(v)) << 16);"
            if not x:
                body = f"    return as_float((uint){bits}(v) << 16);"
        else:
            load = f"vload_half{x}(0, h)"
            body = f"    half h[{lanes}];\n    vstore_half{x}_rte(v, 0, h);\n    return {load};"
        return self.use(name, lambda: f"// v rounded to {dtype}.\nfloat{x} {name}(float{x} v)\n{{\n{body}\n}}")

    # ---- vectors from and to memory

    def load(self, dtype: str, lanes: int, address: str, left: str | None, step: str | None) -> str:
        """The expression that loads ``lanes`` elements from ``address``."""
        memory, value = MEMORY[dtype], f"{C_TYPE[REGISTER[dtype]]}{lanes}"
        if left is None and step is None:
            if dtype == "f16":
                return f"vload_half{lanes}(0, {address})"
            if dtype == "bf16":
                return f"{self.wide_bf16(lanes)}({address})"
            if dtype == "bool":
                return f"convert_int{lanes}(vload{lanes}(0, {address}) != (uchar)0)"
            if MEMORY[dtype] != C_TYPE[REGISTER[dtype]]:
                return f"convert_{value}(vload{lanes}(0, {address}))"
            return f"vload{lanes}(0, {address})"
        name = f"load_{dtype}x{lanes}" + ("_step" if step else "") + ("_part" if left else "")
        one = self.element(dtype, "p", "i * step" if step else "i")
        if dtype == "bool":
            one = f"-{one}"
        count = "left" if left else str(lanes)
        quick = ""
        if left and not step:
            quick = f"    if (left >= {lanes})\n        return {self.load(dtype, lanes, 'p', None, None)};\n"
        what = f"{lanes} elements" + (" that lie step apart" if step else "")
        what += ", of which only the first `left` are there: the others read as 0" if left else ""

        def make() -> str:
            params = ["__global const " + memory + " *p", *(["const long step"] if step else []),
                      *(["const long left"] if left else [])]
            bound = f"min(left, {lanes}L)" if step and left else count
            return (f"// {what[0].upper()}{what[1:]}.\n{value} {name}({', '.join(params)})\n{{\n{quick}"
                    f"    {value[: -len(str(lanes))]} v[{lanes}] = {{0}};\n"
                    f"    for (int i = 0; i < {bound}; ++i)\n        v[i] = {one};\n"
                    f"    return vload{lanes}(0, v);\n}}")

        self.use(name, make)
        return f"{name}({', '.join([address, *([step] if step else []), *([left] if left else [])])})"

    def wide_bf16(self, lanes: int) -> str:
        name = f"load_bf16x{lanes}"
        return self.use(name, lambda: (
            f"// {lanes} bf16 as float: a bf16 is the upper half of a float.\n"
            f"float{lanes} {name}(__global const ushort *p)\n{{\n"
            f"    return as_float{lanes}(convert_uint{lanes}(vload{lanes}(0, p)) << 16);\n}}"))

    def store(self, dtype: str, lanes: int, address: str, value: str, left: str | None, step: str | None) -> str:
        """The statement that stores a vector; ``left`` and ``step`` as for :meth:`load`."""
        memory, held = MEMORY[dtype], C_TYPE[REGISTER[dtype]]
        if left is None and step is None:
            if dtype == "f16":
                return f"vstore_half{lanes}_rte({value}, 0, {address})"
            if dtype == "bf16":
                return f"vstore{lanes}({self.bits_bf16(lanes)}({value}), 0, {address})"
            if dtype == "bool":
                truth = f"-{value}" if value.isidentifier() else f"-({value})"
                return f"vstore{lanes}(convert_uchar{lanes}({truth}), 0, {address})"
            if memory != held:
                return f"vstore{lanes}(convert_{memory}{lanes}({value}), 0, {address})"
            return f"vstore{lanes}({value}, 0, {address})"
        name = f"store_{dtype}x{lanes}" + ("_step" if step else "") + ("_part" if left else "")
        one = self.write_element(dtype, "p", "i * step" if step else "i", "(e[i] != 0)" if dtype == "bool" else "e[i]")
        quick = ""
        if left and not step:
            whole = self.store(dtype, lanes, "p", "v", None, None)
            quick = f"    if (left >= {lanes}) {{\n        {whole};\n        return;\n    }}\n"
        bound = f"min(left, {lanes}L)" if step and left else "left" if left else str(lanes)
        what = f"{lanes} elements" + (" that lie step apart" if step else "")
        what += ", of which only the first `left` are written" if left else ""

        def make() -> str:
            params = [f"const {held}{lanes} v", f"__global {memory} *p", *(["const long step"] if step else []),
                      *(["const long left"] if left else [])]
            return (f"// {what[0].upper()}{what[1:]}.\nvoid {name}({', '.join(params)})\n{{\n{quick}"
                    f"    {held} e[{lanes}];\n    vstore{lanes}(v, 0, e);\n"
                    f"    for (int i = 0; i < {bound}; ++i)\n        {one};\n}}")

        self.use(name, make)
        return f"{name}({', '.join([value, address, *([step] if step else []), *([left] if left else [])])})"

    # ---- arithmetic

    def lanes(self, lanes: int) -> str:
        """The vector 0, 1, 2, ..."""
        numbers = ", ".join(map(str, range(lanes)))
        return self.use(f"LANES{lanes}", lambda: f"#define LANES{lanes} ((int{lanes})({numbers}))")

    def keep(self, dtype: str, lanes: int) -> str:
        """``v`` in the first ``left`` lanes, ``other`` in those after."""
        kind = REGISTER[dtype]
        t, name = C_TYPE[kind], f"keep_{kind}x{lanes}"
        steps = self.lanes(lanes)
        mask = f"{steps} < (int{lanes})((int)min(left, {lanes}L))"
        if kind in ("f64", "i64", "u64"):
            mask = f"convert_long{lanes}({mask})"
        return self.use(name, lambda: (
            f"// v in the first `left` lanes, `other` in those after.\n"
            f"{t}{lanes} {name}(const {t}{lanes} v, const long left, const {t} other)\n{{\n"
            f"    return select(({t}{lanes})(other), v, {mask});\n}}"))

    def extreme(self, fn: str, dtype: str, lanes: int) -> str:
        """``max`` or ``min`` of floats that hands on NaN, which fmax and fmin do not."""
        kind, x = REGISTER[dtype], str(lanes) if lanes > 1 else ""
        if kind not in ("f32", "f64"):
            return fn
        t, name = C_TYPE[kind] + x, f"{fn}_{kind}" + (f"x{x}" if x else "")
        sign = ">" if fn == "max" else "<"
        pick = f"select(b, a, (a {sign} b) | (a != a))" if x else f"a {sign} b || a != a ? a : b"
        return self.use(name, lambda: (
            f"// The {'larger' if fn == 'max' else 'smaller'} of two, NaN if either is (f{fn} would drop it).\n"
            f"{t} {name}(const {t} a, const {t} b)\n{{\n    return {pick};\n}}"))

    def across(self, fn: str, dtype: str, lanes: int) -> str:
        """The function that reduces the lanes of a vector to one value by halving it."""
        kind = REGISTER[dtype]
        t, word = C_TYPE[kind], {"sum": "sum", "prod": "product", "max": "largest", "min": "smallest"}[fn]
        name = f"{word}_of_{kind}x{lanes}"

        def join(a: str, b: str, width: int) -> str:
            sign = {"sum": "+", "prod": "*"}.get(fn)
            return f"{a} {sign} {b}" if sign else f"{self.extreme(fn, dtype, width)}({a}, {b})"

        lines, width, current = [], lanes // 2, "v"
        while width > 1:
            lines.append(f"    const {t}{width} v{width} = {join(current + '.lo', current + '.hi', width)};")
            current, width = f"v{width}", width // 2
        lines.append(f"    return {join(current + '.lo', current + '.hi', 1)};")
        body = "\n".join(lines)
        return self.use(name, lambda: (
            f"// The {word} of the lanes of v.\n{t} {name}(const {t}{lanes} v)\n{{\n{body}\n}}"))

    def division(self, fn: str, dtype: str, lanes: int) -> str:
        """Integer division that rounds down, or a remainder with the sign of the divisor."""
        kind, x = REGISTER[dtype], str(lanes) if lanes > 1 else ""
        t, name = C_TYPE[kind] + x, f"{fn}_{kind}" + (f"x{x}" if x else "")
        what = "The quotient a / b rounded down" if fn == "floordiv" else "What a leaves by b, with the sign of b"
        head = f"// {what}.\n{t} {name}(const {t} a, const {t} b)\n{{\n"
        body = _float_remainder(t, x) if kind in ("f32", "f64") else _integer_division(fn, t, x)
        return self.use(name, lambda: head + "\n".join(f"    {line}" for line in body) + "\n}")

    def atomic(self, mode: str, dtype: str) -> str:
        if dtype == "i32":
            return f"atomic_{mode}"
        name = f"atomic_{mode}_{dtype}"
        new = "old + v" if mode == "add" else f"{self.extreme('max', 'f32', 1)}(old, v)"
        return self.use(name, lambda: (
            f"// *p {'+= v' if mode == 'add' else '= the larger of *p and v'}, as one step among work-groups.\n"
            f"void {name}(volatile __global float *p, const float v)\n{{\n"
            "    float old = *p;\n    for (;;) {\n"
            f"        const int seen = atomic_cmpxchg((volatile __global int *)p, as_int(old), as_int({new}));\n"
            "        if (seen == as_int(old))\n            return;\n        old = as_float(seen);\n    }\n}"))

    def sort(self, dtype: str) -> str:
        kind = REGISTER[dtype]
        name = f"sort_order_{kind}"
        return self.use(name, lambda: _SORT.format(name=name, type=C_TYPE[kind]))

    def half_type(self, lanes: int) -> str:
        return f"ushort{lanes if lanes > 1 else ''}"

    def half_bits(self, lanes: int, value: str, exact: bool) -> str:
        if not exact:
            return f"{self.bits_bf16(lanes)}({value})"
        x = str(lanes) if lanes > 1 else ""
        return f"convert_ushort{x}(as_uint{x}({value}) >> 16)"

    def product_of_pairs(self, rows: int, vectors: int, depth: int, turned: tuple[bool, bool]) -> str:
        self.use("add_pairs", lambda: ADD_PAIRS)
        if turned[1]:
            self.use("turn_uint", lambda: turn("uint"))
        name = f"product_bf16_{rows}x{16 * vectors}" + _turned(turned) + _long(depth)
        return self.use(name, lambda: product_of_pairs(name, rows, vectors, max(depth, STEPS), turned))

    def product(self, dtype: str, rows: int, lanes: int, vectors: int, depth: int, turned: tuple[bool, bool]) -> str:
        kind = REGISTER[dtype]
        if turned[1]:
            self.use("turn_float", lambda: turn("float"))
        name = f"product_{kind}_{rows}x{lanes * vectors}" + _turned(turned) + (_long(depth) if turned[1] else "")
        return self.use(name, lambda: product(name, kind, rows, lanes, vectors, max(depth, STEPS), turned))


def _turned(turned: tuple[bool, bool]) -> str:
    return "".join(f"_turned_{x}" for x, is_turned in zip("ab", turned, strict=True) if is_turned)


def _long(depth: int) -> str:
    return f"x{depth}" if depth > STEPS else ""


_SORT = """\
// Where the first `count` of keys lie in ascending order, equal ones in theirs: runs are merged, twice as long each time.
void {name}(__local const {type} *keys, __local int *order, __local int *other, const int count)
{{
    for (int i = 0; i < count; ++i)
        order[i] = i;
    for (int run = 1; run < count; run *= 2) {{
        for (int begin = 0; begin < count; begin += 2 * run) {{
            const int middle = min(begin + run, count), end = min(begin + 2 * run, count);
            for (int a = begin, b = middle, to = begin; to < end; ++to)
                other[to] = a < middle && (b == end || keys[order[a]] <= keys[order[b]]) ? order[a++] : order[b++];
        }}
        for (int i = 0; i < count; ++i)
            order[i] = other[i];
    }}
}}"""


def _float_remainder(t: str, x: str) -> list[str]:
    """fmod is exact, which a less the quotient rounded down times b is not."""
    off = "(r != 0) & ((r < 0) ^ (b < 0))"
    return [f"const {t} r = fmod(a, b);", f"return select(r, r + b, {off});" if x else f"return {off} ? r + b : r;"]


def _integer_division(fn: str, t: str, x: str) -> list[str]:
    """The lines of a floordiv or a remainder of integers of type ``t`` with ``x`` lanes ('' for one)."""
    if t.startswith("u"):
        return ["return a / b;" if fn == "floordiv" else "return a % b;"]
    # A comparison of vectors gives -1 where it holds, and what select asks is the sign.
    one = f"select(b, ({t})(1), b == -1)" if x else "b == -1 ? 1 : b"
    lines = [f"const {t} d = {one};  // the least number over -1 wraps round; processors trap on it"]
    if fn == "rem":
        off = "(r != 0) & ((r ^ d) < 0)"
        return [*lines, f"const {t} r = a % d;", f"return select(r, r + d, {off});" if x else f"return {off} ? r + d : r;"]
    down = "q + ((r != 0) & ((r ^ d) < 0))" if x else "q - (r != 0 && (r ^ d) < 0)"
    opposite = f"as_{t}(-as_u{t}(a))"
    last = f"select({down}, {opposite}, b == -1)" if x else f"b == -1 ? {opposite} : {down}"
    return [*lines, f"const {t} q = a / d;", f"const {t} r = a - q * d;", f"return {last};"]
