"""portakern: one operator, written once as math on arrays, as native kernels for every accelerator.

Public names are loaded on first use, so that ``import portakern`` stays quick and imports no other package.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

# Public name -> the module that defines it.
_PUBLIC: dict[str, str] = {
    "PortakernError": "portakern.errors",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'portakern' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
