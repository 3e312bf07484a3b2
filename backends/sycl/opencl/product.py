"""The register-tiled matrix product as an OpenCL C function."""

from __future__ import annotations

from ..loops.spelling import C_TYPE


def product(name: str, dtype: str, rows: int, lanes: int, vectors: int) -> str:
    """``c += a b`` on packed tiles with ``rows`` x (``lanes`` * ``vectors``) sums in registers; rows that are left over
    are taken one by one."""
    kind, wide = C_TYPE[dtype], lanes * vectors
    lines = [
        f"// c += a b for packed tiles of rows x depth and depth x columns. {rows} x {wide} sums stay in registers while k",
        f"// runs, so that an element of b is read once for {rows} rows and one of a once for {wide} columns.",
        f"void {name}(__local {kind} *c, const int c_pitch, __local const {kind} *a, const int a_pitch,",
        f"    __local const {kind} *b, const int b_pitch, const int rows, const int columns, const int depth)",
        "{",
        f"    for (int j = 0; j < columns; j += {wide}) {{",
        "        int i = 0;",
        f"        for (; i + {rows} <= rows; i += {rows}) {{",
        *_indented(_block(kind, dtype, rows, lanes, vectors)),
        "        }",
        "        for (; i < rows; ++i) {",
        *_indented(_row(kind, dtype, lanes, vectors)),
        "        }",
        "    }",
        "}",
    ]
    return "\n".join(lines)


def _indented(lines: list[str]) -> list[str]:
    return [" " * 12 + line for line in lines]


def _sum(dtype: str, x: str, y: str, total: str) -> str:
    return f"fma({x}, {y}, {total})" if dtype in ("f32", "f64") else f"{total} + {x} * {y}"


def _each_row(rows: int, body: list[str]) -> list[str]:
    head = [f"__attribute__((opencl_unroll_hint({rows})))", f"for (int r = 0; r < {rows}; ++r) {{"]
    return [*head, *("    " + line for line in body), "}"]


def _block(kind: str, dtype: str, rows: int, lanes: int, vectors: int) -> list[str]:
    each = range(vectors)
    place = "c + (i + r) * c_pitch + j"
    load = [f"s[r][{v}] = vload{lanes}({v}, {place});" for v in each]
    step = [f"const {kind}{lanes} x = a[(i + r) * a_pitch + k];",
            *(f"s[r][{v}] = {_sum(dtype, 'x', f'b{v}', f's[r][{v}]')};" for v in each)]
    store = [f"vstore{lanes}(s[r][{v}], {v}, {place});" for v in each]
    right = [f"const {kind}{lanes} b{v} = vload{lanes}({v}, b + k * b_pitch + j);" for v in each]
    walk = ["for (int k = 0; k < depth; ++k) {", *("    " + line for line in (*right, *_each_row(rows, step))), "}"]
    return [f"{kind}{lanes} s[{rows}][{vectors}];", *_each_row(rows, load), *walk, *_each_row(rows, store)]


def _row(kind: str, dtype: str, lanes: int, vectors: int) -> list[str]:
    each = range(vectors)
    load = [f"{kind}{lanes} s{v} = vload{lanes}({v}, c + i * c_pitch + j);" for v in each]
    step = [f"const {kind}{lanes} x = a[i * a_pitch + k];",
            *(f"s{v} = {_sum(dtype, 'x', f'vload{lanes}({v}, b + k * b_pitch + j)', f's{v}')};" for v in each)]
    store = [f"vstore{lanes}(s{v}, {v}, c + i * c_pitch + j);" for v in each]
    return [*load, "for (int k = 0; k < depth; ++k) {", *("    " + line for line in step), "}", *store]
