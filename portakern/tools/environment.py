"""What this machine has: Python, packages of the extras, executables, drivers, the cache, what each backend can do.

All of it is found without importing the packages in question; drivers and backends are asked in worker processes, so
that a broken vendor library is a line in the report.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from portakern.backend import Availability, Estimator, Language, Runtime, Simulator, Target, Toolchain
from portakern.errors import CacheError, PortakernError
from portakern.native import DriverProbe, driver_names
from portakern.tools.cache import Cache
from portakern.tools.processors import processors
from portakern.tools.workers import Job, WorkerPool
from portakern.version import __version__

# What a language may be able to do here beyond being emitted, by the manifest's field names.
PARTS = ("toolchain", "runtime", "simulator", "estimator")
LanguagePart = Toolchain | Runtime | Simulator | Estimator

_PROBE_TIMEOUT_S = 30.0
_LANGUAGE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Host:
    """The interpreter and the system."""

    portakern: str
    python: str
    executable: str
    system: str
    machine: str
    processor: str
    cores: int


@dataclass(frozen=True, slots=True)
class Package:
    """A package that an extra asks for. ``version`` is None if it is not installed."""

    name: str
    wanted: str
    version: str | None
    satisfied: bool


@dataclass(frozen=True, slots=True)
class Extra:
    """One of portakern's pip extras, with the packages it brings on this system."""

    name: str
    packages: tuple[Package, ...]

    @property
    def complete(self) -> bool:
        return all(package.satisfied for package in self.packages)

    @property
    def command(self) -> str:
        return f"pip install 'portakern[{self.name}]'"


@dataclass(frozen=True, slots=True)
class OutsideTool:
    """A tool that does not come from pip. ``path`` is empty if it is not on PATH."""

    name: str
    gives: str
    path: str


@dataclass(frozen=True, slots=True)
class CacheState:
    """Where compiled kernels are kept. ``error`` is empty if it can be written."""

    directory: str
    free_bytes: int | None
    error: str
    hint: str


@dataclass(frozen=True, slots=True)
class Ability:
    """Whether one part of a language works for one target, and the part's own words on it."""

    language: str
    part: str
    target: str
    ok: bool
    detail: str


def machine() -> Host:
    return Host(
        portakern=__version__,
        python=platform.python_version(),
        executable=sys.executable,
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        processor=_processor(),
        cores=processors(),
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # Not Linux: the standard library's shorter answer follows.
    return platform.processor()


def extras(distribution: str = "portakern") -> list[Extra]:
    """The extras in the order they are declared, without those that only gather others.

    Raises:
        PortakernError: the distribution is not installed.
    """
    from packaging.requirements import Requirement

    try:
        found = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError as error:
        raise PortakernError(
            "not-installed",
            f"{distribution} is imported from its sources and is not installed",
            hint="pip install -e . in the source folder",
        ) from error
    requirements = [Requirement(line) for line in found.requires or ()]
    result = []
    for name in found.metadata.get_all("Provides-Extra") or ():
        mine = [
            requirement
            for requirement in requirements
            if requirement.marker
            and "extra" in str(requirement.marker)
            and requirement.marker.evaluate({"extra": name})
        ]
        if any(requirement.name == distribution for requirement in mine):
            continue
        packages = (_package(requirement.name, str(requirement.specifier)) for requirement in mine)
        result.append(Extra(name, tuple(packages)))
    return result


def _package(name: str, wanted: str) -> Package:
    from packaging.specifiers import SpecifierSet

    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Package(name, wanted, None, False)
    return Package(name, wanted, version, SpecifierSet(wanted).contains(version, prereleases=True))


def executables(languages: Iterable[Language]) -> list[OutsideTool]:
    """The tools from outside pip that the languages make use of, each once."""
    gives: dict[str, list[str]] = {}
    for language in languages:
        for name, use in language.tools.items():
            if use not in gives.setdefault(name, []):
                gives[name].append(use)
    return [OutsideTool(name, "; ".join(uses), shutil.which(name) or "") for name, uses in gives.items()]


def cache_state(cache: Cache | None = None) -> CacheState:
    cache = cache or Cache()
    error = hint = ""
    try:
        cache.check_writable()
    except CacheError as fault:
        error, hint = fault.message, fault.hint
    return CacheState(str(cache.directory), _free_bytes(cache.directory), error, hint)


def _free_bytes(directory: Path) -> int | None:
    for place in (directory, *directory.parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue  # Not there yet: the directory above will hold it.
    return None


def drivers() -> list[DriverProbe]:
    """Every driver this build knows, each looked for in a worker."""
    with WorkerPool() as pool:
        jobs = [
            Job(name, "portakern.native:probe_driver", (name,), timeout_s=_PROBE_TIMEOUT_S) for name in driver_names()
        ]
        return [
            outcome.value if outcome.error is None else _broken(str(outcome.id), outcome.error)
            for outcome in pool.run(jobs)
        ]


def _broken(name: str, error: PortakernError) -> DriverProbe:
    return DriverProbe(name, name, True, "", "", 0, f"the library is there, but probing it failed: {error.message}")


def abilities(languages: Iterable[Language]) -> dict[str, tuple[Ability, ...]]:
    """What each language can do here, part by part and target by target.

    Each is asked in a worker with the language's own environment.
    """
    return {language.name: _ask_in_worker(language) for language in languages}


def _ask_in_worker(language: Language) -> tuple[Ability, ...]:
    with WorkerPool(env=dict(language.environment)) as pool:
        (outcome,) = pool.run([Job(None, f"{__name__}:ask", (language.name,), timeout_s=_LANGUAGE_TIMEOUT_S)])
    if outcome.error is None:
        return outcome.value
    fault = f"asking failed: {outcome.error.message}"
    return tuple(
        Ability(language.name, part, target.device.name, False, fault)
        for part in PARTS
        for target in _targets(language)
        if offers(target, part)
    )


def ask(language_name: str) -> tuple[Ability, ...]:
    """What one language can do in this process."""
    from portakern.registry import registry

    targets = _targets(registry().language(language_name))
    return tuple(_ability(part, target) for part in PARTS for target in targets if offers(target, part))


def _targets(language: Language) -> list[Target]:
    from portakern.registry import registry

    devices = registry().devices(language.name)
    return [Target(language.name, devices[name]) for name in language.targets]


def offers(target: Target, part: str) -> list[LanguagePart]:
    """What may play a part for a target: that of a machine first, then the language's own."""
    from portakern.registry import registry

    language, machine = registry().language(target.language), registry().machine(target)
    own: dict[str, LanguagePart | None] = {"toolchain": language.toolchain, "runtime": language.runtime,
                                   "simulator": language.simulator, "estimator": language.estimator}  # fmt: skip
    shared: dict[str, LanguagePart | None] = {"simulator": machine.simulator, "estimator": machine.estimator} if machine else {}
    return [found for found in (shared.get(part), own[part]) if found is not None]


def _ability(part: str, target: Target) -> Ability:
    """The first that works, else what the last of them lacks."""
    answer = Availability(False, "")
    for candidate in offers(target, part):
        try:
            answer = candidate.available(target)
        except PortakernError as error:
            answer = Availability(False, str(error))
        if answer:
            break
    return Ability(target.language, part, target.device.name, bool(answer), answer.detail)
