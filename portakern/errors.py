"""The errors portakern raises: each says what was asked, what is wrong, where, and what to do next.

Every error has a ``kind``, a short stable word that scripts may test (it is the ``error.kind`` of a result row), a
``message``, and optionally a ``hint`` (the next step) and a ``where`` (the line of the operator, the file, the tool).
"""

from __future__ import annotations

import traceback


class PortakernError(Exception):
    """Base of everything portakern raises on purpose.

    Args:
        kind: short stable word for the class of fault, e.g. ``"missing-rule"``.
        message: what was asked and what is wrong.
        hint: what to do next; empty if nothing can be advised.
        where: the place at fault, e.g. ``"softmax.py:12"``; empty if there is none.
    """

    exit_status: int = 1

    def __init__(self, kind: str, message: str, hint: str = "", where: str = "") -> None:
        super().__init__(kind, message, hint, where)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.message}{advice}"

    def __reduce__(self) -> tuple[object, ...]:
        # Subclasses have other signatures; errors must survive the pipe from a worker process with what was added.
        return _restore, (type(self), self.kind, self.message, self.hint, self.where, self._extra())

    def _extra(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in _FIELDS}

    def to_dict(self) -> dict[str, str]:
        """The ``error`` field of a result row: ``{"kind", "message", "hint"}``, the place being part of the message."""
        place = f"{self.where}: " if self.where else ""
        return {"kind": self.kind, "message": f"{place}{self.message}", "hint": self.hint}


_FIELDS = frozenset({"kind", "message", "hint", "where"})


def _restore(
    cls: type[PortakernError], kind: str, message: str, hint: str, where: str, extra: dict[str, object]
) -> PortakernError:
    error = cls.__new__(cls)
    PortakernError.__init__(error, kind, message, hint, where)
    vars(error).update(extra)
    return error


def defect(error: Exception) -> PortakernError:
    """An exception that nobody foresaw as an error of kind ``defect``, with its place."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.filename.rsplit('/portakern/', 1)[-1]}:{place.lineno}"
    return PortakernError("defect", f"{type(error).__name__}: {error} (raised at {where})",
                          hint="this is a defect of portakern or of the backend; please report it")


class _Kinded(PortakernError):
    """An error whose kind follows from its class: ``SpecError("message", hint="...")``."""

    default_kind = "error"

    def __init__(self, message: str, hint: str = "", where: str = "", *, kind: str = "") -> None:
        super().__init__(kind or self.default_kind, message, hint, where)


class UsageError(_Kinded):
    """The request makes no sense: an unknown operator, target, option or file. The command line exits with 2."""

    default_kind = "usage"
    exit_status = 2


class SpecError(_Kinded):
    """An operator is not well formed: unknown dim, rank or dtype mismatch, data-dependent Python control flow."""

    default_kind = "spec"


class IRError(_Kinded):
    """An IR object breaks a rule of the IR: scope, type, effect, or the text form."""

    default_kind = "ir"


class LoweringError(_Kinded):
    """A tensor program has no lowering under the schedule asked for."""

    default_kind = "lowering"


class LoweringGap(LoweringError):
    """A kernel was cut out of a program that one kernel cannot be: what was asked has nothing wrong."""

    default_kind = "lowering-gap"


class ScheduleError(_Kinded):
    """A schedule or a backend option is unknown, or does not fit the target's limits: ``schedule`` is then its text."""

    default_kind = "schedule"

    def __init__(self, message: str, hint: str = "", where: str = "", *, kind: str = "", schedule: str = "") -> None:
        super().__init__(message, hint, where, kind=kind)
        self.schedule = schedule


class UnsupportedDtype(_Kinded):
    """A target cannot hold or compute in a dtype by rule; the hint names the alternative."""

    default_kind = "unsupported-dtype"


class MissingRuleError(_Kinded):
    """A backend lacks emission rules. All missing ones are listed at once, each with the operator's source line.

    Args:
        missing: one line per missing rule.
    """

    default_kind = "missing-rule"

    def __init__(
        self, message: str, hint: str = "", where: str = "", *, kind: str = "", missing: tuple[str, ...] = ()
    ) -> None:
        listed = "".join(f"\n  - {line}" for line in missing)
        super().__init__(f"{message}{listed}", hint, where, kind=kind)
        self.missing = missing


class ToolMissing(_Kinded):
    """A compiler, package or driver that the request needs is not on this machine."""

    default_kind = "tool-missing"


class CompileError(_Kinded):
    """A compiler refused a source, crashed, or ran out of time or memory.

    Args:
        log: the compiler's own output.
    """

    default_kind = "compile"

    def __init__(self, message: str, hint: str = "", where: str = "", *, kind: str = "", log: str = "") -> None:
        super().__init__(message, hint, where, kind=kind)
        self.log = log


class RuntimeFault(_Kinded):
    """A kernel could not be loaded or launched, or faulted while it ran."""

    default_kind = "runtime"


class SimulatorError(_Kinded):
    """A simulator met something that it does not model (an unknown opcode, a feature of the device); or, of another kind than
    ``simulator``, something that the kernel does wrong."""

    default_kind = "simulator"


class WorkerError(_Kinded):
    """A child process crashed, was killed, or ran past its limit."""

    default_kind = "worker"


class CacheError(_Kinded):
    """The on-disk cache cannot be read or written."""

    default_kind = "cache"


class BackendError(_Kinded):
    """A backend's manifest is missing, broken, or in conflict with another one."""

    default_kind = "backend"
