"""Plain C11 for the host CPU.  The manifest, which portakern finds through the entry point in pyproject.toml."""

from pathlib import Path

from portakern.backend import Backend, Language
from portakern_c.emitter import CEmitter, adopt
from portakern_c.runtime import CRuntime
from portakern_c.schedules import schedules
from portakern_c.toolchain import CToolchain

CONVENTION = """\
One C11 text with a function named as the operator unless an entry is given: `void softmax(const float* x, float* y)`.
It takes pointers to the arrays in the operator's order, inputs before outputs, row-major unless strides are stated (bf16
as uint16_t bit patterns, bool as bool), then run-time scalars by value, then the open dims as int64_t sorted by name.  It
writes every output completely."""

backend = Backend(
    name="plain_c",
    devices=Path(__file__).parent / "devices",
    languages=(
        Language(
            name="c",
            title="C11",
            targets=("cpu",),
            emitter=CEmitter(),
            schedules=schedules,
            tools={"cc": "compiles C (gcc or clang)"},
            toolchain=CToolchain(),
            runtime=CRuntime(),
            convention=CONVENTION,
            adopt=adopt,
        ),
    ),
)
