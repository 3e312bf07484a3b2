"""A task as data: JSON that says what a kernel should compute, where, and at which size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from portakern.errors import UsageError
from portakern.tools.cache import digest

FORMS = ("library", "operator", "module")
"""What says what is to be computed:

``library``   the name of an operator of the library
``operator``  a Python text with functions under ``@pk.operator``
``module``    a Python text with a PyTorch class, ``get_inputs()`` and ``get_init_inputs()``, as KernelBench writes tasks
"""

TEXT_BYTES = 1 << 20
"""The longest text of an operator or a module."""


@dataclass(frozen=True)
class TaskSpec:
    """What is asked.  The text is a stranger's: it is run in a jail only (:mod:`portakern.jobs.tracing`).

    Args:
        target: ``language:device``.
        form: one of :data:`FORMS`.
        operator: the library's name, or which function or class of the text; may be empty where that has one.
        text: of an operator or a module.
        dtype: of the inputs that declare none; as :func:`portakern.task` takes it.
        values: sizes of dims (a list for a starred dim, ``None`` for one that stays open) and parameters; the typical case
            where empty.
    """

    target: str
    form: str = "library"
    operator: str = ""
    text: str = ""
    dtype: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise UsageError(f"no form of a task is called {self.form!r}", hint=f"there are {', '.join(FORMS)}")
        if (self.form == "library") != (not self.text):
            raise UsageError("a text is given with the name of one of the library's operators" if self.text else
                             f"a task of the form {self.form} needs its text", hint="give a name, or a text")  # fmt: skip
        if len(self.text) > TEXT_BYTES:
            raise UsageError(f"the text has {len(self.text)} characters", hint=f"{TEXT_BYTES} are the most")
        if self.form == "module" and (self.values or self.dtype):
            raise UsageError("the sizes and dtypes of a module are those of its get_inputs()", hint="change the text")

    @cached_property
    def id(self) -> str:
        """16 digits in hex that follow from what is asked."""
        return digest("task", json.dumps(self.to_dict(), sort_keys=True))[:16]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> TaskSpec:
        """Raises :class:`UsageError` for what is none."""
        try:
            return TaskSpec(**data)
        except TypeError as error:
            raise UsageError(f"no task: {error}") from error
