"""What differs between the platforms of the C family, as data: one frozen :class:`Dialect` per platform.

A platform's emitter makes one dialect for a target and hands it to :func:`portakern.emit.clike.build_plan` and to the
printer.  Everything has a default that suits a CUDA-like language; a platform states only what is different.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from portakern.emit.clike.expressions import BINARY, COMPARE, REDUCTIONS, UNARY

TYPES: Mapping[str, str] = {
    "f64": "double", "f32": "float", "f16": "pk::f16", "bf16": "pk::bf16", "f8e4m3": "pk::f8e4m3", "f8e5m2": "pk::f8e5m2",
    "f8e4m3fnuz": "pk::f8e4m3fnuz", "f8e5m2fnuz": "pk::f8e5m2fnuz",
    "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t",
    "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "bool",
}  # fmt: skip
"""C++ type of each dtype."""


@dataclass(frozen=True)
class Dialect:
    """The words and spellings of one platform.

    *Names.*  ``types`` gives the C++ type of each dtype; ``unary``, ``binary``, ``compare`` the expression templates (see
    :mod:`portakern.emit.clike.expressions`); ``reductions`` the operator type of each reduction; ``minus`` what a difference of
    integers of 32 bits is written as where the second one is computed, and ``times`` what a product of integers of 32 bits or
    fewer is written as where both are computed, if a compiler needs to be helped with it.

    *Layouts.*  ``rows`` and ``accumulator`` spell a layout; they may use ``{rows}``, ``{cols}``, ``{warps}``,
    ``{threads}`` and ``{element}`` (operand type of the matrix product).  ``row_of`` and ``col_of`` spell the vectors of the
    layout ``{layout}``.  ``plain_vectors`` says that vectors of equal length are the same in every layout, ``apart`` of which
    operand dtypes products accumulate in an order of elements that products of no other dtype have.

    *Kernel.*  ``kernel`` is the line that opens a kernel (``{name}``, ``{params}``, ``{threads}``, ``{warps}``, and what the
    printer says of ``{bounds}`` and ``{attributes}``), ``block`` the
    expression of the linear block index, ``pointer`` and ``const_pointer`` a buffer parameter.

    *Operands of matrix products.*  ``shared`` spells an operand in shared memory (``{element}``, ``{rows}``, ``{cols}``,
    ``{role}``: A or B, ``{transposed}``: true or false); ``declare_shared`` declares ``{slots}`` of them as ``{name}``.
    ``operand`` names one.  ``role_matters`` says that an operand must be stored differently as left and as right one.
    ``pipelined`` is whether
    copies to shared memory are asynchronous (else ``stages`` is taken as 1); ``synchronised`` whether threads share the
    operands, so that barriers are needed.  ``register_operands`` lists the (role, kind) pairs of operands that ``dot`` takes
    straight from registers, e.g. ``("A", "accumulator")``, if they are of ``register_dtypes`` (``None``: of any).
    Pipelines of more than ``unrolled_slots`` slots are not unrolled.

    *Walks.*  ``private_walks`` says that the platform has ``reduce_own`` and ``combine``: loops of reductions that every thread
    walks alone.

    *Pixels.*  ``takes_pixels`` says that the platform has ``part``, ``columns``, and ``stage``, ``gather`` and ``store`` of
    rows and columns that they find; ``takes_parts`` that it has all but ``stage`` and ``store``;
    ``takes_planes`` that it has ``cross`` of both as well.

    *Scans.*  ``member`` is what stands before a member function of a struct in a kernel; empty where the platform scans no tile
    by a function of the operator's own.  ``single`` is how a tile of one element is asked for it.

    *Sorts.*  ``sorts`` says that the platform has ``sorted_order`` and ``in_order``.

    *Context.*  ``context`` is handed to every word of the vocabulary as its first argument (an nd_item, say).
    """

    name: str
    subgroup: int = 32
    types: Mapping[str, str] = field(default_factory=lambda: TYPES)
    unary: Mapping[str, str] = field(default_factory=lambda: UNARY)
    binary: Mapping[str, str] = field(default_factory=lambda: BINARY)
    compare: Mapping[str, str] = field(default_factory=lambda: COMPARE)
    reductions: Mapping[str, str] = field(default_factory=lambda: REDUCTIONS)
    minus: str = ""
    times: str = ""

    rows: str = "pk::Rows<{rows}, {cols}, {threads}>"
    accumulator: str = "pk::Accumulator<{rows}, {cols}, {warps}, {element}>"
    row_of: str = "pk::RowOf<{layout}>"
    col_of: str = "pk::ColOf<{layout}>"
    plain_vectors: bool = False
    apart: frozenset[str] = frozenset()

    kernel: str = 'extern "C" __global__ void {attributes}__launch_bounds__({bounds}) {name}({params})'
    block: str = "blockIdx.x"
    pointer: str = "{type}* __restrict__ {name}"
    const_pointer: str = "const {type}* __restrict__ {name}"

    shared: str = "pk::Shared<{element}, {rows}, {cols}>"
    declare_shared: str = "__shared__ {type} {name}[{slots}];"
    operand: str = "{base}_shared"
    role_matters: bool = False
    pipelined: bool = True
    synchronised: bool = True
    register_operands: frozenset[tuple[str, str]] = frozenset()
    register_dtypes: frozenset[str] | None = None
    unrolled_slots: int = 1 << 30

    private_walks: bool = False
    member: str = ""
    single: str = "v[0]"
    sorts: bool = False
    context: str = ""
    takes_pixels: bool = False
    takes_parts: bool = False
    takes_planes: bool = False

    def type(self, dtype: str) -> str:
        return self.types[dtype]

    def word(self, name: str, template: str = "", *args: object) -> str:
        """A call of one word of the vocabulary: ``pk::name<template>(args)``."""
        given = [text for text in map(str, (self.context, *args)) if text]
        return f"pk::{name}{f'<{template}>' if template else ''}({', '.join(given)})"
