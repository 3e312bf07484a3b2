"""Errors as answers: JSON with the kind, what is wrong, where, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import JSONResponse

from portakern.errors import PortakernError

STATUS = {
    "unknown": 404, "exists": 409, "too-large": 413, "batch-size": 413, "queue-full": 429, "busy": 503, "no-such-target": 404,
    "request": 422, "no-jail": 503, "internal": 500, "fleet": 503, "store": 503,
}  # fmt: skip
"""Of kinds of errors; what is not here is the fault of what was asked: 400."""


def answer(status: int, kind: str, what: str, where: str = "", next: str = "", headers: Mapping[str, str] | None = None
           ) -> JSONResponse:  # fmt: skip
    return JSONResponse({"error": {"kind": kind, "what": what, "where": where, "next": next}}, status, dict(headers or {}))


def answer_to(error: PortakernError) -> JSONResponse:
    status = STATUS.get(error.kind, 400)
    headers = {"Retry-After": "5"} if status in (429, 503) else None
    return answer(status, error.kind, error.message, error.where, error.hint or "see /docs", headers)


def invalid(errors: list[Any]) -> tuple[str, str]:
    """(what, where) of what pydantic found wrong first."""
    first = errors[0] if errors else {"msg": "no request", "loc": ()}
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{first['msg']}{more}", ".".join(map(str, first["loc"]))
