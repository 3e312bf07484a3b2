"""What is done once, by importing this, for all processes that are forked of one: the interface to SYCL is read, or compiled.

Such processes see no cache that has it.
"""

from __future__ import annotations

import contextlib

from portakern.errors import PortakernError

from . import library

with contextlib.suppress(PortakernError):  # said to who compiles
    library.shim()
