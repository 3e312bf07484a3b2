"""Attention on CDNA by waves that take turns (``include/pk/attention.h``).

``softmax.py`` finds the running softmax in a walk over keys, ``planning.py`` decides whether its waves can take turns and makes
the plan (``plan.py``); ``printer.py`` prints it.
"""

from .plan import AttentionPlan, KeyStrip, LoadQueries, ReadTurn
from .planning import FEATURES, KEYS, ROWS, WAVES, attention_in_turns
from .printer import print_attention

__all__ = [
    "FEATURES", "KEYS", "ROWS", "WAVES", "AttentionPlan", "KeyStrip", "LoadQueries", "ReadTurn", "attention_in_turns",
    "print_attention",
]  # fmt: skip
