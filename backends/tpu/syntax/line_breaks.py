"""Breaks long lines of emitted Python at the arguments of a call."""

from __future__ import annotations

WIDTH = 110


def wrap(line: str, width: int = WIDTH) -> list[str]:
    """``line`` as it is when it fits, else with the arguments of its last outermost call on lines of their own."""
    if len(line) <= width:
        return [line]
    if parts := _comprehension(line.strip()):
        indent = line[: len(line) - len(line.lstrip())]
        inner = (piece for p in parts for piece in wrap(f"{indent}    {p}", width))
        return [f"{indent}[", *inner, f"{indent}{line[line.rindex(']') :]}"]
    opening, closing = _longest(line)
    if opening < 0 or opening >= width:
        return _subscript(line, width)
    indent = line[: len(line) - len(line.lstrip())]
    parts = _arguments(line[opening + 1 : closing])
    together = f"{indent}    {', '.join(parts)}"
    many = len(parts) > 4 and all("=" in p.split("(")[0] for p in parts)
    if len(together) <= width and not many and not any(p.startswith("lambda") for p in parts):
        inner = [together]
    elif len(parts) == 1:
        inner = wrap(together, width)
    else:
        inner = [piece for part in parts for piece in wrap(f"{indent}    {part},", width)]
    return [line[: opening + 1], *inner, f"{indent}{line[closing:]}"]


def _subscript(line: str, width: int) -> list[str]:
    """``line`` with its first long subscript on a line of its own."""
    depth, opening = 0, -1
    for n, c in enumerate(line):
        if c == "[" and depth == 0 and (line[n - 1].isalnum() or line[n - 1] == "_"):
            opening = n
        depth += (c in "([") - (c in ")]")
        if depth == 0 and opening >= 0 and c == "]":
            if n - opening > width // 2:
                indent = line[: len(line) - len(line.lstrip())]
                together = f"{indent}    {line[opening + 1 : n]}"
                parts = _arguments(line[opening + 1 : n])
                inner = [together] if len(together) <= width else [f"{indent}    {p}," for p in parts]
                return [line[: opening + 1], *inner, *wrap(f"{indent}{line[n:]}", width)]
            opening = -1
    return [line]


def _comprehension(text: str) -> list[str]:
    """The element and the loops of a list that a line holds; nothing where it holds something else."""
    end = text.rfind("]")
    if not text.startswith("[") or text[end + 1 :].strip(",") or " for " not in text:
        return []
    depth, starts = 0, [1]
    for n, c in enumerate(text[:end]):
        depth += (c in "([") - (c in ")]")
        if depth == 1 and text.startswith(" for ", n):
            starts.append(n)
    return [text[a:b].strip() for a, b in zip(starts, [*starts[1:], end], strict=True)]


def _longest(line: str) -> tuple[int, int]:
    """The longest parenthesis that stands in no other."""
    depth, opening, found = 0, -1, (-1, -1)
    for n, c in enumerate(line):
        if c in "([":
            if depth == 0:
                opening = n
            depth += 1
        elif c in ")]":
            depth -= 1
            if depth == 0 and c == ")" and n - opening > max(1, found[1] - found[0]):
                found = (opening, n)
    return found


def _arguments(text: str) -> list[str]:
    """``text`` cut at its outer commas; those between ``lambda`` and its colon separate parameters."""
    parts, depth, parameters = [""], 0, False
    for n, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and text.startswith("lambda", n):
            parameters = True
        if depth == 0 and c == ":":
            parameters = False
        if c == "," and depth == 0 and not parameters:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]
