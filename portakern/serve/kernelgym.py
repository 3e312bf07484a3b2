"""The words of KernelGYM's evaluation service (github.com/hkust-nlp/KernelGYM at 3a84417f8c), so that its clients work here.

A client posts ``/evaluate`` and waits, asks ``/status/{task_id}`` until that says completed, failed, timeout or cancelled,
then ``/results/{task_id}``; some cancel by ``DELETE /tasks/{task_id}``.  What judges is our own: a task is ``reference_code``,
a kernel ``kernel_code``, which defines ``{entry_point}New`` or follows our convention for its language.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool

from portakern.errors import PortakernError, UsageError
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.registry import registry
from portakern.serve.desk import BUSY, Asked, Batch, Desk, Unknown
from portakern.serve.modules import ENTRY, adapted, defines_class
from portakern.serve.tools import row_answer
from portakern.study.candidate import Candidate
from portakern.study.row import Row

PATHS = ("/evaluate", "/status/", "/results/", "/tasks/", "/workflow/", "/queue/", "/workers/", "/metrics")

KEPT = 10_000
BATCH = 100

Status = Literal["pending", "processing", "completed", "failed", "timeout", "cancelled"]
"""Its client knows ``cancelled``, though its server never says it."""

CODES = {"usage": "VALIDATION_ERROR", "spec": "VALIDATION_ERROR", "import": "VALIDATION_ERROR", "too-large": "RESOURCE_ERROR",
         "compile": "COMPILATION_ERROR", "no-kernel": "VALIDATION_ERROR", "decoy": "VALIDATION_ERROR",
         "bad-source": "VALIDATION_ERROR", "race": "CORRECTNESS_ERROR", "implausible-timing": "RUNTIME_ERROR",
         "bad-message": "RUNTIME_ERROR", "driver": "RUNTIME_ERROR", "load": "RUNTIME_ERROR",
         "schedule": "RESOURCE_ERROR", "memory": "RESOURCE_ERROR", "timeout": "TIMEOUT_ERROR",
         "deadline": "TIMEOUT_ERROR", "incorrect": "CORRECTNESS_ERROR", "unstable": "CORRECTNESS_ERROR",
         "runtime": "RUNTIME_ERROR", "crash": "RUNTIME_ERROR", "out-of-bounds": "RUNTIME_ERROR",
         "exception": "RUNTIME_ERROR", "device-lost": "RUNTIME_ERROR",
         "tool-missing": "SYSTEM_ERROR", "worker": "SYSTEM_ERROR", "timing-disturbed": "SYSTEM_ERROR",
         "no-jail": "SYSTEM_ERROR"}  # fmt: skip
"""Its code for each of our kinds."""

NO_KERNEL = "no-kernel"
"""The kind of error of a text that launches no kernel of its own."""
DECOYS = (NO_KERNEL, "decoy")
"""What it calls a decoy: that, and one whose kernels do not do the work."""


TARGETS = {"triton": "triton:sm_90", "cuda": "cuda:sm_90a"}
"""Of its two backends: its own service is for H100."""


class GymRequest(BaseModel):
    """Its ``EvaluationRequest``.  What says how it measures (numbers of trials, profiling) is taken and has no effect: that is
    decided here."""

    model_config = ConfigDict(extra="allow")
    task_id: str = Field(min_length=1, max_length=100)
    reference_code: str | None = Field(None, description="PyTorch: a class, get_inputs() and get_init_inputs()")
    kernel_code: str
    backend: str = "triton"
    timeout: Annotated[float, Field(ge=1, le=3600)] = 300
    entry_point: str = "Model"
    reference_backend: str | None = Field(None, description="torch_compile, or eager PyTorch")
    force_refresh: bool = False
    run_correctness: bool | None = None
    run_performance: bool | None = None
    measure_performance: bool | None = None
    workflow: str | None = "kernelbench"
    target: str | None = Field(None, description="ours: language:device, in place of the backend's")

    @model_validator(mode="after")
    def _sensible(self) -> GymRequest:
        for name in ("reference_code", "kernel_code"):
            if (text := getattr(self, name)) is not None and len(text.strip()) < 10:
                raise ValueError(f"{name} must be at least 10 characters long")
        if not self.entry_point.isidentifier():
            raise ValueError("entry_point is no name of a class")
        if (self.workflow or "kernelbench").strip().lower() != "kernelbench":
            raise ValueError("only the workflow kernelbench is known here")
        if not self.reference_code:
            raise ValueError("reference_code is required for kernelbench workflow")
        return self

    @property
    def level(self) -> str:
        if self.run_correctness is False:
            return "compile"
        timed = self.run_performance if self.run_performance is not None else self.measure_performance
        return "full" if timed is False else "timed"


class GymAnswer(BaseModel):
    """Its ``EvaluationResponse``; runtimes are in milliseconds."""

    task_id: str
    status: Status
    compiled: bool | None = None
    correctness: bool | None = None
    decoy_kernel: bool | None = None
    reference_runtime: float | None = None
    kernel_runtime: float | None = None
    speedup: float | None = None
    metadata: dict[str, Any] | None = None
    error_message: str | None = None
    error_code: str | None = None
    submitted_at: str | None = None
    completed_at: str | None = None
    processing_time: float | None = None


class GymBatchRequest(BaseModel):
    batch_id: str
    tasks: list[GymRequest] = Field(min_length=1, max_length=BATCH)


class GymBatchAnswer(BaseModel):
    batch_id: str
    total_tasks: int
    completed_tasks: int
    failed_tasks: int
    results: list[GymAnswer]
    batch_status: Status
    submitted_at: str | None = None
    completed_at: str | None = None


class GymStatus(BaseModel):
    task_id: str
    status: Status
    progress: float | None = None
    estimated_completion: str | None = None
    queue_position: int | None = None
    assigned_device: str | None = None
    error_message: str | None = None


class GymWorkflow(BaseModel):
    model_config = ConfigDict(extra="allow")
    workflow: str = "kernelbench"
    payload: dict[str, Any] = Field(default_factory=dict)
    task_id: str | None = None
    force_refresh: bool = False


class GymWorkflowAnswer(BaseModel):
    task_id: str
    status: Status
    result: dict[str, Any] | None = None
    error_message: str | None = None
    error_code: str | None = None


class GymHealth(BaseModel):
    status: str
    timestamp: str
    gpu_status: dict[str, Any]
    queue_status: dict[str, int]
    memory_usage: dict[str, Any]
    active_tasks: int
    total_processed: int
    uptime: float


# ---- from its words to ours, and back ------------------------------------------------------------------------------------


def job_of(desk: Desk, asked: GymRequest, default: str | None) -> Job:
    """Raises what is wrong with the reference or the kernel."""
    target = asked.target or default or target_for(desk, asked.backend)
    spec = TaskSpec(target, "module", asked.entry_point, asked.reference_code or "")
    _, made = desk.register(spec)
    language = registry().target(target).language
    source, entry = asked.kernel_code, None
    if defines_class(source, f"{asked.entry_point}New"):
        if language != "triton":
            raise UsageError(f"a PyTorch class is judged by its Triton kernels, and {target} is asked for",
                             hint=f"send backend=triton, or a text in the convention of {language}")
        source, entry = adapted(source, asked.reference_code or "", asked.entry_point, made), ENTRY
    against = "torch.compile" if "compile" in (asked.reference_backend or "") else "torch.eager"
    return Job(spec, Candidate(source, entry), asked.level, asked.timeout, (against,) if asked.level == "timed" else (),
               asked.task_id if asked.force_refresh else "")  # fmt: skip


def target_for(desk: Desk, backend: str) -> str:
    """Where kernels of a backend are judged unless it is said; the language's first target where that is not to be had here."""
    if backend not in registry().languages:
        raise UsageError(f"no backend is called {backend!r}", hint=f"there are {', '.join(registry().languages)}")
    have = desk.bench.targets()
    names = [*filter(None, [TARGETS.get(backend)]), *(str(t) for t in registry().match(f"{backend}:*"))]
    return next((n for n in names if have is None or n in have), names[0])


def result(id: str, row: Row | None, state: str, submitted: datetime, finished: datetime | None) -> GymAnswer:
    """What became of a job, in its words."""
    known = {"task_id": id, "submitted_at": submitted.isoformat(), "completed_at": finished.isoformat() if finished else None,
             "processing_time": (finished - submitted).total_seconds() if finished else None}
    if row is None or state in ("cancelled", "expired"):
        words: dict[str, Status] = {"queued": "pending", "running": "processing", "expired": "timeout"}
        message = (row.error or {}).get("message") if row and row.error else None
        return GymAnswer(**known, status=words.get(state, "cancelled"), error_message=message,
                         error_code="TIMEOUT_ERROR" if state == "expired" else None)  # fmt: skip
    error = row.error or {}
    decoy = error.get("kind") in DECOYS
    compiled = row.reached("compiled") or decoy  # its text is in order
    correct = row.correct is True and not error
    times = _times(row)
    return GymAnswer(
        **known, status="completed" if compiled else "failed", compiled=compiled, correctness=correct,
        decoy_kernel=decoy, reference_runtime=times[0], kernel_runtime=times[1],
        speedup=times[2] if correct else 0.0, error_message=error.get("message"),
        error_code=CODES.get(error["kind"], "UNKNOWN_ERROR") if error else None, metadata=_metadata(row))  # fmt: skip


def _times(row: Row) -> tuple[float, float, float]:
    """(reference's, kernel's milliseconds, speed-up); 0 for what is not known, as its server has it."""
    time = row.time or {}
    peer: Mapping[str, Any] = next((p for p in time.get("peers") or () if p.get("median_us")), {})
    return (peer.get("median_us") or 0.0) / 1e3, (time.get("median_us") or 0.0) / 1e3, peer.get("ratio") or 0.0


def _metadata(row: Row) -> dict[str, Any]:
    used = row.resources or {}
    kernels = len(used.get("kernels") or (used,)) if used else 0
    said = {"device": row.device or row.target, "backend": row.target.partition(":")[0], "num_custom_kernels": kernels,
            "timing": "measured" if row.time else "not measured: the row's evidence is " + str(row.evidence)}
    if (coverage := (row.time or {}).get("coverage")) is not None:
        said["custom_kernel_cuda_time_coverage"] = coverage
    return {**said, "portakern": row_answer(row).model_dump()}


def refused(request: Request, error: PortakernError) -> JSONResponse | None:
    """Its form of an error, for its paths."""
    if not request.url.path.startswith(PATHS):
        return None
    status = {"unknown": 404, "queue-full": 429, "busy": 503, "exists": 409, "fleet": 503}.get(error.kind, 400)
    headers = {"Retry-After": "5"} if status in (429, 503) else None
    return JSONResponse({"error": error.kind, "message": str(error), "detail": str(error),
                         "error_code": CODES.get(error.kind, "VALIDATION_ERROR"), "timestamp": _now()},
                        status, headers)  # fmt: skip


def invalid(request: Request, what: str, where: str) -> JSONResponse | None:
    if not request.url.path.startswith(PATHS):
        return None
    return JSONResponse({"error": "ValidationError", "message": what, "detail": f"{where}: {what}",
                         "error_code": "VALIDATION_ERROR", "timestamp": _now()}, 400)  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat()


class _Answers:
    """What became of kernels that could not be handed in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, GymAnswer] = OrderedDict()

    def keep(self, answer: GymAnswer) -> GymAnswer:
        with self._lock:
            self._kept[answer.task_id] = answer
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return answer

    def get(self, id: str) -> GymAnswer | None:
        with self._lock:
            return self._kept.get(id)

    def drop(self, id: str) -> None:
        with self._lock:
            self._kept.pop(id, None)


# ---- its paths -----------------------------------------------------------------------------------------------------------


def routes(desk: Desk, target: str | None) -> APIRouter:
    router = APIRouter(tags=["KernelGYM"])
    failures = _Answers()

    def taken(asked: GymRequest) -> Asked | GymAnswer:
        """The job of a request: the one that there is, unless it should be judged anew."""
        if asked.force_refresh:
            desk.drop(asked.task_id)
            failures.drop(asked.task_id)
        if (known := desk.known(asked.task_id) or failures.get(asked.task_id)) is not None:
            return known
        begun = datetime.now(UTC)
        try:
            batch: Batch = desk.submit([job_of(desk, asked, target)], ids=[asked.task_id])
            return batch.jobs[0]
        except PortakernError as error:
            if error.kind in (*BUSY, "exists", "fleet"):
                raise
            return failures.keep(GymAnswer(
                task_id=asked.task_id, status="failed", compiled=False, correctness=False, decoy_kernel=False, speedup=0.0,
                error_message=str(error), error_code=CODES.get(error.kind, "VALIDATION_ERROR"),
                submitted_at=begun.isoformat(), completed_at=_now()))  # fmt: skip

    def said(id: str) -> GymAnswer:
        if (failed := failures.get(id)) is not None:
            return failed
        return answer_of(desk.job(id))

    def answer_of(asked: Asked) -> GymAnswer:
        return result(asked.id, asked.row, asked.state, asked.submitted, asked.finished)

    async def judged(asked: GymRequest) -> GymAnswer:
        from portakern.serve.app import finished

        found = await run_in_threadpool(taken, asked)
        if isinstance(found, GymAnswer):
            return found
        await finished([found])
        return answer_of(found)

    @router.get("/")
    async def root() -> dict[str, str]:
        return {"message": "portakern", "status": "running", "docs": "/docs", "health": "/health"}

    @router.post("/evaluate")
    async def evaluate(asked: GymRequest) -> GymAnswer:
        """Judges a kernel; the answer comes when it is judged, and can be fetched again by its task_id."""
        return await judged(asked)

    @router.post("/evaluate/batch")
    async def evaluate_batch(asked: GymBatchRequest) -> GymBatchAnswer:
        import asyncio

        begun = _now()
        results = await asyncio.gather(*map(judged, asked.tasks))
        failed = sum(r.status != "completed" for r in results)
        return GymBatchAnswer(batch_id=asked.batch_id, total_tasks=len(results), completed_tasks=len(results) - failed,
                              failed_tasks=failed, results=results, batch_status="completed", submitted_at=begun,
                              completed_at=_now())  # fmt: skip

    @router.post("/workflow/submit")
    async def workflow(asked: GymWorkflow) -> GymWorkflowAnswer:
        payload = {**asked.payload, "workflow": asked.workflow, "force_refresh": asked.force_refresh}
        if asked.task_id:
            payload["task_id"] = asked.task_id
        try:
            request = GymRequest(**payload)
        except ValueError as error:
            raise UsageError(f"no payload of the workflow {asked.workflow}: {error}") from error
        found = await judged(request)
        return GymWorkflowAnswer(task_id=found.task_id, status=found.status, result=found.model_dump(),
                                 error_message=found.error_message, error_code=found.error_code)  # fmt: skip

    @router.get("/workflow/results/{task_id}")
    async def workflow_results(task_id: str) -> GymWorkflowAnswer:
        found = said(task_id)
        return GymWorkflowAnswer(task_id=task_id, status=found.status, result=found.model_dump(),
                                 error_message=found.error_message, error_code=found.error_code)  # fmt: skip

    @router.get("/status/{task_id}")
    async def status(task_id: str) -> GymStatus:
        found = said(task_id)
        asked = desk.known(task_id)
        return GymStatus(task_id=task_id, status=found.status, progress=100.0 if found.completed_at else 0.0,
                         queue_position=desk.place_in_queue(asked) if asked else None,
                         assigned_device=asked.ticket.job.task.target if asked else None,
                         error_message=found.error_message)  # fmt: skip

    @router.get("/results/{task_id}")
    async def results(task_id: str) -> GymAnswer:
        found = said(task_id)
        if found.status in ("pending", "processing"):
            raise Unknown("result of task", task_id, "it is not judged yet: ask for its status")
        return found

    @router.delete("/tasks/{task_id}")
    async def cancel(task_id: str) -> dict[str, Any]:
        await run_in_threadpool(lambda: desk.cancel([desk.job(task_id)]))
        return {"message": f"Task {task_id} cancelled", "task_id": task_id}

    @router.get("/health")
    async def health() -> GymHealth:
        import time

        counts = desk.counts()
        return GymHealth(status="healthy", timestamp=_now(), gpu_status={}, queue_status=_queue(counts), memory_usage={},
                         active_tasks=counts["running"], total_processed=desk.judged, uptime=time.monotonic() - desk.begun)

    @router.get("/metrics")
    async def metrics() -> dict[str, Any]:
        counts = desk.counts()
        return {"timestamp": _now(), "performance_metrics": {"total_processed": desk.judged}, "resource_metrics": {},
                "queue_metrics": _queue(counts), "error_metrics": {"timeout_errors": counts["expired"]}}  # fmt: skip

    @router.get("/queue/status")
    async def queue() -> dict[str, int]:
        return _queue(desk.counts())

    @router.get("/workers/status")
    async def workers() -> dict[str, Any]:
        return {f"worker_{n}": {"online": True} for n in range(desk.settings.workers)}

    return router


def _queue(counts: Mapping[str, int]) -> dict[str, int]:
    return {"pending": counts["queued"], "processing": counts["running"], "completed": counts["done"]}
