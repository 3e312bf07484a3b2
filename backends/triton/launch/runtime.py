"""Real GPUs: Triton's own launcher on torch tensors."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from portakern import native
from portakern.backend import Availability, CompiledBinary, Source, Target
from portakern.errors import RuntimeFault
from portakern.native import open_device

from ..compile.faces import digests_in
from ..compile.worker import prepare_compiler, versions
from .executable import TritonExecutable


class TritonRuntime:
    """The first CUDA or ROCm device torch sees, if its instruction set is the target's."""

    parts = ("kernels", "host")
    recalls = True

    def available(self, target: Target) -> Availability:
        if find_spec("torch") is None or find_spec("triton") is None:
            return Availability(False, "torch and triton are needed: pip install 'portakern[triton]'")
        if not any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/kfd")):
            return Availability(False, "no NVIDIA or AMD GPU here")
        import torch

        if not torch.cuda.is_available():
            return Availability(False, f"torch {torch.__version__} sees no GPU")
        have = _instruction_set()
        if have != target.device.isa:
            return Availability(False, f"the GPU here is {have}, not {target.device.isa}")
        return Availability(True, f"{self.device_name(target)}, torch {torch.__version__}, {versions()}")

    def device_name(self, target: Target) -> str:
        import torch

        return torch.cuda.get_device_name(0)

    def load(self, source: Source, binary: CompiledBinary | None) -> TritonExecutable:
        """Triton compiles again when it launches, with the options the binary was compiled with."""
        found = self.available(source.target)
        if not found:
            raise RuntimeFault(f"{source.target} cannot run here: {found.detail}")
        prepare_compiler()
        compiled = digests_in(binary.log) if binary is not None else frozenset[str]()
        return TritonExecutable(source, "cuda", _driver(), compiled)

    def before_fork(self) -> None:
        """Triton's module of the driver's calls, which a C compiler makes where no cache has it."""
        vendor, utils = ("amd", "HIPUtils") if Path("/dev/kfd").exists() else ("nvidia", "CudaUtils")
        with suppress(Exception):
            getattr(import_module(f"triton.backends.{vendor}.driver"), utils)()

    def device(self, target: Target) -> native.Device:
        import torch

        return open_device(_driver(), torch.cuda.current_device())


def _driver() -> str:
    """The native core's driver of the GPUs that this torch was built for."""
    import torch

    return "hip" if torch.version.hip else "cuda"


def _instruction_set() -> str:
    """``sm_90`` or ``gfx942``."""
    import torch

    if torch.version.hip:
        return torch.cuda.get_device_properties(0).gcnArchName.split(":")[0]
    major, minor = torch.cuda.get_device_capability(0)
    return f"sm_{major}{minor}"
