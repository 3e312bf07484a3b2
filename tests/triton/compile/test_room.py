"""Where Triton finds that a block has no room for the first schedule, the next one is taken."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.registry import registry
from portakern.study import steps
from portakern.study.work import Problem, works

pytest.importorskip("triton")


@pk.operator
def of_means(q: pk.Tensor["H", "M", "D"], k: pk.Tensor["H", "4 * N", "D"]):
    """The means are stored in f32, which a step of the product takes twice the room for."""
    h, n, d = k.shape
    return pk.matmul(q, pk.swapaxes(pk.mean(pk.reshape(k, (h, n // 4, 4, d)), axis=2), 1, 2))


def test_a_schedule_for_which_a_block_has_no_room_is_passed_over() -> None:
    problem = Problem(of_means, {"H": 32, "M": 2048, "N": 512, "D": 64}, {})
    (work,) = works(problem, [registry().target("triton:h200")], ["bf16"])
    found = steps.build(work)
    assert found.row.error is None and found.row.evidence == "compiled", found.row.error
    first = str(steps.emit(work)[0].schedule[1])
    assert first not in (found.row.schedule or ""), "the case has lost what it is about: its first schedule fits"


def test_a_build_passes_it_over_too() -> None:
    """What :func:`portakern.build` gives would find out at its first launch, by an error of Triton's."""
    built = pk.build(of_means, "triton:h200", "bf16", H=32, M=2048, N=512, D=64)
    problem = Problem(of_means, {"H": 32, "M": 2048, "N": 512, "D": 64}, {})
    (work,) = works(problem, [registry().target("triton:h200")], ["bf16"])
    assert built.schedule[1] != steps.emit(work)[0].schedule[1]
    room = built.target.device.count("shared_bytes_per_block")
    assert all((kernel.shared_bytes or 0) <= room for kernel in built.binary.resources)
