"""A scalar of a kernel as the bound of a Python loop, in interpreters of Triton that ask an array for its number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portakern.backends.triton.interpret import repairs

pytestmark = pytest.mark.quick


class Scalar:
    """As the interpreter holds one: an array of one dim with one element."""

    handle = SimpleNamespace(data=np.array([3], np.int64))


def refused(self: Any) -> int:
    raise TypeError("only 0-dimensional arrays can be converted to Python scalars")  # numpy 2.5 says so


def test_a_loop_may_end_at_a_scalar_of_the_kernel() -> None:
    scope = SimpleNamespace(set_attr=setattr)
    interpreter = SimpleNamespace(_patch_lang_tensor=lambda tensor, scope: scope.set_attr(tensor, "__index__", refused))
    interpreter._patch_lang_tensor(Scalar, scope)
    with pytest.raises(TypeError):
        range(Scalar())  # type: ignore[arg-type]
    repairs._mend_bounds(interpreter)
    interpreter._patch_lang_tensor(Scalar, scope)
    assert list(range(Scalar())) == [0, 1, 2]  # type: ignore[arg-type, call-overload]
