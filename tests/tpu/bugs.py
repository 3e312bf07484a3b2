"""Known bugs of Pallas kernels, each planted into a correct kernel by one edit of its text, and the stage that must see it.

The correct kernels are the files in ``foreign``, one for an operator of the library.  Every stage but ``compile`` is one that
runs without a TPU: ``grid``, ``memory`` and ``races`` are told in :mod:`portakern.backends.tpu.interpret.simulator`,
``values`` is the comparison with the oracle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "foreign"

SIZES: Mapping[str, Mapping[str, int]] = {
    "matmul": {"M": 32, "N": 256, "K": 160}, "softmax": {"M": 24, "N": 300}, "cumsum": {"M": 16, "N": 384},
    "add_relu": {"M": 40, "N": 256}, "transpose": {"M": 128, "N": 256},
}  # fmt: skip
"""At which the kernels are tried: ragged where they take it, and small enough for every stage."""


@dataclass(frozen=True)
class Bug:
    """``edits`` are (old, new) in the text of ``base``; ``stage`` is what must catch it (one of several where they vie)."""

    name: str
    base: str
    edits: tuple[tuple[str, str], ...]
    stage: str
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        text = correct(self.base)
        for old, new in self.edits:
            if text.count(old) < 1:
                raise ValueError(f"{self.name}: {self.base}.py does not hold {old!r}")
            text = text.replace(old, new)
        return text

    @property
    def dims(self) -> dict[str, int]:
        return {**SIZES[self.base], **self.sizes}


def correct(base: str) -> str:
    return (FOLDER / f"{base}.py").read_text()


def bug(name: str, base: str, old: str, new: str, stage: str, **sizes: int) -> Bug:
    return Bug(name, base, ((old, new),), stage, sizes)


BUGS = (
    bug("a sum's axis declared parallel", "matmul", '"parallel", "arbitrary")', '"parallel", "parallel")', "grid"),
    Bug("a sum's axis outermost: an output block is left and come back to", "matmul", (
        ("grid=(pl.cdiv(m, BM), pl.cdiv(n, BN), pl.cdiv(k, BK))", "grid=(pl.cdiv(k, BK), pl.cdiv(m, BM), pl.cdiv(n, BN))"),
        ("lambda i, j, k: (i", "lambda k, i, j: (i"), ("lambda i, j, k: (k", "lambda k, i, j: (k"),
        ("program_id(2)", "program_id(0)"), ("num_programs(2)", "num_programs(0)"),
        ('("parallel", "parallel", "arbitrary")', '("arbitrary", "arbitrary", "arbitrary")')), "grid"),
    Bug("ragged sum, neither operand masked", "matmul", (("jnp.where(inside_x, x_ref[...], 0)", "x_ref[...]"),
                                                        ("jnp.where(inside_y, y_ref[...], 0)", "y_ref[...]")), "memory"),
    bug("ragged sum, only the left operand masked", "matmul", "jnp.where(inside_y, y_ref[...], 0)", "y_ref[...]", "memory"),
    bug("ragged sum, only the right operand masked", "matmul", "jnp.where(inside_x, x_ref[...], 0)", "x_ref[...]", "memory"),
    bug("mask one element too short", "matmul", "1) < extent", "1) < extent - 1", "values"),
    bug("accumulator in scratch never initialised", "matmul", "jnp.zeros_like(acc_ref)", "acc_ref[...]", "memory"),
    Bug("accumulator in the output, never initialised", "matmul", (
        ("acc_ref[...] = jnp.zeros_like(acc_ref)", "pass"), ("acc_ref[...] +=", "o_ref[...] +="),
        ("o_ref[...] = acc_ref[...].astype(o_ref.dtype)", "pass")), "memory"),
    bug("accumulator initialised on the wrong axis", "matmul", "@pl.when(k == 0)",
        "@pl.when((pl.program_id(1) == 0) & (k == 0))", "memory"),
    bug("result stored on the first step, not the last", "matmul", "k == pl.num_programs(2) - 1", "k == 0", "values"),
    bug("index map with its axes swapped", "matmul", "lambda i, j, k: (k, j)", "lambda i, j, k: (j, k)", "memory"),
    bug("index map in elements, not in blocks", "matmul", "lambda i, j, k: (i, k)", "lambda i, j, k: (i * BM, k)", "grid"),
    bug("partial products rounded to bf16", "matmul", "preferred_element_type=jnp.float32)",
        "preferred_element_type=jnp.float32).astype(jnp.bfloat16)", "values"),
    bug("f32 product at the default precision", "matmul", "precision=jax.lax.Precision.HIGHEST, ", "", "values"),
    bug("grid rounded down along the sum", "matmul", "pl.cdiv(k, BK))", "k // BK)", "values"),
    bug("grid rounded down along an output", "matmul", "pl.cdiv(m, BM), pl.cdiv(n", "m // BM, pl.cdiv(n", "grid", M=40),
    bug("grid one step too long", "matmul", "pl.cdiv(n, BN),", "pl.cdiv(n, BN) + 1,", "grid"),
    bug("a product in place, its input read again after it was written", "matmul", 'name="matmul"',
        'name="matmul", input_output_aliases={0: 0}', "grid", N=256, K=256, M=16),
    bug("masked with 0 where -inf is meant", "softmax", "x_ref[...].astype(jnp.float32), -jnp.inf)",
        "x_ref[...].astype(jnp.float32), 0.0)", "values"),
    bug("running sum not rescaled to the new maximum", "softmax", "sum_ref[...] * jnp.exp(top_ref[...] - top)", "sum_ref[...]",
        "values"),
    bug("running maximum starts in the first block of rows only", "softmax", "(phase == 0) & (j == 0)",
        "(pl.program_id(0) == 0) & (phase == 0) & (j == 0)", "races"),
    bug("an output's block moves in the phase that writes nothing", "softmax", "(i, phase * j)", "(i, j)", "grid"),
    bug("a running sum carried over an axis declared parallel", "cumsum", '("parallel", "arbitrary")',
        '("parallel", "parallel")', "memory"),
    bug("dynamic slice past the end of a block", "matmul", "x_ref[...]", "x_ref[pl.ds(k * 8, BM), :]", "memory"),
    bug("copy in not waited for", "add_relu", "        b_copy(n).wait()\n", "", "memory"),
    bug("copy in waited for after its use", "add_relu", "        b_copy(n).wait()\n        if n >= 2:",
        "        if n >= 1:\n            b_copy(n - 1).wait()\n        if n >= 2:", "memory"),
    bug("both slots on one semaphore", "add_relu", "arrived.at[1, n % 2]", "arrived.at[1, 0]", "memory"),
    bug("a slot filled again before it is read", "add_relu", "        b_copy(n).wait()\n        if n >= 2:",
        "        b_copy(n).wait()\n        if n + 2 < steps:\n            a_copy(n + 2).start()\n        if n >= 2:", "races"),
    bug("one slot where two are needed", "add_relu", "a_slots.at[n % 2]", "a_slots.at[0]", "memory"),
    bug("copy waited for twice", "add_relu", "        b_copy(n).wait()\n",
        "        b_copy(n).wait()\n        b_copy(n).wait()\n", "memory"),
    bug("wait on the other slot's semaphore", "add_relu", "        a_copy(n).wait()\n",
        "        pltpu.make_async_copy(a_ref.at[rows(n)], a_slots.at[n % 2], arrived.at[0, (n + 1) % 2]).wait()\n", "memory"),
    bug("last copies out not waited for", "add_relu",
        "    for n in range(max(steps - 2, 0), steps):\n        o_copy(n).wait()\n", "", "memory"),
    bug("output slot filled again while its copy leaves", "add_relu", "            o_copy(n - 2).wait()\n",
        "            pass\n", "memory"),
    bug("static slice past the end of an array", "add_relu", "pl.ds(n * ROWS, ROWS)", "pl.ds(n * ROWS + 4, ROWS)", "compile"),
    bug("prefetched scalars in the wrong order", "transpose", "lambda s, row, column: (row[s], column[s])",
        "lambda s, column, row: (row[s], column[s])", "grid"),
    bug("prefetched table one short", "transpose", "(rows.shape[0],)", "(rows.shape[0] - 1,)", "grid"),
    bug("semantics for fewer axes than the grid has", "matmul", '("parallel", "parallel", "arbitrary")',
        '("parallel", "arbitrary")', "compile"),
)  # fmt: skip
