"""What the worker process does for OpenCL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portakern.errors import CompileError

from .platforms import describe, device, prepare


def build(text: str, kernels: Sequence[str], options: Sequence[str]) -> dict[str, Any]:
    """Build ``text``; gives the device's name, the program binary, the log and facts of each kernel.

    Raises :class:`CompileError` with the driver's log, or naming a kernel that the text does not hold.
    """
    cl = prepare()
    found = device()
    if not kernels:  # every array is empty: there is nothing to run, and drivers refuse a text without kernels
        return {"device": describe(found), "data": b"", "log": "", "kernels": {}}
    context = cl.Context([found])
    program = cl.Program(context, text)
    try:
        program.build(options=list(options), cache_dir=False)  # ours is one; theirs reads the files that a text names
    except cl.RuntimeError as error:
        log = build_log(cl, program, found) or str(error)
        raise CompileError(f"the OpenCL compiler of {describe(found)} refused the source:\n{log}", log=log) from None
    names = program.get_info(cl.program_info.KERNEL_NAMES).split(";")
    for kernel in kernels:
        if kernel not in names:
            raise CompileError(f"the source holds no kernel {kernel!r}", hint=f"it holds {', '.join(names)}")
    facts = {}
    for name in kernels:
        kernel = cl.Kernel(program, name)
        info, ask = cl.kernel_work_group_info, kernel.get_work_group_info
        facts[name] = {
            "private": int(ask(info.PRIVATE_MEM_SIZE, found)),
            "local": int(ask(info.LOCAL_MEM_SIZE, found)),
            "multiple": int(ask(info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, found)),
            "work_group": int(ask(info.WORK_GROUP_SIZE, found)),
        }
    data = program.get_info(cl.program_info.BINARIES)[0]
    return {"device": describe(found), "data": data, "log": build_log(cl, program, found), "kernels": facts}


def adds_pairs(text: str, macro: str) -> bool:
    """Whether the program ``text``, built with ``macro``, adds products of pairs of bf16 right."""
    import numpy as np

    cl, found = prepare(), device()
    context = cl.Context([found])
    program = cl.Program(context, text).build(options=[f"-D{macro}"], cache_dir=False)
    queue, flags = cl.CommandQueue(context), cl.mem_flags
    sums = np.arange(16, dtype=np.float32)
    halves = np.arange(64, dtype=np.float32)  # bf16 are the upper halves of floats
    words = (halves.view(np.uint32) >> 16).astype(np.uint16)
    where = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x) for x in (sums, words)]
    program.probe(queue, (1,), (1,), *where)
    got = np.empty_like(sums)
    cl.enqueue_copy(queue, got, where[0])
    return np.array_equal(got, sums + (halves[:32] * halves[32:]).reshape(16, 2).sum(1))


def build_log(cl: Any, program: Any, found: Any) -> str:
    try:
        return str(program.get_build_info(found, cl.program_build_info.LOG)).strip()
    except cl.Error:
        return ""


def describe_device() -> str:
    """The device as its driver names it."""
    return describe(device())
