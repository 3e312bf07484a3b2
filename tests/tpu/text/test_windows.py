"""Convolutions, pooling and arrays in pieces as Pallas: what is written, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import portakern as pk
from portakern.errors import MissingRuleError
from portakern.study import steps
from portakern.study.work import Problem, works
from tests.lower import windowed_operators as operators
from tests.tpu.helpers import target

pytestmark = pytest.mark.quick

IMAGE = {"N": 8, "H": 28, "W": 28, "C": 128}


def text(operator, sizes: dict[str, int], dtype: str = "bf16", device: str = "v6e", **schedule: int) -> str:
    (work,) = works(Problem(operator, sizes, {}), [target(device)], [dtype], schedule or None)
    return steps.emit(work)[0].text


@pytest.mark.parametrize(("name", "operator", "sizes"), [
    ("conv2d", operators.conv2d, {**IMAGE, "O": 256}),
    ("strided_bias_relu", operators.strided_bias_relu, {**IMAGE, "O": 256}),
    ("max_and_mean", operators.pooled, IMAGE),
    ("transposed", operators.transposed, {"N": 2, "H": 9, "W": 7, "C": 6, "O": 10}),
    ("joined", operators.joined, {"M": 5, "N": 19, "K": 7}),
    ("framed", operators.framed, {"M": 5, "N": 19}),
])  # fmt: skip
def test_golden(name: str, operator, sizes: dict[str, int], golden: Callable[[str, str], None]) -> None:
    found = text(operator, sizes)
    assert max(map(len, found.splitlines())) <= 120
    golden(f"{name}.py", found)


def test_images_that_do_not_fit_are_read_in_overlapping_blocks() -> None:
    found = text(operators.conv2d, {"N": 1, "H": 1024, "W": 512, "C": 64, "O": 64})
    rows = 4096 // 512
    assert f"pl.Element({rows + 2})" in found and f"{rows} * i_oh" in found


def test_the_host_pads_what_the_last_block_lacks() -> None:
    found = text(operators.conv_then_pool, {"N": 1, "H": 12, "W": 9, "C": 8, "O": 16}, rows=4)
    assert "jnp.pad(x, ((0, 0), (0, 2), (0, 0), (0, 0)))" in found


def test_rows_that_begin_inside_a_native_tile_are_refused() -> None:
    sizes = {"N": 1, "H": 12, "W": 40, "C": 8, "O": 16}
    assert "pl.Element(48)" in text(operators.conv2d, sizes, ow=32)
    with pytest.raises(MissingRuleError, match="begin inside a native tile"):
        text(operators.conv2d, sizes, ow=8)


def test_open_sizes_are_compiled_for_what_windows_leave_something_of() -> None:
    """libtpu ends its process where a dim is -1."""
    @pk.operator
    def op(x: pk.Tensor["N", "H", "W", 3], w: pk.Tensor[3, 3, 3, 3]):
        return pk.conv(x, w)

    (work,) = works(Problem(op, {"N": 144, "H": 15, "W": pk.dynamic}, {}), [target("v6e")], ["f32"])
    assert dict(dict(steps.emit(work)[0].options)["typical"]) == {"W": 4}  # the least power of two above 3 - 1
