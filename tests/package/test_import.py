"""What a user pays for ``import portakern`` and for the command's help."""

from __future__ import annotations

import subprocess
import sys

import pytest

import portakern

HEAVY = ("torch", "jax", "jaxlib", "triton", "numba", "cupy", "cuda", "pyopencl", "numpy")

_REPORT = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
{statement}
print(time.perf_counter() - start, *sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
"""


def fresh(statement: str) -> tuple[float, set[str]]:
    """Seconds a statement takes in a new interpreter, and the top-level packages it loads."""
    code = _REPORT.format(statement=statement)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, *packages = result.stdout.splitlines()[-1].split()
    return float(seconds), set(packages)


def test_import_loads_no_other_package_and_is_quick():
    runs = [fresh("import portakern") for _ in range(3)]
    assert runs[0][1].isdisjoint(HEAVY)
    # The promise to users; the best of three, since the machine may be busy.
    assert min(seconds for seconds, _ in runs) < 0.150


def test_help_loads_no_other_package():
    _, packages = fresh("from portakern.cli import main; main(['--help'])")
    assert packages.isdisjoint(HEAVY)


@pytest.mark.parametrize("name", portakern.__all__)
def test_every_public_name_is_there(name: str):
    assert getattr(portakern, name) is not None
    assert name in dir(portakern)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        portakern.no_such_name  # noqa: B018
