"""``python -m portakern.backends.rocm.cost FILE.s``: the model on assembly from anywhere, such as ``clang -S`` wrote.

Arguments that are not given are unknown: loops with constant bounds and accesses to LDS are still followed, addresses of
global memory are not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from portakern.backend import Argument, Dispatch
from portakern.errors import PortakernError, UsageError
from portakern.launch.dispatch import number_bytes
from portakern.study.inspecting import arguments_of
from portakern.tools.process import run_tool

from .amdgcn.assembly.parser import parse
from .amdgcn.cost.estimator import _devices
from .amdgcn.cost.model import KernelCost, price
from .amdgcn.cost.report import lines
from .toolchain import HINT, TIMEOUT_S, choose


def assemble(file: Path, isa: str) -> bytes:
    """The code object of an assembly text."""
    clang = choose(isa)
    with tempfile.TemporaryDirectory(prefix="portakern-cost-") as folder:
        place = Path(folder)
        (place / "kernel.s").write_text(file.read_text())
        compile_ = [*clang.command, "-target", "amdgcn-amd-amdhsa", f"-mcpu={isa}", "-c", "kernel.s", "-o", "kernel.o"]
        for command in (compile_, [*clang.linker, "-shared", "kernel.o", "-o", "kernel.hsaco"]):
            run_tool(command, timeout_s=TIMEOUT_S, cwd=place, missing_hint=HINT).checked(str(file))
        return (place / "kernel.hsaco").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m portakern.backends.rocm.cost", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--kernel", help="which one, where there are several")
    parser.add_argument("--product", help="such as mi300x; by default the instruction set's own")
    parser.add_argument("--grid", default="1024", help="blocks X[,Y[,Z]]")
    parser.add_argument("--block", default="256", help="threads X[,Y[,Z]]")
    parser.add_argument("--shared", type=int, default=0, help="bytes of dynamic LDS")
    parser.add_argument("--args", default="", help="x=bf16[M,N],n=4096, as portakern inspect takes them")
    asked = parser.parse_args()
    try:
        print("\n".join(lines(priced(asked))))
    except PortakernError as error:
        print(f"portakern: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def priced(asked: argparse.Namespace) -> KernelCost:
    text = asked.file.read_text()
    code = parse(text)
    isa = code.target.rsplit("-", 1)[-1]
    kernels = list(code.kernels)
    if len(kernels) != 1 and asked.kernel not in kernels:
        raise UsageError(f"{asked.file} holds {len(kernels)} kernels", hint=f"--kernel, one of {', '.join(kernels)}")
    devices = _devices()
    device = devices[asked.product or devices[isa].default_product]
    given = tuple(Argument(g.name) if g.shape is not None else Argument(value=number_bytes(g.dtype, g.value))
                  for g in arguments_of(asked.args))  # fmt: skip
    dispatch = Dispatch(asked.kernel or kernels[0], assemble(asked.file, isa), text, _three(asked.grid), _three(asked.block),
                        asked.shared, given)  # fmt: skip
    return price(dispatch, device)


def _three(text: str) -> tuple[int, int, int]:
    x, y, z = (*(int(n) for n in text.split(",")), 1, 1)[:3]
    return x, y, z


if __name__ == "__main__":
    sys.exit(main())
