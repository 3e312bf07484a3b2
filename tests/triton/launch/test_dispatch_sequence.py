"""What Triton host functions launch on a machine that executes their code objects."""

from __future__ import annotations

import pytest

from portakern.backend import Argument, ArrayFill, Dispatch, DispatchSequence
from portakern.backends.triton import triton_language
from portakern.launch.dispatch import dispatch_sequence_of
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from portakern.study import steps
from portakern.study.work import Foreign, Problem, Work, works
from portakern.tools.workers import WorkerPool

pytest.importorskip("triton")
pytest.importorskip("torch")

FOREIGN = '''
import torch, triton
import triton.language as tl

@triton.jit
def scaled(x, s, y, n, f, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * f + tl.load(s), i < n)

def row_sum(x, out):
    shift = torch.full((1,), 2.5)
    scaled[(3, 2)](x[1:], shift, out, x.numel(), 0.5, BLOCK=128)
'''


def job(work: Work) -> DispatchSequence:
    """Runs in a worker."""
    made = steps.build(work)
    assert made.source is not None, made.row.error
    binary = steps.cached_binary(made.binary_key)
    assert binary is not None, made.row.error
    found = dispatch_sequence_of(made.source, binary, work.sizes)
    assert all(d.code == binary.data and d.kernel in d.assembly for d in found.dispatches)
    return found


def in_worker(work: Work) -> DispatchSequence:
    with WorkerPool(1, env=dict(triton_language.environment)) as pool:
        return pool.call(f"{__name__}:job", work, timeout_s=120)


def test_a_host_function_is_asked_for_its_grid_and_arguments():
    target = registry().target("triton:gfx942")
    (work,) = works(Problem(load_operator("softmax"), {"M": dynamic, "N": 300}, {}), [target], ["f32"], open_sizes={"M": 7})
    (dispatch,) = in_worker(work).steps
    assert isinstance(dispatch, Dispatch) and dispatch.block[0] % 64 == 0 and dispatch.grid[0] > 0
    assert dispatch.args[:2] == (Argument("x"), Argument("out"))
    assert dispatch.args[-2:] == (Argument(), Argument()), "Triton passes two scratch pointers last"


def test_tensors_that_a_host_function_fills_and_slices_are_places_in_named_arrays():
    (work,) = works(Problem(load_operator("row_sum"), {"M": 4, "N": 96}, {}), [registry().target("triton:gfx942")], ["f32"])
    foreign = Work(**{**vars(work), "foreign": Foreign(FOREIGN)})
    found = in_worker(foreign)
    fill, dispatch = found.steps
    assert isinstance(fill, ArrayFill) and fill.pattern == b"\x00\x00\x20\x40"
    assert isinstance(dispatch, Dispatch) and dispatch.grid == (3, 2, 1)
    ((name, size),) = found.temporaries
    assert size == 4 and fill.array == name
    assert dispatch.args[0] == Argument("x", 4 * 96) and dispatch.args[1] == Argument(name)
    assert dispatch.args[4] == Argument(value=b"\x00\x00\x00\x3f")
