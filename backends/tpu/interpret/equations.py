"""Parts of a jaxpr, for rules that put other equations in the place of one."""

from __future__ import annotations

from typing import Any

import numpy as np


def variable(aval: Any) -> Any:
    from jax._src import core

    return core.Var(aval)


def literal(value: float, aval: Any) -> Any:
    """A number of the dtype of ``aval``."""
    from jax._src import core

    return core.Literal(np.asarray(value, aval.dtype)[()], core.ShapedArray((), aval.dtype))


def made(like: Any, invars: list[Any], outvar: Any, primitive: Any, params: dict[str, Any]) -> Any:
    """An equation with a single result, at the line of ``like``."""
    from jax._src import core

    return core.new_jaxpr_eqn(invars, [outvar], primitive, params, set(), like.source_info, like.ctx)
