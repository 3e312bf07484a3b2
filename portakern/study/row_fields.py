"""What the objects inside a row hold: their keys with types, and what each is.

A row stays plain JSON in memory; these types say how it looks, to readers, to type checkers and to
:mod:`portakern.study.row_schema`, which makes the JSON Schema and the tables of ``docs/rows.md`` of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

Figure = float | None


class ErrorFields(TypedDict):
    """What ended a row."""

    kind: Annotated[str, "a stable word for the class of fault, below"]
    message: Annotated[str, "what was asked, what is wrong, and where"]
    hint: Annotated[str, "what to do next; may be empty"]


class KernelResources(TypedDict, total=False):
    """What one kernel uses, read from its binary; the platform's own figures stand beside these."""

    kernel: Annotated[str | None, "its name; null for the most demanding figures of several"]
    registers: Annotated[int | None, "per thread"]
    spills: Annotated[int | None, "registers spilled"]
    scratch_bytes: Annotated[int | None, "scratch or local memory, per thread"]
    shared_bytes: Annotated[int | None, "shared memory, LDS or VMEM, per block"]
    code_bytes: Annotated[int | None, "machine code"]
    occupancy: Annotated[Figure, "share of a unit's thread slots that can be filled"]
    limiter: Annotated[str | None, "what keeps the occupancy from being higher"]
    source: Annotated[str | None, "where the figures were read"]


class ResourcesFields(KernelResources, total=False):
    """What the kernels use."""

    kernels: Annotated[list[KernelResources], "figures of each kernel, if there are several"]


class PeerEstimate(TypedDict, total=False):
    """What someone else makes of the operator, under the same model."""

    name: Required[Annotated[str, "whose kernel"]]
    error: Annotated[str, "why there is no estimate"]
    ratio: Annotated[float, "how many times as long as ours"]
    us: Annotated[float, "microseconds"]
    limiter: Annotated[str, "what bounds it"]
    model: Annotated[str, "the model"]
    version: Annotated[str, "of the model"]
    confidence: Annotated[str, "in words"]
    report: Annotated[list[str], "lines for a reader"]
    details: Annotated[dict[str, Any], "the model's own figures"]


class EstimateFields(TypedDict, total=False):
    """A predicted time, which is no evidence."""

    us: Required[Annotated[float, "microseconds"]]
    limiter: Required[Annotated[str, "what bounds it, in words"]]
    model: Required[Annotated[str, "the model"]]
    version: Required[Annotated[str, "of the model"]]
    confidence: Required[Annotated[str, "in words"]]
    report: Annotated[list[str], "lines for a reader"]
    details: Annotated[dict[str, Any], "the model's own figures"]
    peers: Annotated[list[PeerEstimate], "estimates for other compilers under the same model"]


class StatedPeak(TypedDict):
    """One figure of the maker's."""

    value: Annotated[float, "the figure"]
    unit: Annotated[str, "its unit"]
    share: Annotated[float, "the share of it that was reached"]
    source: Annotated[str, "where it was read"]


class RooflineFields(TypedDict):
    """How near a time is to what the device can do."""

    share_of_measured_copy: Annotated[Figure, "share of the bandwidth of the driver's own copy in the same process"]
    measured_copy_gbs: Annotated[Figure, "that bandwidth, bytes read and written, in GB/s"]
    measured_copy: Annotated[str | None, "how it was measured"]
    share_of_stated_peak: Annotated[Figure, "share of what the maker states: of bandwidth or arithmetic, the larger one"]
    stated: Annotated[dict[str, str | StatedPeak] | None, "`product`, and the peaks that count by name"]
    limiter: Annotated[Literal["memory", "arithmetic"] | None, "what a perfect kernel would wait for"]
    bytes: Annotated[int, "compulsory traffic: every input read and every output written once"]
    flops: Annotated[int, "operations"]
    gbs: Annotated[float, "bytes in the time, in GB/s"]
    gflops: Annotated[float, "operations in the time, in GFLOP/s"]


class PeerFields(TypedDict, total=False):
    """A peer that was timed in turns with the kernel, or why it was not."""

    name: Required[Annotated[str, "`numpy`, `torch.eager`, `torch.compile` or FILE.py:FUNCTION"]]
    error: Annotated[str, "why there is no verdict"]
    form: Annotated[str, "what is called"]
    notes: Annotated[list[str], "where it differs from the operator"]
    mode: Annotated[str, "how it was compiled"]
    compile_s: Annotated[float, "how long that took (not timed)"]
    median_us: Annotated[float, "its time"]
    ci_low_us: Annotated[Figure, "lower end of the interval"]
    ci_high_us: Annotated[Figure, "upper end of the interval"]
    ratio: Annotated[float, "its median over ours"]
    ci_low: Annotated[float, "lower end of the ratio's interval"]
    ci_high: Annotated[float, "upper end of the ratio's interval"]
    verdict: Annotated[Literal["FASTER", "SLOWER", "SAME", "UNDECIDED"], "ours against the peer"]
    samples: Annotated[int, "number of samples"]
    correction_us: Annotated[float, "the cost of a pair of events, subtracted"]
    calls_per_sample: Annotated[int, "calls in one sample"]
    launch_us: Annotated[Figure, "how long a call keeps the caller"]
    end_to_end_us: Annotated[Figure, "from the call until its work is done"]
    mode_of_timing: Annotated[str, "as the row's `mode`"]
    suspicions: Annotated[list[str], "what does not fit together"]
    throttled: Annotated[int, "how many samples the core marked"]
    measured: Annotated[str, "how both were measured, if not in the row's way"]
    ours_us: Annotated[float, "our time measured so"]
    ours_ci_low_us: Annotated[float, "lower end of its interval"]
    ours_ci_high_us: Annotated[float, "upper end of its interval"]
    samples_us: Annotated[list[float], "every sample, with `--samples`"]
    flags: Annotated[list[int] | None, "marks of the samples, with `--samples`"]


class OptionsFields(TypedDict, total=False):
    """What was asked of the timing."""

    budget_s: Annotated[float, "seconds per contender"]
    min_samples: Annotated[int, "at least so many, if the budget allows"]
    max_samples: Annotated[int, "at most so many"]
    width: Annotated[float, "relative width of the interval at which sampling stops"]
    margin: Annotated[float, "ratios within it are the SAME"]
    cache: Annotated[Literal["cold", "warm"], "whether caches were flushed before each sample"]
    mode: Annotated[Literal["auto", "single", "graph", "batch"], "calls in a sample"]
    deadline_s: Annotated[float, "the limit for one sample"]
    seed: Annotated[int, "of inputs and order"]
    confidence: Annotated[float, "of the intervals"]
    warm_up_s: Annotated[float, "the least time"]
    gate_limit_s: Annotated[float, "longest that a call may take to queue behind the gate"]


class Health(TypedDict, total=False):
    """What the driver said of the device at one moment; keys that it does not tell are absent."""

    clock_mhz: Annotated[Figure, "clock"]
    memory_clock_mhz: Annotated[Figure, "clock of the memory"]
    temperature_c: Annotated[Figure, "temperature"]
    power_mw: Annotated[Figure, "power"]
    throttled: Annotated[bool, "whether it was slowed down"]
    reason: Annotated[str | None, "why"]


class ClocksFields(TypedDict):
    """The device's state around the timing."""

    before: Annotated[Health | None, "before the first sample"]
    after: Annotated[Health | None, "after the last"]


class CommitFields(TypedDict):
    """A file in its repository."""

    file: Annotated[str, "its path there"]
    commit: Annotated[str | None, "the repository's commit"]
    dirty: Annotated[bool | None, "whether the file differs from it"]


class ProvenanceFields(TypedDict):
    """Where a time comes from."""

    taken: Annotated[str, "when, UTC, ISO 8601"]
    seed: Annotated[int, "of inputs and order"]
    operator: Annotated[CommitFields | None, "the file that the operator is written in"]
    driver: Annotated[str | None, "the native core's driver"]
    device: Annotated[dict[str, Any], "the driver's facts about the device"]
    compiler: Annotated[str | None, "the row's `method`: compiler and flags"]
    fingerprint: Annotated[str | None, "compiler, version and flags, as binaries are cached by"]


class JudgedFields(TypedDict, total=False):
    """Of a stranger's kernel: what the side that judges saw itself."""

    us: Annotated[Figure, "its time by the judge's clock"]
    calls: Annotated[int, "calls in one measurement of that"]
    groups: Annotated[int, "how many measurements"]
    in_part: Annotated[int, "timed calls of which the oracle judged parts"]
    wholly: Annotated[int, "timed calls that the oracle judged wholly"]


class TimeFields(TypedDict, total=False):
    """A time with everything needed to judge it."""

    median_us: Required[Annotated[float, "the kernel's time on the device, microseconds"]]
    ci_low_us: Required[Annotated[Figure, "lower end of the 95% bootstrap interval of the median"]]
    ci_high_us: Required[Annotated[Figure, "upper end"]]
    samples: Required[Annotated[int, "number of samples"]]
    launch_us: Annotated[Figure, "how long a prepared call keeps the caller; null if the work is done when a call returns"]
    end_to_end_us: Annotated[Figure, "from the call until its work is done, nothing else queued, warm caches"]
    mode: Annotated[str, "in words: cold or warm, how the call was queued and clocked, how many sets of inputs"]
    roofline: Annotated[RooflineFields | None, "how near the device's limits it is"]
    peers: Annotated[list[PeerFields], "what was timed in turns with it"]
    quantiles_us: Annotated[dict[str, Figure], "10, 25, 75 and 90% of the samples"]
    correction_us: Annotated[Figure, "the cost of a pair of events, subtracted from the median"]
    calls_per_sample: Annotated[int, "calls in one sample"]
    empty_us: Annotated[Figure, "an empty launch measured the same way"]
    overhead_us: Annotated[Figure, "the host's time per sample beyond what it measures"]
    blocks: Annotated[int, "rounds of all contenders"]
    stopped: Annotated[str, "what ended the sampling: `width`, `budget`, `samples` or `asked`"]
    suspicions: Annotated[list[str], "what does not fit together"]
    throttled: Annotated[int, "how many samples the core marked"]
    clocks: Annotated[ClocksFields | None, "clocks, temperature and throttling, as far as the driver tells"]
    sizes: Annotated[dict[str, int] | None, "sizes of open dims at which it was timed"]
    options: Annotated[OptionsFields, "what was asked"]
    provenance: Annotated[ProvenanceFields, "where it comes from"]
    judged: Annotated[JudgedFields, "for a stranger's kernel: what the judge itself measured"]
    samples_us: Annotated[list[float], "every sample in the order taken, with `--samples`"]
    flags: Annotated[list[int] | None, "marks of the samples, with `--samples`"]


class EnvironmentFields(TypedDict, total=False):
    """The machine and installation that a row was taken with."""

    portakern: Annotated[str, "version"]
    python: Annotated[str, "version"]
    system: Annotated[str, "operating system"]
    machine: Annotated[str, "instruction set of the CPU"]
    processor: Annotated[str, "name of the CPU"]
    cores: Annotated[int, "of the CPU"]
    machine_id: Annotated[str, "twelve hex digits that say nothing else about the machine"]
    commit: Annotated[str | None, "of portakern"]
    dirty: Annotated[bool | None, "whether its sources differ from the commit"]
    libraries: Annotated[dict[str, str], "versions of the libraries that may matter"]


class CostFields(TypedDict):
    """What the operator needs at the least."""

    bytes: Annotated[int, "every input read and every output written once"]
    flops: Annotated[int, "operations"]
    peak: Annotated[str, "the device's figure that bounds the arithmetic"]


class VerdictFields(TypedDict):
    """One case of a gate, before and now."""

    operator: Annotated[str, "its name"]
    target: Annotated[str, "`language:device`"]
    case: Annotated[str, "sizes and parameters"]
    dtype: Annotated[str | None, "of the row"]
    verdict: Annotated[Literal["regressed", "now wrong", "now failing", "missing", "undecided", "same", "improved",
                               "now right"], "what became of it"]  # fmt: skip
    before_us: Annotated[Figure, "median of the baseline"]
    now_us: Annotated[Figure, "median now"]
    ratio: Annotated[Figure, "now over before"]
    ci_low: Annotated[Figure, "lower end of the ratio's interval"]
    ci_high: Annotated[Figure, "upper end"]
    why: Annotated[str, "a further remark"]
    differs: Annotated[list[str], "other machine, clock or toolchain"]


class GateFields(TypedDict):
    """What `results --gate` found; `rows` are those that were measured for it."""

    baseline: Annotated[str, "the baseline that was named"]
    margin: Annotated[float, "a slowdown up to this is no regression"]
    passes: Annotated[bool, "whether the command exits with 0"]
    counts: Annotated[dict[str, int], "verdicts"]
    verdicts: Annotated[list[VerdictFields], "one for each case of the baseline"]


class PortingFields(TypedDict):
    """What differs between two targets of a comparison."""

    topic: Annotated[str, "in a word or two"]
    origin: Annotated[str, "the target that a kernel comes from"]
    target: Annotated[str, "the target it goes to"]
    text: Annotated[str, "what that means for it"]
    sources: Annotated[list[str], "where the figures were read"]
