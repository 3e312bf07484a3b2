"""The plan of a kernel: what its text will say, decided statement by statement, before any text.

A plan is frozen and prints as a listing (``portakern emit --ir plan``).  Every value has its place (layout), every shared
operand its number of slots and its role, every loop its pipeline.  Expressions on elements and addresses are trees
(:mod:`portakern.emit.clike.terms`); text is the printer's.  What a statement reads (:func:`reads`) and how it is with other
names (:func:`renamed`) can be asked of every statement.
"""

from .asking import calls, kind, made, reads, relaid, renamed, statements, used, words
from .kernels import KernelParam, KernelPlan, ProgramPlan, Scope
from .nodes import (
    Access,
    Assign,
    Block,
    Combine,
    Commit,
    CopyToShared,
    Dot,
    Fill,
    InOrder,
    LoadTile,
    Loop,
    Map,
    Member,
    Operand,
    Order,
    Pipeline,
    Reduce,
    Relayout,
    Scalar,
    Scan,
    ScanBy,
    Shared,
    Statement,
    StatementPart,
    StoreTile,
    StoreToShared,
    Sync,
    Wait,
)

__all__ = [
    "Access", "Assign", "Block", "Combine", "Commit", "CopyToShared", "Dot", "Fill", "InOrder", "KernelParam", "KernelPlan",
    "LoadTile", "Loop", "Map", "Member", "Operand", "Order", "Pipeline", "ProgramPlan", "Reduce", "Relayout", "Scalar",
    "Scan", "ScanBy", "Scope", "Shared", "Statement", "StatementPart", "StoreTile", "StoreToShared", "Sync", "Wait",
    "calls", "kind", "made", "reads", "relaid", "renamed", "statements", "used", "words",
]  # fmt: skip
