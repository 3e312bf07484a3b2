"""A gate for CI on a machine without any accelerator: kernels must stay right, and must not use more than they did.

    python examples/gate.py BASELINE.json           # writes the file where there is none, holds kernels against it otherwise
    python examples/gate.py BASELINE.json --update  # takes what is used now

A kernel is compiled for its device, and checked where this machine can: on the CPU, in the simulator or in an interpreter.
Registers, scratch and shared memory are read from the machine code, so they are the same on every machine.  Times need their
silicon: `portakern results --gate` holds those (docs/results.md).  Exit status 1 where something got worse.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import portakern as pk

OPERATORS, TARGETS = ("row_sum",), "numba:cpu,hip:gfx942"
SIZES: dict[str, Any] = {"M": 32, "N": 1024}
USED = ("registers", "spills", "scratch_bytes", "shared_bytes")


def measured() -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What each kernel uses, and what is wrong with those that are wrong."""
    study = pk.check(list(OPERATORS), TARGETS, dtype="f32", **SIZES)
    used = {f"{row.operator} {row.target}": {k: (row.resources or {}).get(k) for k in USED} for row in study}
    wrong = [row for row in study if not row.correct]
    return used, [f"{row.operator} {row.target}: {(row.error or {}).get('message', 'wrong')}" for row in wrong]


def worse(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> list[str]:
    lines = [f"{name}: no such kernel any more" for name in before if name not in now]
    for name, used in now.items():
        for key, value in used.items():
            was = before.get(name, {}).get(key)
            if value is not None and was is not None and value > was:
                lines.append(f"{name}: {key} {was} -> {value}")
    return lines


def main(baseline: str, *flags: str) -> int:
    file = Path(baseline)
    now, wrong = measured()
    if not file.exists() or "--update" in flags:
        file.write_text(json.dumps(now, indent=1) + "\n")
        print(f"{file} written: {len(now)} kernels")
        complaints = wrong
    else:
        complaints = wrong + worse(json.loads(file.read_text()), now)
    print("\n".join(complaints) or f"{len(now)} kernels: right, and none uses more")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
