"""What ``torch.export`` refuses, said in the user's terms: his own line, what is wrong with it, and what to do."""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from portakern.errors import PortakernError, SpecError, UsageError
from portakern.ir.core import Loc
from portakern.spec.location import line_at


@dataclass(frozen=True)
class Refusal:
    """A kind of refusal: a pattern of what PyTorch says (the class of the error and its text), what that means, what to do, and
    a pattern of the line that it is about."""

    said: str
    means: str
    hint: str
    line: str = ""


_DATA = r"GuardOnDataDependentSymNode|data-dependent|DataDependentOutputException|Cannot call .*item|aten\._local_scalar_dense"
_NUMPY = r"\.numpy\(\) is not supported|Numpy|numpy"
_ONE_SHAPE = "a kernel has one course for all numbers"

REFUSALS = (
    Refusal(_DATA, "an assertion about numbers inside an array", "leave it out, or skip it with "
            "`if not torch.compiler.is_exporting():`", r"^assert\b"),
    Refusal(_DATA, "a loop whose end depends on numbers inside an array", "loop a fixed number of times, and keep what is done "
            "with torch.where(mask, new, old)", r"^while\b"),
    Refusal(_DATA, "a loop over as many elements as numbers inside an array say", "loop over all of them (all experts), and "
            "keep what is done with torch.where(mask, new, old)", r"^for\b(?!.*range\()"),
    Refusal(_DATA, "the number of classes follows from the numbers inside an array", "give it: F.one_hot(x, num_classes=n)",
            r"\bone_hot\("),
    Refusal(_DATA, "Python needs to know a number inside an array (an index, a size, the end of a range, a power)",
            "pick with arrays (x[index], torch.gather, torch.where), or give the number to the function as an int: then it is "
            "fixed by the import", r"\bint\(|range\(|tolist\(|\.item\(|\[.*\]\s*$"),
    Refusal(_DATA, f"Python decides by a number inside an array, and {_ONE_SHAPE}",
            "compute both and choose with torch.where(condition, yes, no); what does not change between calls is given as a "
            "bool or int and is fixed by the import"),
    Refusal(_NUMPY, "the array leaves PyTorch for numpy",
            "write this part with functions of torch, which have the same names for the most part"),
    Refusal(r"Cannot access data pointer|data_ptr", "it asks where an array lies, as kernels of others do",
            "import the module with its plain PyTorch form of this part (many have an option such as use_triton=False)"),
    Refusal(r"not linked with support for (\w+)|NVIDIA driver|No CUDA GPUs|not compiled with CUDA",
            "it moves arrays to a device that is not here", "use the device of the input (x.device), or import on the CPU"),
    Refusal(r"FakeTensorDeviceMismatch|two different devices|same device", "arrays lie on different devices",
            "bring the module and the example inputs to one device; arrays that the code makes need device=x.device"),
    Refusal(r"quantized nyi|Sparse|sparse|nested", "arrays of this kind (quantised, sparse, nested) cannot be exported",
            "use dense arrays, and integers with their scales as arrays of their own"),
    Refusal(r"does not require grad|requires_grad", "it asks autograd for gradients inside",
            "import the function without its backward, and its gradient by portakern.torch_import.gradient.gradient_of"),
    Refusal(r"Mutating module attribute|assigned during export", "it writes to an attribute of the module",
            "return the new value, or register it as a buffer"),
)  # fmt: skip


def is_about_numbers(error: Exception) -> bool:
    """Whether Python needed to know a number inside an array."""
    return bool(re.search(_DATA, f"{type(error).__name__}: {error}"))


def is_about_numpy(error: Exception) -> bool:
    """Whether an array left PyTorch for numpy."""
    return bool(re.search(_NUMPY, f"{type(error).__name__}: {error}"))


def refusal(error: Exception, module: Any, loc: Loc | None, run: Callable[[], Any], example: str,
             any_tensor: bool = True) -> PortakernError:
    """The error to raise for ``error``, which ``torch.export`` raised.

    ``run`` runs the module itself on the example, of which ``example`` is the text: what fails there too is the example's fault
    or the module's own.
    """
    place = place_in(error, module) or loc
    said = f"{type(error).__name__}: {error}"
    dynamic = _open_dims(str(error))
    if dynamic is not None:
        return UsageError(*dynamic, where=str(loc or ""))
    found = next((r for r in REFUSALS if re.search(r.said, said) and re.search(r.line, place.text if place else "")), None)
    if found is not None and found.said == _DATA:
        return _spoken(found, place)
    advice = "look at the shapes, dtypes and devices of the example and the weights"
    if not any_tensor:
        advice = "example inputs are tensors, as torch.randn(3, 4), and none is among them"
    try:
        run()
    except Exception as own:  # whatever the module's own code or PyTorch raises
        raised = f"{type(own).__name__}: {_short(str(own))}"
        return UsageError(f"the module does not run on the example inputs ({example}): {raised}",
                          hint=f"PyTorch raises this, too: {advice}",
                          where=str(place_in(own, module) or loc or ""))  # fmt: skip
    if found is not None:
        return _spoken(found, place)
    return SpecError(f"torch.export refuses it: {type(error).__name__}: {_short(str(error))}",
                     hint="torch.export follows the Python of a module once, on arrays without numbers: what it cannot follow "
                          "has to be written with functions of torch", where=str(place or ""))  # fmt: skip


def _spoken(found: Refusal, place: Loc | None) -> SpecError:
    line = f": `{place.text}`" if place is not None and place.text else ""
    return SpecError(f"torch.export refuses it: {found.means}{line}", hint=found.hint, where=str(place or ""))


def _short(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " ".join(lines[:3])[:400]


# ---- open dims ------------------------------------------------------------------------------------------------------


def _open_dims(said: str) -> tuple[str, str] | None:
    """What is wrong with the dims that were left open, and what to do."""
    fixed = re.findall(r"L\['(\w+)'\]((?:\[[^\]]*\])*)\.size\(\)\[(\d+)\] as dynamic but your code specialized it to be a "
                       r"constant \((\d+)\)", said)  # fmt: skip
    if fixed:
        each = "; ".join(f"dim {dim} of {name}{inner} can only be {size}" for name, inner, dim, size in fixed)
        return f"{each}, since the code needs this size, but dynamic leaves it open", (
            "take it out of dynamic, or write the code for any size (x.shape[0] in place of a number)")
    one = re.search(r"export 0/1 specialized due to hint of (\d) for dimension inputs\['?(\w+)'?\]\.shape\[(\d+)\]", said)
    if one:
        return f"dim {one[3]} of {one[2]} is open, and {one[1]} in the example, of which PyTorch makes a special case", (
            "give an example where the dim is 2 or more")
    if "Constraints violated" in said or "conflicts between user-specified ranges" in said:
        reasons = [line.strip(" -") for line in said.splitlines()[1:] if line.strip().startswith("-")]
        return f"open dims cannot be as dynamic says: {' '.join(reasons)[:300] or _short(said)}", (
            "give dims that are equal one name, and take those that are fixed out of dynamic")
    return None


# ---- places ---------------------------------------------------------------------------------------------------------


def place_in(error: BaseException, module: Any) -> Loc | None:
    """The innermost line in the traceback of ``error`` that is neither PyTorch's, Python's nor ours, with the path of the part
    of ``module`` whose line it is."""
    found: Loc | None = None
    paths = {id(part): path for path, part in module.named_modules()}
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if not _is_others(frame.f_code.co_filename):
            at = line_at(frame.f_code.co_filename, traceback.tb_lineno)
            found = Loc(at.file, at.line, at.text, paths.get(id(frame.f_locals.get("self")), ""))
        traceback = traceback.tb_next
    return found


def _is_others(file: str) -> bool:
    return file.startswith(("<", *_others()))


@lru_cache(maxsize=1)
def _others() -> tuple[str, ...]:
    torch = sys.modules["torch"]
    own = Path(__file__).parents[1]
    standard = sysconfig.get_paths()["stdlib"]
    library = tuple(f"{standard}/{name}" for name in ("contextlib.py", "functools.py", "inspect.py"))
    return str(Path(str(torch.__file__)).parent), f"{own}/torch_import", f"{own}/spec", *library
