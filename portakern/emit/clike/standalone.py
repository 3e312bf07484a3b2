"""Makes one file of a source and the headers it includes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from portakern.errors import CompileError

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"[^\n]*\n?', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n", re.MULTILINE)


def inline_headers(text: str, headers: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """``text`` with every ``#include "..."`` replaced, once, by the header's text.

    Raises :class:`CompileError` where a header is not among ``headers``.
    """
    known = dict(headers)
    done: set[str] = set()

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name in done:
            return ""
        if name not in known:
            raise CompileError(f"the source includes {name!r}, which is not among its headers",
                               hint=f"it has {', '.join(known) or 'none'}")
        done.add(name)
        body = _INCLUDE.sub(replace, _ONCE.sub("", known[name])).strip("\n")
        return f"// ---- {name} ----\n{body}\n// ---- end of {name} ----\n"

    return _INCLUDE.sub(replace, text)


def reached(names: Sequence[str], library: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Those headers of ``library`` that are named, and what they include, as (name, text), sorted by name."""
    texts, todo, found = dict(library), [*names], dict[str, str]()
    while todo:
        name = todo.pop()
        if name in texts and name not in found:
            found[name] = texts[name]
            todo += included(texts[name])
    return tuple(sorted(found.items()))


def included(text: str) -> list[str]:
    """Names of the headers that ``text`` includes with quotes."""
    return [found[1] for found in _INCLUDE.finditer(text)]


def read_headers(folder: object, root: str = "pk") -> tuple[tuple[str, str], ...]:
    """Every header below ``folder`` (a ``Path``) as (name under ``root``, text), sorted by name."""
    from pathlib import Path

    base = Path(str(folder))
    files = sorted(x for x in base.rglob("*") if x.is_file() and x.suffix in (".h", ".hpp", ".cuh", ".hip"))
    return tuple((f"{root}/{x.relative_to(base).as_posix()}", x.read_text()) for x in files)
