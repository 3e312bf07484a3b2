"""The version of this portakern, as rows, stored results and the command line say it.

The build writes it into ``_version.py``, from the tag (docs/releasing.md).
"""

from __future__ import annotations

try:
    from portakern._version import __version__  # type: ignore[import-not-found]
except ImportError:
    __version__ = "0+unbuilt"  # a checkout on the path, never installed

__all__ = ["__version__"]
