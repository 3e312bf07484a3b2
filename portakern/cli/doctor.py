"""``portakern doctor``: what is installed here, what is missing, and what each missing part would give."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from portakern.backend import Language
from portakern.cli import options
from portakern.errors import PortakernError
from portakern.native import DriverProbe
from portakern.referee.process import GROUP, KernelProcess, lacks
from portakern.registry import registry
from portakern.study.command_schema import stamped
from portakern.study.layout import table
from portakern.tools import environment
from portakern.tools.environment import Ability, CacheState, Extra, Host, OutsideTool

# What a manifest's part means to a user.
_PART_WORDS = {"toolchain": "compile", "runtime": "run", "simulator": "simulate", "estimator": "estimate"}

# What an extra gives that belongs to no one language.
_GENERAL_USES = {
    "tune": ("an optimiser for `portakern tune` in large spaces",),
    "torch": ("peers to time against, custom ops under torch.compile, tensors in and out",),
    "report": ("the plots of `--html` and `to_html`",),
    "serve": ("the judge over HTTP: `portakern serve`",),
    "mcp": ("the judge for agents: `portakern mcp`, and /mcp of `portakern serve`",),
    "fleet": ("several machines that judge together: `portakern fleet`",),
    "dev": ("the tests, the linter and the type checker of portakern itself",),
}


@dataclass(frozen=True)
class LanguageReport:
    """One language: what it is, the extra it needs, and what it can do on this machine."""

    name: str
    title: str
    backend: str
    extra: str
    targets: tuple[str, ...]
    abilities: tuple[Ability, ...]


@dataclass(frozen=True)
class JailState:
    """What can keep a stranger's kernel in: the parts that hold, those that a whole jail needs beside, and why."""

    parts: tuple[str, ...]
    lacking: tuple[str, ...]
    reasons: dict[str, str]


@dataclass(frozen=True)
class Report:
    """All that ``portakern doctor`` says. ``broken`` holds a line for each backend that could not be loaded."""

    machine: Host
    cache: CacheState
    extras: tuple[Extra, ...]
    gives: dict[str, tuple[str, ...]]
    executables: tuple[OutsideTool, ...]
    drivers: tuple[DriverProbe, ...]
    languages: tuple[LanguageReport, ...]
    broken: dict[str, str]
    jail: JailState

    @property
    def healthy(self) -> bool:
        """Nothing that must work is at fault; what is optional may be absent."""
        return not self.cache.error and not self.broken

    def to_dict(self) -> dict[str, object]:
        extras = [
            asdict(extra) | {"complete": extra.complete, "gives": self.gives[extra.name], "command": extra.command}
            for extra in self.extras
        ]
        return stamped("doctor", {"healthy": self.healthy, **asdict(self), "extras": extras})


def doctor() -> Report:
    """Looks around. Takes a few seconds, most of them in the backends' own checks."""
    found = registry()
    languages = found.languages.values()
    abilities = environment.abilities(languages)
    reports = tuple(
        LanguageReport(x.name, x.title, found.backend_of(x.name).name, x.extra, x.targets, abilities[x.name])
        for x in languages
    )
    extras = tuple(environment.extras())
    return Report(
        machine=environment.machine(),
        cache=environment.cache_state(),
        extras=extras,
        gives={extra.name: _uses(extra.name, languages) for extra in extras},
        executables=tuple(environment.executables(languages)),
        drivers=tuple(environment.drivers()),
        languages=reports,
        broken={fault.name: fault.reason for fault in found.broken},
        jail=jail_state(),
    )


def jail_state() -> JailState:
    """Found by jailing a process."""
    try:
        with KernelProcess() as process:
            parts = process.parts or ()
            return JailState(tuple(parts), (*lacks(parts), *(p for p in (GROUP,) if p not in parts)), process.missing)
    except PortakernError as error:
        return JailState((), tuple(lacks(())), {"start": error.message})


def _uses(extra: str, languages: Iterable[Language]) -> tuple[str, ...]:
    """What an extra gives: for each language that needs it, what can be done for which devices."""
    uses = list(_GENERAL_USES.get(extra, ()))
    for language in languages:
        if language.extra == extra:
            aims = [registry().target(f"{language.name}:{t}") for t in language.targets]
            words = [word for part, word in _PART_WORDS.items() if any(environment.offers(t, part) for t in aims)]
            uses.append(f"{language.title}: {', '.join(words)} for {', '.join(language.targets)}")
    return tuple(uses)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="as JSON, to FILE or standard output")
    options.add_schema(parser, "doctor")


def run(arguments: argparse.Namespace) -> int:
    report = doctor()
    if arguments.json is None:
        options.show(text(report))
    else:
        _write(json.dumps(report.to_dict(), indent=1), arguments.json)
    return 0 if report.healthy else 1


def _write(content: str, name: str) -> None:
    if name == "-":
        print(content)
        return
    try:
        with open(name, "w", encoding="utf-8") as file:
            file.write(content + "\n")
    except OSError as error:
        raise PortakernError("output", f"cannot write {name}: {error.strerror}", hint="name another file") from error


def text(report: Report) -> str:
    """The report for people, in sections."""
    sections = [
        _machine_text(report.machine, report.cache),
        _languages_text(report.languages),
        _absences_text(report.languages),
        _extras_text(report),
        _executables_text(report.executables),
        _drivers_text(report.drivers),
        _jail_text(report.jail),
        "\n".join(f"backend {name} cannot be loaded: {why}" for name, why in report.broken.items()),
    ]
    return "\n\n".join(section for section in sections if section)


def _jail_text(jail: JailState) -> str:
    lines = [f"jail for kernels from elsewhere: {', '.join(jail.parts) or 'none'}"]
    lines += [f"  lacks {part}: {jail.reasons.get(part, jail.reasons.get('start', ''))}" for part in jail.lacking]
    return "\n".join(lines)


def _machine_text(machine: Host, cache: CacheState) -> str:
    free = f", {cache.free_bytes / 1e9:.1f} GB free" if cache.free_bytes is not None else ""
    state = f"NOT usable: {cache.error}\n  {cache.hint}" if cache.error else f"writable{free}"
    return "\n".join([
        f"portakern {machine.portakern} on Python {machine.python} ({machine.executable})",
        f"{machine.system}, {machine.processor or machine.machine}, {machine.cores} cores",
        f"cache {cache.directory}: {state}",
    ])  # fmt: skip


def _languages_text(languages: Sequence[LanguageReport]) -> str:
    if not languages:
        return "no language is installed"
    rows = [["language", "emit", *_PART_WORDS.values(), "targets"]]
    for language in languages:
        counts = [_count(language, part) for part in _PART_WORDS]
        rows.append([language.name, "yes", *counts, " ".join(language.targets)])
    return table(rows)


def _count(language: LanguageReport, part: str) -> str:
    """``yes``, ``no``, ``2 of 4``, or ``-`` where the language has no such part."""
    answers = [ability.ok for ability in language.abilities if ability.part == part]
    if not answers:
        return "-"
    if all(answers) or not any(answers):
        return "yes" if answers[0] else "no"
    return f"{sum(answers)} of {len(answers)}"


def _absences_text(languages: Sequence[LanguageReport]) -> str:
    """Why something is not possible, with the targets that share a reason on one line."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for language in languages:
        for ability in language.abilities:
            if not ability.ok:
                reasons.setdefault((language.name, ability.part, ability.detail), []).append(ability.target)
    lines = [
        f"  {name} cannot {_PART_WORDS[part]} for {' '.join(targets)}: {detail}"
        for (name, part, detail), targets in reasons.items()
    ]
    return "\n".join(["not possible here:", *lines]) if lines else ""


def _extras_text(report: Report) -> str:
    lines = ["extras:"]
    for extra in report.extras:
        if extra.complete:
            held = ", ".join(f"{package.name} {package.version}" for package in extra.packages)
            lines.append(f"  {extra.name}: installed ({held})")
            continue
        lacking = ", ".join(
            f"{package.name}{f' {package.version}, wanted {package.wanted}' if package.version else ''}"
            for package in extra.packages
            if not package.satisfied
        )
        lines.append(f"  {extra.name}: lacks {lacking}")
        lines += [f"      gives {use}" for use in report.gives[extra.name]]
        lines.append(f"      {extra.command}")
    return "\n".join(lines)


def _executables_text(executables: Sequence[OutsideTool]) -> str:
    if not executables:
        return ""
    rows = [["  " + tool.name, tool.path or "not found", tool.gives] for tool in executables]
    return "other tools:\n" + table(rows, head=False)


def _drivers_text(drivers: Sequence[DriverProbe]) -> str:
    rows = [["  " + driver.title, _driver_state(driver)] for driver in drivers]
    return "drivers:\n" + table(rows, head=False)


def _driver_state(driver: DriverProbe) -> str:
    if not driver.present:
        return f"absent ({driver.error})"
    version = f"version {driver.version}, " if driver.version else ""
    devices = f"{driver.device_count} device{'' if driver.device_count == 1 else 's'}"
    return f"{version}{devices} ({driver.path}){f': {driver.error}' if driver.error else ''}"
