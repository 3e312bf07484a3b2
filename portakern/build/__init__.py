"""The compile cache, tools in child processes with limits, and worker processes.

``portakern.build`` is also the public function :func:`portakern.api.build`.  Python binds a subpackage to its name in the
parent as soon as it is imported, so this module stands for the function when it is called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _BuildModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See :func:`portakern.api.build`."""
        from portakern.api import build

        return build(*args, **kwargs)


sys.modules[__name__].__class__ = _BuildModule
