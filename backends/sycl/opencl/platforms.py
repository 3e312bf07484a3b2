"""Finds an OpenCL CPU device that works: Intel's runtime from its wheel, or one installed on the system (PoCL).

The ``.icd`` file that Intel's wheel ships holds a path of the machine it was built on, so the loader is given a private
directory of ``.icd`` files through ``OCL_ICD_VENDORS``, which must happen before its first call.  A device counts only
after a small program was built and run on it: PyPI's PoCL 3.0, for one, cannot compile for CPUs newer than it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any

from portakern.errors import CompileError, ToolMissing
from portakern.tools.cache import default_directory

INSTALL = "pip install 'portakern[opencl]'"
_LIBRARY = "libintelocl.so"
_VENDORS = Path("/etc/OpenCL/vendors")
_PREFERRED = ("Intel", "Portable Computing Language")

_SMOKE = """
__kernel void twice(__global float *x)
{
    __local float kept[16];
    vstore16(vload16(0, x) * 2.0f, 0, kept);
    vstore16(vload16(0, kept), 0, x);
}
"""


@cache
def intel_library() -> Path | None:
    """Intel's CPU runtime as pip installed it."""
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == _LIBRARY:
            path = Path(str(file.locate())).resolve()
            return path if path.exists() else None
    return None


def system_icds() -> dict[str, str]:
    """The ``.icd`` files of the system whose library is there, or is left to the loader's search path."""
    found: dict[str, str] = {}
    for path in sorted(_VENDORS.glob("*.icd")) if _VENDORS.is_dir() else ():
        try:
            library = path.read_text().strip()
        except OSError:
            continue
        if library and (not library.startswith("/") or Path(library).exists()):
            found[path.name] = library
    return found


@cache
def icd_directory(*, systems: bool = True) -> Path:
    """A directory that names every usable driver, written once per content; without ``systems`` Intel's wheel alone, since
    SYCL runs on nothing else and a driver of another vendor is best never loaded beside it."""
    entries = dict(system_icds()) if systems else {}
    intel = intel_library()
    if intel is not None:
        entries["portakern-intel-cpu.icd"] = str(intel)
    key = hashlib.sha256(repr(sorted(entries.items())).encode()).hexdigest()[:16]
    folder = default_directory() / "opencl-icd" / key
    for name, library in entries.items():
        path = folder / name
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            partial = folder / f".{name}.{os.getpid()}"
            partial.write_text(library + "\n")
            partial.replace(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def show_drivers(*, systems: bool = True) -> None:
    """Names the drivers to the loader of this process, which has not loaded any.

    What is named already stays, if it is there: a process in a jail may have inherited the name of a folder in a place that
    it does not see.
    """
    if not Path(os.environ.get("OCL_ICD_VENDORS") or "/nowhere").exists():
        os.environ["OCL_ICD_VENDORS"] = str(icd_directory(systems=systems))


def prepare() -> Any:
    """pyopencl, with the drivers in sight.  Raises :class:`ToolMissing` where it is not installed."""
    if importlib.util.find_spec("pyopencl") is None:
        raise ToolMissing("OpenCL needs pyopencl, which is not installed", hint=INSTALL)
    show_drivers()
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # builds are cached by portakern
    import pyopencl

    return pyopencl


@cache
def device() -> Any:
    """The first CPU device that builds and runs a small program.

    Raises :class:`ToolMissing` with what was tried.
    """
    cl = prepare()
    tried: list[str] = []
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        platforms = []
        tried.append(str(error))
    for platform in sorted(platforms, key=_rank):
        for candidate in _cpu_devices(cl, platform):
            reason = smoke(cl, candidate)
            if reason is None:
                return candidate
            tried.append(f"{candidate.name} through {platform.name}: {reason}")
    raise ToolMissing("no OpenCL CPU device works on this machine" + "".join(f"\n  {t}" for t in tried), hint=INSTALL)


def _rank(platform: Any) -> int:
    return next((i for i, word in enumerate(_PREFERRED) if word in platform.name), len(_PREFERRED))


def _cpu_devices(cl: Any, platform: Any) -> list[Any]:
    if "FPGA" in platform.name:
        return []
    try:
        return platform.get_devices(cl.device_type.CPU)
    except cl.Error:
        return []


def smoke(cl: Any, candidate: Any) -> str | None:
    """Why the device cannot be used; ``None`` where it built and ran a small program right."""
    import numpy as np

    try:
        context = cl.Context([candidate])
        program = cl.Program(context, _SMOKE).build()
        queue = cl.CommandQueue(context)
        x = np.arange(16, dtype=np.float32)
        flags = cl.mem_flags
        buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x)
        program.twice(queue, (1,), (1,), buffer)
        y = np.empty_like(x)
        cl.enqueue_copy(queue, y, buffer)
    except (cl.Error, CompileError) as error:
        return str(error).strip().splitlines()[0]
    return None if np.array_equal(y, 2 * x) else "a small program ran and gave wrong numbers"


def describe(found: Any) -> str:
    """The device as its driver names it."""
    return f"{found.name.strip()} ({found.platform.name.strip()} {found.driver_version})"
