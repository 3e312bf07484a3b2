"""The host CPU through numba and C++."""

from __future__ import annotations

from pathlib import Path

from portakern.backend import Backend

from .cpp.language import CPP
from .numba.language import NUMBA

backend = Backend("cpu", (NUMBA, CPP), Path(__file__).parent / "devices")
