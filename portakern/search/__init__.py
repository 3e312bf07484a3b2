"""Searching for kernels: anything with ``ask()`` and ``tell(row)`` drives the generator's door.

    from portakern.search import Grid, search
    best = search(Grid(task), task, budget_s=60).best       # Guided(task): the tuner's proposals

A search asks for nothing of portakern but :func:`portakern.task` and :func:`portakern.evaluate`, so the same one works on
every target.
"""

from portakern.search.grid import Grid
from portakern.search.guided import Guided
from portakern.search.run import Candidate, Search, SearchResult, score, search

__all__ = ["Candidate", "Grid", "Guided", "Search", "SearchResult", "score", "search"]
