"""What jax makes of a function for a chip."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from portakern.errors import RuntimeFault


def staged(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """``function`` as one program of XLA, which traces call ``jit_<name>``."""
    import jax

    def program(*arrays: Any) -> Any:
        return function(*arrays)

    program.__name__ = program.__qualname__ = name
    return jax.jit(program)


CUSTOM_CALLS = frozenset({
    "tpu_custom_call", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
})
"""What a program from elsewhere may call beside XLA's own operations: Mosaic's kernels, and marks of where arrays lie.  Others
would run code of this process (callbacks to the host)."""


def as_data(function: Callable[..., Any], arguments: Sequence[Any], isa: str) -> bytes:
    """``function`` for arrays like ``arguments`` (shapes and dtypes), traced for a TPU that need not be here: StableHLO with
    Mosaic's kernels in it, as jax.export writes it."""
    import jax
    from jax import export

    from ..compile.worker import device_of

    kernels = [export.DisabledSafetyCheck.custom_call("tpu_custom_call")]
    with jax.default_device(device_of(isa)):  # emit_pipeline asks for the generation
        return bytes(export.export(jax.jit(function), platforms=["tpu"], disabled_checks=kernels)(*arguments).serialize())


def of_data(data: bytes, name: str) -> Callable[..., Any]:
    """The program that :func:`as_data` wrote, which may be a stranger's.  Raises :class:`RuntimeFault` where it would run more
    than kernels."""
    from jax import export

    program = export.deserialize(bytearray(data))
    called = set(re.findall(r"custom_call\s+@([\w.$-]+)", program.mlir_module()))
    if others := sorted(called - CUSTOM_CALLS):
        raise RuntimeFault(f"the program calls {', '.join(others)}", hint="leave the work to Pallas kernels and jax.numpy")
    return staged(program.call, name)
