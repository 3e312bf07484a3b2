"""Products of tiles as ``tl.dot`` takes them, on every device and with every Triton from 3.6 on.

Operands whose products the matrix units round too coarsely are multiplied in a wider dtype; those that ``tl.dot`` does not take
are multiplied element by element and summed, in small tiles (:func:`takes` is what schedules ask).
"""

from __future__ import annotations

from portakern.device import Device
from portakern.dtypes import dtype
from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.tile import Binary, Broadcast, Cast, Dims, Dot, Permute, Reduce, tile_type

OPERANDS = {
    "NVIDIA": {"f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i8"},  # f64: the compiler of 3.6 fails on some tiles
    "AMD": {"f64", "f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i8"},
}
"""Dtypes of operands by vendor.  Triton's own check lets no integers but i8 pass."""

WIDTH = 16
"""The fewest rows and columns of a matrix operand."""


def takes(device: Device, operands: str) -> bool:
    """Whether ``tl.dot`` takes operands of this dtype."""
    return operands in OPERANDS[device.vendor]


def shortest(device: Device, operands: str) -> int:
    """The fewest products that Triton sums at once for operands of this dtype; a tile of one has no dim to sum."""
    if not takes(device, operands):
        return 2
    return 32 if dtype(operands).bits == 8 else WIDTH


def rules_for(device: Device) -> Rules:
    """What becomes of a product that ``device`` cannot form as it is."""
    wider = _wider(device)
    rules = Rules()

    @rules.on(Dot)
    def product(op: Dot) -> Op | None:
        operands = tile_type(op.lhs).dtype
        if not takes(device, operands):
            return _summed(op)
        if operands in wider and op.precision == "ieee":
            return Dot(Cast(op.lhs, wider[operands]), Cast(op.rhs, wider[operands]), op.acc, op.axis, "ieee")
        return None

    return rules


def _wider(device: Device) -> dict[str, str]:
    """The dtype in which operands are multiplied, where matrix units take theirs too coarsely.

    f16 taken as zero below 2^-14 is up to 6e-5 of a value (bf16 below the normal range is 2^-126 and lost in any sum of
    floats).  8-bit floats whose products are cut to 14 bits within one instruction err by more than sums in f32 may, and
    adding the instructions' results in f32 (``max_num_imprecise_acc``) comes too late; f16 holds every one of them.
    """
    found: dict[str, str] = {}
    if device.has("f16_matrix_flushes"):
        found["f16"] = "f32"
    if device.has("f8_matrix_cuts"):
        found |= {"f8e4m3": "f16", "f8e5m2": "f16"}
    return found


def _summed(op: Dot) -> Op:
    """The product as a sum of products of elements, in the accumulator's dtype."""
    acc, lhs = tile_type(op.acc), tile_type(op.lhs)
    dims = (*acc.dims[:-1], (op.axis, lhs.size(op.axis)), *acc.dims[-1:])
    a, b = (_along(Cast(x, acc.dtype) if lhs.dtype != acc.dtype else x, dims) for x in (op.lhs, op.rhs))
    return Binary("add", Reduce("sum", Binary("mul", a, b), op.axis), op.acc)


def _along(x: Op, dims: Dims) -> Op:
    have = tile_type(x).axes
    order = tuple(a for a, _ in dims if a in have)
    return Broadcast(Permute(x, order) if order != have else x, dims)
