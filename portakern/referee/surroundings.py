"""What of this machine the process of a stranger's kernel finds: files that it may read, folders in whose place it has empty
ones, and variables.

What a kernel reads can come out in the text of an error, so it reads programs and libraries, and nothing of the user's.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix", "/proc", "/sys", "/etc/ld.so.cache",
           "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/OpenCL", "/etc/localtime")  # fmt: skip
"""What programs need of the system to be read."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "nvidia*", "dri", "kfd", "dxg", "accel*", "vfio")
"""What computes, and what every program expects; terminals, disks and cameras of the user's are neither."""

_PACKAGES = ("site-packages", "dist-packages")


# ---- files -------------------------------------------------------------------------------------------------------------------


def readable() -> tuple[str, ...]:
    """What a runner must read: the system, the interpreter, portakern, and what it imports."""
    search = [p for p in sys.path if p]
    root = Path(__file__).parents[1]
    packages = [str(root)]
    if (plugins := find_spec("portakern.backends")) is not None:
        packages += plugins.submodule_search_locations or ()
    tools = [p for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    found = [*_of_modules(search), *_beside(search), *packages, *map(os.path.realpath, packages), sys.prefix, sys.base_prefix,
             os.path.realpath(sys.executable), *tools, *map(os.path.realpath, tools)]  # fmt: skip
    empty = private()
    return (*_SYSTEM, *(p for p in dict.fromkeys(map(os.path.abspath, found)) if p not in ("/", *empty)))


def _of_modules(search: Sequence[str]) -> Iterator[str]:
    """What there is to import.  Of a folder that has more than installed packages (that of a script, or a project that is
    worked on) these are the packages and libraries in it: what lies beside them is the user's."""
    for place in search:
        if os.path.basename(place) in _PACKAGES or _within(place, (sys.prefix, sys.base_prefix)) or os.path.isfile(place):
            yield place
        elif os.path.isdir(place):
            with os.scandir(place) as entries:
                yield from (e.path for e in entries if e.name.endswith(".so") or _is_package(e.path))


def _is_package(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "__init__.py"))


def _within(path: str, folders: Sequence[str]) -> bool:
    return any(path == f or path.startswith(f.rstrip("/") + "/") for f in folders)


def _beside(search: Sequence[str]) -> Iterator[str]:
    """Where wheels put libraries that are no modules, which is outside of ``sys.prefix`` for packages of a user or of another
    environment."""
    for folder in map(Path, search):
        if folder.name == "site-packages" and len(folder.parts) > 3:
            yield from (str(folder.parents[1]), str(folder.parents[2] / "include"))


def private() -> tuple[str, ...]:
    """Folders in whose place the process has empty ones."""
    folders = ["/tmp", "/var/tmp", "/dev/shm", "/run", tempfile.gettempdir(), str(Path.home())]
    return tuple(dict.fromkeys(os.path.realpath(f) for f in folders if os.path.realpath(f) != "/"))


def devices() -> tuple[str, ...]:
    """Files that it may read, write and control."""
    return (*(str(p) for name in _DEVICES for p in sorted(Path("/dev").glob(name))), "/proc/self")


# ---- variables ---------------------------------------------------------------------------------------------------------------

_KEPT = re.compile(
    "PATH|LANG|LANGUAGE|LC_.*|TZ|TERM|VIRTUAL_ENV|CONDA_PREFIX|"  # of every program
    "LD_LIBRARY_PATH|DYLD_.*|CC|CXX|CPATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|LIBRARY_PATH|COMPILER_PATH|GCC_.*|NIX_.*|ZIG_.*|"
    "LLVM_.*|MLIR_.*|GLIBC_TUNABLES|MALLOC_.*|PYTHON.*|PORTAKERN_.*|"
    "(OMP|KMP|GOMP|OPENBLAS|MKL|BLIS|TBB|NUMBA|NUMEXPR|VECLIB|SLURM_CPUS)_.*|"  # threads
    "(CUDA|NVIDIA|NV|NVRTC|CUBLAS|CUDNN|HIP|ROCM|ROCR|HSA|AMD|GPU|TRITON|TORCH|TORCHINDUCTOR|PYTORCH|JAX|XLA|LIBTPU|TPU|TF_(CPP|XLA|GPU)|"
    "OCL|OPENCL|POCL|PYOPENCL|CL|SYCL|ONEAPI|UR|PI|ZE|ZES|ZET|IGC|NEO)_.*")
"""Names of variables by which programs, compilers and drivers are told how to work."""

_SECRET = re.compile("TOKEN|SECRET|PASSW|PWD|CREDENTIAL|AUTH|_KEY$|COOKIE|PROXY|_UR[IL]$", re.IGNORECASE)
"""Names of those among them that are told to nobody."""


def variables(more: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Those of ours that a kernel's process finds, with ``more``; a value of ``None`` removes one."""
    found: dict[str, str | None] = {n: v for n, v in os.environ.items() if _KEPT.fullmatch(n) and not _SECRET.search(n)}
    return {n: v for n, v in {**found, **(more or {})}.items() if v is not None}
