"""The version of this portakern, as rows, stored results and the command line say it."""

from __future__ import annotations

__version__ = "0.1.0"
