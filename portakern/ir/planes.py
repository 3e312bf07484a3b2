"""Convolutions of planes, images whose channels do not lie last, and what a language says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class PlaneConvolution:
    """A convolution of planes of ``dtype``: its ``channels``, how many pixels a ``line`` of its result has, and how far apart
    in their line neighbours of those begin (``stride``).  ``phase``: it is a phase of a transposed one."""

    dtype: str
    channels: int
    line: int
    stride: int
    phase: bool = False


Planes = Callable[[PlaneConvolution], bool]
"""Whether a convolution of planes is to be one product of its weights with all pixels."""


def never(asked: PlaneConvolution) -> bool:
    return False
