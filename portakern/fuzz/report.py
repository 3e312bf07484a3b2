"""What a run says at its end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from portakern.fuzz.engine import Engine, Tally
from portakern.fuzz.outcome import FOUND, OK, REFUSED, UNUSED, TargetOutcome
from portakern.fuzz.program import FuzzProgram
from portakern.fuzz.workshop import Step

REASONS = 12
"""Reasons of refusals that are listed."""

WELL: dict[Step, str] = {"run": "right", "compile": "compiled", "emit": "emitted"}
"""What is known of a program that went well, by what was done last."""


def report(engine: Engine, detailed: bool = False) -> str:
    """Outcomes by target, refusals by reason, coverage and findings; ``detailed`` with features and what was never reached."""
    parts = [outcomes(engine.tally, engine.workshop.until), refusals(engine.tally), engine.coverage.table()]
    if detailed:
        parts += [engine.coverage.by_feature(engine.steering.features), _unreached(engine)]
    return "\n\n".join([*filter(None, parts), findings(engine)])


def outcomes(tally: Tally, until: Step = "run") -> str:
    """A line per target: how many programs were right, or just compiled or emitted, refused, not tried, or found something."""
    rate = f", {60 * tally.programs / tally.seconds:.0f} a minute" if tally.seconds else ""
    well = WELL[until]
    lines = [f"{tally.programs} programs{rate}", "",
             f"{'target':<16}{well:>8}{'refused':>9}{'share':>8}{'not tried':>11}{'faults':>8}{'s each':>8}"]  # fmt: skip
    for target, counts in sorted(tally.statuses.items()):
        total = sum(counts.values())
        lines.append(f"{target:<16}{counts[OK]:>8}{counts[REFUSED]:>9}{counts[REFUSED] / total:>8.1%}{counts[UNUSED]:>11}"
                     f"{counts[FOUND]:>8}{tally.spent[target] / total:>8.2f}")  # fmt: skip
    return "\n".join(lines)


def refusals(tally: Tally) -> str:
    """The reasons of what was refused or not tried, most frequent first, each with one of its programs."""
    if not tally.reasons:
        return ""
    listed = sorted(tally.reasons.items(), key=lambda kv: -sum(kv[1].values()))
    lines = ["refused or not tried, because:"]
    for (target, _, reason), programs in listed[:REASONS]:
        lines.append(f"{sum(programs.values()):>6}  {target}: {reason} (program {next(iter(programs))})"[:220])
    more = len(listed) - REASONS
    return "\n".join([*lines, *([f"        and {more} more reasons (outcomes.jsonl)"] if more > 0 else [])])


def findings(engine: Engine) -> str:
    """The findings with their files, and how often each was met."""
    mine = engine.findings.mine
    if not mine:
        return "no finding"
    lines = [f"{len(mine)} finding{'' if len(mine) == 1 else 's'}:"]
    for name, f in mine.items():
        suspect = " (several languages agree on the value: lowering, or the judge)" if f.suspect else ""
        first = next(iter(f.message.splitlines()), "")[:160]
        lines += [f"  {_shown(engine.state.found / f'{name}.py')}  met {engine.findings.counts[name]} times{suspect}",
                  f"      {', '.join(f.targets)}: {first}"]  # fmt: skip
    return "\n".join(lines)


def _shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _unreached(engine: Engine) -> str:
    lines = ["functions that no program reached:"]
    for part, names in engine.coverage.unreached().items():
        lines += [f"  {part}:", *(f"    {n.removeprefix('portakern.')}" for n in names)]
    return "\n".join(lines)


def tried(file: Path, results: Iterable[tuple[FuzzProgram, list[TargetOutcome]]], until: Step = "run") -> str:
    """What became of the cases of a file that was tried again."""
    lines, well = [str(file)], WELL[until]
    for program, found in results:
        lines.append(f"  {program.header()}")
        lines += [f"    {o.target:<14} {well if o.status == OK else o.status}{f': {o.kind}: {o.message}' if o.kind else ''}"
                  for o in found]  # fmt: skip
    return "\n".join(lines)
