"""Searching for kernels: anything with ``ask(n)`` and ``tell(trial)`` drives the generator's door.

    from portakern.search import Grid, search
    best = search(Grid(task), task, budget_s=60, store="search.sqlite").best       # Guided(task): the tuner's proposals

Candidates have ids, parents and the move that made them; every text, row and edge goes into the store, where a search that was
killed goes on.  A search asks for nothing of portakern but a task, so the same one works on every target.
"""

from portakern.search.grid import Grid
from portakern.search.guided import Guided
from portakern.search.history import History
from portakern.search.run import OneAtATime, Search, SearchResult, score, search
from portakern.search.trial import Trial
from portakern.study.candidate import Candidate

__all__ = ["Candidate", "Grid", "Guided", "History", "OneAtATime", "Search", "SearchResult", "Trial", "score", "search"]
