"""Whether what runs is what was compiled: a text may give Triton's compiler other kernels than its interpreter or the device,
or call them in different ways.

Each kernel has a digest of its code and constants.  At sizes that are known when it is compiled each launch has one, too, of
that and of its grid and of the numbers that it is given.  The compiler's log says them, and who repeats what was
launched compares.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from portakern.backend import Source
from portakern.errors import PortakernError
from portakern.tools.frozen import PLAIN, frozen, function_of

_LINE = re.compile(r"^launch ([0-9a-f]{32})$", re.MULTILINE)
_OF_LAUNCHES = ("grid", "warmup", "stream")


def is_kernel(x: Any) -> bool:
    """Whether it is a kernel, as it is or with its configurations."""
    return type(x).__module__.startswith("triton.") and isinstance(function_of(x), FunctionType)


def text_of(kernel: Any) -> str:
    """The digest of a kernel."""
    return frozen(kernel, ("triton.",))


def launch_of(kernel: Any, args: Sequence[Any], named: Mapping[str, Any], grid: Any, tuned: bool) -> str:
    """The digest of a launch.  One that is ``tuned`` may have another configuration, and what hangs on that, elsewhere."""
    function = function_of(kernel)
    given = {**dict(zip(inspect.signature(function).parameters, args, strict=False)), **named}
    fixed = {n for n, t in function.__annotations__.items() if "constexpr" in str(t)}
    told = [(n, _value(v)) for n, v in sorted(given.items()) if n not in _OF_LAUNCHES and not (tuned and n in fixed)]
    found = (text_of(kernel), [(n, v) for n, v in told if v is not None], None if tuned else _blocks(grid, given))
    return hashlib.blake2b(repr(found).encode(), digest_size=16).hexdigest()


def _value(x: Any) -> Any:
    """A number or word; ``None`` for what is none, such as an array."""
    x = x.value if type(x).__name__ == "constexpr" else x
    return repr(x) if isinstance(x, (*PLAIN, float)) else None


def _blocks(grid: Any, given: Mapping[str, Any]) -> tuple[int, ...]:
    blocks: Any = grid(dict(given)) if callable(grid) else grid
    x, y, z = (*map(int, blocks), 1, 1)[:3]
    return x, y, z


def known_sizes(source: Source) -> bool:
    """Whether a host function is told the same when it is compiled and when it runs."""
    return not source.sizes and not source.by_role("scalar")


def must_be_of(known: frozenset[str], source: Source, launches: Iterable[Any]) -> None:
    """Raises :class:`PortakernError` of the kind ``decoy`` where one of these was not compiled."""
    for launch in launches:
        text = launch.digest if known_sizes(source) else text_of(launch.function)
        if text not in known:
            name = getattr(function_of(launch.function), "__name__", "a kernel")
            how = "is compiled in one way and runs in another: its text, its numbers or its grid differ"
            raise PortakernError("decoy", f"the kernel {name} {how}",
                                 hint="launch the same for the compiler, whose tensors have no data, as elsewhere")


def log_of(digests: Iterable[str]) -> str:
    return "\n".join(f"launch {d}" for d in digests)


def digests_in(log: str) -> frozenset[str]:
    return frozenset(_LINE.findall(log))
