"""Rewriting: rules indexed by the operation they match, applied to a fixed point together with CSE and dead-code removal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from portakern.ir.core import Block, Function, Op, key

OpT = TypeVar("OpT", bound=Op)
FunctionT = TypeVar("FunctionT", bound=Function)
Rule = Callable[[Any], "Op | None"]


class Rules:
    """Rewrite rules by the class they match; ``a + b`` joins two sets.

    A rule takes an operation and gives a better one, whose operands may be new operations, or ``None``.
    """

    def __init__(self, table: dict[type[Op], list[Rule]] | None = None) -> None:
        self.table = table or {}

    def on(self, *classes: type[OpT]) -> Callable[[Callable[[OpT], Op | None]], Callable[[OpT], Op | None]]:
        def register(rule: Callable[[OpT], Op | None]) -> Callable[[OpT], Op | None]:
            for cls in classes:
                self.table.setdefault(cls, []).append(rule)
            return rule

        return register

    def __add__(self, other: Rules) -> Rules:
        classes = self.table.keys() | other.table.keys()
        return Rules({c: self.table.get(c, []) + other.table.get(c, []) for c in classes})

    def __call__(self, op: Op) -> Op | None:
        for rule in self.table.get(type(op), ()):
            better = rule(op)
            if better is not None and better is not op:
                return better
        return None


def canonicalise(function: FunctionT, rules: Rules | None = None) -> FunctionT:
    """``function`` with ``rules`` applied until none matches, equal pure operations merged and unused ones dropped."""
    rewriter = _Rewriter(rules or Rules())
    return replace(function, body=rewriter.block(function.body, {}, {}))


class _Rewriter:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def block(self, old: Block, outer: dict[Op, Op], known: dict[Any, Op]) -> Block:
        """Rewrite one block; ``outer`` maps the operations of enclosing blocks, ``known`` their values by key."""
        new_ops: list[Op] = []
        env = dict(outer)
        seen = dict(known)
        env.update((arg, arg) for arg in old.args)

        def visit(root: Op) -> Op:
            # By a list of what waits, not by recursion: what a rule builds may be deeper than Python's stack.
            waiting = [root]
            while waiting:
                op = waiting[-1]
                if op in env:
                    waiting.pop()
                elif missing := [x for x in op.operands if x not in env]:
                    waiting.extend(reversed(missing))
                else:
                    env[op] = rewritten(op)
            return env[root]

        def rewritten(op: Op) -> Op:
            outside = ({}, {}) if op.closed else (env, seen)
            new = op.remap(env.__getitem__, lambda region: self.block(region, *outside))
            # Equal operations are rewritten once: rules build the same anew for every path that leads to a shared value.
            own = key(new) if new.pure else None
            if (result := seen.get(own)) is None:
                better = self.rules(new)
                result = new if better is None else visit(better)
                if better is None:
                    new_ops.append(new)
                if own is not None:
                    seen[own] = result
            env[new] = result
            return result

        for op in old.ops:
            visit(op)
        return Block(old.args, live(new_ops))


def live(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Those of ``ops`` that have an effect or that a later kept one uses."""
    used: set[Op] = set()
    kept: list[Op] = []
    for op in reversed(ops):
        if op in used or not op.pure:
            kept.append(op)
            used.update(op.operands)
            for region in op.regions:
                for inner in region.walk():
                    used.update(inner.operands)
    return tuple(reversed(kept))
