"""What a kernel is before and after its compiler: a level of the IR, its source, its assembly, its binary."""

from __future__ import annotations

from portakern.backend import CompiledBinary
from portakern.errors import PortakernError, UsageError
from portakern.registry import registry
from portakern.study import steps
from portakern.study.study import Runner
from portakern.study.work import Work

IRS = ("tensor", "tile", "plan")
FORMS = ("source", "asm", "binary")


def check_form(ir: str | None, form: str, standalone: bool) -> None:
    """Raises :class:`UsageError` for what does not go together."""
    for given, value, known in (("ir", ir, (None, *IRS)), ("as", form, FORMS)):
        if value not in known:
            raise UsageError(f"--{given} {value}: there is none of that name",
                             hint=f"there are {', '.join(k for k in known if k)}")
    if ir and (form != "source" or standalone):
        raise UsageError("--ir goes with neither --as nor --standalone", hint="ask for one thing at a time")
    if form != "source" and standalone:
        raise UsageError("--standalone is about source text", hint="leave out --as")


def piece(work: Work, ir: str | None = None, form: str = "source", standalone: bool = False) -> tuple[str, str | bytes]:
    """(file name suffix, text or bytes): a level of the IR, or the source, assembly or binary."""
    if ir == "tensor":
        return ".txt", f"{work.program}\n"
    target = registry().target(work.target)
    language = registry().language(target.language)
    if ir == "tile" and (work.chosen is None or work.chosen.exact):
        return ".txt", f"{steps.lowered(work, target)}\n"  # what a language cannot emit can be looked at all the same
    found = steps.emission(work)
    work, source, program = found.work, found.source, found.program
    if ir == "tile":
        return ".txt", f"{program}\n"
    if ir == "plan":
        plan = language.emitter.plan(program, target)
        return ".txt", f"# {language.name} prints from the tile level and makes no plan\n" if plan is None else f"{plan}\n"
    if form == "source":
        text = language.emitter.standalone(source) if standalone else source.text
        return source.suffix, text if text.endswith("\n") else text + "\n"
    binary = compiled(work)
    if form == "binary":
        return f".{binary.format}", binary.data
    if binary.assembly is None:
        raise PortakernError("no-assembly", f"{binary.tool} gives no assembly for {target}")
    return ".s", binary.assembly


def compiled(work: Work) -> CompiledBinary:
    """The binary, made in a worker.  Raises what compiling raised."""
    runner = Runner("compiled", 1)
    (row,) = runner.run([work]).rows
    made = runner.made(0)
    if row.error is not None:
        raise PortakernError(row.error["kind"], row.error["message"], row.error["hint"])
    binary = steps.cached_binary(made.binary_key)
    if binary is None:
        raise PortakernError("no-binary", f"nothing compiles for {work.target}: {row.method}")
    return binary
