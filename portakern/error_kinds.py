"""Every ``error.kind`` that portakern gives, with what it means.

Kinds are stable: scripts may test them.  A backend from elsewhere may have kinds of its own, of lower-case words joined by
hyphens; those that begin like an entry of :data:`FAMILIES` say more exactly what that entry says.
"""

from __future__ import annotations

import re

KINDS: dict[str, str] = {
    # what was asked
    "usage": "the request makes no sense: an unknown operator, target, dtype, option or file",
    "spec": "the operator is not well formed",
    "schedule": "a schedule or a backend's option is unknown, or does not fit the target's limits",
    "bad-argument": "a kernel was called with what it does not take",
    "too-large": "sizes, a text or an array are beyond what is taken",
    # from operator to source
    "ir": "an object of the IR breaks a rule of the IR",
    "lowering": "the tensor program has no lowering under this schedule",
    "lowering-gap": "a kernel was cut out of a program that one kernel cannot be: a gap of portakern",
    "missing-rule": "the backend has no rule for an operation; all are listed",
    "unsupported-dtype": "the device cannot have the dtype by rule: an answer, which counts as no failure",
    "backend": "a backend's manifest is missing, broken, or in conflict with another one",
    "no-such-target": "nothing here serves this target",
    # from source to binary
    "tool-missing": "a compiler, package or driver that the request needs is not here",
    "compile": "a compiler refused the source, or failed",
    "compile-timeout": "a compiler ran past its limit of time",
    "no-kernel": "the text has no kernel of that name, or several",
    "no-binary": "nothing compiles for this target here",
    "no-assembly": "the compiler gives no assembly",
    "no-launches": "the source does not say how it is launched",
    "code-object": "the binary is not one that can be read",
    "cache": "the cache on disk cannot be read or written",
    "cache-unwritable": "the cache's folder cannot be written",
    "disk-full": "there is no room on the disk",
    "no-room": "a kernel needs more of a processor than it has, so that none of its blocks fits",
    "too-long": "a kernel runs more instructions than an estimate follows",
    # from binary to a result
    "detached": "a tensor that needs a gradient was given to a kernel whose result would be cut off from it",
    "no-gradient": "the operator has no gradient, and one was computed",
    "runtime": "a kernel could not be loaded or launched, or faulted while it ran",
    "load": "the binary could not be loaded",
    "no-silicon": "there is no device of this kind here",
    "no-device": "there is no driver, or no such device",
    "device-busy": "another process holds the device, or this one may not have it",
    "device-lost": "the process cannot use the device any more",
    "driver": "the driver failed; the message has the vendor's code and words",
    "unknown-driver": "no driver has that name",
    "not-installed": "portakern is imported from its sources and is not installed",
    "not-built": "a native module was left out when portakern was built",
    "unsupported": "the driver cannot do it",
    "invalid": "the driver says that an argument makes no sense",
    "simulator": "a simulator or interpreter met what it does not model",
    "hazard": "a simulator saw a wait, a barrier or a memory access that is wrong",
    "race": "an interpreter saw two programs touch the same memory",
    "unsupported-source": "an interpreter does not know a construct of the text",
    "out-of-bounds": "a stranger's kernel reached for memory beside its arrays, where nothing is",
    "incorrect": "the results are not those of the operator",
    "decoy": "the stranger's kernels do not do the work: something else does",
    # from a result to a time
    "not-timed": "nothing of this kind can be timed here",
    "unstable": "outputs changed while it was timed, or inputs did",
    "incomplete-timing": "the time cannot be all of the work",
    "implausible-timing": "the time is shorter than physics allows, or does not fit what was seen of it",
    "timing-disturbed": "other work takes so much of the machine that no time can be told now: nothing is said of the kernel",
    "contender": "what was timed raised an exception",
    "no-peer": "the peer does not exist for this operator",
    "peer": "the peer's file or function cannot be used",
    "other": "the peer computes something else",
    # processes
    "worker": "a child process failed",
    "worker-start": "a child process could not be started",
    "exception": "what ran in a child process raised",
    "crash": "a child process died; the message names the signal",
    "timeout": "it ran past its limit of time",
    "memory": "it ran past its limit of memory",
    "no-jail": "a part of the jail is missing on this machine, and the jail was required",
    "bad-message": "a stranger's process sent what is no answer",
    "no-foreign-kernels": "the language takes no kernels from elsewhere",
    "bad-source": "a stranger's text does not follow the language's convention",
    "defect": "an exception that nobody foresaw, in portakern or a backend; the message says where",
    # estimates
    "no-estimate": "the model gives no estimate",
    "assembly": "the model cannot read the assembly",
    "bad-launch": "the model is not told how the kernel is launched",
    "deadlock": "the model's waits never end",
    "does-not-fit": "a block needs more than the device has",
    "not-modelled": "the model does not know the device",
    "unknown-instruction": "the model does not know an instruction",
    # planted faults, tuning, suites, imports
    "not-runnable": "nothing runs the program here, so that no fault can be planted",
    "tuned": "the database of tuned schedules cannot be read or written",
    "import": "the imported operator is not the PyTorch module",
    "not-imported": "something of a PyTorch graph has no counterpart",
    "no-float64": "the PyTorch module does not run in float64",
    "not-checked": "a piece of a model was not checked",
    "no-line": "an error of the fuzzer's operator does not name its line",
    "form": "emitting twice, or by way of text or pickling, gives something else",
    "random": "the module draws random numbers, which a kernel would draw otherwise",
    "swap": "a module cannot be replaced by a kernel",
    # files and servers
    "output": "a file cannot be written",
    "store": "the store of results cannot be opened, read or written",
    "store-busy": "another process kept us from the store too long",
    "fleet": "the fleet cannot be reached or started",
    "batch-size": "the server takes no batch so large",
    "exists": "the server has a job or batch of that name",
    "queue-full": "the server takes no more jobs now",
    "busy": "the server has no room for the request now",
    "cancelled": "who asked for it took the job back",
    "deadline": "the job was not begun within its time",
    "unknown": "the server knows nothing of that name",
}  # fmt: skip

FAMILIES: dict[str, str] = {
    "compile": "a compiler's refusal, told apart: `compile-crash`, `compile-memory`, and what the language's compiler says",
    "runtime": "a fault of a run, told apart by what the interpreter of the language saw",
}

PATTERN = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
"""What every kind looks like."""


def known(kind: str) -> bool:
    """Whether portakern says what ``kind`` means."""
    return kind in KINDS or (bool(re.fullmatch(PATTERN, kind)) and kind.partition("-")[0] in FAMILIES)
