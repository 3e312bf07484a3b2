"""What hypothesis draws from a seed: the same in every process."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypothesis.internal.conjecture.data import ConjectureData


def choices_from(seed: int | str) -> ConjectureData:
    """Draws for strategies, by ``seed`` alone."""
    from hypothesis.internal.conjecture.data import ConjectureData

    return ConjectureData(random=Random(seed), provider=_provider())


@cache
def _provider() -> Any:
    from hypothesis.internal.conjecture.providers import HypothesisProvider

    class Provider(HypothesisProvider):
        """Without the numbers that hypothesis finds in the text of modules, which are others where others are loaded."""

        def _maybe_draw_constant(self, *args: Any, **named: Any) -> None:
            return None

    return Provider
