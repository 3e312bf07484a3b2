"""The frame of a page with the report's looks, and the pieces that pages of other studies share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape


@cache
def templates() -> Environment:
    loader = PackageLoader("portakern.study.report")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["asset"] = asset
    return made


def asset(name: str) -> Markup:
    """A style sheet or a script as it stands in ``templates/``."""
    return Markup((files("portakern.study.report") / "templates" / name).read_text(encoding="utf-8"))


def render(template: str, **values: Any) -> Markup:
    return Markup(templates().get_template(template).render(**values))


def document(title: str, parts: Sequence[str]) -> str:
    """A page with this title and the report's looks around pieces of HTML; empty ones are left out."""
    return str(render("parts.html.j2", title=title, parts=[Markup(p) for p in parts if p])) + "\n"


def where(environment: Mapping[str, Any]) -> str:
    """A line about the machine."""
    python, version = environment.get("python"), environment.get("portakern")
    known = [environment.get("processor"), environment.get("system"), f"Python {python}" if python else None]
    return f"portakern {version} on {', '.join(str(k) for k in known if k)}" if version else ""


def mark(name: str, text: str = "") -> Markup:
    """A level of evidence, or what became of a row, as a badge."""
    return Markup('<span class="badge {}">{}</span>').format(name, text or name)


def machines(environments: Sequence[Mapping[str, Any]]) -> Markup:
    """The environments of the rows, each once."""
    found: dict[str, int] = {}
    for environment in environments:
        text = json.dumps(environment, indent=1, sort_keys=True, default=str)
        found[text] = found.get(text, 0) + 1
    told = [(n, where(json.loads(text)) or "unknown", text) for text, n in found.items()]
    return render("machines.html.j2", machines=told)


__all__ = ["asset", "document", "escape", "machines", "mark", "render", "templates", "where"]
