"""What of a function is its kernels' work, and what is done beside them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")


def test_narrow_pieces_that_are_put_together_are_no_work():
    """Sums of arrays that are apart among zeros, which narrow floats have with a sign."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    from portakern.backends.tpu.interpret.alone import Part
    from portakern.backends.tpu.trace.kernel_calls import trace

    def twice(x, out):
        out[...] = x[...] + x[...]

    def function(x):
        half = pl.pallas_call(twice, out_shape=jax.ShapeDtypeStruct((8, 8), x.dtype))(x)
        first = jnp.pad(half, ((0, 8), (0, 0)), constant_values=-0.0)
        return first + jnp.pad(half, ((8, 0), (0, 0)), constant_values=-0.0)

    for dtype in (jnp.bfloat16, jnp.float32):
        part = Part(function, "kernels")
        trace(part, [np.ones((8, 8), dtype)])
        assert part.kernels == 1 and not part.work
