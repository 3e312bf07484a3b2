"""Attention on CDNA by waves that take turns (``include/pk/attention.h``).

``softmax.py`` finds the running softmax in a walk over keys, ``planning.py`` decides whether its waves can take turns and makes
the plan (``plan.py``); ``printer.py`` prints it.  Other walks, those of its backward among them, keep their operands as strips
(``walk.py``, ``walk_printer.py``).
"""

from .caps import with_capped_scores
from .plan import AttentionPlan, KeyStrip, LoadQueries, MapByFours, ReadTurn
from .planning import FEATURES, KEYS, ROWS, WAVES, attention_in_turns
from .printer import print_attention
from .walk import StripWalk, strips_of, with_strips
from .walk_printer import loaded_ahead, print_walk, strip_type

__all__ = [
    "FEATURES", "KEYS", "ROWS", "WAVES", "AttentionPlan", "KeyStrip", "LoadQueries", "MapByFours", "ReadTurn", "StripWalk",
    "attention_in_turns", "loaded_ahead", "print_attention", "print_walk", "strip_type", "strips_of", "with_capped_scores",
    "with_strips",
]  # fmt: skip
