"""Tensors as numpy arrays and the other way round."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_numpy(x: Any) -> np.ndarray:
    """A tensor (or a number) as a numpy array of the same dtype, complex ones in pairs; it shares memory where it lies in the
    host's."""
    if not hasattr(x, "detach"):
        return np.asarray(x)
    x = in_pairs(x.detach().cpu()).resolve_neg()
    try:
        return x.numpy()
    except TypeError:  # numpy has no bfloat16 of its own
        from portakern.dtypes import numpy_dtype
        from portakern.torch_import.types import dtype_of

        dtype = numpy_dtype(dtype_of(x.dtype))
        return x.contiguous().view(_bits(x)).numpy().view(dtype)


def in_pairs(x: Any) -> Any:
    """A complex tensor with its parts along one more dim, as kernels take it; other tensors as they are."""
    import torch

    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def _bits(x: Any) -> Any:
    import torch

    return {1: torch.uint8, 2: torch.int16}[x.element_size()]


def as_tensor(x: np.ndarray) -> Any:
    """An array of numbers that PyTorch has too, as a tensor of its own."""
    import torch

    return torch.from_numpy(np.array(x))
