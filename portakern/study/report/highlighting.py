"""Lines of a text as HTML with its words told apart by class."""

from __future__ import annotations

from html import escape

from markupsafe import Markup
from pygments.lexer import Lexer
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment.Preproc, "k"), (Comment, "c"), (String, "s"), (Number, "m"), (Keyword.Type, "t"), (Keyword, "k"),
    (Name.Function, "f"), (Name.Decorator, "d"), (Name.Builtin, "b"),
)  # fmt: skip
"""The class of a token, the first that fits; everything else is plain."""


def lines(text: str, suffix: str) -> list[Markup]:
    """One piece of HTML for each line of ``text``."""
    found: list[list[str]] = [[]]
    for kind, value in _lexer(suffix).get_tokens(text):
        name = next((c for token, c in CLASSES if kind in token), "")
        for n, part in enumerate(value.split("\n")):
            if n:
                found.append([])
            if part:
                found[-1].append(f'<i class="{name}">{escape(part)}</i>' if name and part.strip() else escape(part))
    count = len(text.splitlines())
    return [Markup("".join(parts)) for parts in found[:count]]


def _lexer(suffix: str) -> Lexer:
    kind = PythonLexer if suffix == ".py" else CppLexer
    return kind(stripnl=False, ensurenl=False)
