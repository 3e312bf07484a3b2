"""What a worker of a node does: it judges jobs, and stays warm for the tasks that it judged last."""

from __future__ import annotations

import os
import platform
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from portakern.errors import PortakernError, WorkerError
from portakern.jobs.described import Described
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.jobs.tracing import Allowed, traced
from portakern.study.candidate import Candidate
from portakern.study.judging import Judge, Limits
from portakern.study.row import Row
from portakern.study.store import plain
from portakern.study.turns import DEVICE

_WARM = 2
_warm: OrderedDict[Any, tuple[Described, Judge]] = OrderedDict()


def judged(asked: Mapping[str, Any], jail: str = "auto") -> dict[str, Any]:
    """``{"row", "seconds", "place"}`` of a job, whatever becomes of it."""
    job = read(asked)
    begun = time.monotonic()
    devices = _devices()
    os.environ[DEVICE] = devices or "0"
    row = _row(job, jail, devices)
    place = platform.node() + (f" device {devices}" if devices else "")
    return {"row": plain(row.to_dict()), "seconds": time.monotonic() - begun, "place": place}


def _devices() -> str:
    """The numbers of the devices that Ray gave this worker for what it does now; what it starts sees no others."""
    import ray

    return ",".join(map(str, ray.get_runtime_context().get_accelerator_ids().get("GPU", ())))


def written(job: Job) -> dict[str, Any]:
    return {"task": job.task.to_dict(), "source": job.candidate.source, "entry": job.candidate.entry, "level": job.level,
            "options": dict(job.options)}  # fmt: skip


def read(asked: Mapping[str, Any]) -> Job:
    candidate = Candidate(asked["source"], asked["entry"])
    return Job.of(TaskSpec.from_dict(asked["task"]), candidate, asked["level"], asked["options"])


def _row(job: Job, jail: str, devices: str) -> Row:
    empty = Row(job.task.operator or "operator", job.task.target)
    try:
        made, judge = _judge(job, jail, devices)
        empty = made.work.row
        return judge.judge(job.candidate, job.level)
    except PortakernError as error:
        return empty.failed(error)
    except Exception as error:  # of ours; the job must have a row
        return empty.failed(WorkerError(f"judging failed: {type(error).__name__}: {error}"))


def _judge(job: Job, jail: str, devices: str) -> tuple[Described, Judge]:
    key = (job.task.id, job.limit_s, job.against, jail, devices)
    if key in _warm:
        _warm.move_to_end(key)
        return _warm[key]
    while len(_warm) >= _WARM:
        _warm.popitem(last=False)[1][1].close()
    made = traced(job.task, Allowed(jail))
    _warm[key] = made, Judge(made.work, 1, job.level, Limits(job.limit_s), jail, {"against": list(job.against)})
    return _warm[key]
