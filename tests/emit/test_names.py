"""Arrays may be called like what a kernel declares itself: no name means two things in one kernel."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import pytest

from portakern.fuzz.files import read
from portakern.registry import registry
from portakern.study import steps

PRODUCT = "def op({}: pk.Tensor['M', 'K'], {}: pk.Tensor['K', 'N'], {}: pk.Tensor['N']):\n    return {} @ {} + {}"
ATTENTION = ("def op({}: pk.Tensor['B', 'M', 'D'], {}: pk.Tensor['B', 'M', 'D'], {}: pk.Tensor['B', 'M', 'D']):\n"
             "    return pk.matmul(pk.softmax(pk.einsum('bmd,bnd->bmn', {}, {}), axis=-1), {})")  # fmt: skip
FORMS = {"small product": (PRODUCT, '{"M": 100, "K": 70, "N": 33}'), "product": (PRODUCT, '{"M": 4096, "K": 4096, "N": 4096}'),
         "one row": (PRODUCT, '{"M": 1, "K": 4096, "N": 4096}'), "odd product": (PRODUCT, '{"M": 4095, "K": 4090, "N": 4093}'),
         "attention": (ATTENTION, '{"B": 4, "M": 1024, "D": 64}')}  # fmt: skip
PLAIN = ("zebra", "yak", "wolf")
NO_NAMES = {"pk", "op", "op_join", "pragma", "unroll"}  # a kernel's own name may be that of an array


def kernels(form: str, target: str, names: tuple[str, ...], folder: Path) -> list[set[str]]:
    """The names in the text of each kernel, those of arrays as they are in ``PLAIN``."""
    body, dims = FORMS[form]
    text = f"import portakern as pk\n\n\n@pk.operator\n{body.format(*names, *names)}\n"
    program = read(text, f'{{"dims": {dims}, "dtype": "bf16"}}')
    (work,) = program.works(program.operator(folder), [registry().target(target)])
    code = re.sub(r'//.*|#include.*|"[^"]*"', "", steps.emit(work)[0].text)
    return [{x for x in re.findall(r"(?<![\w.:])[A-Za-z_]\w*(?!\w|::)", kernel) if not x.startswith("__")} - NO_NAMES
            for kernel in code.split("__global__")[1:]]  # fmt: skip


LONG = {("attention", "hip:gfx942"), ("attention", "cuda:sm_80"), ("odd product", "cuda:sm_80"), ("odd product", "hip:gfx942")}


@pytest.mark.parametrize(("form", "target"), [
    pytest.param(f, x, marks=[pytest.mark.slow] * ((f, x) in LONG))
    for f in FORMS for x in ("cuda:sm_90a", "cuda:sm_80", "hip:gfx942")
])  # fmt: skip
def test_an_array_may_be_called_like_what_the_kernel_declares(form: str, target: str, tmp_path: Path) -> None:
    plain = kernels(form, target, PLAIN, tmp_path)
    assert plain
    for word in sorted(set().union(*plain).difference(PLAIN)):
        place = next(n for n, name in enumerate(reversed(PLAIN)) if name not in word or n == 2)
        names = tuple(word if n == 2 - place else name for n, name in enumerate(PLAIN))
        if keyword.iskeyword(word) or "_packed" in word:  # where a copy's name is taken, nothing is copied
            continue
        made = kernels(form, target, names, tmp_path)
        assert all(len(a) >= len(b) for a, b in zip(made, plain, strict=True)), f"{word} means two things"
