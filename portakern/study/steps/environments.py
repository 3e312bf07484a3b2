"""The environments that worker processes are given, since they want different ones to build and to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from portakern.backend import (
    Language,
    NeedsEnvironment,
    Target,
)
from portakern.registry import registry
from portakern.study.steps.runners import runner_part


def build_environment(language: Language) -> dict[str, str]:
    """What a worker that compiles kernels needs set before anything is imported."""
    return {**language.environment, **own_environment(language.toolchain)}


def own_environment(part: object) -> Mapping[str, str]:
    """The variables that a part of a language needs beside those of the language."""
    return part.environment if isinstance(part, NeedsEnvironment) else {}


def shared_environment(languages: Iterable[Language]) -> dict[str, str] | None:
    """That of a process in which several languages compile and run; ``None`` where fewer than two may share one.  A language
    that wants another value than one before it stays alone."""
    found: dict[str, str] = {}
    sharing = 0
    for language in languages:
        wanted = {**build_environment(language), **own_environment(language.runtime)}
        if language.shares_process and all(found.get(k, v) == v for k, v in wanted.items()):
            found |= wanted
            sharing += 1
    return found if sharing > 1 else None


def run_environment(target: Target, runner: str) -> dict[str, str]:
    """What a worker that runs kernels needs set before anything is imported."""
    language = registry().language(target.language)
    part = runner_part(language, target, runner)
    return {**language.environment, **own_environment(part)}
