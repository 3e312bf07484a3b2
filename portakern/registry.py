"""Finds backends through the entry-point group ``portakern.backends`` and resolves targets against them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.metadata import entry_points
from pathlib import Path

from portakern.backend import MANIFEST_VERSION, Backend, Estimator, Language, Machine, Target
from portakern.device import Device, load_devices
from portakern.errors import BackendError, UsageError

GROUP = "portakern.backends"

LANGUAGES, FORMATS = "portakern.languages", "portakern.formats"
"""Groups by which a backend may announce its languages, and the binary formats that its machines are for: each entry has the
backend's value.  A command for ``cuda:h200`` then imports that backend alone; one that announces nothing is always imported."""

ONLY = "PORTAKERN_BACKENDS"
"""The variable that names the only entry points to load, with commas between: importing all takes half a second."""


@dataclass(frozen=True)
class Entry:
    """A backend that can be imported, and what it announces: no languages where it announces nothing."""

    name: str
    value: str
    languages: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Broken:
    """A backend whose manifest could not be loaded, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """All backends, those that could not be loaded, and the names of entry points by backend."""

    backends: tuple[Backend, ...]
    broken: tuple[Broken, ...]
    entries: Mapping[str, str]


class Registry:
    """The backends found on this machine, imported when asked for.  Languages have one owner; devices are per backend."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = tuple(entries)
        self._alone: dict[str, Backend | None] = {}

    @cached_property
    def _all(self) -> Loaded:
        found: dict[str, Backend] = {}
        broken: list[Broken] = []
        for entry in self._entries:
            try:
                found[entry.name] = _checked(entry, found.values())
            except Exception as error:  # a stranger's module may fail in any way; it must not take the others along
                broken.append(Broken(entry.name, f"{type(error).__name__}: {error}"))
        return Loaded(tuple(found.values()), tuple(broken), {b.name: name for name, b in found.items()})

    @property
    def backends(self) -> tuple[Backend, ...]:
        return self._all.backends

    @property
    def broken(self) -> tuple[Broken, ...]:
        return self._all.broken

    @property
    def languages(self) -> dict[str, Language]:
        return {x.name: x for b in self.backends for x in b.languages}

    def backend_of(self, language: str) -> Backend:
        """The backend that offers ``language``.  Raises :class:`UsageError` where none does."""
        owners = [e for e in self._entries if language in e.languages]
        candidates = (self._by_itself(owners[0]),) if len(owners) == 1 and self._all_announced else self.backends
        for b in candidates:
            if b is not None and any(x.name == language for x in b.languages):
                return b
        raise self._unknown_language(language)

    @cached_property
    def _all_announced(self) -> bool:
        """Whether no backend could offer anything that its entry points do not say."""
        return all(e.languages for e in self._entries)

    def _by_itself(self, entry: Entry) -> Backend | None:
        """The backend, ``None`` where it is broken; no other is imported."""
        if entry.name not in self._alone:
            try:
                self._alone[entry.name] = _checked(entry, ())
            except Exception:  # the list of all says why
                self._alone[entry.name] = None
        return self._alone[entry.name]

    def language(self, name: str) -> Language:
        return self.backend_of(name).language(name)

    def devices(self, language: str) -> dict[str, Device]:
        """Instruction sets and products this language may be aimed at."""
        backend = self.backend_of(language)
        isas = set(self.language(language).targets)
        return {name: d for name, d in _devices(backend.devices).items() if d.isa in isas}

    def default_targets(self) -> tuple[Target, ...]:
        """Each language on each of its instruction sets, in the order of the manifests."""
        return tuple(t for b in self.backends for x in b.languages for t in self._defaults(x))

    def _defaults(self, language: Language) -> tuple[Target, ...]:
        return tuple(Target(language.name, self.devices(language.name)[isa]) for isa in language.targets)

    def target(self, text: str) -> Target:
        """The one target called ``text``; raises :class:`UsageError` with what there is."""
        language, _, device = text.partition(":")
        known = self.devices(language)
        if device not in known:
            raise UsageError(f"unknown target {text!r}: {language} has no device {device!r}",
                             hint=f"{language} has {', '.join(known)}")
        return Target(language, known[device])

    def machine(self, target: Target) -> Machine | None:
        """What executes or predicts the machine code that the target's language is compiled to, from any backend."""
        return next((m for _, m in self._machines(target)), None)

    def _machines(self, target: Target) -> Iterator[tuple[Backend, Machine]]:
        language = self.language(target.language)
        if language.format is None:
            return iter(())
        made = language.format(target.device)
        able = [self._by_itself(e) for e in self._entries if made in e.formats] if self._all_announced else self.backends
        machines = ((b, m) for b in able if b is not None for m in b.machines)
        return ((b, m) for b, m in machines if m.format == made and target.device.isa in m.targets)

    def environment_for(self, language: str) -> dict[str, str]:
        """For a process that works for this language alone: it loads the backends of the language and of its machines."""
        targets = [Target(language, d) for d in self.devices(language).values()]
        backends = [self.backend_of(language), *(b for t in targets for b, _ in self._machines(t))]
        return {ONLY: ",".join(dict.fromkeys(self._name_of(b) for b in backends))}

    def _name_of(self, backend: Backend) -> str:
        alone = next((name for name, b in self._alone.items() if b is backend), None)
        return alone if alone is not None else self._all.entries[backend.name]

    def estimator(self, target: Target) -> Estimator | None:
        """The language's own estimator, else that of the machine."""
        machine = self.machine(target)
        return self.language(target.language).estimator or (machine.estimator if machine is not None else None)

    def match(self, patterns: str) -> tuple[Target, ...]:
        """Targets named by comma-separated names or patterns (``all``, ``hip:*``, ``*:gfx942``), without repeats.

        A pattern runs over the instruction sets of the default list; products are named in full or by pattern too.
        """
        found: dict[str, Target] = {}
        for pattern in filter(None, (p.strip() for p in patterns.split(","))):
            if pattern == "all":
                pattern = "*:*"
            if not any(c in pattern for c in "*?["):
                found.setdefault(pattern, self.target(pattern))
                continue
            hits = [t for t in self._that_may_match(pattern) if fnmatchcase(str(t), pattern)]
            if not hits:
                raise UsageError(f"no target matches {pattern!r}",
                                 hint="`portakern targets` lists them: " + ", ".join(map(str, self.default_targets())))
            for t in hits:
                found.setdefault(str(t), t)
        if not found:
            raise UsageError("no target was named", hint="name some: --targets LANGUAGE:DEVICE, LANGUAGE:* or all")
        return tuple(found.values())

    def _that_may_match(self, pattern: str) -> tuple[Target, ...]:
        """The default targets of the language that ``pattern`` names, of all languages where it names none."""
        language = pattern.partition(":")[0]
        known = any(language in e.languages for e in self._entries)
        return self._defaults(self.language(language)) if known else self.default_targets()

    def _unknown_language(self, language: str) -> UsageError:
        absent = "".join(f"; the backend {b.name} could not be loaded: {b.reason}" for b in self.broken)
        known = ", ".join(sorted(self.languages)) or "none"
        example = next((f", such as {target}" for target in self.default_targets()), "")
        return UsageError(f"unknown target language {language!r}{absent}",
                          hint=f"languages here are {known}; a target is language:device{example}")


@cache
def _devices(folder: Path) -> dict[str, Device]:
    return load_devices(folder)


@cache
def registry() -> Registry:
    """The backends of this machine, or those of them that :data:`ONLY` names.  One that fails to load is reported, and hides
    no other."""
    everything = entry_points()
    only = [n.strip() for n in os.environ.get(ONLY, "").split(",") if n.strip()]

    def announced(group: str, value: str) -> frozenset[str]:
        return frozenset(e.name for e in everything.select(group=group) if e.value == value)

    found = sorted({(e.name, e.value) for e in everything.select(group=GROUP) if not only or e.name in only})
    return Registry([Entry(name, value, announced(LANGUAGES, value), announced(FORMATS, value)) for name, value in found])


def _checked(entry: Entry, others: Collection[Backend]) -> Backend:
    """The backend of ``entry``.  Raises :class:`BackendError`, or whatever its module raises, where it cannot be used beside
    the ``others``."""
    backend = _load(entry.value)
    check_manifest(backend, {x.name for b in others for x in b.languages})
    check_machines(backend, {key for b in others for m in b.machines for key in served(m)})
    formats = {m.format for m in backend.machines}
    if entry.languages and (entry.languages, entry.formats) != ({x.name for x in backend.languages}, formats):
        offers = ", ".join((*sorted(x.name for x in backend.languages), *sorted(formats)))
        raise BackendError(f"its entry points announce {', '.join((*sorted(entry.languages), *sorted(entry.formats)))}, "
                           f"its manifest offers {offers}",
                           hint=f"say the same in the groups {LANGUAGES} and {FORMATS}, or nothing")  # fmt: skip
    return backend


def _load(value: str) -> Backend:
    module, _, attribute = value.partition(":")
    backend = getattr(importlib.import_module(module), attribute or "backend")
    if not isinstance(backend, Backend):
        raise BackendError(f"{value} is a {type(backend).__name__}, not a portakern.backend.Backend")
    return backend


def check_manifest(backend: Backend, taken: set[str]) -> None:
    """Raise :class:`BackendError` when a manifest contradicts itself, portakern or another backend."""
    if backend.version != MANIFEST_VERSION:
        raise BackendError(f"the backend {backend.name} is written for manifest version {backend.version}, "
                           f"this portakern has {MANIFEST_VERSION}",
                           hint="install a version of it made for this portakern")
    if not backend.languages:
        raise BackendError(f"the backend {backend.name} offers no language")
    if not backend.devices.is_dir():
        raise BackendError(f"the backend {backend.name} has no folder of device descriptions at {backend.devices.name}")
    described = {d.isa for d in _devices(backend.devices).values()}
    for language in backend.languages:
        if language.name in taken:
            raise BackendError(f"the language {language.name} is offered by another backend already")
        absent = [t for t in language.targets if t not in described]
        if absent:
            raise BackendError(f"{backend.name} offers {language.name} for {', '.join(absent)} without describing them")


def served(machine: Machine) -> set[tuple[str, str]]:
    """(binary format, instruction set) pairs that a machine is for."""
    return {(machine.format, isa) for isa in machine.targets}


def check_machines(backend: Backend, taken: set[tuple[str, str]]) -> None:
    """Raise :class:`BackendError` where a machine offers nothing, or what there is already."""
    for machine in backend.machines:
        if machine.simulator is None and machine.estimator is None:
            raise BackendError(f"the machine of {backend.name} for {machine.format} neither simulates nor estimates")
        for form, isa in sorted(served(machine) & taken):
            raise BackendError(f"a machine for {form} of {isa} is offered twice, the second time by {backend.name}")
        taken |= served(machine)


def targets(patterns: str = "all") -> tuple[Target, ...]:
    """The targets that ``patterns`` names: ``"hip:gfx942"``, ``"hip:*"``, several with commas, or ``"all"``.

    Raises:
        UsageError: a pattern names nothing.
    """
    return registry().match(patterns)
