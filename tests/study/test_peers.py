"""Peers: what an operator declares, what is compared before it is timed."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import portakern as pk
from portakern.check.agreement import agreement
from portakern.errors import PortakernError, UsageError
from portakern.ir import oracle
from portakern.registry import registry
from portakern.spec.inputs import make_inputs
from portakern.spec.load import library, load_operator
from portakern.study.work import Problem, Work, of_case, works
from portakern.timing import peers
from portakern.timing.inputs import from_numpy

torch = pytest.importorskip("torch")

TARGETS = [registry().target("numba:cpu")]


def work_of(op, case=None, dtype: str = "f32", **dims) -> Work:
    ask = of_case(op, case) if case is not None else Problem(op, dims, {})
    (made,) = works(ask, TARGETS, [dtype])
    return made


def subject_of(work: Work) -> peers.Subject:
    return peers.Subject(work.program, work.torch, work.row.params or {})


def as_torch(inputs):
    return [from_numpy(x) if x.ndim else x.item() for x in inputs.values()]


PLAIN = ("typical", "ragged", "transposed")
DECLARED = [(op, case) for op in library() for case in op.cases if op.torch and case.name in PLAIN]


@pytest.mark.parametrize(("op", "case"), DECLARED, ids=[f"{o.name}-{c.name}" for o, c in DECLARED])
def test_what_an_operator_declares_for_torch_is_the_same_computation(op, case):
    work = work_of(op, case, "f32")
    inputs = make_inputs(work.program, work.families, 0)
    peer = peers.find("torch.eager", subject_of(work))
    assert peer.form == op.torch
    results = peers.host_outputs(peer.call(*as_torch(inputs)))
    for want, have in zip(oracle.evaluate(work.program, inputs).values(), results, strict=True):
        assert not agreement(want, have, subject_of(work).dtypes).message


@pk.operator
def several(x: pk.Tensor["M", "N"], i: pk.Tensor["M", pk.i32], alpha: pk.Scalar[pk.f32]):
    picked = pk.where(pk.tri(x.shape[0], x.shape[1]), x * alpha, -1.0)
    return pk.cumsum(picked, axis=1, exclusive=True), pk.take_along(x, i[:, None] % 7, axis=-1, fill=9.0), pk.argmax(x, axis=1)


def test_an_operator_without_a_declaration_is_run_as_it_is_traced():
    work = work_of(several, None, "f32", M=4, N=5)
    subject = subject_of(work)
    inputs = make_inputs(work.program, work.families, 0)
    want = oracle.evaluate(work.program, inputs)
    for name, given in (("numpy", [x if x.ndim else x.item() for x in inputs.values()]), ("torch.eager", as_torch(inputs))):
        peer = peers.find(name, subject)
        assert peer.form == "the traced program"
        for w, have in zip(want.values(), peers.host_outputs(peer.call(*given)), strict=True):
            assert not agreement(w.astype(have.dtype), have, subject.dtypes).message


def test_torch_compile_says_its_mode_and_seconds(monkeypatch: pytest.MonkeyPatch):
    asked = {}

    def compile_stand_in(call, **options):
        asked.update(options)
        return call

    monkeypatch.setattr(torch, "compile", compile_stand_in)
    for name, mode in (("softmax", "default"), ("matmul", "max-autotune-no-cudagraphs")):
        op = next(o for o in library() if o.name == name)
        work = work_of(op, next(c for c in op.cases if c.name == "tiny"))
        subject = subject_of(work)
        peer = peers.compiled(peers.find("torch.compile", subject), subject, as_torch(make_inputs(work.program)))
        assert (peer.mode, asked["mode"], asked["dynamic"]) == (mode, mode, False)
        assert peer.compile_s is not None and peer.to_dict()["compile_s"] == peer.compile_s


@pytest.mark.parametrize(("text", "says"), [
    ("F.softmax(x, ", "neither module:name nor an expression"), ("torch:no_such_function", "no function")])
def test_a_declaration_that_is_wrong(text: str, says: str):
    work = work_of(next(o for o in library() if o.name == "softmax"), None, M=3, N=4)
    with pytest.raises(PortakernError, match=says):
        peers.find("torch.eager", peers.Subject(work.program, text, {}))


def test_names(tmp_path: Path):
    peers.check_names(["numpy", "torch.eager", "torch.compile"])
    with pytest.raises(UsageError, match="unknown peer"):
        peers.check_names(["jax"])
    with pytest.raises(UsageError, match="there is no file"):
        peers.check_names([f"{tmp_path}/none.py:f"])
    (tmp_path / "mine.py").write_text("import torch\n\ndef f(x):\n    return x\n\nraise_here = 1\n")
    work = work_of(next(o for o in library() if o.name == "softmax"), None, M=3, N=4)
    assert peers.find(f"{tmp_path}/mine.py:f", subject_of(work)).library == "torch"
    with pytest.raises(PortakernError, match="has no function"):
        peers.find(f"{tmp_path}/mine.py:g", subject_of(work))


@pytest.mark.parametrize(("ours", "theirs", "same"), [
    ([1.0, 2.0], [1.0, 2.0], True), ([1.0, 2.0], [1.0, 2.0005], True), ([1.0, 2.0], [1.0, 2.1], False),
    ([np.nan, 2.0], [np.nan, 2.0], True), ([np.nan, 2.0], [1.0, 2.0], False), ([np.inf, 1.0], [np.inf, 1.0], True),
    ([np.inf, 1.0], [-np.inf, 1.0], False), ([1e-9, 100.0], [0.0, 100.0], True), ([0.0, 0.0], [0.0, 0.0], True),
    ([0.0, 1.0], [1.0, 0.0], False)])  # fmt: skip
def test_agreement(ours: list[float], theirs: list[float], same: bool):
    found = agreement(np.array(ours, np.float32), np.array(theirs, np.float32), ("f32",))
    assert (found.message == "") == same


def test_whole_numbers_must_be_equal_and_shapes_too():
    assert "1 of 3" in agreement(np.array([1, 2, 3]), np.array([1, 2, 4]), ("i32",)).message
    assert "shape" in agreement(np.zeros((2, 3)), np.zeros((3, 2)), ("f32",)).message


def test_compiled_peers_are_kept_until_pytorch_forgets_them(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    monkeypatch.setattr(torch, "compile", lambda f, **how: asked.append(how["mode"]) or f)
    peers.fresh_compiler()
    subject = peers.Subject(load_operator("softmax").program({"M": 4, "N": 8}, {}, "f32"))
    other = peers.Subject(load_operator("softmax").program({"M": 5, "N": 8}, {}, "f32"))
    peer = peers.Peer("torch.compile", "torch", lambda x: x, "F.softmax(x, -1)")
    x = torch.ones(4, 8)
    first = peers.compiled(peer, subject, [x])
    assert peers.compiled(peer, subject, [torch.zeros(4, 8)]) == first and len(asked) == 1
    peers.compiled(peer, other, [torch.ones(5, 8)])
    peers.compiled(peer, subject, [x.t().contiguous().t()])
    assert len(asked) == 3
    peers.fresh_compiler()
    peers.compiled(peer, subject, [x])
    assert len(asked) == 4


def test_the_library_of_peers_is_imported_beside_what_comes_before(monkeypatch: pytest.MonkeyPatch):
    """And waited for where a peer is looked for."""
    imported: list[str] = []
    may_end = threading.Event()
    subject = peers.Subject(load_operator("softmax").program({"M": 4, "N": 8}, {}, "f32"))
    monkeypatch.setattr(peers, "_importing", None)
    monkeypatch.setattr(peers.importlib, "import_module", lambda name: may_end.wait(10) and imported.append(name))
    peers.import_soon(["numpy", "xla"])
    assert peers._importing is None
    peers.import_soon(["torch.eager"])
    peers.import_soon(["torch.compile"])
    assert peers._importing is not None and not imported
    may_end.set()
    peers.find("torch.eager", subject)
    assert imported[0] == "torch"
