"""Mutants of machine code: every wait, barrier, mask, range and lane layout taken away or loosened, one at a time.

Some mutants change nothing that can be seen.  These arguments say which, and :mod:`.judge` asks for them:

- *waits*: a walk over all paths says that later waits cover what the wait covered (:mod:`.walk`).
- *witnesses*: the kernel as it is, with checks that run into a trap where the mutant would have let another lane through or
  computed another bit.  If none is reached on all inputs, the mutant computes the same for the shapes that the kernel was
  made for (:attr:`.Mutant.before`, :attr:`.Mutant.after`).
- *poison*: what the mutant changes is made undefined.  If no undefined value reaches memory, an address, a branch or EXEC,
  nothing that can be seen depends on it (:attr:`.Mutant.poisoned`).
- *both ways*: the mutant beside its kernel, what they leave different where they meet replaced by something else
  (:mod:`.beside`).
- *counting*: where paths are joined that no wave takes, the kernel counts for itself what is under way (:mod:`.counted`).
- *barriers*: no LDS is touched on one side of it, up to the barriers around it, or the workgroup is one wave.
- *reach*: the line is never executed, which traps on all ways out of branches show.

Mutants of lanes for which there is no argument, but which put out the kernel's own bits on all inputs of the check and on
further ones, *agree*.  They are counted apart.
"""

from __future__ import annotations

from .catalogue import mutants
from .judge import Outcome, judged
from .mutant import KINDS, Mutant
from .trial import Trial
from .walk import Edge, covered, reached
from .workshop import Workshop

__all__ = ["KINDS", "Edge", "Mutant", "Outcome", "Trial", "Workshop", "covered", "judged", "mutants", "reached"]
