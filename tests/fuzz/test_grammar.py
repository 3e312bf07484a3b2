"""What the grammar makes is an operator that traces, reaches every production, stays small, and shrinks to a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider

from portakern.fuzz.case import ENTRY, FuzzCase
from portakern.fuzz.drawing import choices_from
from portakern.fuzz.grammar import FEATURES, cases
from portakern.fuzz.grammar import program as programs
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import Refused, Var
from portakern.fuzz.grammar.sizes import LARGE, MOST_ELEMENTS, MOST_PRODUCTS, Budget
from portakern.fuzz.grammar.text import render
from portakern.ir.core import Arg
from portakern.ir.size import evaluate
from portakern.ir.tensor import TensorProgram, TensorType
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from portakern.spec.traced import Traced

SEARCH = settings(max_examples=3000, derandomize=True, database=None, phases=[Phase.generate, Phase.shrink],
                  suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip


@pytest.fixture(autouse=True)
def _drawn_by_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis also takes numbers out of the text of modules, which are others where others are loaded."""
    monkeypatch.setattr(HypothesisProvider, "_maybe_draw_constant", lambda self, *args, **named: None)


def drawn(seed: int, weights: dict[str, float] | None = None) -> FuzzCase:
    return choices_from(seed).draw(cases(weights))


@pytest.fixture(scope="module")
def many() -> list[FuzzCase]:
    return [drawn(seed) for seed in range(220)]


def program_of(case: FuzzCase, folder: Path) -> TensorProgram:
    file = folder / "made.py"
    file.write_text(case.text)
    operator = load_operator(f"{file}:{ENTRY}")
    opened = {d: dynamic if d in case.open_dims else n for d, n in case.dims.items()}
    return operator.program(opened, case.params, case.dtype)


def test_every_program_traces(many: list[FuzzCase], tmp_path: Path) -> None:
    for number, case in enumerate(many[100:200]):  # the first 100 are traced below
        folder = tmp_path / str(number)
        folder.mkdir()
        assert set(program_of(case, folder).dims) <= case.open_dims


def test_the_same_draws_give_the_same_text(many: list[FuzzCase]) -> None:
    for seed in range(20):
        assert drawn(seed) == many[seed]


def test_programs_differ(many: list[FuzzCase]) -> None:
    assert len({c.text for c in many}) > 0.95 * len(many)


def not_reached(drawn: list[FuzzCase]) -> set[str]:
    reached = {f for c in drawn for f in c.features}
    assert reached <= set(FEATURES)
    return set(FEATURES) - reached - {f for f in FEATURES if "f8" in f} - {"to_f64"}


def test_features_are_named_and_most_are_reached(many: list[FuzzCase]) -> None:
    assert len(not_reached(many)) <= len(FEATURES) // 3


@pytest.mark.slow
def test_features_are_reached() -> None:
    assert len(not_reached([drawn(seed) for seed in range(750)])) <= len(FEATURES) // 12


@pytest.mark.quick
def test_programs_are_small(many: list[FuzzCase], tmp_path: Path) -> None:
    for number, case in enumerate(many[:100]):
        folder = tmp_path / str(number)
        folder.mkdir()
        forward = case.text.partition("\n\nop = pk.grad(op)")[0]  # a gradient is as large as its operator has it
        program = program_of(FuzzCase(forward, case.dims, case.dtype, params=case.params), folder)
        budget = Budget.of((*program.args, *program.body.ops[:-1]))
        scale = LARGE if "large" in case.features else 1
        assert all(evaluate(n, {}) <= MOST_ELEMENTS * scale for n in budget.elements)
        assert all(evaluate(n, {}) <= MOST_PRODUCTS * scale for n in budget.products)


def test_the_language_takes_nearly_all_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[Refused] = []
    total = 0
    live = programs.live

    def spying(variables, outputs):  # type: ignore[no-untyped-def]
        nonlocal total
        total += sum(v.kind == "local" for v in variables)
        return live(variables, outputs)

    made = programs.FuzzScope

    def scope(*args, **kwargs):  # type: ignore[no-untyped-def]
        found = made(*args, **kwargs)
        found.refused = refused
        return found

    monkeypatch.setattr(programs, "live", spying)
    monkeypatch.setattr(programs, "FuzzScope", scope)
    for seed in range(150):
        drawn(seed)
    assert total > 400
    assert sum(r.language for r in refused) < 0.01 * total, [str(r) for r in refused if r.language]


@pytest.mark.quick
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_weights_steer(dtype: str) -> None:
    weights = dict.fromkeys(FEATURES, 0.0) | {dtype: 1.0, "einsum": 1.0}
    for seed in range(20):
        assert drawn(seed, weights).features - {"unit_dim"} == {dtype, "einsum"}


# ---- shrinking ----------------------------------------------------------------------------------------------------------


def body(case: FuzzCase) -> list[str]:
    return [line for line in case.text.splitlines() if line.startswith("    ")]


def test_an_array_without_dims_is_spelled_as_python(tmp_path: Path) -> None:
    number = Traced(Arg("x", TensorType((), "f32")))
    x = Var(0, "input", number, Range(0, 1))
    y = Var(1, "local", number, Range(-1, 0), text=f"-{x}")
    text = render([x, y], [y], {0: "x", 1: "a"}, {})
    assert "x: pk.Tensor[()]" in text
    assert program_of(FuzzCase(text, {}, "f32"), tmp_path).args[0].type == TensorType((), "f32")


@pytest.mark.slow
def test_a_finding_ends_as_a_few_lines() -> None:
    """Also where it was found in the middle of a pattern, such as attention."""
    case = find(cases({"gram_rows": 10.0}), lambda c: "gram_rows" in c.features and c.dims.get("M", 0) >= 17, settings=SEARCH)
    assert len(body(case)) == 1, case.text
    assert max(case.dims.values()) == 17
    assert not case.open_dims
