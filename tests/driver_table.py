"""A driver's table of functions, called from Python: for what the Python face does not offer by itself (gates, graphs)."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any

from portakern import native

HEADER = Path(__file__).parents[1] / "csrc" / "include" / "portakern" / "driver.h"

OK, FAILED, UNSUPPORTED, TIMEOUT, INVALID, NO_DEVICE = 0, -1, -2, -3, -4, -5
_RESULTS = {"void": None, "pk_status": ctypes.c_int32, "uint64_t": ctypes.c_uint64}


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("fatal", ctypes.c_int32), ("name", ctypes.c_char * 64),
                ("text", ctypes.c_char * 256)]  # fmt: skip


class Argument(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("size", ctypes.c_uint32), ("kind", ctypes.c_uint32)]


class Launch(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_void_p), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
                ("cluster", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint32), ("attributes", ctypes.c_uint32),
                ("arg_count", ctypes.c_uint32), ("args", ctypes.POINTER(Argument))]  # fmt: skip


@cache
def functions() -> tuple[tuple[str, Any], ...]:
    """(name, type of the result) of the table's functions, in order, read from the header."""
    text = HEADER.read_text()
    body = text[text.index("typedef struct pk_driver {") : text.index("} pk_driver;")]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return tuple((name, _RESULTS[result]) for result, name in re.findall(r"(\w+) \(\*(\w+)\)\(", body))


class Table:
    """``table.flush(device, stream)`` calls the function; arguments are ctypes values, results statuses."""

    def __init__(self, driver: str) -> None:
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        base = get(native.driver_table(driver), b"portakern.driver")
        places = (ctypes.c_void_p * len(functions())).from_address(base + 24)  # behind abi, struct_size, name and title
        self.calls = {}
        for place, (name, result) in zip(places, functions(), strict=True):
            self.calls[name] = ctypes.CFUNCTYPE(result)(place) if place else None

    def __getattr__(self, name: str) -> Any:
        return self.calls[name]

    def error(self) -> Error:
        """What went wrong last in this thread."""
        found = Error()
        self.calls["last_error"](None, ctypes.byref(found))
        return found

    def make(self, function: str, *args: Any) -> ctypes.c_void_p:
        """A handle from a function that gives one through its last argument."""
        made = ctypes.c_void_p()
        status = self.calls[function](*args, ctypes.byref(made))
        assert status == OK, (function, status, self.error().text)
        return made
