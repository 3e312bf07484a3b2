"""Where a result comes from: the commit of portakern and of the user's file, the machine, the versions of what was used."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = (
    "numpy", "ml_dtypes", "numba", "llvmlite", "torch", "triton", "jax", "jaxlib", "libtpu", "cupy-cuda13x", "cuda-bindings",
    "nvidia-cuda-nvrtc", "ziglang", "pyopencl", "intel-sycl-rt", "intel-opencl-rt",
)  # fmt: skip
"""Distributions whose version can change a time.  Compilers state theirs in the row's ``method`` as well."""

_THIS = "portakern/study/provenance.py"
_GIT_LIMIT_S = 10


def now() -> str:
    """The time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def environment() -> dict[str, Any]:
    """This machine and installation, as it goes into rows."""
    from portakern.tools.environment import machine

    here = {k: v for k, v in asdict(machine()).items() if k != "executable"}
    return {**here, "machine_id": machine_id(), **portakern_commit(), "libraries": libraries()}


@cache
def machine_id() -> str:
    """Twelve hex digits that stay the same on one machine and tell nothing else about it."""
    for file in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if text := Path(file).read_text().strip():
                break
        except OSError:
            continue
    else:
        text = platform.node()
    return hashlib.sha256(f"portakern {text}".encode()).hexdigest()[:12]


@cache
def libraries() -> dict[str, str]:
    """Name and version of each of :data:`LIBRARIES` that is installed; none is imported."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def portakern_commit() -> dict[str, Any]:
    """``commit`` of portakern's sources and whether they differ from it (``dirty``); both ``None`` where nothing tells.

    An installed package holds no repository: there it is the commit that pip noted (PEP 610), or what
    ``PORTAKERN_COMMIT`` says.
    """
    if told := os.environ.get("PORTAKERN_COMMIT", "").strip():
        return {"commit": told.removesuffix("-dirty"), "dirty": told.endswith("-dirty")}
    found = commit_of(__file__)
    # A virtual environment inside some other repository is not portakern's source tree.
    if found["commit"] is not None and found["file"] == _THIS:
        return {"commit": found["commit"], "dirty": found["dirty"]}
    return {"commit": _noted_commit(), "dirty": None}


def _noted_commit() -> str | None:
    try:
        text = importlib.metadata.distribution("portakern").read_text("direct_url.json")
        return json.loads(text).get("vcs_info", {}).get("commit_id") if text else None
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


def commit_of(file: str | Path) -> dict[str, Any]:
    """``{"file", "commit", "dirty"}``: the file's path in its repository, the repository's commit, and whether the file
    differs from it.  Outside a repository the file's name alone; a folder's ``dirty`` speaks of all tracked files."""
    path = Path(file).resolve()
    folder = path.parent
    unknown = {"file": path.name, "commit": None, "dirty": None}
    top = _git(folder, "rev-parse", "--show-toplevel")
    commit = _git(folder, "rev-parse", "HEAD")
    if not top or not commit:
        return unknown
    inside = path.relative_to(Path(top).resolve()).as_posix() if path.is_relative_to(Path(top).resolve()) else path.name
    if _git(folder, "ls-files", "--error-unmatch", str(path)) is None:
        return unknown | {"file": inside}
    whole = inside == _THIS
    changed = _git(Path(top), "status", "--porcelain", "--untracked-files=no", *([] if whole else ["--", str(path)]))
    return {"file": inside, "commit": commit, "dirty": None if changed is None else bool(changed)}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git answers; ``None`` where there is no git, no repository, or it refuses."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_GIT_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
