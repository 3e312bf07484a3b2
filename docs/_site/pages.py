"""Pages of the site that are written from the code: the public names of ``portakern``, and the command line.

mkdocs calls :func:`on_files` when it gathers the pages (``hooks`` in mkdocs.yml).
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import portakern as pk
from portakern.cli import COMMANDS, command, parser_of
from portakern.spec import functions

_ROLE = re.compile(r":(\w+):`~?([\w.]+)`")
_SECTION = re.compile(r"(Args|Raises):")
_OWN = (
    "build", "check", "bench", "compare", "emit", "sweep", "tune", "evaluate", "judge", "task", "inspect", "results", "gate",
)  # fmt: skip


BACKENDS = Path(__file__).parents[2] / "backends"
WORKER = Path(__file__).with_name("worker.js")
NAMED = Path(__file__).with_name("named.js")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    readmes = {f"backend-{p.parent.name}.md": p.read_text() for p in BACKENDS.glob("*/README.md")}
    notes = {name: text.replace("](../../docs/", "](") for name, text in readmes.items()}
    for name, text in {"api.md": api(), "command-line.md": command_line(), **notes}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Notes that lie beside a backend are pages of the site, too."""
    return re.sub(r"\]\(\.\./backends/(\w+)/README\.md", r"](backend-\1.md", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """A head that says nothing, as in the corner of a table, is no head to those who hear it."""
    return html.replace("<th></th>", "<td></td>")


def on_post_page(output: str, **_: Any) -> str:
    """What the theme would fetch for its search is ours and lies in the page; what it leaves without a name gets one."""
    theirs = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
    ours = f"<script>{WORKER.read_text()}{NAMED.read_text()}</script>"
    output = output.replace(theirs, ours).replace('role="dialog">', 'role="dialog" aria-label="Search">')
    return re.sub(r'(<input class="md-toggle" data-md-toggle="(\w+)")', r'\1 aria-label="\2"', output)


on_post_template = on_post_page  # of the page that says a page is missing


# ---- public names ----------------------------------------------------------------------------------------------------


def api() -> str:
    """A page with every public name: what it is, what it takes, what it raises."""
    dtypes, written = {*pk._DTYPES, "boolean"}, {*pk._FUNCTIONS}
    rest = sorted({*pk.__all__} - dtypes - written - {*_OWN, "__version__"}, key=str.lower)
    named = ", ".join(f"`pk.{name}`" for name in (*pk._DTYPES, "boolean"))
    parts = [
        "# Public names",
        "All of `import portakern as pk`, from the docstrings. [From Python](python.md) introduces what commands do, and"
        " [Writing an operator](writing-an-operator.md) the functions of operators.",
        "## What commands do", *map(_entry, _OWN),
        "## Operators, models and errors", *map(_entry, rest),
        "## Functions of operators", prose(functions.__doc__ or ""), *map(_entry, sorted(written)),
        "## Dtypes", f"{named}.", prose(type(pk.f32).__doc__ or ""),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _entry(name: str) -> str:
    what = getattr(pk, name)
    return f"### pk.{name}\n\n{_signature(name, what)}{prose(_doc(what))}"


def _doc(what: Any) -> str:
    return inspect.getdoc(_called(what)) or ""


def _called(what: Any) -> Any:
    """What a call of it runs: ``pk.check`` is a room whose function of the same name is called."""
    return what._function if isinstance(what, ModuleType) and callable(what) else what


def _signature(name: str, what: Any) -> str:
    if not callable(what) or (isinstance(what, type) and issubclass(what, Exception)):
        return ""
    words = []
    for p in inspect.signature(_called(what)).parameters.values():
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.name != "self":
            default = "..." if callable(p.default) else repr(p.default)
            words.append(star + p.name + ("" if p.default is p.empty else f"={default}"))
    return f"```python\npk.{name}({', '.join(words)})\n```\n\n"


def prose(doc: str) -> str:
    """A docstring as Markdown: names as code, sections as lists."""
    lines: list[str] = []
    listing = False
    for line in inspect.cleandoc(doc).splitlines():
        line = _ROLE.sub(lambda m: f"`{m[2]}`", line).replace("``", "`")
        if _SECTION.fullmatch(line.strip()):
            lines += ["", f"**{line.strip().removesuffix(':').replace('Args', 'Takes')}**", ""]
            listing = True
        elif listing and line.startswith("    ") and not line.startswith("     "):
            name, _, text = line.strip().partition(": ")
            lines.append(f"- {'' if '`' in name else '`'}{name}{'' if '`' in name else '`'}: {text}")
        elif listing and line.startswith("     "):
            lines.append("    " + line.strip())
        else:
            listing = listing and not line.strip()
            lines.append(line)
    return "\n".join(lines)


# ---- the command line ------------------------------------------------------------------------------------------------


def command_line() -> str:
    """A page with what every command's ``--help`` says."""
    parts = ["# The command line", "What `--help` of each command says. The exit status is 0 when all that was asked was"
             " reached, 1 if not, 2 for bad usage."]  # fmt: skip
    for name, line in COMMANDS.items():
        parts += [f"## portakern {name}", f"{line[0].upper()}{line[1:]}.", f"```text\n{_help(name)}\n```"]
    return "\n\n".join(parts) + "\n"


def _help(name: str) -> str:
    parser = parser_of(name, command(name))
    formatter: Any = parser.formatter_class
    parser.formatter_class = lambda prog: formatter(prog, width=100)  # not that of the terminal
    return parser.format_help().strip()
