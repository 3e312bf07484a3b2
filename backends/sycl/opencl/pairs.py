"""The register-tiled matrix product of bf16 as an OpenCL C function: two products at a time.

``vdpbf16ps`` of AVX-512 adds to each of sixteen sums the products of two pairs of bf16.  OpenCL C has no word for it, and
Intel's compiler for CPUs takes its LLVM intrinsic under the name that ``asm`` gives a function.  The toolchain defines
:data:`MACRO` where processor and driver have it; elsewhere the same pairs are two multiply-adds.
"""

from __future__ import annotations

from .product import squares, whole_squares

MACRO = "PK_AVX512_BF16"

ADD_PAIRS = f"""\
#ifdef {MACRO}
// vdpbf16ps: to each sum are added the products of the lower and of the upper halves of two words, which are bf16.
typedef __bf16 bf16x32 __attribute__((ext_vector_type(32)));
float16 vdpbf16ps(const float16 sum, const bf16x32 a, const bf16x32 b) __asm("llvm.x86.avx512bf16.dpbf16ps.512");
#define add_pairs(sum, a, b) vdpbf16ps(sum, __builtin_astype(a, bf16x32), __builtin_astype(b, bf16x32))
#else
// To each sum are added the products of the lower and of the upper halves of two words, which are bf16.
float16 add_pairs(const float16 sum, const uint16 a, const uint16 b)
{{
    const float16 lower = fma(as_float16(a << 16), as_float16(b << 16), sum);
    return fma(as_float16(a & 0xffff0000u), as_float16(b & 0xffff0000u), lower);
}}
#endif"""


def product_of_pairs(name: str, rows: int, vectors: int, depth: int, turned: tuple[bool, bool]) -> str:
    """``c += a b`` on packed tiles of bf16 with ``rows`` x (16 * ``vectors``) sums in registers, for at most ``depth`` elements
    along k; rows that are left over are taken one by one.  ``turned``: a lies as [k, m], b as [n, k]."""
    wide = 16 * vectors
    lines = [
        "// c += a b for packed tiles of bf16, rows x depth and depth x columns, by pairs of k: a word holds two elements.",
        f"// {wide} columns of b at a time are put into words first; {rows} x {wide} sums stay in registers while k runs.",
        f"void {name}(__local float *c, const int c_pitch, __local ushort *a, const int a_pitch,",
        "    __local const ushort *b, const int b_pitch, const int rows, const int columns, const int depth)",
        "{",
        f"    uint16 pair[{whole_squares((depth + 1) // 2)}][{vectors}];",
        *([f"    uint word[{(depth + 1) // 2}][{rows}];"] if turned[0] else []),
        "    const int even = depth / 2, pairs = (depth + 1) / 2;",
        *_zero_after(turned[0]),
        f"    for (int j = 0; j < columns; j += {wide}) {{",
        *_strip(vectors, turned[1]),
        "        int i = 0;",
        f"        for (; i + {rows} <= rows; i += {rows}) {{",
        *_indented(_words(rows, turned[0])),
        *_indented(_block(rows, vectors, turned[0])),
        "        }",
        "        for (; i < rows; ++i) {",
        *_indented(_row(vectors, turned[0])),
        "        }",
        "    }",
        "}",
    ]  # fmt: skip
    return "\n".join(lines)


def _zero_after(turned: bool) -> list[str]:
    """Where there is an odd number of elements, the last word's upper half is zero."""
    return ["    if (pairs > even)", "        for (int i = 0; i < rows; ++i)",
            f"            a[{'depth * a_pitch + i' if turned else 'i * a_pitch + depth'}] = 0;"]  # fmt: skip


def _strip(vectors: int, turned: bool) -> list[str]:
    each = range(vectors)
    if turned:
        last = [f"            pair[even][{v}] &= 0xffff;" for v in each]
        return [*squares("uint", vectors, "b", "pair", "pairs"), "        if (pairs > even) {", *last, "        }"]
    low, high = "convert_uint16(vload16({v}, row))", "convert_uint16(vload16({v}, row + b_pitch)) << 16"
    return [
        "        for (int k = 0; k < even; ++k) {",
        "            __local const ushort *row = b + 2 * k * b_pitch + j;",
        *(f"            pair[k][{v}] = {low.format(v=v)} | {high.format(v=v)};" for v in each),
        "        }",
        "        if (pairs > even) {",
        *(f"            pair[even][{v}] = convert_uint16(vload16({v}, b + (depth - 1) * b_pitch + j));" for v in each),
        "        }",
    ]  # fmt: skip


def _words(rows: int, turned: bool) -> list[str]:
    """The words of a block of rows, where two elements of one lie in different rows of the array."""
    if not turned:
        return []
    return ["for (int k = 0; k < pairs; ++k) {",
            "    __local const ushort *row = a + 2 * k * a_pitch + i;",
            f"    const uint{rows} low = convert_uint{rows}(vload{rows}(0, row));",
            f"    vstore{rows}(low | convert_uint{rows}(vload{rows}(0, row + a_pitch)) << 16, 0, word[k]);",
            "}"]  # fmt: skip


def _indented(lines: list[str]) -> list[str]:
    return [" " * 12 + line for line in lines]


def _each_row(rows: int, body: list[str]) -> list[str]:
    head = [f"__attribute__((opencl_unroll_hint({rows})))", f"for (int r = 0; r < {rows}; ++r) {{"]
    return [*head, *("    " + line for line in body), "}"]


def _block(rows: int, vectors: int, turned: bool) -> list[str]:
    each, place = range(vectors), "c + (i + r) * c_pitch + j"
    word = "word[k][r]" if turned else "((__local const uint *)(a + (i + r) * a_pitch))[k]"
    step = [f"const uint16 x = {word};", *(f"s[r][{v}] = add_pairs(s[r][{v}], x, b{v});" for v in each)]
    right = [f"const uint16 b{v} = pair[k][{v}];" for v in each]
    walk = ["for (int k = 0; k < pairs; ++k) {", *("    " + line for line in (*right, *_each_row(rows, step))), "}"]
    load = [f"s[r][{v}] = vload16({v}, {place});" for v in each]
    store = [f"vstore16(s[r][{v}], {v}, {place});" for v in each]
    return [f"float16 s[{rows}][{vectors}];", *_each_row(rows, load), *walk, *_each_row(rows, store)]


def _row(vectors: int, turned: bool) -> list[str]:
    each = range(vectors)
    word = "((__local const uint *)(a + i * a_pitch))[k]"
    if turned:
        word = "(uint)a[2 * k * a_pitch + i] | (uint)a[(2 * k + 1) * a_pitch + i] << 16"
    step = [f"const uint16 x = {word};", *(f"s{v} = add_pairs(s{v}, x, pair[k][{v}]);" for v in each)]
    return [*(f"float16 s{v} = vload16({v}, c + i * c_pitch + j);" for v in each),
            "for (int k = 0; k < pairs; ++k) {", *("    " + line for line in step), "}",
            *(f"vstore16(s{v}, {v}, c + i * c_pitch + j);" for v in each)]  # fmt: skip
