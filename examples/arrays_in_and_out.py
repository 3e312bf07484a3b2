"""One build, the arrays of every library: what goes in decides what comes out, and nothing is copied on the way in.

    python examples/arrays_in_and_out.py [TARGET]

On a CPU target numpy, torch and jax; on a CUDA target torch and cupy.  A library that is not installed is named and left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import portakern as pk

SHAPE = (4, 512)


def numpy_arrays(host: np.ndarray) -> Any:
    return host


def torch_on_the_host(host: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(host)


def jax_on_the_host(host: np.ndarray) -> Any:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # it looks for a TPU otherwise
    import jax

    return jax.device_put(host)


def torch_on_the_gpu(host: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(host).cuda()


def cupy_arrays(host: np.ndarray) -> Any:
    import cupy

    return cupy.asarray(host)


ON_THE_HOST = (numpy_arrays, torch_on_the_host, jax_on_the_host)
ON_THE_GPU = (torch_on_the_gpu, cupy_arrays)


def doors(target: str) -> Iterator[Callable[[np.ndarray], Any]]:
    yield from ON_THE_HOST if target.endswith(":cpu") else ON_THE_GPU


def main(target: str = "numba:cpu") -> None:
    softmax = pk.build("softmax", target=target, dtype="f32", M=pk.dynamic, N=SHAPE[1])
    host = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    expected = np.exp(host) / np.exp(host).sum(axis=-1, keepdims=True)
    for door in doors(target):
        try:
            x = door(host)
        except ImportError as missing:
            print(f"{door.__name__}: left out, {missing.name} is not installed")
            continue
        y = softmax(x)
        back = y.get() if hasattr(y, "get") else np.asarray(y.cpu() if hasattr(y, "cpu") else y)
        np.testing.assert_allclose(back, expected, rtol=1e-5)
        print(f"{door.__name__}: {type(x).__module__.split('.')[0]} in, {type(y).__module__.split('.')[0]} out")


if __name__ == "__main__":
    main(*sys.argv[1:])
