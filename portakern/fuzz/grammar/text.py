"""The module's text: only what the outputs need, with names as people give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from portakern.fuzz.case import ENTRY
from portakern.fuzz.grammar.scope import DIM_NAMES, Var, renamed, tokens
from portakern.ir.size import Size, Sym, names_of, substitute

_INPUTS = "xyzwuv"
_LOCALS = "abcdefghijlmnopqrst"


def live(variables: Sequence[Var], outputs: Iterable[Var]) -> list[Var]:
    """What the outputs need, in order of writing."""
    wanted = {o.number for o in outputs}
    for v in reversed(variables):
        if v.number in wanted and v.kind == "local":
            wanted.update(tokens(v.text))
    return [v for v in variables if v.number in wanted]


def render(variables: Sequence[Var], outputs: Sequence[Var], names: Mapping[int, str], dims: Mapping[str, str],
           gradient: bool = False) -> str:  # fmt: skip
    """The module that live ``variables`` make, under ``names`` of theirs and of their ``dims``; of its ``gradient``."""
    inputs = [v for kind in ("input", "scalar", "param") for v in variables if v.kind == kind]
    signature = ", ".join(f"{names[v.number]}: {_annotation(v, dims)}" for v in inputs)
    # The dim that bounds an index may be of an array that is gone.
    bounded = [v for v in inputs if v.below and names_of(v.below) <= set(dims)]
    families = [f'"{names[v.number]}": pk.Integers(0, {_dim(v.below, dims)})' for v in bounded]
    body = [v for v in variables if v.kind == "local"]
    last = ", ".join(names[v.number] for v in outputs)
    if len(outputs) == 1 and body[-1] is outputs[0]:
        last = renamed(body.pop().text, names)
    lines = [
        "import portakern as pk",
        "",
        "",
        f"@pk.operator(inputs={{{', '.join(families)}}})" if families else "@pk.operator",
        f"def {ENTRY}({signature}):",
        *(f"    {names[v.number]} = {renamed(v.text, names)}" for v in body),
        f"    return {last}",
        *(["", "", f"{ENTRY} = pk.grad({ENTRY})"] if gradient else []),
    ]
    return "\n".join(lines) + "\n"


def _annotation(v: Var, dims: Mapping[str, str]) -> str:
    if v.kind != "input":
        return v.text
    dtype = [f"pk.{'boolean' if v.text == 'bool' else v.text}"] if v.text else []
    inner = [*(_dim(s, dims) for s in v.shape), *dtype]
    return f"pk.Tensor[{', '.join(inner) or '()'}]"


def _dim(size: Size, dims: Mapping[str, str]) -> str:
    if isinstance(size, int):
        return str(size)
    return f'"{substitute(size, {old: Sym.named(new) for old, new in dims.items()})}"'


def named_dims(variables: Sequence[Var]) -> dict[str, str]:
    """Names for the dims of inputs, in order of appearance."""
    inputs = [v for v in variables if v.kind == "input"]
    found = dict.fromkeys(n for v in inputs for size in v.shape for n in sorted(names_of(size)))
    return dict(zip(found, _candidates(DIM_NAMES), strict=False))


def named(variables: Sequence[Var]) -> dict[int, str]:
    """A name for each variable by its number, those of the signature first."""
    taken = {"pk", ENTRY}
    names: dict[int, str] = {}
    for v in sorted(variables, key=lambda v: v.kind == "local"):
        pool = [v.hint] if v.hint else _LOCALS if v.kind == "local" else _INPUTS
        names[v.number] = next(n for n in _candidates(pool) if n not in taken)
        taken.add(names[v.number])
    return names


def _candidates(pool: Sequence[str]) -> Iterator[str]:
    """The names of ``pool``, then numbered ones."""
    yield from pool
    n = 2
    while True:
        yield from (f"{p}{n}" for p in pool)
        n += 1
