"""The form of an instruction by its mnemonic, from the tables of this folder: a module with ``FORMS`` is found by itself."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from ..assembly.parser import AssemblyError, Instruction
from .form import Form
from .vector_integer import INDEXED

GENERATIONS = {"gfx90a": 90, "gfx942": 94, "gfx950": 95, "gfx1100": 110, "gfx1201": 120}
"""The instruction sets that this machine knows, as numbers that grow with them: CDNA below 100, RDNA above."""

_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa|e64_dpp)$")


@cache
def forms() -> Mapping[str, Form]:
    """Every mnemonic this machine knows, without the suffix of its encoding (``_e32``, ``_e64``, ``_dpp``, ``_sdwa``)."""
    found: dict[str, Form] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        table: Mapping[str, Form] = getattr(import_module(f"{__package__}.{module.name}"), "FORMS", {})
        for name, form in table.items():
            if name in found:
                raise ValueError(f"{name} is in two tables of instructions")
            found[name] = form
    return found


def form_of(i: Instruction) -> Form:
    """Raises :class:`AssemblyError` where the mnemonic is unknown."""
    name = base_name(i.mnemonic)
    for word in i.modifiers:
        if (variant := _VARIANTS.get(word)) and f"{name} {variant}" in forms():
            return forms()[f"{name} {variant}"]
    found = forms().get(name)
    if found is None:
        raise AssemblyError(i.line, str(i), "this machine does not know the instruction")
    return found


_VARIANTS = {"lds": "lds", "glc": "return", "sc0": "return", "th:TH_ATOMIC_RETURN": "return",
             **{mode: mode for mode in INDEXED.values()}}  # fmt: skip
"""Modifiers that make another instruction of a mnemonic."""


def base_name(mnemonic: str) -> str:
    """Without the encoding: ``v_add_f32_e32``, ``v_add_f32_dpp`` and ``v_dual_add_f32`` are all ``v_add_f32``."""
    return _SUFFIX.sub("", mnemonic).replace("v_dual_", "v_", 1)
