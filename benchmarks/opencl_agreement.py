"""Whether the timing core agrees with other timers on OpenCL's CPU device.

The same program binaries run in turns through the native core (``portakern.timing.measure``, one call per sample), and
through pyopencl in batches, timed by the profiles of its events and by the host's clock around a batch, less the same of an
empty kernel. Caches are warm. Batches, because a thread of the device that fell asleep between two calls may come too late for
a short kernel, or not at all: a batch lasts 5 ms, and its first half is not counted among the profiles.

Run it on a quiet machine: ``python benchmarks/opencl_agreement.py``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from portakern.backends.sycl.opencl import binaries
from portakern.backends.sycl.opencl.platforms import device, prepare

from portakern.backend import Binary, Source
from portakern.ir.size import evaluate
from portakern.lower import lower
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.timing.measure import Contender, Options, measure

CASES: tuple[tuple[str, Mapping[str, int], tuple[str, ...]], ...] = (
    ("softmax", {"M": 64, "N": 1024}, ("MN",)),
    ("softmax", {"M": 512, "N": 1024}, ("MN",)),
    ("row_sum", {"M": 1024, "N": 4096}, ("MN",)),
    ("matmul", {"M": 128, "N": 128, "K": 128}, ("MK", "KN")),
    ("matmul", {"M": 384, "N": 384, "K": 384}, ("MK", "KN")),
    ("softmax", {"M": 4096, "N": 4096}, ("MN",)),
)
TOLERANCE = 0.05
BATCH_US = 5000.0


class Independent:
    """The same launches through pyopencl, in a context of its own."""

    def __init__(self, source: Source, binary: Binary, inputs: list[np.ndarray], outputs: tuple[np.ndarray, ...]) -> None:
        cl = self.cl = prepare()
        context = cl.Context([device()])
        self.queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        program = cl.Program(context, [device()], [binaries.content(binary.data)]).build()
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        arrays = [*source.by_role("input"), *source.by_role("output")]
        held = zip(arrays, (*inputs, *outputs), strict=True)
        self.buffers = {a.name: cl.Buffer(context, flags, hostbuf=x) for a, x in held}  # kernels do not keep them
        self.launches = []
        for x in source.launches:
            kernel = cl.Kernel(program, x.kernel)
            kernel.set_args(*(self.buffers[name] for name in x.args))
            self.launches.append((kernel, tuple(evaluate(n, {}) * b for n, b in zip(x.grid, x.block, strict=True)), x.block))
        empty = cl.Program(context, "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void nothing() {}").build()
        self.nothing = [(cl.Kernel(empty, "nothing"), (1, 1, 1), (1, 1, 1))]

    def sample(self, launches: Any, batch: int) -> tuple[float, float]:
        """(by the events' profiles, by the host's clock) in microseconds per call."""
        begin = time.perf_counter()
        calls = [[self.cl.enqueue_nd_range_kernel(self.queue, *x) for x in launches] for _ in range(batch)]
        self.queue.finish()
        host = (time.perf_counter() - begin) * 1e6 / batch
        return float(np.median([(c[-1].profile.end - c[0].profile.start) / 1e3 for c in calls[batch // 2 :]])), host

    def medians(self, about_us: float) -> tuple[float, float]:
        batch = max(4, int(BATCH_US / about_us))
        found = np.array([self.sample(self.launches, batch) for _ in range(10)])
        empty = np.array([self.sample(self.nothing, batch) for _ in range(10)])
        return float(np.median(found[:, 0])), float(np.median(found[:, 1]) - np.median(empty[:, 1]))


def compared(name: str, dims: Mapping[str, int], shapes: tuple[str, ...], rounds: int) -> tuple[float, float, float, float]:
    """Medians over rounds in microseconds: ours, the events', the host's clock; and our overhead per sample."""
    language, target = registry().languages["opencl"], registry().target("opencl:cpu")
    assert language.toolchain is not None and language.runtime is not None
    program = lower(load_operator(name).program(dims, params={}, dtype="f32"), target, {})
    source = language.emitter.emit(program, target)
    binary = language.toolchain.compile(source)
    executable: Any = language.runtime.load(source, binary)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal([dims[n] for n in s]).astype(np.float32) for s in shapes]
    prepared = executable.prepare(inputs, {})
    other = Independent(source, binary, inputs, prepared.outputs)
    other.medians(BATCH_US)
    options = Options(budget_s=0.5, cache="warm", mode="single", warm_up_s=0.05, max_samples=200)
    rows = []
    for _ in range(rounds):
        timing = measure(executable.device, [Contender(name, [prepared.call])], options).timings[0]
        rows.append((timing.median_us, *other.medians(timing.median_us), timing.overhead_us))
    ours, events, host, overhead = np.median(np.array(rows), axis=0)
    return float(ours), float(events), float(host), float(overhead)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'case':<30}{'ours us':>11}{'events us':>11}{'host us':>11}{'/events':>9}{'/host':>9}{'overhead us':>13}")
    worst = 0.0
    for name, dims, shapes in CASES:
        ours, events, host, overhead = compared(name, dims, shapes, rounds)
        case = f"{name} {'x'.join(str(n) for n in dims.values())}"
        print(f"{case:<30}{ours:>11.1f}{events:>11.1f}{host:>11.1f}{ours / events:>9.3f}{ours / host:>9.3f}{overhead:>13.1f}")
        worst = max(worst, abs(ours / events - 1))
    print(f"largest difference from the events' own profile: {worst:.1%} ({'within' if worst <= TOLERANCE else 'beyond'} "
          f"{TOLERANCE:.0%})")


if __name__ == "__main__":
    main()
