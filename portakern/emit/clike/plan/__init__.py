"""The plan of a kernel: what its text will say, decided statement by statement, before any text.

A plan is frozen and prints as a listing (``portakern emit --ir plan``).  Every value has its place (layout), every shared
operand its number of slots and its role, every loop its pipeline.  Expressions on elements and addresses are trees
(:mod:`portakern.emit.clike.terms`); text is the printer's.  What a statement reads (:func:`reads`) and how it is with other
names (:func:`renamed`) can be asked of every statement.
"""

from .asking import calls, made, reads, relaid, renamed, statements, used, words
from .kernels import KernelPlan, Param, ProgramPlan, Scope
from .nodes import (
    Access,
    Assign,
    Block,
    Combine,
    Commit,
    Convert,
    Dot,
    Fill,
    LoadTile,
    Loop,
    Map,
    Operand,
    Part,
    Pipeline,
    Put,
    Reduce,
    Scalar,
    Scan,
    Shared,
    Stage,
    Statement,
    StoreTile,
    Sync,
    Wait,
)

__all__ = [
    "Access", "Assign", "Block", "Combine", "Commit", "Convert", "Dot", "Fill", "KernelPlan", "LoadTile", "Loop", "Map",
    "Operand", "Param", "Part", "Pipeline", "ProgramPlan", "Put", "Reduce", "Scalar", "Scan", "Scope", "Shared", "Stage",
    "Statement", "StoreTile", "Sync", "Wait", "calls", "made", "reads", "relaid", "renamed", "statements", "used", "words",
]  # fmt: skip
