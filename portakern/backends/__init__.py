"""The namespace of the installed backends: ``backends/x`` of the repository is ``portakern.backends.x`` here.

This package names none of them; they are found through the entry-point group ``portakern.backends``.
"""

from __future__ import annotations

from pathlib import Path

# A source checkout on PYTHONPATH works without being installed: its backends lie beside the package.
_checkout = Path(__file__).resolve().parents[2]
_beside = str(_checkout / "backends")
if (_checkout / "pyproject.toml").is_file() and Path(_beside).is_dir() and _beside not in __path__:
    __path__.append(_beside)
