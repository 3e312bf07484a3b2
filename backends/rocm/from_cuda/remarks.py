"""What there is to say of a CUDA text's lines before it is compiled for AMD."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portakern.backend import InspectedKernel, Remark, Target
from portakern.emit.host_side import device_side

from .catalogue import CATALOGUE, INLINE, SPECIAL, WARPS

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)


def remarks(kernel: InspectedKernel, target: Target) -> tuple[Remark, ...]:
    """What has no counterpart, each thing once at each line, then where 32 lanes are taken to go together though waves are
    wider, then instances that are not known."""
    side = device_side(kernel.text)
    text = _COMMENT.sub(lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), side.text)
    missing = list(_missing(text, target))
    inline = _inline(text, {r.line for r in missing})
    ordered = sorted([*missing, *inline, *_assumed(text, target)], key=lambda r: (r.kind != "missing", r.line))
    found = {(r.line, r.text): r for r in ordered}
    unknown = () if "<" in kernel.entry else side.unknown
    hangs = (Remark(line, "note", f"{name} depends on who calls the host function", f"ask for 'FILE:{name}' with values")
             for line, name in unknown)  # fmt: skip
    return (*found.values(), *hangs)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _missing(text: str, target: Target) -> Iterator[Remark]:
    for entry in CATALOGUE:
        for m in re.finditer(entry.words, text):
            yield Remark(_line(text, m.start()), "missing", entry.what, _instead(target, entry.instead(target.device)))


def _inline(text: str, known: set[int]) -> Iterator[Remark]:
    """PTX that is none of the catalogue's."""
    for m in re.finditer(INLINE, text):
        end = text.find(";", m.end())
        body = text[m.start() : max(end, m.end())]
        lines = range(_line(text, m.start()), _line(text, m.start() + len(body)) + 1)
        if known.isdisjoint(lines):
            does = next((what for word, what in SPECIAL.items() if word in body), "the amdgcn builtins of clang")
            ptx = re.search(r'"\s*(?:\{[^"]*)?([a-z][\w.]*)', body)
            yield Remark(lines[0], "missing", f"inline PTX{f' ({ptx[1]})' if ptx else ''}", f"AMD has {does}")


def _assumed(text: str, target: Target) -> Iterator[Remark]:
    wave = target.device.count("subgroup")
    if wave == 32:
        return
    instead = "it runs as two warps of 32 a wave; a port has masks of 64 bits and a step more in its reductions"
    for words, what in WARPS:
        for m in re.finditer(words, text):
            said = f"{what}, where waves of {target.device.name} have {wave} lanes"
            yield Remark(_line(text, m.start()), "assumes", said, instead)


def _instead(target: Target, what: str) -> str:
    return what if what.startswith(("it ", "no ", "8-bit")) else f"{target.device.name} has {what}"
