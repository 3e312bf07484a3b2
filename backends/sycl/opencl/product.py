"""The register-tiled matrix product as an OpenCL C function."""

from __future__ import annotations

from ..loops.spelling import C_TYPE

STEPS = 512
"""So many elements along k a strip has room for, unless a tile has more."""


def product(name: str, dtype: str, rows: int, lanes: int, vectors: int, depth: int, turned: tuple[bool, bool]) -> str:
    """``c += a b`` on packed tiles with ``rows`` x (``lanes`` * ``vectors``) sums in registers; rows that are left over
    are taken one by one.  ``turned``: a lies as [k, m], b as [n, k] with at most ``depth`` elements along k."""
    kind, wide = C_TYPE[dtype], lanes * vectors
    lines = [
        f"// c += a b for packed tiles of rows x depth and depth x columns{_which(turned)}. {rows} x {wide} sums stay in",
        f"// registers while k runs: an element of b is read once for {rows} rows and one of a once for {wide} columns.",
        f"void {name}(__local {kind} *c, const int c_pitch, __local const {kind} *a, const int a_pitch,",
        f"    __local const {kind} *b, const int b_pitch, const int rows, const int columns, const int depth)",
        "{",
        *([f"    {kind}{lanes} strip[{whole_squares(depth)}][{vectors}];"] if turned[1] else []),
        f"    for (int j = 0; j < columns; j += {wide}) {{",
        *(squares(kind, vectors, "b", "strip", "depth") if turned[1] else []),
        "        int i = 0;",
        f"        for (; i + {rows} <= rows; i += {rows}) {{",
        *_indented(_block(kind, dtype, rows, lanes, vectors, turned)),
        "        }",
        "        for (; i < rows; ++i) {",
        *_indented(_row(kind, dtype, lanes, vectors, turned)),
        "        }",
        "    }",
        "}",
    ]  # fmt: skip
    return "\n".join(lines)


def turn(kind: str) -> str:
    """A square of 16 x 16 words turned round: interleaving the halves four times does it."""
    return "\n".join([
        "// Rows of 16 words become columns: rows and those eight below are interleaved, four times.",
        f"void turn_{kind}({kind}16 *row)",
        "{",
        f"    {kind}16 next[16];",
        "    for (int n = 0; n < 2; ++n) {",
        *_interleaved("row", "next", kind), *_interleaved("next", "row", kind),
        "    }",
        "}",
    ])  # fmt: skip


def _interleaved(from_: str, to: str, kind: str) -> list[str]:
    return ["        __attribute__((opencl_unroll_hint(8)))",
            "        for (int i = 0; i < 8; ++i) {",
            *(f"            {to}[2 * i{plus}].{lanes} = {from_}[i{below}].{half};"
              for plus, half in (("", "lo"), (" + 1", "hi")) for lanes, below in (("even", ""), ("odd", " + 8"))),
            "        }"]  # fmt: skip


def whole_squares(depth: int) -> int:
    return -(-depth // 16) * 16


def squares(kind: str, vectors: int, rows: str, strip: str, count: str) -> list[str]:
    """The lines that turn rows of b into a strip, square by square; ``rows`` is b in words of ``kind``."""
    return [f"        for (int k = 0; k < {count}; k += 16) {{",
            f"            for (int v = 0; v < {vectors}; ++v) {{",
            f"                {kind}16 row[16];",
            "                for (int t = 0; t < 16; ++t)",
            f"                    row[t] = vload16(0, {_word_row(kind, rows)} + k);",
            f"                turn_{kind}(row);",
            "                for (int t = 0; t < 16; ++t)",
            f"                    {strip}[k + t][v] = row[t];",
            "            }",
            "        }"]  # fmt: skip


def _word_row(kind: str, rows: str) -> str:
    place = f"{rows} + (j + 16 * v + t) * b_pitch"
    return place if kind == "float" else f"(__local const {kind} *)({place})"


def _which(turned: tuple[bool, bool]) -> str:
    return {(False, False): "", (True, False): ", a turned round", (False, True): ", b turned round",
            (True, True): ", both turned round"}[turned]  # fmt: skip


def _indented(lines: list[str]) -> list[str]:
    return [" " * 12 + line for line in lines]


def _sum(dtype: str, x: str, y: str, total: str) -> str:
    return f"fma({x}, {y}, {total})" if dtype in ("f32", "f64") else f"{total} + {x} * {y}"


def _each_row(rows: int, body: list[str]) -> list[str]:
    head = [f"__attribute__((opencl_unroll_hint({rows})))", f"for (int r = 0; r < {rows}; ++r) {{"]
    return [*head, *("    " + line for line in body), "}"]


def _right(v: int, lanes: int, turned: bool) -> str:
    return f"strip[k][{v}]" if turned else f"vload{lanes}({v}, b + k * b_pitch + j)"


def _block(kind: str, dtype: str, rows: int, lanes: int, vectors: int, turned: tuple[bool, bool]) -> list[str]:
    each = range(vectors)
    place = "c + (i + r) * c_pitch + j"
    load = [f"s[r][{v}] = vload{lanes}({v}, {place});" for v in each]
    step = [f"const {kind}{lanes} x = {'a[k * a_pitch + i + r]' if turned[0] else 'a[(i + r) * a_pitch + k]'};",
            *(f"s[r][{v}] = {_sum(dtype, 'x', f'b{v}', f's[r][{v}]')};" for v in each)]  # fmt: skip
    store = [f"vstore{lanes}(s[r][{v}], {v}, {place});" for v in each]
    right = [f"const {kind}{lanes} b{v} = {_right(v, lanes, turned[1])};" for v in each]
    walk = ["for (int k = 0; k < depth; ++k) {", *("    " + line for line in (*right, *_each_row(rows, step))), "}"]
    return [f"{kind}{lanes} s[{rows}][{vectors}];", *_each_row(rows, load), *walk, *_each_row(rows, store)]


def _row(kind: str, dtype: str, lanes: int, vectors: int, turned: tuple[bool, bool]) -> list[str]:
    each = range(vectors)
    load = [f"{kind}{lanes} s{v} = vload{lanes}({v}, c + i * c_pitch + j);" for v in each]
    step = [f"const {kind}{lanes} x = {'a[k * a_pitch + i]' if turned[0] else 'a[i * a_pitch + k]'};",
            *(f"s{v} = {_sum(dtype, 'x', _right(v, lanes, turned[1]), f's{v}')};" for v in each)]  # fmt: skip
    store = [f"vstore{lanes}(s{v}, {v}, c + i * c_pitch + j);" for v in each]
    return [*load, "for (int k = 0; k < depth; ++k) {", *("    " + line for line in step), "}", *store]
