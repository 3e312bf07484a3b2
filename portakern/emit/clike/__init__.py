"""The C family's shared emitter: a plan of layouts, regions and pipelines, printed in the tile vocabulary.

See docs/tile-vocabulary.md.  A platform subclasses :class:`CLikeEmitter` and describes itself as a :class:`Dialect`.
"""

from portakern.emit.clike.dialect import TYPES, Dialect
from portakern.emit.clike.emitter import CLikeEmitter, launch_comment
from portakern.emit.clike.plan import KernelParam, KernelPlan, ProgramPlan, Shared
from portakern.emit.clike.planner import Planner, build_plan
from portakern.emit.clike.printer import Printer
from portakern.emit.clike.standalone import included, inline_headers, reached, read_headers

__all__ = [
    "TYPES", "CLikeEmitter", "Dialect", "KernelParam", "KernelPlan", "Planner", "Printer", "ProgramPlan", "Shared",
    "build_plan", "included", "inline_headers", "launch_comment", "reached", "read_headers",
]  # fmt: skip
