"""Element types by the names of array libraries."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.dtypes import DTYPES, numpy_dtype
from portakern.launch.facts import dtype_of
from portakern.timing.inputs import to_numpy

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [d.name for d in DTYPES.values() if d.bits >= 8])
def test_numpy_and_torch_have_every_dtype_by_its_long_name(dtype: str):
    there = torch.zeros(3, dtype=getattr(torch, DTYPES[dtype].long_name))
    here = to_numpy(there)
    assert here.dtype == numpy_dtype(dtype) and here.dtype.itemsize == DTYPES[dtype].bytes
    assert dtype_of(there) == dtype_of(here) == dtype


@pytest.mark.parametrize("dtype", [d.name for d in DTYPES.values() if d.is_float])
def test_what_is_too_large_is_infinite_or_nan_as_the_format_says(dtype: str):
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(np.array(np.inf).astype(numpy_dtype(dtype)))
    assert np.isinf(found) if DTYPES[dtype].infinite else np.isnan(found)
