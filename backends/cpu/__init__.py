"""The host CPU through numba and C++."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from portakern.backend import Backend, Language

from .cpp_language import CPP


def _languages() -> tuple[Language, ...]:
    if importlib.util.find_spec(f"{__name__}.numba_language") is None:
        return (CPP,)
    from .numba_language import NUMBA  # type: ignore[import-not-found]

    return (NUMBA, CPP)


backend = Backend("cpu", _languages(), Path(__file__).parent / "devices")
