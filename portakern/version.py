"""The version of this portakern, as rows, stored results and the command line say it.

The build writes it into ``_version.py``, from the tag (docs/releasing.md).
"""

from __future__ import annotations

from importlib import import_module


def _written() -> str:
    try:
        return import_module("portakern._version").__version__
    except ImportError:
        return "0+unbuilt"  # a checkout on the path, never installed


__version__ = _written()

__all__ = ["__version__"]
