"""The device's side of a CUDA or HIP file: its host functions blanked, each line and column where it was.

Run-time compilers take no host functions.  What host functions launch is kept as a list, since a kernel that is a template has
code only where somebody uses an instance of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_QUIET = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(?P<tag>[^()\s\\]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
"""Comments, strings and the preprocessor's lines: nothing in them opens or ends a declaration."""

_OPENS = re.compile(r'\s*(?:inline\s+)?(?:namespace\b([^;{}()]*)|extern\s+"?\s*C?\s*"?\s*)\{')
_DEVICE = re.compile(r"\b__(?:global|device|constant|managed|shared|host)__|\bconstexpr\b|\bconsteval\b")
_TYPE = re.compile(
    r"(?:template\s*<[^{;]*>\s*(?:requires\b[^{;]*)?)?(?:typedef\s+)?(?:struct|class|union|enum|using|typedef|static_assert|concept)\b"
)
_HOST_TYPE = re.compile(r"\bstd::(?:vector|string|map|unordered_map|function|unique_ptr|shared_ptr|ostream)\b")
_LAUNCH = re.compile(r"((?:\w+\s*::\s*)*\w+\s*<[^;{}]*?>)\s*<<<")
_TEMPLATE = re.compile(r"\s*template\s*<([^;{]*?)>")
_LOCAL = re.compile(r"\b(?:constexpr|const)\s+(?:\w+\s+)+?(\w+)\s*=\s*([^;,{}]+);|\busing\s+(\w+)\s*=\s*([^;]+);")
_NAMED = re.compile(
    r"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?|namespace)\s+(\w+)|\busing\s+(\w+)\s*=|\btypedef\b[^;{]*?(\w+)\s*;"
    r"|\b(?:constexpr|const)\s+(?:\w+\s+)+?(\w+)\s*="
)
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WORDS = frozenset((
    "bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "void", "const", "true", "false",
    "half", "__half", "__half2", "__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "float2", "float4", "int2", "int4",
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "size_t", "_Float16",
    "__bf16", "__hip_bfloat16", "hip_bfloat16",
))  # fmt: skip


@dataclass(frozen=True)
class DeviceSide:
    """``text`` without its host functions; ``instances`` of templates that those launch and that are known without running
    them, by the names to ask for; ``unknown`` are the others as they are written, with their lines."""

    text: str
    instances: tuple[str, ...] = ()
    unknown: tuple[tuple[int, str], ...] = ()


def device_side(text: str) -> DeviceSide:
    """Declarations that no host compiler has to see: what is marked for the device, types and constants."""
    quiet = _QUIET.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    declared = list(_declarations(quiet, text))
    host = [(a, b, scope) for a, b, scope in declared if _of_the_host(quiet[a:b])]
    kept, plain, at = [], [], 0
    for a, b, _ in host:
        kept += [text[at:a], _blank(text[a:b])]
        plain.append(quiet[at:a])
        at = b
    device = "".join([*plain, quiet[at:]])
    instances, unknown = _instances(quiet, host, _declared(device, text))
    scopes = dict.fromkeys(s for a, b, s in declared if s and ("__global__" in quiet[a:b] or s in instances.values()))
    seen = "".join(f"\nusing namespace {scope};" for scope in scopes)  # behind the text, where instances are asked for
    return DeviceSide("".join([*kept, text[at:], seen]), tuple(instances), unknown)


def _declarations(quiet: str, text: str) -> Iterator[tuple[int, int, str]]:
    """Where each declaration outside of all functions and types begins and ends, and in which namespace."""
    at, begin = 0, 0
    scopes: list[str] = []
    while at < len(quiet):
        char, scope = quiet[at], "::".join(filter(None, scopes))
        if char == ";":
            yield begin, at + 1, scope
            begin = at + 1
        elif char == "}":  # the end of a namespace
            begin = at + 1
            scopes = scopes[:-1]
        elif char == "(":
            at = _closing(quiet, at, "()")
        elif char == "{":
            if opened := _OPENS.fullmatch(quiet, begin, at + 1) or _OPENS.fullmatch(text, begin, at + 1):
                scopes.append((opened[1] or "").strip())
                begin = at + 1
            else:
                at = _closing(quiet, at, "{}")
                after = re.compile(r"\s*;").match(quiet, at + 1)
                if _TYPE.match(quiet[begin:at].lstrip()) and not after:  # `struct { .. } name;`
                    at += 1
                    continue
                at = after.end() - 1 if after else at
                yield begin, at + 1, scope
                begin = at + 1
        at += 1


def _closing(text: str, at: int, pair: str) -> int:
    """Where the bracket at ``at`` is closed; the end of the text where it is not."""
    depth = 0
    for m in re.compile(f"[{re.escape(pair)}]").finditer(text, at):
        depth += 1 if m[0] == pair[0] else -1
        if depth == 0:
            return m.start()
    return len(text) - 1


def _of_the_host(declaration: str) -> bool:
    """A function, or a variable made by a call or of a host library's type, that nothing marks for the device."""
    words = declaration.strip()
    head = words.partition("{")[0]
    if not words or words == ";" or _DEVICE.search(head):
        return False
    if _TYPE.match(words):
        return not _DEVICE.search(words) and bool(_HOST_TYPE.search(words))
    head = head.partition("=")[0]
    return "(" in head or bool(re.search(r"\b(?:std|at|torch|c10)::|\bcuda\w+_t\b|\bdim3\b", words))


def _blank(text: str) -> str:
    """Spaces in place of all but line ends and the preprocessor's lines, which others of its lines may belong to."""
    return "".join(x if x.lstrip().startswith("#") else re.sub(r"[^\n]", " ", x) for x in text.splitlines(keepends=True))


def _instances(
    quiet: str, host: list[tuple[int, int, str]], known: set[str]
) -> tuple[dict[str, str], tuple[tuple[int, str], ...]]:
    """What is launched, with the namespace of who does, and what depends on who calls the function that launches it."""
    found: dict[str, str] = {}
    unknown: dict[tuple[int, str], None] = {}
    for a, b, scope in host:
        body = quiet[a:b]
        local = {m[1] or m[3]: _operand((m[2] or m[4]).strip()) for m in _LOCAL.finditer(body)}
        template = _TEMPLATE.match(body)
        given = set(_NAME.findall(template[1])) - _WORDS if template else set()  # by who calls the function
        for m in _LAUNCH.finditer(body):
            called, _, arguments = re.sub(r"\s+", " ", m[1]).partition("<")
            for _ in range(4):  # constants of constants
                arguments = "".join(local.get(w, w) for w in re.split(r"(\W+)", arguments))
            if set(_NAME.findall(arguments)) <= (_WORDS | known) - given:
                found[f"{called.strip()}<{arguments}"] = scope
            else:
                unknown[quiet.count("\n", 0, a + m.start()) + 1, re.sub(r"\s+", " ", m[1])] = None
    return found, tuple(unknown)


def _declared(device: str, text: str) -> set[str]:
    """Names that a template's argument may be made of: types, constants, enumerators, namespaces, macros."""
    plain = re.sub(r"\btemplate\s*<[^;{()]*?>", "", device)  # whose parameters are no types that one can name
    found = {name for groups in _NAMED.findall(plain) for name in groups if name}
    for body in re.findall(r"\benum\b[^;{]*\{([^}]*)\}", device):
        found |= set(re.findall(r"\w+", body))
    return found | set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE))


def _operand(text: str) -> str:
    return f"({text})" if re.search(r"[-+/%?|]|\w\s*\*\s*\w", text) else text
