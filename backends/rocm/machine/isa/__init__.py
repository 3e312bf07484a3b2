"""What each mnemonic is: one module per group of instructions, found by itself.  A module has ``FORMS``."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from .form import Form


@cache
def forms() -> Mapping[str, Form]:
    """Every mnemonic this machine knows, without the suffix of its encoding (``_e32``, ``_e64``, ``_dpp``, ``_sdwa``)."""
    found: dict[str, Form] = {}
    for module in pkgutil.iter_modules(__path__):
        table: Mapping[str, Form] = getattr(import_module(f"{__name__}.{module.name}"), "FORMS", {})
        for name, form in table.items():
            if name in found:
                raise ValueError(f"{name} is in two tables of instructions")
            found[name] = form
    return found
