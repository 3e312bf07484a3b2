"""Calls that are made many times: what is checked and packed once, with or without help from the backend.

Executables may offer ``prepare`` and ``specialise`` (see :class:`portakern.backend.Executable`); these functions use
them, and do with ``call`` alone where a backend has neither.
"""

from portakern.launch.default import arrays_of, device_of, prepare, specialise
from portakern.launch.prepared import NativePrepared, PythonPrepared

__all__ = ["NativePrepared", "PythonPrepared", "arrays_of", "device_of", "prepare", "specialise"]
