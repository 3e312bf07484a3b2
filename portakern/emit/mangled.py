"""The names that C++ compilers give to kernels, read back: ``_Z10gemm_tiledIfLi32EEvPKT_S2_PS0_`` is ``gemm_tiled<float, 32>``.

As much of the Itanium C++ ABI (5.1, "Mangling") as names of kernels and their template arguments commonly take.  Of a template
argument that is not read, dots are left.
"""

from __future__ import annotations

import re

_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short", "t": "unsigned short",
    "i": "int", "j": "unsigned", "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long", "f": "float",
    "d": "double", "DF16_": "_Float16", "DF16b": "__bf16", "Dh": "half",
}  # fmt: skip
_AROUND = {"P": "{}*", "R": "{}&", "O": "{}&&", "K": "const {}", "V": "volatile {}"}
_ANONYMOUS = "_GLOBAL__N_1"


def readable(symbol: str) -> str:
    """The name in the text, with its namespaces and template arguments; ``symbol`` itself where it is none of C++'s."""
    if not symbol.startswith("_Z"):
        return symbol
    try:
        name, _ = _name(symbol[2:])
    except _Unread:
        return symbol
    return name


def is_called(symbol: str, name: str) -> bool:
    """Whether somebody who writes ``name`` means ``symbol``: with or without its namespaces and template arguments."""
    have, want = (re.sub(r"\s+", "", x) for x in (readable(symbol), name))
    plain = re.sub(r"<.*>", "", have)
    return want in (symbol, have, plain, plain.rpartition("::")[2], have[len(plain.rpartition("::")[0]) :].lstrip(":"))


class _Unread(Exception):
    """What the ABI allows and is not read here."""


def _name(text: str) -> tuple[str, str]:
    """A name at the beginning of ``text``, and the rest."""
    if not text.startswith("N"):
        return _simple(text)
    rest, parts = text[1:].lstrip("KVr"), []
    while rest and not rest.startswith("E"):
        part, rest = _simple(rest)
        parts.append(part)
    return "::".join(parts), rest[1:]


def _simple(text: str) -> tuple[str, str]:
    match = re.match(r"\d+", text)
    if match is None:
        raise _Unread
    begin, size = match.end(), int(match[0])
    name, rest = text[begin : begin + size], text[begin + size :]
    name = "(anonymous namespace)" if name == _ANONYMOUS else name
    if not rest.startswith("I"):
        return name, rest
    try:
        args, rest = _arguments(rest[1:])
    except _Unread:
        return f"{name}<...>", ""
    return f"{name}<{', '.join(args)}>", rest


def _arguments(text: str) -> tuple[list[str], str]:
    found: list[str] = []
    while not text.startswith("E"):
        if not text:
            raise _Unread
        if text.startswith("J"):  # a pack
            several, text = _arguments(text[1:])
            found += several
            continue
        one, text = _literal(text[1:]) if text.startswith("L") else _type(text)
        found.append(one)
    return found, text[1:]


def _literal(text: str) -> tuple[str, str]:
    kind, rest = _type(text)
    match = re.match(r"(n?)(\d+)E", rest)
    if match is None:
        raise _Unread
    value = f"{'-' if match[1] else ''}{match[2]}"
    named = {"bool": {"0": "false", "1": "true"}.get(value, value)}
    plain = value if kind in _BUILTIN.values() else f"({kind}){value}"
    return named.get(kind, plain), rest[match.end() :]


def _type(text: str) -> tuple[str, str]:
    for code in (text[:5], text[:2], text[:1]):
        if code in _BUILTIN:
            return _BUILTIN[code], text[len(code) :]
    if text[:1] in _AROUND:
        inner, rest = _type(text[1:])
        return _AROUND[text[0]].format(inner), rest
    return _name(text)
