"""What is asked and answered over HTTP, as the OpenAPI shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from portakern.jobs.job import Job
from portakern.jobs.spec import FORMS, TaskSpec
from portakern.study.candidate import LEVELS, Candidate

Level = Literal["compile", "quick", "full", "timed"]
Form = Literal["library", "operator", "module"]
State = Literal["queued", "running", "done", "cancelled", "expired"]
assert Level.__args__ == LEVELS and Form.__args__ == FORMS  # type: ignore[attr-defined]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """What is wrong."""

    kind: str = Field(description="a short stable word that programs may test")
    what: str = Field(description="what was asked and what is wrong")
    where: str = Field("", description="the place at fault: a line of a text, a field of the request")
    next: str = Field("", description="what to do next")


class ErrorAnswer(BaseModel):
    error: Problem


class TaskRequest(_Model):
    """What kernels should compute, where, at which size."""

    target: str = Field(description="language:device, one of /v1/targets", examples=["cpp:cpu"])
    operator: str = Field("", description="an operator of the library; or which function or class of `text`",
                          examples=["softmax"])
    form: Form | None = Field(None, description="what `text` is: an `operator` under @pk.operator (the default), or a PyTorch "
                                                "`module` with get_inputs() and get_init_inputs()")  # fmt: skip
    text: str = Field("", description="Python that says what is to be computed; it is run in a jail")
    dtype: str | None = Field(None, description="of inputs that declare none", examples=["f32"])
    values: dict[str, int | float | bool | str | list[int] | None] = Field(
        default_factory=dict, description="sizes of dims (null: open) and parameters; the typical case where empty",
        examples=[{"M": 32, "N": 300}])  # fmt: skip

    def spec(self) -> TaskSpec:
        form = self.form or ("operator" if self.text else "library")
        return TaskSpec(self.target, form, self.operator, self.text, self.dtype, self.values)


class ArrayAnswer(BaseModel):
    name: str
    role: str
    dtype: str
    shape: list[int | str]


class TaskAnswer(BaseModel):
    """A task as a generator needs to see it."""

    id: str
    operator: str
    target: str
    dtype: str
    shape: dict[str, Any]
    params: dict[str, Any]
    doc: str
    math: str = Field(description="the text of the operator")
    tensor_program: str
    arrays: list[ArrayAnswer] = Field(description="in the order of the calling convention")
    convention: str = Field(description="how a kernel of this language is called")
    options: dict[str, str]
    device: dict[str, Any]
    starting_kernel: str = Field(description="a correct kernel to improve on; empty where there is none")
    entry: str
    schedule: str
    space: list[str] = Field(description="schedules that the backend allows, default first")
    suffix: str


class CandidateRequest(_Model):
    source: str = Field(description="the text of the kernel")
    entry: str | None = Field(None, description="the function to call in it")
    id: str | None = Field(None, max_length=100, description="a name for its job; one is made where not given")


class JudgingRequest(_Model):
    """What is common to one candidate and to many."""

    task: str | TaskRequest = Field(description="the id of a registered task, or a task")
    level: Level = "full"
    limit_s: Annotated[float, Field(gt=0)] = Field(
        60.0, description="wall time of a candidate for compiling and being checked, and again for being timed")  # fmt: skip
    deadline_s: Annotated[float, Field(gt=0)] | None = Field(None, description="for waiting and being judged in all")
    against: list[str] = Field(default_factory=list, description="peers to time against: numpy, torch.eager, torch.compile")

    def job(self, spec: TaskSpec, asked: CandidateRequest) -> Job:
        return Job(spec, Candidate(asked.source, asked.entry), self.level, self.limit_s, tuple(self.against))


class EvaluateRequest(JudgingRequest, CandidateRequest):
    """One candidate; the answer comes when it is judged."""


class BatchRequest(JudgingRequest):
    """Many candidates; the answer comes at once."""

    candidates: list[CandidateRequest] = Field(min_length=1)
    id: str | None = Field(None, max_length=100, description="a name for the batch; one is made where not given")


class RowAnswer(BaseModel):
    """A row as `portakern evaluate --json` prints it; what is not known is null."""

    model_config = ConfigDict(extra="allow")
    operator: str
    target: str
    device: str | None = None
    shape: dict[str, Any] | None = None
    dtype: str | None = None
    params: dict[str, Any] | None = None
    evidence: str | None = Field(None, description="emitted, compiled, interpreted, simulated, executed or timed")
    method: str | None = Field(None, description="how the evidence was reached")
    correct: bool | None = None
    max_error_ratio: float | None = Field(None, description="the largest error as a share of what is allowed")
    error: dict[str, str] | None = None
    resources: dict[str, Any] | None = None
    estimate: dict[str, Any] | None = None
    time: dict[str, Any] | None = None


class JobAnswer(BaseModel):
    id: str
    batch: str | None = None
    state: State
    submitted: str
    finished: str | None = None
    row: RowAnswer | None = Field(None, description="there once the job is done")


class BatchAnswer(BaseModel):
    id: str
    submitted: str
    done: bool
    counts: dict[State, int]
    jobs: list[str] = Field(description="in the order of the candidates")


class ResultsAnswer(BaseModel):
    id: str
    done: bool
    results: list[JobAnswer] = Field(description="those that are done, from `after` on, in the order of the candidates")
    next: int = Field(description="to be given as `after`: all before it are done and told")


class CancelAnswer(BaseModel):
    cancelled: int


class TargetAnswer(BaseModel):
    target: str
    title: str
    vendor: str
    isa: str
    dtypes: list[str]
    takes_kernels: bool = Field(description="whether kernels from elsewhere are judged for it")
    products: list[str]


class TargetsAnswer(BaseModel):
    targets: list[TargetAnswer]


class HealthAnswer(BaseModel):
    status: Literal["ok", "busy"]
    version: str
    uptime_s: float
    judged: int
    jobs: dict[State, int]
    workers: int
    fleet: dict[str, Any] | None = Field(None, description="what nodes there are, where jobs go to a fleet")


class InspectRequest(_Model):
    """A kernel that belongs to no operator."""

    source: str
    target: str
    entry: str = Field("", description="the kernel, where the text holds several")
    args: str = Field("", description="what it is called with", examples=["x=bf16[64,128],n=4096,s:f32=0.5"])
    grid: list[int] | None = Field(None, max_length=3)
    block: list[int] | None = Field(None, max_length=3)
    shared_bytes: int = 0
    run: bool = Field(True, description="execute it in a simulator, where there is one")


class InspectAnswer(BaseModel):
    model_config = ConfigDict(extra="allow")
    target: str
    device: str = ""
    tool: str = ""
    kernels: list[dict[str, Any]] = []
    estimate: dict[str, Any] | None = None
    ran: str = ""
    fault: dict[str, str] | None = None
    notes: list[str] = []
    error: dict[str, str] | None = None


class CompareRequest(_Model):
    """An operator's own kernels on several targets."""

    targets: list[str] = Field(min_length=1, max_length=8, description="names or patterns")
    operator: str = ""
    form: Form | None = None
    text: str = ""
    dtype: str | None = None
    values: dict[str, int | float | bool | str | list[int] | None] = Field(default_factory=dict)


class CompareAnswer(BaseModel):
    rows: list[RowAnswer]
    table: str = Field(description="the same for people")
