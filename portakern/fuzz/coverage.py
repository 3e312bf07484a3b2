"""Which functions of lowering and of the emitters the programs reached, through which features of the grammar."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from portakern.fuzz.outcome import TargetOutcome
from portakern.fuzz.reached import EMITTING, LOWERING, functions_of
from portakern.registry import registry

COUNTED = 20
"""Beyond this many programs a function is no longer counted: it is well reached."""

RARE = 3
"""Functions that so few programs reached are worth reaching again."""


@dataclass
class Coverage:
    """``counts`` how many times each function was reached, up to :data:`COUNTED`; ``first`` the features of the program
    that reached it first; ``families`` and ``features`` how many programs had them, the former by language."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[str, ...]] = field(default_factory=dict)
    families: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    features: Counter[str] = field(default_factory=Counter)

    def news(self, reached: Iterable[str]) -> list[str]:
        """Those of ``reached`` that are still counted, without what was generated, as the methods of dataclasses are."""
        return sorted(x for x in reached if self.counts[x] < COUNTED and x in functions_of(x.partition(":")[0]))

    def add(self, features: Iterable[str], outcome: TargetOutcome) -> dict[str, int]:
        """Takes an outcome in; gives how many times each function that is still rare was reached by now."""
        self.families[outcome.language].update(outcome.families)
        rare: dict[str, int] = {}
        for name in self.news(outcome.reached):
            self.counts[name] += 1
            if self.counts[name] == 1:
                self.first[name] = tuple(sorted(features))
            if self.counts[name] <= RARE:
                rare[name] = self.counts[name]
        return rare

    def parts(self) -> dict[str, frozenset[str]]:
        """Every function of the modules that were reached, by part: lowering, what emitters share, each backend."""
        found: dict[str, set[str]] = defaultdict(set)
        for module in {name.partition(":")[0] for name in self.counts}:
            found[part_of(module)] |= functions_of(module)
        return {part: frozenset(found[part]) for part in sorted(found)}

    def unreached(self) -> dict[str, list[str]]:
        """The functions that no program reached, by part."""
        return {part: sorted(x for x in names if not self.counts[x]) for part, names in self.parts().items()}

    def table(self) -> str:
        """How many functions of each part were reached, and which families, by language."""
        lines = [f"{'part':<24}{'functions':>10}{'reached':>9}{'rarely':>8}"]
        for part, names in self.parts().items():
            reached = [x for x in names if self.counts[x]]
            rarely = sum(self.counts[x] <= RARE for x in reached)
            lines.append(f"{part:<24}{len(names):>10}{len(reached):>9}{rarely:>8}")
        return "\n".join([*lines, "", *self._families()])

    def _families(self) -> list[str]:
        columns = sorted({f for counts in self.families.values() for f in counts})
        lines = [f"{'programs by family':<20}" + "".join(f"{c:>14}" for c in columns)]
        for language, counts in sorted(self.families.items()):
            lines.append(f"{language:<20}" + "".join(f"{counts[c]:>14}" for c in columns))
        return lines

    def by_feature(self, known: Iterable[str] = ()) -> str:
        """How many programs had each feature, and how many functions were first reached by one that had it."""
        credit = Counter(f for features in self.first.values() for f in features)
        names = sorted({*self.features, *known}, key=lambda f: (-credit[f], f))
        lines = [f"{'feature':<28}{'programs':>9}{'first reached':>15}"]
        return "\n".join([*lines, *(f"{n:<28}{self.features[n]:>9}{credit[n]:>15}" for n in names)])


def part_of(module: str) -> str:
    """``lower``, ``emit.clike``, or the package of the language's emitter that the module lies in or beside."""
    if module.startswith(LOWERING):
        return "lower"
    if module.startswith(EMITTING):
        return ".".join(module.split(".")[1:3])
    homes = [home for home in _emitters() if module.startswith(f"{home}.")]
    return max(homes, key=len, default=module.rpartition(".")[0]).removeprefix("portakern.")


@cache
def _emitters() -> tuple[str, ...]:
    """The packages that hold an emitter."""
    return tuple({type(x.emitter).__module__.rpartition(".")[0] for x in registry().languages.values()})
