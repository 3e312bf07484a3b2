"""What the commands write as JSON that are not about rows: keys with types, and what each is.

:mod:`portakern.study.command_schema` makes their JSON Schemas and the tables of ``docs/json.md`` of these types.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

from portakern.study.row import Row
from portakern.study.row_fields import EnvironmentFields, ErrorFields, EstimateFields, KernelResources, PeerEstimate

# ---- doctor ---------------------------------------------------------------------------------------------------------------


class MachineFields(TypedDict):
    """The machine and its Python."""

    portakern: Annotated[str, "version"]
    python: Annotated[str, "version"]
    executable: Annotated[str, "the interpreter"]
    system: Annotated[str, "operating system"]
    machine: Annotated[str, "instruction set of the CPU"]
    processor: Annotated[str, "name of the CPU; may be empty"]
    cores: Annotated[int, "of the CPU"]


class CacheStateFields(TypedDict):
    """Where binaries are kept, and whether that works."""

    directory: Annotated[str, "the folder"]
    free_bytes: Annotated[int | None, "left on its disk"]
    error: Annotated[str, "why it cannot be used; empty where it can"]
    hint: Annotated[str, "what to do next; may be empty"]


class PackageFields(TypedDict):
    """A package of an extra."""

    name: Annotated[str, "as pip knows it"]
    wanted: Annotated[str, "versions that will do; empty for any"]
    version: Annotated[str | None, "installed; null where it is not"]
    satisfied: Annotated[bool, "whether that will do"]


class ExtraFields(TypedDict):
    """An extra of the package."""

    name: Annotated[str, "`pip install 'portakern[name]'`"]
    packages: Annotated[list[PackageFields], "what it brings"]
    complete: Annotated[bool, "whether all of them are there"]
    gives: Annotated[list[str], "what can be done with it"]
    command: Annotated[str, "what installs it"]


class ToolFields(TypedDict):
    """A program from outside pip."""

    name: Annotated[str, "as it is called"]
    gives: Annotated[str, "what it is used for"]
    path: Annotated[str | None, "where it is; null or empty where it is not"]


class DriverFields(TypedDict):
    """A vendor's driver, as far as it was found."""

    name: Annotated[str, "of portakern's driver"]
    title: Annotated[str, "what it opens"]
    present: Annotated[bool, "whether its library could be opened"]
    path: Annotated[str, "of the library; may be empty"]
    version: Annotated[str, "of the driver; may be empty"]
    device_count: Annotated[int, "usable devices"]
    error: Annotated[str, "why the library or a device is not there; empty if all is well"]


class AbilityFields(TypedDict):
    """What one part of a language can do here for one target."""

    language: Annotated[str, "its name"]
    part: Annotated[Literal["toolchain", "runtime", "simulator", "estimator"], "compile, run, simulate or estimate"]
    target: Annotated[str, "the device"]
    ok: Annotated[bool, "whether it can"]
    detail: Annotated[str, "what was found, or what is missing and how to get it"]


class LanguageFields(TypedDict):
    """A language and what it can do here."""

    name: Annotated[str, "of targets"]
    title: Annotated[str, "in words"]
    backend: Annotated[str, "which brings it"]
    extra: Annotated[str, "that brings its tools; may be empty"]
    targets: Annotated[list[str], "its instruction sets"]
    abilities: Annotated[list[AbilityFields], "one for each part and instruction set"]


class JailFields(TypedDict):
    """What keeps a stranger's kernel in."""

    parts: Annotated[list[str], "that hold here"]
    lacking: Annotated[list[str], "that a whole jail needs beside"]
    reasons: Annotated[dict[str, str], "why parts do not hold"]


class Doctor(TypedDict):
    """What `doctor --json` writes."""

    portakern: Annotated[str, "version that wrote it"]
    schema: Annotated[int, "version of this form"]
    healthy: Annotated[bool, "whether nothing that must work is at fault"]
    machine: Annotated[MachineFields, "where it was asked"]
    cache: Annotated[CacheStateFields, "of binaries"]
    extras: Annotated[list[ExtraFields], "of the package"]
    gives: Annotated[dict[str, list[str]], "what each extra gives, by its name"]
    executables: Annotated[list[ToolFields], "programs from outside pip"]
    drivers: Annotated[list[DriverFields], "of vendors"]
    languages: Annotated[list[LanguageFields], "of all backends"]
    broken: Annotated[dict[str, str], "backends that could not be loaded, and why"]
    jail: Annotated[JailFields, "for kernels from elsewhere"]


# ---- targets --------------------------------------------------------------------------------------------------------------


class FigureFields(TypedDict):
    """A figure of a device."""

    value: Annotated[float, "the number"]
    unit: Annotated[str, "of it"]
    source: Annotated[str, "where it is from"]


class MatrixFields(TypedDict):
    """A shape of the matrix units."""

    name: Annotated[str, "of the instruction or unit"]
    m: Annotated[int, "rows of the result"]
    n: Annotated[int, "columns of the result"]
    k: Annotated[int, "products summed"]
    operands: Annotated[str, "dtype"]
    accumulator: Annotated[str, "dtype"]
    source: Annotated[str, "where it is from"]


class TargetFields(TypedDict):
    """A target with all that is known of its device."""

    target: Annotated[str, "`language:device`"]
    language: Annotated[str, "in words"]
    backend: Annotated[str, "which brings it"]
    isa: Annotated[str, "the instruction set"]
    product: Annotated[str | None, "the product named, else the one that stands for the instruction set"]
    vendor: Annotated[str, "who makes it"]
    kind: Annotated[str, "`gpu`, `tpu` or `cpu`"]
    title: Annotated[str, "in words"]
    dtypes: Annotated[list[str], "that it has"]
    alternatives: Annotated[dict[str, str], "for dtypes that it has not"]
    features: Annotated[list[str], "that code depends on"]
    figures: Annotated[dict[str, FigureFields], "by name"]
    matrix: Annotated[list[MatrixFields], "shapes of the matrix units"]
    products: Annotated[list[str], "of the same instruction set"]
    options: Annotated[dict[str, str], "of schedules, each with what it means"]
    extra: Annotated[str | None, "that brings its tools"]


class Targets(TypedDict):
    """What `targets --json` writes."""

    portakern: Annotated[str, "version that wrote it"]
    schema: Annotated[int, "version of this form"]
    targets: Annotated[list[TargetFields], "that were asked for"]


# ---- inspect --------------------------------------------------------------------------------------------------------------


class FaultFields(ErrorFields, total=False):
    """What a simulator found wrong in a kernel."""

    line: Annotated[str, "of the text, where it names one"]


class RemarkFields(TypedDict):
    """What there is to say of a line before it is compiled."""

    line: Annotated[int, "its number"]
    kind: Annotated[str, "`missing`, `assumes` or `note`"]
    text: Annotated[str, "what it is"]
    instead: Annotated[str, "what the target has; may be empty"]
    source: Annotated[str, "the line"]


class InspectionFields(TypedDict):
    """What was found on one target."""

    target: Annotated[str, "`language:device`"]
    device: Annotated[str, "in words"]
    tool: Annotated[str, "the compiler with its version; empty where nothing was compiled"]
    kernels: Annotated[list[KernelResources], "what each kernel uses"]
    instructions: Annotated[dict[str, dict[str, int]], "how many of each kind, by kernel"]
    estimate: Annotated[EstimateFields | None, "of the time"]
    ran: Annotated[str, "what executed it; empty where nothing did"]
    fault: Annotated[FaultFields | None, "what that reported"]
    notes: Annotated[list[str], "what was not done, and why"]
    remarks: Annotated[list[RemarkFields], "on lines of the text"]
    error: Annotated[ErrorFields | None, "what ended it"]
    own_arrays: Annotated[bool, "whether it ran on arrays that its file brings"]


class Inspections(TypedDict):
    """What `inspect --json` writes."""

    portakern: Annotated[str, "version that wrote it"]
    schema: Annotated[int, "version of this form"]
    file: Annotated[str, "that was looked at"]
    entry: Annotated[str, "the kernel named; may be empty"]
    findings: Annotated[list[InspectionFields], "one for each target"]


# ---- cache ----------------------------------------------------------------------------------------------------------------


class KindFields(TypedDict):
    """How much of one kind there is."""

    pieces: Annotated[int, "of it"]
    bytes: Annotated[int, "of all of them"]


class CacheReport(TypedDict, total=False):
    """What `cache size --json` and `cache prune --json` write."""

    portakern: Required[Annotated[str, "version that wrote it"]]
    schema: Required[Annotated[int, "version of this form"]]
    directory: Required[Annotated[str, "where it is"]]
    size: Annotated[int | None, "`size`: what may be left, in bytes; null for no limit"]
    age_s: Annotated[float | None, "`size`: how long ago it may have been used, in seconds; null for no limit"]
    kinds: Annotated[dict[str, KindFields], "`size`: what there is, by kind"]
    removed: Annotated[int, "`prune`: pieces"]
    removed_bytes: Annotated[int, "`prune`: their bytes"]
    left: Annotated[int, "`prune`: pieces"]
    left_bytes: Annotated[int, "`prune`: their bytes"]


# ---- tune -----------------------------------------------------------------------------------------------------------------


class TrialFields(TypedDict, total=False):
    """A schedule that was compiled; what else is known of it stands beside these."""

    schedule: Required[Annotated[str, "as `--schedule` takes it"]]
    outcome: Required[Annotated[str, "`timed`, `estimated`, `slower`, `incorrect`, `failed` or `spills`"]]
    relative: Required[Annotated[float | None, "its time as a share of the default's"]]
    us: Annotated[float | None, "its time"]
    samples: Annotated[int, "that were taken"]


class TuningFields(TypedDict, total=False):
    """What came of one search; with `error` there is nothing else but what was asked."""

    operator: Required[Annotated[str, "its name"]]
    target: Required[Annotated[str, "`language:device`"]]
    dtype: Required[Annotated[str | None, "of the inputs"]]
    error: Annotated[ErrorFields, "what ended it"]
    shape: Annotated[dict[str, Any] | None, "sizes by dim"]
    params: Annotated[dict[str, Any] | None, "of the operator"]
    key: Annotated[str, "what the schedule is kept under"]
    by: Annotated[Literal["time", "estimate"], "what it was searched by"]
    space: Annotated[int, "points in it"]
    proposer: Annotated[str, "how it was searched"]
    proposed: Annotated[int, "candidates"]
    compiled: Annotated[int, "candidates"]
    resumed: Annotated[int, "known from an earlier run"]
    samples: Annotated[int, "taken in all"]
    dropped: Annotated[dict[str, int], "how many were dropped, by reason"]
    default: Annotated[str, "the schedule of the backend"]
    best: Annotated[str, "the best one"]
    default_us: Annotated[float | None, "its median in the final race"]
    best_us: Annotated[float | None, "its median there"]
    ratio: Annotated[list[float] | None, "how many times as long the default takes: low, value, high"]
    verdict: Annotated[str | None, "of the best against the default"]
    stored: Annotated[bool, "whether the best was kept"]
    note: Annotated[str, "why not, or what else there is to say; may be empty"]
    interrupted: Annotated[bool, "whether it was ended before its time"]
    seconds: Annotated[float, "that it took"]
    peers: Annotated[list[PeerEstimate], "by estimate: what others make of the operator"]
    tried: Annotated[list[TrialFields], "every candidate that was compiled"]
    row: Annotated[Row | None, "of the schedule that was kept"]


class Tunings(TypedDict):
    """What `tune --json` writes."""

    portakern: Annotated[str, "version that wrote it"]
    schema: Annotated[int, "version of this form"]
    environment: Annotated[EnvironmentFields, "where it was done"]
    tunings: Annotated[list[TuningFields], "one for each search"]
