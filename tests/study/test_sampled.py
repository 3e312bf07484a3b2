"""Checking large sizes by parts: the smaller program gives the same numbers, and what is wrong anywhere is seen."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

import portakern as pk
from portakern.check import sampled
from portakern.check.restrict import cut, restrict
from portakern.check.sampled import affordable, check_sampled, parts_of, program_reference
from portakern.dtypes import numpy_dtype
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, Yield
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type
from portakern.registry import registry
from portakern.spec.inputs import make_inputs
from portakern.spec.load import library, load_operator
from portakern.study.reference import _Held, reference_for
from portakern.study.work import Problem, Work, of_case, works
from portakern.timing.inputs import HostPlace, TorchPlace

TARGETS = [registry().target("numba:cpu")]


def work_of(op, **dims: int) -> Work:
    (made,) = works(Problem(op, dims, {}), TARGETS, ["f32"])
    return made


@pk.operator
def odd_one(x: pk.Tensor["M", "N"], w: pk.Tensor["N"]):
    """Views, a window of a slice, flips, pads and joins: everything that moves indices."""
    y = pk.concat([x[:, 1:], pk.flip(x, axis=1)[:, :1]], axis=1)
    z = pk.pad(y[::2, ::3], [(0, 0), (1, 2)])
    return pk.sum(z, axis=1), (x * w).reshape((x.shape[0], x.shape[1] // 2, 2)), pk.swapaxes(x, 0, 1)


@pk.operator
def windowed(x: pk.Tensor["B", "H", "W", 4], w: pk.Tensor[3, 2, 4, 6], g: pk.Tensor[2, 3, 2, 4]):
    """Windows of every kind: strides, pads on one side, dilation, groups; convolutions that go the other way."""
    y = pk.conv(x, w, stride=(2, 1), padding=((1, 0), (0, 2)), dilation=(1, 2))
    z = pk.conv(x, g, padding=((2, 2), (3, 0)), groups=2)
    back = pk.conv(x, w, stride=(2, 3), padding=((1, 0), (0, 1)), dilation=(1, 2), transposed=True)
    sparse = pk.conv(x, w[:1, :1], stride=3, transposed=True)
    p = pk.max_pool(x, (3, 2), stride=(2, 3), padding=1)
    return y, z, back, sparse, p, pk.avg_pool(x, 2, stride=1, padding=1), pk.sum(pk.windows(x, 3, 1, stride=2), axis=-1)


CASES = [works(of_case(op, case), TARGETS, [op.dtypes[0]])[0] for op in library() for case in op.cases]
CASES.append(work_of(odd_one, M=10, N=12))
CASES += [work_of(windowed, B=2, H=h, W=w) for h, w in ((5, 7), (9, 4), (12, 13))]


SLOW = {"lstm"}


@pytest.mark.parametrize("work", [
    pytest.param(w, id=f"{w.row.operator}-{n}", marks=[pytest.mark.slow] * (w.row.operator in SLOW))
    for n, w in enumerate(CASES)
])  # fmt: skip
def test_a_part_is_that_part_of_the_whole(work: Work):
    rng = random.Random(0)
    inputs = make_inputs(work.program, work.families, 0)
    for name, whole in oracle.evaluate(work.program, inputs).items():
        for _ in range(3):
            corners = [sorted((rng.randint(0, n), rng.randint(0, n))) for n in whole.shape]
            box = tuple((a, b) for a, b in corners)
            part = restrict(work.program, name, box)
            few = {n: cut(x, part.inputs[n]) for n, x in inputs.items()}
            np.testing.assert_allclose(oracle.evaluate(part.program, few)[name], cut(whole, box), rtol=1e-12)


def test_parts_are_affordable_and_hold_both_ends():
    for name, dims in (("softmax", {"M": 8192, "N": 8192}), ("matmul", {"M": 8192, "N": 8192, "K": 8192}),
                       ("transpose", {"M": 8192, "N": 8192})):  # fmt: skip
        program = work_of(load_operator(name), **dims).program
        assert not affordable(program)
        found = parts_of(program, "out")
        assert found is not None and 2 <= len(found) <= sampled.PARTS
        shape = static(tensor_type(program.results[0]).shape)
        assert found[0].box[0][0] == 0 and found[1].box[-1][1] == shape[-1] and found[1].box[0][1] == shape[0]
        for part in found:
            values = (*part.program.args, *part.program.results)
            assert sum(int(np.prod(static(tensor_type(v).shape))) for v in values) <= sampled.PART_ELEMENTS[-1]


RESHAPES = (((12, 5), (3, 4, 5)), ((3, 4, 5), (12, 5)), ((6, 4), (4, 6)), ((2, 3, 4), (2, 12)), ((24,), (2, 3, 4)),
            ((4, 1, 5), (4, 5)), ((8, 4, 1), (1, 8, 2, 2)), ((1, 7), (7,)), ((2, 3, 4, 5), (6, 20)),
            ((3, 0), (0, 5)))  # fmt: skip


@pytest.mark.parametrize(("before", "after"), RESHAPES)
def test_a_part_of_a_reshape_is_made_of_a_part(before: tuple[int, ...], after: tuple[int, ...]):
    x = Arg("x", TensorType(before, "f32"))
    y = t.Reshape(t.Map("neg", (x,)), after)
    program = TensorProgram("f", Block((x,), (y.x, y, Yield((y,)))), ("out",))
    given = {"x": np.arange(float(np.prod(before)), dtype=np.float32).reshape(before)}
    (whole,) = oracle.evaluate(program, given).values()
    for box in itertools.product(*([(a, b) for a in range(n + 1) for b in range(a, n + 1)] for n in after)):
        part = restrict(program, "out", box)
        few = {"x": cut(given["x"], part.inputs["x"])}
        np.testing.assert_array_equal(oracle.evaluate(part.program, few)["out"], cut(whole, box))


def test_of_rows_that_were_joined_a_part_reads_few():
    @pk.operator
    def product(x: pk.Tensor["B", "M", "K"], w: pk.Tensor["K", "N"]):
        b, m, k = x.shape
        return pk.reshape(pk.reshape(x, (b * m, k)) @ w, (b, m, w.shape[1]))

    part = restrict(work_of(product, B=4, M=8, K=5, N=6).program, "out", [(1, 2), (3, 7), (0, 2)])
    assert part.inputs == {"x": ((1, 2), (3, 7), (0, 5)), "w": ((0, 5), (0, 2))}


def test_what_sums_over_everything_cannot_be_cut():
    @pk.operator
    def total(x: pk.Tensor["M", "N"]):
        return pk.sum(x, axis=(0, 1))

    assert parts_of(work_of(total, M=4000, N=4000).program, "out") is None


class Executable:
    """Runs numpy, then spoils the output."""

    guards = True

    def __init__(self, work: Work, spoil=lambda out: None) -> None:
        self.work, self.spoil = work, spoil

    def run(self, buffers, sizes) -> None:
        found = oracle.evaluate(self.work.program, {a.name: buffers[a.name].array for a in self.work.program.args})
        out = found["out"].astype(numpy_dtype("f32"))
        self.spoil(out)
        buffers["out"].array[...] = out


def one_row(out: np.ndarray) -> None:
    out[333] += 0.5


@pytest.mark.parametrize(("spoil", "says"), [
    (lambda out: None, ""),
    (one_row, "whole: out, against"),
    (lambda out: out.__setitem__((-1, -1), out[-1, -1] * 1.0001), "1 element"),
    (lambda out: out.__setitem__((0, 3), np.nan), "part"),
    (lambda out: out.fill(0), "part"),
], ids=["right", "a row between the parts", "the last element", "a nan", "zeros"])
def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch, spoil, says: str):
    monkeypatch.setattr(sampled, "PART_ELEMENTS", (1 << 10, 1 << 10))
    work = work_of(load_operator("softmax"), M=500, N=100)
    reference = program_reference(work.program, np.asarray, np.asarray, "numpy", "numpy")
    found = check_sampled(Executable(work, spoil), work.program, families=work.families, reference=reference)  # type: ignore[arg-type]
    assert found is not None
    assert found.verdict.correct == (not says) and says in found.verdict.message
    assert found.verdict.stages == ("parts", "whole", "repeat") and "float64 oracle" in found.method


@pk.operator
def mean_of_normalised(x: pk.Tensor["M", "N"]):
    d = x - pk.mean(x, axis=1, keepdims=True)
    return pk.mean(d * pk.rsqrt(pk.mean(d * d, axis=1, keepdims=True) + 1e-5), axis=1)


@pytest.mark.parametrize(("offset", "right"), [(0.0, True), (3e-5, False)])
def test_results_that_are_rounding_alone_differ_by_that(monkeypatch: pytest.MonkeyPatch, offset: float, right: bool):
    monkeypatch.setattr(sampled, "PART_ELEMENTS", (1 << 10, 1 << 10))
    work = work_of(mean_of_normalised, M=500, N=300)

    def moved(out: np.ndarray) -> None:
        out[250:260] += offset

    reference = program_reference(work.program, np.asarray, np.asarray, "numpy", "numpy")
    found = check_sampled(Executable(work, moved), work.program, families=work.families, reference=reference)  # type: ignore[arg-type]
    assert found is not None and found.verdict.correct == right, found


def test_few_arrays_with_many_pairs_are_not_checked_in_full():
    """All pairs of 4096 points: 12,000 numbers in and out, 200 million between."""
    @pk.operator
    def pairs(p: pk.Tensor["N", 3]):
        d = p[None, :, :] - p[:, None, :]
        return pk.sum(d / (pk.sum(d * d, axis=-1) + 1.0)[:, :, None], axis=1)

    program = work_of(pairs, N=4096).program
    assert not affordable(program) and affordable(work_of(pairs, N=256).program)
    assert parts_of(program, "out"), "a few points beside all others"


def test_a_part_that_reads_much_stands_alone():
    @pk.operator
    def rows(x: pk.Tensor["M", "N"]):
        return pk.sum(x, axis=1)

    found = parts_of(work_of(rows, M=4, N=1 << 23).program, "out")
    assert found is not None and [p.box for p in found] == [((3, 4),)]


@pytest.mark.parametrize(("samples", "large"), [(20, True), (8, False)])
def test_of_networks_that_are_much_work_one_part_is_some_of_the_samples(samples: int, large: bool):
    """One sample alone is more than what parts mostly compute; as few as the second are checked in full."""

    @pk.operator
    def network(x: pk.Tensor["B", "M", "K"], w: pk.Tensor["K", "N"]):
        return pk.sum(pk.relu(x @ w), axis=(1, 2))

    program = work_of(network, B=samples, M=4096, K=256, N=512).program
    assert parts_of(program, "out") is None
    found = sampled._large_part(program, "out", 0)
    assert (found is not None) == large
    assert found is None or [hi - lo for p in found for lo, hi in p.box] == [3]


def test_where_no_part_is_small_enough_every_element_is_compared_and_that_is_said(monkeypatch: pytest.MonkeyPatch):
    @pk.operator
    def total(x: pk.Tensor["M", "N"]):
        return pk.sum(x * x, axis=(0, 1), keepdims=True)

    monkeypatch.setattr(sampled, "PART_ELEMENTS", (1 << 10, 1 << 10))
    work = work_of(total, M=500, N=100)
    reference = program_reference(work.program, np.asarray, np.asarray, "numpy", "numpy")

    def check(spoil):
        return check_sampled(Executable(work, spoil), work.program, families=work.families, reference=reference)  # type: ignore[arg-type]

    assert check(lambda out: None) is None, "the full check ends soon enough"
    monkeypatch.setattr(sampled, "FULL_VALUES", 1 << 10)
    assert check(lambda out: None) is not None, "what the oracle would hold on the way is too large"
    monkeypatch.setattr(sampled, "FULL_ELEMENTS", 1 << 10)
    right, wrong = check(lambda out: None), check(lambda out: out.__imul__(1.01))
    assert right is not None and right.verdict.correct and "nothing held against the float64 oracle" in right.method
    assert wrong is not None and not wrong.verdict.correct and "whole" in wrong.verdict.message


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1 + 2e-7, True), (1.001, False)])
def test_what_has_no_parts_is_held_against_float64(monkeypatch: pytest.MonkeyPatch, factor: float, right: bool):
    """A thousandth is less than two ways to compute in f32 may differ by, tf32 among them."""

    @pk.operator
    def total(x: pk.Tensor["M", "N"]):
        return pk.sum(x * x, axis=(0, 1), keepdims=True)

    for name in ("PART_ELEMENTS", "FULL_ELEMENTS"):
        monkeypatch.setattr(sampled, name, (1 << 10, 1 << 10) if name == "PART_ELEMENTS" else 1 << 10)
    work = work_of(total, M=500, N=100)
    reference = program_reference(work.program, np.asarray, np.asarray, "numpy", "numpy")
    kernel: Any = Executable(work, lambda out: out.__imul__(factor))
    found = check_sampled(kernel, work.program, families=work.families, reference=reference)
    assert found is not None and found.verdict.correct == right, found
    assert "float64" in found.verdict.stages and "and in float64 (off by at most" in found.method
    assert right or "float64" in found.verdict.message
    without = check_sampled(kernel, work.program, families=work.families, reference=replace(reference, exact=lambda _: None))
    assert without is not None and "), not in float64, guard bands" in without.method and without.verdict.correct


@pk.operator
def nearest(x: pk.Tensor["M", "D"], codes: pk.Tensor["K", "D"]):
    """The code that each row is nearest to; many are nearly as near."""
    found = pk.argmin(pk.sum(codes * codes, axis=1) - 2.0 * (x @ codes.T), axis=1)
    return pk.take(codes, found, axis=0), found


@pytest.mark.parametrize("wrong", ["", "codes", "places"])
def test_what_chooses_between_what_is_nearly_equal_is_held_against_no_roundings(monkeypatch: pytest.MonkeyPatch, wrong: str):
    """A kernel that rounds less than a library chooses otherwise; a tile of other codes between the parts is a fault."""
    monkeypatch.setattr(sampled, "PART_ELEMENTS", (1 << 11, 1 << 11))
    (work,) = works(Problem(nearest, {"M": 2000, "D": 8, "K": 200}, {}), TARGETS, ["bf16"])
    reference = program_reference(work.program, np.asarray, np.asarray, "numpy", "numpy")

    class Kernel:
        guards = True

        def run(self, buffers, sizes) -> None:
            given = {a.name: buffers[a.name].array for a in work.program.args}
            found = oracle.evaluate(work.program, given)
            codes, places = found["out0"].astype(numpy_dtype("bf16")), found["out1"].astype(np.int32)
            if wrong == "codes":
                codes[1000:1064] = codes[:64]
            if wrong == "places":
                places[1000:1064] = places[:64]
            buffers["out0"].array[...], buffers["out1"].array[...] = codes, places

    theirs = reference.compute(make_inputs(work.program, work.families, 0))
    exact = oracle.evaluate(work.program, make_inputs(work.program, work.families, 0))
    assert (np.asarray(theirs[1]) != exact["out1"]).sum() > 4, "the case has lost what it is about"
    found = check_sampled(Kernel(), work.program, families=work.families, reference=reference)  # type: ignore[arg-type]
    assert found is not None and found.verdict.correct == (not wrong), found
    if wrong:
        assert "whole: " in found.verdict.message and "float64" in found.verdict.message
    else:
        assert "out0, out1 as near as that to the program without roundings" in found.method
        bare = check_sampled(Kernel(), work.program, families=work.families,  # type: ignore[arg-type]
                             reference=replace(reference, unrounded=None))  # fmt: skip
        assert bare is not None and not bare.verdict.correct, "nothing else decides"


def test_the_reference_computes_as_precisely_as_the_program_says_and_on_the_host_where_a_device_lacks_room(
    monkeypatch: pytest.MonkeyPatch,
):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    work = work_of(load_operator("softmax"), M=5, N=7)
    found = reference_for(work, registry().target("cpp:cpu"))
    x = np.ones((5, 7), np.float32)
    seen: list[bool] = []
    first = found.compute

    def full(inputs):
        seen.append(torch.backends.cudnn.allow_tf32)
        if len(seen) == 1:
            raise torch.OutOfMemoryError("no room")
        return first(inputs)

    with found.place():
        held = _Held(HostPlace())
        (result,) = held.computed(replace(found, compute=full), {"x": x})
    assert seen == [False, False] and torch.backends.cudnn.allow_tf32, "as it was"
    assert isinstance(held.place, TorchPlace) and found.back(result).shape == (5, 7)
