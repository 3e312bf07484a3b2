"""Whether a kernel computes its operator at the size that is timed, with everything large kept on its device.

The same stages and the same judges (portakern/check) as ``portakern bench`` has: parts of the outputs against the float64
oracle within its bounds, every element against the traced program on tensors, guard bands, two runs with other poison.  Only
the arrays are handled here: bench moves them through host memory, which takes some ten seconds a row, and the whole table has
ten minutes.  The oracle's parts are computed by other processes meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from bar_cases import Case

from portakern.array_program import array_function
from portakern.check.agreement import agreement
from portakern.check.compare import compare
from portakern.check.expected import expected
from portakern.check.restrict import Box, cut
from portakern.check.sampled import parts_of
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.timing.inputs import to_numpy

GUARD = 16384
"""Bytes before and after every array."""

POISON = (0xFF, 0x7F)

Arrays = dict[str, Any]


def torch_dtype(name: str) -> Any:
    import torch

    return {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i64": torch.int64, "i32": torch.int32}[name]


# ---- arrays


class Guarded:
    """A tensor between guard bands."""

    def __init__(self, shape: Sequence[int], dtype: str, device: str) -> None:
        import torch

        kind = torch_dtype(dtype)
        self.size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        body = -(-self.size // 256) * 256
        self.raw = torch.empty(body + 2 * GUARD, dtype=torch.uint8, device=device)
        self.array = self.raw[GUARD : GUARD + self.size].view(kind).view(tuple(shape))

    def poison(self, byte: int, whole: bool) -> None:
        """The bands, and with ``whole`` the array too."""
        if whole:
            self.raw.fill_(byte)
        else:
            self.raw[:GUARD].fill_(byte)
            self.raw[GUARD + self.size :].fill_(byte)

    def damaged(self, byte: int) -> bool:
        return bool((self.raw[:GUARD] != byte).any() or (self.raw[GUARD + self.size :] != byte).any())


def make_inputs(case: Case, program: TensorProgram, device: str, seed: int) -> dict[str, Guarded]:
    """Random normal data (labels uniform, one in nine ignored); the same for the same seed and device."""
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    made = {}
    for arg in program.args:
        kind = tensor_type(arg)
        shape = static(kind.shape)
        held = made[arg.name] = Guarded(shape, kind.dtype, device)
        if arg.name in case.integers:
            top = int(dict(case.values)[case.integers[arg.name]])
            held.array.random_(0, top, generator=generator)
            held.array[::9] = -100
        elif arg.name in case.indices:
            held.array.random_(*case.indices[arg.name], generator=generator)
        else:
            held.array.normal_(0, case.scales.get(arg.name, 1.0), generator=generator)
    return made


def make_outputs(program: TensorProgram, device: str) -> dict[str, Guarded]:
    return {name: Guarded(static(tensor_type(r).shape), tensor_type(r).dtype, device)
            for name, r in zip(program.outputs, program.results, strict=True)}  # fmt: skip


# ---- what is expected


@dataclass
class Expected:
    """Parts of the outputs, each with the job that computes it: (output, dtype, box, future of its values)."""

    parts: list[tuple[str, str, Box | None, Future[Any]]] = field(default_factory=list)


def oracle(program: TensorProgram, inputs: Mapping[str, np.ndarray], output: str) -> Any:
    """The values of an output and their bounds; runs in another process."""
    return expected(program, inputs)[output]


def expect(program: TensorProgram, inputs: Mapping[str, Guarded], pool: Executor) -> Expected:
    """Asks the pool for parts of each output; for all of one that cannot be cut, such as a mean over everything."""
    found = Expected()
    for output, result in zip(program.outputs, program.results, strict=True):
        dtype = tensor_type(result).dtype
        parts = parts_of(program, output)
        if parts is None:
            whole = {n: to_numpy(g.array) for n, g in inputs.items()}
            found.parts.append((output, dtype, None, pool.submit(oracle, program, whole, output)))
            continue
        for part in parts:
            few = {n: to_numpy(cut(g.array, part.inputs[n])) for n, g in inputs.items()}
            found.parts.append((output, dtype, part.box, pool.submit(oracle, part.program, few, output)))
    return found


# ---- the check


@dataclass
class Found:
    """What a check found: ``message`` is empty where all is right."""

    message: str
    max_error_ratio: float = 0.0
    worst_difference: float = 0.0
    parts: int = 0
    first: Arrays = field(default_factory=dict)


def check(call: Any, program: TensorProgram, inputs: Mapping[str, Guarded], outputs: Mapping[str, Guarded], wanted: Expected,
          reference: Mapping[str, Any], wait: Any) -> Found:  # fmt: skip
    """One prepared call on ``inputs`` and ``outputs`` through all stages.

    Args:
        call: runs the kernel.
        reference: every output as the traced program computes it on tensors.
        wait: waits for the device.
    """
    found = Found("")
    before = {n: g.array.clone() for n, g in inputs.items()}
    for byte in POISON:
        for g in inputs.values():
            g.poison(byte, whole=False)
        for g in outputs.values():
            g.poison(byte, whole=True)
        wait()
        call()
        wait()
        for name, g in {**inputs, **outputs}.items():
            if g.damaged(byte):
                return Found(f"bytes outside {name} were written")
        for name, x in before.items():
            if not same_bits(inputs[name].array, x):
                return Found(f"the input {name} was changed")
        if byte == POISON[0]:
            found.first = {n: g.array.clone() for n, g in outputs.items()}
        elif other := [n for n, g in outputs.items() if not same_bits(g.array, found.first[n])]:
            return Found(f"two runs give other bits in {', '.join(other)}")
    return _judged(found, program, wanted, reference)


def _judged(found: Found, program: TensorProgram, wanted: Expected, reference: Mapping[str, Any]) -> Found:
    for output, dtype, box, future in wanted.parts:
        whole = found.first[output]
        have = to_numpy(whole if box is None else cut(whole, box))
        result = compare(future.result(), dtype, have)
        found.max_error_ratio = max(found.max_error_ratio, result.ratio)
        found.parts += 1
        if result.message:
            found.message = f"{output}, part {box}: {result.message}"
            return found
    dtypes = tuple(tensor_type(v).dtype for v in (*program.args, *program.results))
    for output, theirs in reference.items():
        other = agreement(found.first[output], theirs, dtypes)
        found.worst_difference = max(found.worst_difference, other.worst)
        found.message = found.message or (f"{output}: {other.message}" if other.message else "")
    return found


def same_bits(a: Any, b: Any) -> bool:
    import torch

    return bool(torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)))


def traced(program: TensorProgram, inputs: Mapping[str, Guarded]) -> Arrays:
    """The program on tensors, in its own dtypes."""
    result = array_function(program, "torch").call(*(g.array for g in inputs.values()))
    return dict(zip(program.outputs, result if isinstance(result, tuple | list) else (result,), strict=True))
