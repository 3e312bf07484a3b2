"""Compiles a Pallas source for a TPU that is not there, in this process.  Imports jax and libtpu: for workers only.

libtpu describes a topology of any generation and compiles for it ahead of time.  Some inputs abort the process instead
of raising, which is why :mod:`.toolchain` calls this in a child.
"""

from __future__ import annotations

import atexit
import math
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from portakern.backend import CompiledBinary, Resources, Source
from portakern.errors import CompileError, ScheduleError
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

from ..planning.words import WORDS
from ..text.emitter import SCHEDULES
from ..trace.environment import TOPOLOGIES, tool_name
from ..trace.faces import digest_of, log_of
from ..trace.kernel_calls import KernelCall, calls_of, line_using, trace
from ..trace.source_module import entry_function, file_name
from .diagnose import FirstLine, explain, origin_of
from .room import refuse_without_room

_FOLDER = "portakern-tpu-"
_ASSEMBLY_LIMIT = 4_000_000  # characters; beyond it the middle of the listing is left out


def prepare() -> Path:
    """Point libtpu's dumps of its low-level code at a folder of this process; must run before libtpu is loaded."""
    folder = Path(tempfile.gettempdir()) / f"{_FOLDER}{os.getpid()}"
    if not folder.is_dir():
        _sweep()
        folder.mkdir(mode=0o700)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        flags = (f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true "
                 "--xla_jf_dump_llo_pass_label_regex=^(original|final_bundles)")
        os.environ["LIBTPU_INIT_ARGS"] = f"{os.environ.get('LIBTPU_INIT_ARGS', '')} {flags}".strip()
    return folder


def _sweep() -> None:
    """Remove the folders of processes that were killed before they could do it themselves."""
    for old in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        owner = old.name.removeprefix(_FOLDER)
        if owner.isdigit() and (int(owner) == os.getpid() or not Path(f"/proc/{owner}").exists()):
            shutil.rmtree(old, ignore_errors=True)


@cache
def device_of(isa: str) -> Any:
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[isa]).devices[0]


def compile_source(source: Source) -> CompiledBinary:
    """Compile ``source`` for its target's generation; open dims take their typical sizes.

    Raises :class:`CompileError` with the compiler's words as its log.
    """
    folder = prepare()
    try:
        return _compile(source, folder)
    finally:
        for dump in folder.iterdir():
            shutil.rmtree(dump) if dump.is_dir() else dump.unlink()


def _compile(source: Source, folder: Path) -> CompiledBinary:
    what = f"{source.operator} for {source.target.device.name}"
    function = entry_function(source)
    calls: list[KernelCall] = []
    origins: dict[int, str] = dict(dict(source.options).get("origins", ()))
    try:
        arguments = arguments_of(source)
        import jax

        with jax.default_device(device_of(source.target.device.isa)):
            traced = trace(function, arguments)
            calls += calls_of(traced, arguments)
        refuse_interpreted(calls, what)
        refuse_without_room(calls, what, source.target.device)
        compiled = ahead_of_time(function, arguments, source.target.device.isa)
        data = _serialize(compiled)
    except CompileError as error:
        error.where = origin_of(error.where, origins, file_name(source))
        raise _blamed(error, source) from None
    except Exception as error:
        message = f"{type(error).__name__}: {error}\n{_traceback(error)}"
        lines = (lambda operation: line_using(calls, operation)) if calls else launches_in(source)
        raise _blamed(explain(message, what, origins, file_name(source), lines), source) from None
    return CompiledBinary("tpu-executable", data, tool_name(), _resources(compiled, folder), _assembly(folder),
                  log=_sizes_note(source) or log_of(digest_of(traced)))


def _blamed(error: CompileError, source: Source) -> CompileError | ScheduleError:
    """``error``, or the schedule's where kernels written for one have no room in VMEM."""
    if error.kind != "compile-vmem" or not source.schedule:
        return error
    schedules = dict(dict(source.options).get(SCHEDULES, ()))
    named = re.search(r"/(\w+)/pallas_call", error.log) or re.search(r"the blocks of (\w+) need", error.message)
    only = next(iter(schedules.values()), "") if len(schedules) == 1 else ""
    return ScheduleError(error.message, error.hint, error.where, schedule=schedules.get(named[1], only) if named else only)


def refuse_interpreted(calls: Sequence[KernelCall], what: str) -> None:
    """Raise :class:`CompileError` where the text asks for an interpreter: XLA would compile that, and no kernel."""
    for call in calls:
        if call.interpreted:
            raise CompileError(f"{what}: {call.name} asks to be interpreted, so there is no kernel to compile",
                               "call pl.pallas_call without interpret=; portakern interprets it by itself", call.where,
                               kind="compile-interpret")  # fmt: skip


def launches_in(source: Source) -> FirstLine:
    """For a text that cannot even be traced: the line of its first ``pallas_call``."""
    number = next((n for n, line in enumerate(source.text.splitlines(), 1) if "pallas_call(" in line), None)
    return lambda operation: f"{file_name(source)}:{number}" if number and not operation else ""


def typical_sizes(source: Source) -> dict[str, int]:
    given = dict(dict(source.options).get("typical", ()))
    return {name: int(given.get(name, 1000)) for name in source.sizes}


def _sizes_note(source: Source) -> str:
    sizes = typical_sizes(source)
    return f"compiled for {', '.join(f'{k}={v}' for k, v in sizes.items())}" if sizes else ""


def arguments_of(source: Source) -> list[Any]:
    """Shapes and dtypes that the entry is called with; open dims take their typical sizes."""
    return arguments_at(source, typical_sizes(source))


def arguments_at(source: Source, sizes: Mapping[str, int]) -> list[Any]:
    """The same with the open dims given."""
    import jax

    from ..trace.dtypes import jax_dtype

    words = dict(source.options).get(WORDS, ())
    found = []
    for a in source.by_role("input", "scalar"):
        shape = tuple(evaluate(s, sizes) for s in a.type.shape) if isinstance(a.type, BufferType) else ()
        shape, dtype = ((2, *shape), "u32") if a.name in words else (shape, "i32" if a.dtype == "i64" else a.dtype)
        found.append(jax.ShapeDtypeStruct(shape, jax_dtype(dtype)))
    return found


def ahead_of_time(function: Any, arguments: Sequence[Any], isa: str, options: Mapping[str, Any] | None = None) -> Any:
    """What jax compiles ``function`` to for a generation, with row-major layouts pinned, or XLA would add copies around it.

    ``options`` go to XLA.  Raises whatever jax, Mosaic and libtpu raise.
    """
    import jax
    from jax.experimental.layout import Format, Layout

    device = device_of(isa)
    sharding = jax.sharding.SingleDeviceSharding(device)

    def row_major(rank: int) -> Any:
        return Format(Layout(major_to_minor=tuple(range(rank))), sharding)

    # Lowering asks the default device for its generation.
    with jax.default_device(device):
        out = jax.eval_shape(function, *arguments)
        jitted = jax.jit(function, in_shardings=tuple(row_major(len(a.shape)) for a in arguments),
                         out_shardings=jax.tree.map(lambda o: row_major(len(o.shape)), out))
        return jitted.lower(*arguments).compile(compiler_options=dict(options) if options else None)


def _serialize(compiled: Any) -> bytes:
    """The executable as PJRT loads it on a host with this generation of TPU."""
    return compiled.runtime_executable().serialize()


def _traceback(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))[-20000:]


def _resources(compiled: Any, folder: Path) -> tuple[Resources, ...]:
    """VMEM and SMEM of every Pallas kernel from libtpu's dump of its low-level code, and the size of the program's code.

    What XLA adds around the kernels (a reshape that moves data) is counted in ``extra``, never as a kernel.
    """
    code = compiled.memory_analysis().generated_code_size_in_bytes
    hlo = _program_text(compiled, folder)
    kernels = set(re.findall(r'%([\w.-]+) = [^\n]*? custom-call\([^\n]*?custom_call_target="tpu_custom_call"', hlo))
    dumps = {_operation(path): path for path in sorted(folder.rglob("*-original.txt"))}
    others = sum(1 for name in dumps if name and name not in kernels)
    found = []
    for name in sorted(kernels & dumps.keys()):
        text = dumps[name].read_text(errors="replace")
        resident = sum(resident_operands(text))
        vmem = sum(allocations(text, "vmem")) + resident
        code_text = _bundles(folder, name)
        bundles = len(re.findall(r"^\s*0x[0-9a-f]+", code_text, re.MULTILINE))
        extra = (("vmem_bytes", vmem), ("vmem_operand_bytes", resident), ("smem_bytes", sum(allocations(text, "smem"))),
                 ("bundles", bundles), ("scalar_spills", _spills(code_text, "smem")), ("xla_operations", others))
        kernel = re.sub(r"\.\d+(\.\w+)*$", "", name)  # from jax 0.11 on an output's name may follow the number
        found.append(Resources(kernel, _registers(code_text), _spills(code_text, "vmem"), None, vmem,
                               code, extra=extra, source="LLO dump (registers, spills, VMEM) and memory_analysis (code of "
                               f"the whole program) of {tool_name()}"))  # fmt: skip
    return tuple(found) or (Resources("", code_bytes=code, source=f"memory_analysis of {tool_name()}"),)


def _program_text(compiled: Any, folder: Path) -> str:
    """The program as XLA compiled it; libtpu's dump of it where jax cannot read it (copies in slices)."""
    try:
        return compiled.as_text() or ""
    except Exception:
        dumps = sorted(folder.rglob("*-TLP-hlo.txt"))
        return dumps[-1].read_text(errors="replace") if dumps else ""


def _operation(path: Path) -> str:
    """The HLO operation a dump belongs to: ``softmax.1``; nothing for the program around the operations."""
    found = re.fullmatch(r"\d+-([\w.-]+?)-\d+-original\.txt", path.name)
    return found[1] if found and found[1] != "TLP" else ""


def allocations(text: str, space: str) -> list[int]:
    """Bytes of every allocation in a memory space, each counted once."""
    pattern = rf"#(allocation\d+) \[shape = [^\n]*?space=({space}), size = (0x[0-9a-f]+)"
    return list({name: int(size, 16) for name, _, size in re.findall(pattern, text)}.values())


def resident_operands(text: str) -> list[int]:
    """Bytes of every operand that the compiler put into VMEM as a whole, so that it needs no window."""
    found = re.findall(r"inlined_call_operand\.vmem \[shape: ([a-z]+)(\d+)\w*\[([\d,]*)\]", text)
    return [max(int(bits), 8) // 8 * math.prod(int(n) for n in dims.split(",") if n) for _, bits, dims in found]


def _registers(bundles: str) -> int | None:
    """Vector registers that the bundles use: each value is written with the register that holds it (``%v12_v3``)."""
    numbers = {int(n) for n in re.findall(r"%v\d+_v(\d+)", bundles)}
    return max(numbers) + 1 if numbers else None


def _spills(bundles: str, space: str) -> int | None:
    """Stores of registers to memory for want of registers: of vector registers to ``vmem``, of scalar ones to ``smem``."""
    return len(re.findall(rf"st \[{space}:\[#allocation\d+_spill", bundles)) if bundles else None


def _bundles(folder: Path, operation: str) -> str:
    """The instruction bundles of an operation as libtpu prints them."""
    path = next((p for p in folder.rglob("*-final_bundles.txt")
                 if re.fullmatch(rf"\d+-{re.escape(operation)}-\d+-final_bundles\.txt", p.name)), None)
    return path.read_text(errors="replace") if path else ""


def _assembly(folder: Path) -> str | None:
    """The instruction bundles of every operation of the program."""
    names = sorted(filter(None, map(_operation, folder.rglob("*-original.txt"))))
    text = "\n".join(f"// {name}\n{_bundles(folder, name)}" for name in names)
    if len(text) > _ASSEMBLY_LIMIT:
        half = _ASSEMBLY_LIMIT // 2
        text = f"{text[:half]}\n// ... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    return text or None
