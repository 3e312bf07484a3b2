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

    portakern: Annotated[str, "version of portakern"]
    python: Annotated[str, "version of Python"]
    executable: Annotated[str, "the interpreter"]
    system: Annotated[str, "operating system"]
    machine: Annotated[str, "instruction set of the CPU"]
    processor: Annotated[str, "name of the CPU; may be empty"]
    cores: Annotated[int, "cores of the CPU"]


class CacheStateFields(TypedDict):
    """Where binaries are kept, and whether that works."""

    directory: Annotated[str, "the folder"]
    free_bytes: Annotated[int | None, "free on its disk"]
    error: Annotated[str, "why it cannot be used; empty if it can"]
    hint: Annotated[str, "what to do next; may be empty"]


class PackageFields(TypedDict):
    """A package of an extra."""

    name: Annotated[str, "its name for pip"]
    wanted: Annotated[str, "versions that work; empty for any"]
    version: Annotated[str | None, "the installed version; null if there is none"]
    satisfied: Annotated[bool, "whether this version works"]


class ExtraFields(TypedDict):
    """An extra of the package."""

    name: Annotated[str, "`pip install 'portakern[name]'`"]
    packages: Annotated[list[PackageFields], "packages that it brings"]
    complete: Annotated[bool, "whether all of them are installed"]
    gives: Annotated[list[str], "what it makes possible"]
    command: Annotated[str, "the command that installs it"]


class ToolFields(TypedDict):
    """A program from outside pip."""

    name: Annotated[str, "its name"]
    gives: Annotated[str, "what it is used for"]
    path: Annotated[str | None, "its place; null or empty if it is not installed"]


class DriverFields(TypedDict):
    """A vendor's driver, as far as it was found."""

    name: Annotated[str, "name of portakern's driver"]
    title: Annotated[str, "what the driver opens"]
    present: Annotated[bool, "whether its library could be opened"]
    path: Annotated[str, "path of the library; may be empty"]
    version: Annotated[str, "version of the driver; may be empty"]
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

    name: Annotated[str, "its name in targets"]
    title: Annotated[str, "its name in words"]
    backend: Annotated[str, "the backend that has it"]
    extra: Annotated[str, "the extra that brings its tools; may be empty"]
    targets: Annotated[list[str], "its instruction sets"]
    abilities: Annotated[list[AbilityFields], "one for each part and instruction set"]


class JailFields(TypedDict):
    """What keeps a stranger's kernel in."""

    parts: Annotated[list[str], "parts that work here"]
    lacking: Annotated[list[str], "parts that a whole jail also needs"]
    reasons: Annotated[dict[str, str], "why parts do not work"]


class Doctor(TypedDict):
    """What `doctor --json` writes."""

    portakern: Annotated[str, "version that wrote it"]
    schema: Annotated[int, "version of this form"]
    healthy: Annotated[bool, "whether all that must work does work"]
    machine: Annotated[MachineFields, "the machine that was asked"]
    cache: Annotated[CacheStateFields, "the cache of binaries"]
    extras: Annotated[list[ExtraFields], "extras of the package"]
    gives: Annotated[dict[str, list[str]], "what each extra gives, by its name"]
    executables: Annotated[list[ToolFields], "programs from outside pip"]
    drivers: Annotated[list[DriverFields], "drivers of vendors"]
    languages: Annotated[list[LanguageFields], "languages of all backends"]
    broken: Annotated[dict[str, str], "backends that could not be loaded, and why"]
    jail: Annotated[JailFields, "the jail for kernels from elsewhere"]


# ---- targets --------------------------------------------------------------------------------------------------------------


class FigureFields(TypedDict):
    """A figure of a device."""

    value: Annotated[float, "the number"]
    unit: Annotated[str, "its unit"]
    source: Annotated[str, "the source of the figure"]


class MatrixFields(TypedDict):
    """A shape of the matrix units."""

    name: Annotated[str, "name of the instruction or unit"]
    m: Annotated[int, "rows of the result"]
    n: Annotated[int, "columns of the result"]
    k: Annotated[int, "products summed"]
    operands: Annotated[str, "dtype of the operands"]
    accumulator: Annotated[str, "dtype of the sums"]
    source: Annotated[str, "the source of the figure"]


class TargetFields(TypedDict):
    """A target with all that is known of its device."""

    target: Annotated[str, "`language:device`"]
    language: Annotated[str, "name of the language in words"]
    backend: Annotated[str, "the backend that has it"]
    isa: Annotated[str, "the instruction set"]
    product: Annotated[str | None, "the named product, else the default product of the instruction set"]
    vendor: Annotated[str, "the maker"]
    kind: Annotated[str, "`gpu`, `tpu` or `cpu`"]
    title: Annotated[str, "its name in words"]
    dtypes: Annotated[list[str], "dtypes that the device has"]
    alternatives: Annotated[dict[str, str], "replacements for dtypes that the device lacks"]
    features: Annotated[list[str], "features that code depends on"]
    figures: Annotated[dict[str, FigureFields], "figures by name"]
    matrix: Annotated[list[MatrixFields], "shapes of the matrix units"]
    products: Annotated[list[str], "products of the same instruction set"]
    options: Annotated[dict[str, str], "options of schedules, with their meaning"]
    extra: Annotated[str | None, "the extra that brings its tools"]


class Targets(TypedDict):
    """What `targets --json` writes."""

    portakern: Annotated[str, "version that wrote it"]
    schema: Annotated[int, "version of this form"]
    targets: Annotated[list[TargetFields], "the targets that were asked for"]


# ---- inspect --------------------------------------------------------------------------------------------------------------


class FaultFields(ErrorFields, total=False):
    """What a simulator found wrong in a kernel."""

    line: Annotated[str, "the line of the text, if known"]


class RemarkFields(TypedDict):
    """What there is to say of a line before it is compiled."""

    line: Annotated[int, "its number"]
    kind: Annotated[str, "`missing`, `assumes` or `note`"]
    text: Annotated[str, "the remark"]
    instead: Annotated[str, "what the target has; may be empty"]
    source: Annotated[str, "the line"]


class InspectionFields(TypedDict):
    """What was found on one target."""

    target: Annotated[str, "`language:device`"]
    device: Annotated[str, "name of the device in words"]
    tool: Annotated[str, "the compiler with its version; empty if nothing was compiled"]
    kernels: Annotated[list[KernelResources], "what each kernel uses"]
    instructions: Annotated[dict[str, dict[str, int]], "how many of each kind, by kernel"]
    estimate: Annotated[EstimateFields | None, "the estimated time"]
    ran: Annotated[str, "what executed it; empty if nothing did"]
    fault: Annotated[FaultFields | None, "the fault that was found"]
    notes: Annotated[list[str], "what was not done, and why"]
    remarks: Annotated[list[RemarkFields], "remarks on lines of the text"]
    error: Annotated[ErrorFields | None, "the error that ended it"]
    own_arrays: Annotated[bool, "whether it ran on arrays from its own file"]


class Inspections(TypedDict):
    """What `inspect --json` writes."""

    portakern: Annotated[str, "version that wrote it"]
    schema: Annotated[int, "version of this form"]
    file: Annotated[str, "the file"]
    entry: Annotated[str, "the kernel that was named; may be empty"]
    findings: Annotated[list[InspectionFields], "one for each target"]


# ---- cache ----------------------------------------------------------------------------------------------------------------


class KindFields(TypedDict):
    """How much of one kind there is."""

    pieces: Annotated[int, "number of entries"]
    bytes: Annotated[int, "bytes of these entries"]


class CacheReport(TypedDict, total=False):
    """What `cache size --json` and `cache prune --json` write."""

    portakern: Required[Annotated[str, "version that wrote it"]]
    schema: Required[Annotated[int, "version of this form"]]
    directory: Required[Annotated[str, "the folder"]]
    size: Annotated[int | None, "`size`: the limit of the cache in bytes; null for none"]
    age_s: Annotated[float | None, "`size`: entries unused for so many seconds are removed; null for no limit"]
    kinds: Annotated[dict[str, KindFields], "`size`: what the cache has, by kind"]
    removed: Annotated[int, "`prune`: number of entries removed"]
    removed_bytes: Annotated[int, "`prune`: bytes removed"]
    left: Annotated[int, "`prune`: number of entries left"]
    left_bytes: Annotated[int, "`prune`: bytes left"]


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
    dtype: Required[Annotated[str | None, "dtype of the inputs"]]
    error: Annotated[ErrorFields, "the error that ended it"]
    shape: Annotated[dict[str, Any] | None, "sizes by dim"]
    params: Annotated[dict[str, Any] | None, "parameters of the operator"]
    key: Annotated[str, "the key of the schedule in the database"]
    by: Annotated[Literal["time", "estimate"], "what it was searched by"]
    space: Annotated[int, "size of the search space"]
    proposer: Annotated[str, "the method of the search"]
    proposed: Annotated[int, "number of candidates that were proposed"]
    compiled: Annotated[int, "number of candidates that were compiled"]
    resumed: Annotated[int, "candidates known from an earlier run"]
    samples: Annotated[int, "number of samples in all"]
    dropped: Annotated[dict[str, int], "how many were dropped, by reason"]
    default: Annotated[str, "the schedule of the backend"]
    best: Annotated[str, "the best one"]
    default_us: Annotated[float | None, "its median in the final race"]
    best_us: Annotated[float | None, "its median in the final race"]
    ratio: Annotated[list[float] | None, "how many times as long the default takes: low, value, high"]
    verdict: Annotated[str | None, "verdict on the best against the default"]
    stored: Annotated[bool, "whether the best was kept"]
    note: Annotated[str, "why it was not kept, or another remark; may be empty"]
    interrupted: Annotated[bool, "whether it was interrupted"]
    seconds: Annotated[float, "duration of the search"]
    peers: Annotated[list[PeerEstimate], "by estimate: what others make of the operator"]
    tried: Annotated[list[TrialFields], "every candidate that was compiled"]
    row: Annotated[Row | None, "of the schedule that was kept"]


class Tunings(TypedDict):
    """What `tune --json` writes."""

    portakern: Annotated[str, "version that wrote it"]
    schema: Annotated[int, "version of this form"]
    environment: Annotated[EnvironmentFields, "the machine"]
    tunings: Annotated[list[TuningFields], "one for each search"]
