"""Reads the text form of functions back, with ``ast``; nothing is executed.  The form is written in :mod:`core`.

``parse_functions(format_function(f))`` gives back an equal function.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from portakern.errors import IRError, PortakernError
from portakern.ir.core import (
    TEXT_VERSION,
    Arg,
    Block,
    Function,
    Loc,
    Op,
    Type,
    codec,
    decode,
    format_function,
)

__all__ = ["codec", "format_function", "parse_function", "parse_functions"]


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.env: dict[str, Any] = {}

    def fail(self, node: ast.AST, message: str) -> IRError:
        line = getattr(node, "lineno", 1)
        return IRError(f"line {line}: {message}\n    {self.lines[line - 1].strip()}")

    def loc(self, node: ast.AST) -> Loc | None:
        line = self.lines[(node.end_lineno or node.lineno) - 1]  # type: ignore[attr-defined]
        if match := re.search(r"  # at (\S+) \((.+):(\d+)\)$", line):
            return Loc(match[2], int(match[3]), within=match[1])
        match = re.search(r"  # at (.+):(\d+)$", line)
        return Loc(match[1], int(match[2])) if match else None

    def literal(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id="inf" | "nan" as word):
                return float(word)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.literal(operand)
            case ast.Tuple(elts=elements):
                return tuple(map(self.literal, elements))
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise self.fail(node, f"{ast.unparse(node)} is not a plain value") from None

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        if not isinstance(node, ast.Name) or node.id not in self.env:
            raise self.fail(node, f"{ast.unparse(node)} is not defined")
        return self.env[node.id]

    def field(self, role: str, kind: str, node: ast.expr) -> Any:
        if role == "attribute":
            return decode(kind, self.literal(node))
        if role == "operands":
            if not isinstance(node, ast.Tuple):
                raise self.fail(node, "expected a tuple of operands")
            return tuple(map(self.value, node.elts))
        return self.value(node)

    def op(self, node: ast.expr) -> Op:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise self.fail(node, "expected an operation")
        cls = Op.registry.get(node.func.id)
        if cls is None:
            raise self.fail(node, f"unknown operation {node.func.id!r}")
        if len(node.args) != len(cls.roles):
            raise self.fail(node, f"{node.func.id} takes {len(cls.roles)} arguments, not {len(node.args)}")
        values = [self.field(role, cls.kinds[n], a) for (n, role), a in zip(cls.roles.items(), node.args, strict=True)]
        try:
            return cls(*values, loc=self.loc(node))
        except PortakernError as error:
            raise self.fail(node, str(error)) from None

    def block(self, function: ast.FunctionDef) -> Block:
        args = tuple(Arg(re.sub(r"_\d+$", "", a.arg) if a.arg in self.env else a.arg, self.type_of(a))
                     for a in function.args.args)
        outer = dict(self.env)
        self.env.update({a.arg: arg for a, arg in zip(function.args.args, args, strict=True)})
        ops: list[Op] = []
        for node in function.body:
            match node:
                case ast.FunctionDef():
                    self.env[node.name] = self.block(node)
                case ast.Pass():
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as value):
                    op = self.op(value)
                    stated = Type.parse(self.source(annotation))
                    if op.type != stated:
                        raise self.fail(node, f"{op.mnemonic()} has type {op.type}, the text says {stated}")
                    self.env[name] = op
                    ops.append(op)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.env[name] = self.op(value)
                    ops.append(self.env[name])
                case ast.Expr(value=value):
                    ops.append(self.op(value))
                case _:
                    raise self.fail(node, "not an operation")
        self.env = outer | {k: v for k, v in self.env.items() if isinstance(v, Block)}
        return Block(args, tuple(ops))

    def source(self, node: ast.expr) -> str:
        if node.lineno == node.end_lineno:  # ast would look for the line in the whole text, for every operation
            return self.lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()
        return ast.get_source_segment("\n".join(self.lines), node) or ""

    def type_of(self, argument: ast.arg) -> Type:
        if argument.annotation is None:
            raise self.fail(argument, f"the argument {argument.arg} has no type")
        return Type.parse(self.source(argument.annotation))

    def function(self, node: ast.FunctionDef) -> Function:
        if len(node.decorator_list) != 1 or not isinstance(call := node.decorator_list[0], ast.Call):
            raise self.fail(node, "expected one decorator that says what the function is")
        keyword = ast.unparse(call.func)
        cls = Function.registry.get(keyword)
        if cls is None:
            raise self.fail(node, f"unknown function kind {keyword!r}")
        attributes = {k.arg: decode(cls.kinds[k.arg], self.literal(k.value)) for k in call.keywords if k.arg}
        self.env = {}
        return cls(node.name, self.block(node), **attributes)


def parse_functions(text: str) -> tuple[Function, ...]:
    """Read back every function in ``text``; raises :class:`IRError` with the line that is wrong."""
    for match in re.finditer(r"^# portakern ir (\d+)$", text, re.MULTILINE):
        if int(match[1]) != TEXT_VERSION:
            raise IRError(f"the text is of version {match[1]}, this portakern reads {TEXT_VERSION}")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise IRError(f"line {error.lineno}: {error.msg}") from None
    return tuple(_Parser(text).function(node) for node in tree.body if isinstance(node, ast.FunctionDef))


def parse_function(text: str) -> Function:
    """Read back the only function in ``text``."""
    functions = parse_functions(text)
    if len(functions) != 1:
        raise IRError(f"expected one function, found {len(functions)}")
    return functions[0]
