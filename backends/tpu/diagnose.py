"""What a failure of jax, Mosaic or libtpu means: its kind, its cause in words, and the way out, as a table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from portakern.errors import CompileError


@dataclass(frozen=True)
class Rule:
    """``pattern`` is searched in the error's text; its groups fill ``cause``."""

    kind: str
    pattern: str
    cause: str
    fix: str


RULES = (
    Rule("block-shape", r"block shape are divisible by 8 and 128.*?Block spec for (?P<arg>\S+).*?has block shape "
         r"(?P<block>\(.*?\)), array shape (?P<array>\([\d, ]*\))",
         "the block {block} of {arg} (array {array}) has last dims that are neither multiples of (8, 128) nor the full extent",
         "take tiles that are multiples of 8 (second to last dim) and 128 (last dim), or that cover the axis"),
    Rule("block-shape", r"rank 1 block shapes.*?multiple of (?P<chunk>\d+)",
         "a block of a 1-D array is neither whole nor a multiple of {chunk}", "reshape the array to (1, N)"),
    Rule("vmem", r"CompileTimeScopedVmemOom.*?size (?P<used>[\d.]+[KMG]) and limit (?P<limit>[\d.]+[KMG])",
         "the blocks need {used} of VMEM, the limit is {limit}", "smaller tiles, or raise the limit with vmem_mb"),
    Rule("vmem", r"Used (?P<used>[\d.]+[KMG]) of (?P<limit>[\d.]+[KMG]) vmem",
         "the blocks need {used} of VMEM, there are {limit}", "smaller tiles"),
    Rule("vmem", r"CompileTimeScopedVmemOom|Ran out of memory in memory space vmem", "the blocks do not fit in VMEM",
         "smaller tiles, or raise the limit with vmem_mb"),
    Rule("hbm", r"Ran out of memory in memory space hbm", "the arrays do not fit in the device's memory", "smaller sizes"),
    Rule("matrix-dtype", r"Unsupported matmul \w+ type on target: (?P<type>\S+)|Bad lhs/rhs type: (?P<type2>[^\n]*)",
         "the matrix unit of this generation takes no {type}{type2}", "bf16 or f32 operands, or another generation"),
    Rule("precision", r"Unsupported dot precision: (?P<precision>\w+)", "dots have no precision {precision} here",
         "DEFAULT (bf16 products) or HIGHEST"),
    Rule("missing-op", r"Unimplemented primitive in Pallas TPU lowering for tc: (?P<op>\w+)", "Pallas has no {op} on TPUs",
         "say it with other operations"),
    Rule("missing-op", r"Only take_along_axis-like gathers supported|Multiple source vregs along gather",
         "Mosaic gathers only inside one vector", "a select summed over the axis, or an index map on prefetched scalars"),
    Rule("dtype", r"Invalid dtype for `swap`\. Ref dtype: (?P<dtype>\w+)|Invalid vector type for load",
         "a TPU has no vectors of this type {dtype}", "compute in f32 or i32, store bf16, f32, i32 or i8"),
    Rule("constant", r"captures constants", "the kernel closes over an array", "pass the array as an input"),
    Rule("entry", r"is not defined|missing \d+ required positional|takes \d+ positional|unexpected keyword",
         "the entry function cannot be called on the operator's arrays", "define `def entry(x, w)` that returns the outputs"),
    Rule("mosaic", r"Mosaic failed to compile TPU kernel.*?: (?P<reason>[^\n]+)", "Mosaic cannot compile the kernel: {reason}",
         ""),
)  # fmt: skip


def explain(text: str, what: str, origins: dict[int, str], file: str) -> CompileError:
    """The error to raise for a failed compilation.

    Args:
        text: everything the compiler said.
        what: what was compiled, ``softmax for v5e``.
        origins: the operator's line behind lines of the source.
        file: the name the source was compiled under; frames in it are looked up in ``origins``.
    """
    where = _where(text, origins, file)
    for rule in RULES:
        if found := re.search(rule.pattern, text, re.DOTALL):
            words = {k: re.sub(r"\s+", " ", v or "")[:300] for k, v in found.groupdict().items()}
            return CompileError(f"{what}: {rule.cause.format(**words)}", rule.fix, where, kind=f"compile-{rule.kind}",
                                log=text)
    first = next((line for line in text.splitlines() if line.strip()), "no message")
    return CompileError(f"{what}: {first[:300]}", "the log has the compiler's own words", where, log=text)


def _where(text: str, origins: dict[int, str], file: str) -> str:
    """The operator's line (or the source's own) that the compiler points at."""
    for number in re.findall(rf'{re.escape(file)}"?,? ?(?:line |:)(\d+)', text):
        if int(number) in origins:
            return origins[int(number)]
    found = re.search(rf'{re.escape(file)}"?,? ?(?:line |:)(\d+)', text)
    return f"{file}:{found[1]}" if found else ""
