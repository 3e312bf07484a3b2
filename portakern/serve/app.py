"""The application: the paths of ``/v1``, the page of its OpenAPI at ``/docs``, and what else is mounted on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from portakern.errors import PortakernError
from portakern.jobs.spec import TaskSpec
from portakern.serve import kernelgym, models, tools
from portakern.serve.answers import answer, answer_to, invalid
from portakern.serve.desk import STATES, Asked, Batch, Desk
from portakern.serve.gate import Gate
from portakern.version import __version__

T = TypeVar("T")

LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "testserver")
"""Names by which a server without a token may be asked for."""

ERRORS: dict[int | str, dict[str, Any]] = {
    s: {"model": models.ErrorAnswer} for s in (400, 401, 404, 409, 413, 421, 422, 429, 500, 503)}

_PARTS_S = 3600.0
_PAGE = 1000


def application(desk: Desk, token: str | None = None, gym_target: str | None = None, mcp: bool = True) -> Any:
    """The ASGI application; its lifespan closes the desk.

    Args:
        token: what requests must bring; without one only those by a loopback name are answered.
        gym_target: where kernels that speak KernelGYM's words are judged; chosen by their backend where not given.
        mcp: whether the Model Context Protocol is spoken at ``/mcp``.
    """
    server = _mcp_of(desk, token) if mcp else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            if server is None:
                yield
            else:
                async with server.session_manager.run():
                    yield
        finally:
            await run_in_threadpool(desk.close)

    app = FastAPI(title="portakern", version=__version__, lifespan=lifespan, responses=ERRORS,
                  description="Judges kernels that something else wrote: compiled, checked against a float64 oracle, timed.")
    app.add_exception_handler(PortakernError, _portakern_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal)
    app.include_router(_routes(desk))
    app.include_router(kernelgym.routes(desk, gym_target))
    if server is not None:
        path = next(r for r in server.streamable_http_app(transport_security=_any_host()).routes if r.path == "/mcp")  # type: ignore[attr-defined]
        app.router.routes.append(path)
    s = desk.settings
    return Gate(app, token, () if token else LOOPBACK, s.body_bytes, s.waiting)


def _mcp_of(desk: Desk, token: str | None) -> Any:
    from portakern.serve.mcp_server import server_of

    return server_of(desk)


def _any_host() -> Any:
    """The gate has looked at the host."""
    from mcp.server.transport_security import TransportSecuritySettings

    return TransportSecuritySettings(enable_dns_rebinding_protection=False)


# ---- errors --------------------------------------------------------------------------------------------------------------


async def _portakern_error(request: Request, error: Any) -> JSONResponse:
    return kernelgym.refused(request, error) or answer_to(error)


async def _invalid(request: Request, error: Any) -> JSONResponse:
    what, where = invalid(list(error.errors()))
    return kernelgym.invalid(request, what, where) or answer(422, "request", what, where, "see /docs")


async def _http_error(_: Request, error: Any) -> JSONResponse:
    kinds = {404: "unknown", 405: "method"}
    return answer(error.status_code, kinds.get(error.status_code, "request"), str(error.detail), next="see /docs")


async def _internal(_: Request, error: Exception) -> JSONResponse:
    return answer(500, "internal", f"the server failed: {type(error).__name__}", next="its log says more")


# ---- paths ---------------------------------------------------------------------------------------------------------------


def job_answer(asked: Asked, batch: str | None = None) -> models.JobAnswer:
    row = asked.row
    return models.JobAnswer(id=asked.id, batch=batch, state=asked.state, submitted=asked.submitted.isoformat(),  # type: ignore[arg-type]
                            finished=asked.finished.isoformat() if asked.finished else None,
                            row=tools.row_answer(row) if row else None)  # fmt: skip


def batch_answer(batch: Batch) -> models.BatchAnswer:
    return models.BatchAnswer(id=batch.id, submitted=batch.submitted.isoformat(), done=batch.done, counts=batch.counts(),  # type: ignore[arg-type]
                              jobs=[j.id for j in batch.jobs])  # fmt: skip


async def finished(asked: Sequence[Asked], seconds: float | None = None) -> None:
    """Waits until all of them are done, or so long."""
    futures = [asyncio.wrap_future(a.ticket.future) for a in asked]
    if futures:
        waiting = asyncio.gather(*(asyncio.shield(f) for f in futures), return_exceptions=True)
        try:
            await asyncio.wait_for(waiting, seconds)
        except TimeoutError:
            return


def _spec_of(desk: Desk, task: str | models.TaskRequest) -> TaskSpec:
    return desk.task(task)[0] if isinstance(task, str) else task.spec()


def _routes(desk: Desk) -> APIRouter:
    router = APIRouter(prefix="/v1")

    async def apart(function: Callable[..., T], *args: Any) -> T:
        return await run_in_threadpool(function, *args)

    @router.get("/health", tags=["server"])
    async def health() -> models.HealthAnswer:
        """Whether the server runs, and how busy it is."""
        counts = await apart(desk.counts)
        busy = counts["queued"] >= desk.settings.queue
        return models.HealthAnswer(status="busy" if busy else "ok", version=__version__, uptime_s=time.monotonic() - desk.begun,
                                   judged=desk.judged, jobs=counts, workers=desk.settings.workers,  # type: ignore[arg-type]
                                   fleet=await apart(desk.fleet))  # fmt: skip

    @router.get("/targets", tags=["tasks"])
    async def targets(pattern: str = "all") -> models.TargetsAnswer:
        """Languages and devices that kernels can be written for."""
        return models.TargetsAnswer(targets=await apart(tools.targets, desk, pattern))

    @router.get("/operators", tags=["tasks"])
    async def operators() -> dict[str, str]:
        """The operators of the library, one line each."""
        return await apart(tools.operators)

    @router.post("/tasks", tags=["tasks"])
    async def register(asked: models.TaskRequest) -> models.TaskAnswer:
        """Registers what kernels should compute: an operator of the library, the text of one, or a file with a PyTorch class.
        The same task has the same id."""
        return await apart(tools.task, desk, asked.spec())

    @router.get("/tasks/{id}", tags=["tasks"])
    async def task(id: str) -> models.TaskAnswer:
        return await apart(lambda: tools.told(id, desk.task(id)[1]))

    @router.post("/evaluate", tags=["judging"])
    async def evaluate(asked: models.EvaluateRequest) -> models.JobAnswer:
        """Judges one candidate and answers when it is done."""

        def submit() -> Batch:
            job = asked.job(_spec_of(desk, asked.task), asked)
            return desk.submit([job], ids=[asked.id] if asked.id else (), deadline_s=asked.deadline_s)

        batch = await apart(submit)
        await finished(batch.jobs)
        return job_answer(batch.jobs[0], batch.id)

    @router.post("/batches", status_code=202, tags=["judging"])
    async def batch(asked: models.BatchRequest) -> models.BatchAnswer:
        """Takes many candidates and answers at once with the id of a batch, by which their rows are asked for."""

        def submit() -> Batch:
            spec = _spec_of(desk, asked.task)
            ids = [c.id for c in asked.candidates]
            given = [i or f"{asked.id or ''}{n}" for n, i in enumerate(ids)] if any(ids) else ()
            return desk.submit([asked.job(spec, c) for c in asked.candidates], asked.id or "", given, asked.deadline_s)

        return batch_answer(await apart(submit))

    @router.get("/batches/{id}", tags=["judging"])
    async def status(id: str) -> models.BatchAnswer:
        return batch_answer(desk.batch(id))

    @router.get("/batches/{id}/results", tags=["judging"])
    async def results(id: str, after: int = 0, wait_s: float = 0.0) -> models.ResultsAnswer:
        """The rows that are there.  ``wait_s`` waits up to so many seconds for all of them."""
        found = desk.batch(id)
        if wait_s > 0:
            await finished(found.jobs, min(wait_s, _PARTS_S))
        jobs = found.jobs[max(after, 0) : max(after, 0) + _PAGE]
        done = [j for j in jobs if j.ticket.future.done()]
        through = next((n for n, j in enumerate(jobs) if not j.ticket.future.done()), len(jobs))
        return models.ResultsAnswer(id=id, done=found.done, results=[job_answer(j, id) for j in done],
                                    next=max(after, 0) + through)  # fmt: skip

    @router.delete("/batches/{id}", tags=["judging"])
    async def cancel(id: str) -> models.CancelAnswer:
        """Cancels candidates: those that wait are dropped, those that run are ended."""
        return models.CancelAnswer(cancelled=await apart(lambda: desk.cancel(desk.batch(id).jobs)))

    @router.get("/jobs/{id}", tags=["judging"])
    async def job(id: str) -> models.JobAnswer:
        return job_answer(desk.job(id))

    @router.delete("/jobs/{id}", tags=["judging"])
    async def cancel_job(id: str) -> models.CancelAnswer:
        return models.CancelAnswer(cancelled=await apart(lambda: desk.cancel([desk.job(id)])))

    @router.post("/inspect", tags=["kernels"])
    async def inspect(asked: models.InspectRequest) -> models.InspectAnswer:
        """What a kernel that belongs to no operator uses, what limits it, and what a simulator finds wrong in it."""
        return await apart(tools.inspect, desk, asked)

    @router.post("/compare", tags=["kernels"])
    async def compare(asked: models.CompareRequest) -> models.CompareAnswer:
        """An operator's own kernels, built and checked on several targets; nothing is timed."""
        return await apart(tools.compare, desk, asked)

    return router


assert set(STATES) == set(models.State.__args__)  # type: ignore[attr-defined]
