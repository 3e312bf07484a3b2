"""What the tests run inside worker processes."""

from __future__ import annotations

import numpy as np

from portakern.backend import CompiledBinary, Source


def apply_helper(name: str, x: np.ndarray) -> np.ndarray:
    """A helper function of the emitted texts on every element of ``x``."""
    from numba import njit  # type: ignore[attr-defined]

    from portakern.backends.cpu.numba.words import HELPERS
    from portakern.emit.python_like import with_helpers

    names: dict[str, object] = {}
    text = "import math\nimport numpy as np\nfrom llvmlite import ir\nfrom numba import njit\n"
    text += "from numba.extending import intrinsic\nf32 = np.float32\n"
    text += "\n".join(HELPERS[h] for h in with_helpers(name, HELPERS))
    exec(text, names)
    function = names[name]

    @njit(error_model="numpy")
    def apply(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(x.size):
            y[i] = function(x[i])  # type: ignore[operator]

    y = np.empty_like(x)
    apply(x, y)
    return y


def compilations_when_run(source: Source, binary: CompiledBinary) -> int:
    """How many kernels numba compiles when a program with a binary is loaded and run."""
    from numba.core import event

    from portakern.backends.cpu.numba.language import NUMBA
    from tests.triton.support import execute_with, random_inputs_of

    recorder = event.RecordingListener()
    assert NUMBA.runtime is not None

    class WithBinary:
        def load(self, source: Source, _: CompiledBinary | None) -> object:
            assert NUMBA.runtime is not None
            return NUMBA.runtime.load(source, binary)

    with event.install_listener("numba:compile", recorder):
        execute_with(WithBinary(), source, random_inputs_of(source), {})
    return len(recorder.buffer)
