"""What has no rule is listed before anything is emitted, all of it at once."""

from __future__ import annotations

import pytest

from portakern.backend import Target
from portakern.device import Device
from portakern.emit.clike import CLikeEmitter, Dialect
from portakern.errors import MissingRuleError
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Loc, at
from portakern.ir.program import Array, Program, verify_program
from portakern.ir.schedule import Schedule
from portakern.ir.tile import Axis, BufferType, Index, Kernel, Term
from tests import samples

pytestmark = pytest.mark.quick


class Emitter(CLikeEmitter):
    def dialect(self, target: Target) -> Dialect:
        return Dialect("a GPU")


def target(*dtypes: str) -> Target:
    return Target("gpu", Device("isa", "any", "gpu", "a GPU", dtypes, alternatives={"bf16": "f16"}))


def bad_program() -> Program:
    axes = (Axis("m", "grid", 8, 1), Axis("n", "grid", 64, 16))
    x, y = Arg("x", BufferType((8, 64), "f32")), Arg("y", BufferType((8, 64), "f32"))
    b = Builder(axes)
    with at(Loc("mine.py", 3, "y = window(x)")):
        before = b.load(x, [Index.of("m"), Index.of("n", 1, -1)])
    with at(Loc("mine.py", 4, "z = folded(x)")):
        folded = b.load(x, [Index.of("m"), Index((Term("n", 1, 4, 0),))])
    b.store(b.binary("add", before, folded), y, ["m", "n"])
    kernel = Kernel("bad", Block((x, y), b.ops), "elementwise", axes, Schedule((("m", 1), ("n", 16))))
    program = Program("bad", (Array("x", x.of, "input"), Array("y", y.of, "output")), (kernel,))  # type: ignore[arg-type]
    verify_program(program)
    return program


def test_all_at_once_with_their_lines() -> None:
    with pytest.raises(MissingRuleError) as caught:
        Emitter().emit(bad_program(), target("f32"))
    text = str(caught.value)
    assert "mine.py:3" in text and "below 0" in text and "pad the array first" in text
    assert "mine.py:4" in text and "tile n by 1" in text
    assert len(caught.value.missing) == 2


def test_a_dtype_the_device_lacks_names_the_alternative() -> None:
    missing = Emitter().missing(samples.softmax(), target("f32", "f16"))
    assert [(m.what, m.alternative) for m in missing] == [("isa has no bf16", "f16")]
    assert not Emitter().missing(samples.softmax(), target("f32", "bf16"))


def test_samples_have_every_rule() -> None:
    for name, program in samples.all_samples().items():
        assert not Emitter().missing(program, target("f32", "bf16")), name
