"""What a failure of jax, Mosaic or libtpu means: its kind, its cause in words, the way out, and the kernel's line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from portakern.errors import CompileError


@dataclass(frozen=True)
class Rule:
    """``pattern`` is searched in the error's text; its groups fill ``cause``.

    ``operation`` is the primitive of jax whose line is meant where the error names none (a group of the pattern, or a name);
    ``at`` is ``line``, or ``call`` where the launch is what is wrong.
    """

    kind: str
    pattern: str
    cause: str
    fix: str
    operation: str = ""
    at: str = "line"


TILES = "take blocks whose last two dims are multiples of 8 and 128, or cover their axis"
SMALLER = "smaller blocks, fewer buffers, or a higher vmem_limit_bytes (vmem_mb in a schedule)"

RULES = (
    # ---- blocks and grids
    Rule("block-shape", r"block shape are divisible by 8 and 128.*?Block spec for (?P<arg>\S+).*?has block shape "
         r"(?P<block>\(.*?\)), array shape (?P<array>\([\d, ]*\))",
         "the block {block} of {arg} (array {array}) has last dims that are neither multiples of (8, 128) nor the full extent",
         TILES, at="call"),
    Rule("block-shape", r"rank 1 block shapes.*?multiple of (?P<chunk>\d+)",
         "a block of a 1-D array is neither whole nor a multiple of {chunk}",
         "reshape the array to (1, N) and give it 2-D blocks", at="call"),
    Rule("block-rank", r"Block shape for (?P<arg>\S+) \(= \((?P<block>.*?)\)\) must have the same number of dimensions as "
         r"the array shape (?P<array>\([\d, ]*\))", "the block ({block}) of {arg} has another rank than its array {array}",
         "give the block one size for each dim, None for one that it drops", at="call"),
    Rule("index-map", r"Index map function \S+ at \S+ for (?P<arg>\S+) must return (?P<wanted>\d+) values"
         r".*?returning (?P<given>\d+)",
         "the index map of {arg} gives {given} block numbers, its block has {wanted} dims", "return one number for each dim",
         at="call"),
    Rule("index-map", r"<lambda>\(\) (?P<what>takes \d+ positional arguments? but \d+ (?:was|were) given|"
         r"missing \d+ required[^\n]*)",
         "an index map {what}: it is called with the grid's indices and then the prefetched scalars",
         "give every index map one parameter for each axis of the grid, and one for each prefetched array", at="call"),
    Rule("semantics", r"Length of grid does not match length of dimension semantics\. len\(grid\)=(?P<grid>\d+), "
         r"len\(dimension_semantics\)=(?P<said>\d+)", "the grid has {grid} axes, dimension_semantics name {said}",
         'say "parallel" or "arbitrary" for every axis of the grid', at="call"),
    Rule("block-rank", r"supports only blocks of rank >= 1\. Block spec for (?P<arg>\w+)",
         "{arg} has no dims, and blocks in VMEM have at least one",
         "give it shape (1, 1), or (1,) with memory_space=pltpu.SMEM", at="call"),
    Rule("memory-space", r"in memory space ANY only blocks having the same block shape as the array.*?"
         r"Block spec for (?P<arg>\S+)",
         "{arg} stays in HBM (memory_space=pl.ANY) and is given a block and an index map",
         "drop the block and copy with pltpu.make_async_copy, or drop the memory space", at="call"),
    # ---- memory
    Rule("smem", r"Ran out of memory in memory space smem\. Used [\d.]+[KMG] of (?P<limit>[\d.]+[KMG]) smem\. Exceeded smem "
         r"capacity by (?P<over>[\d.]+[BKMG])",
         "scalars, prefetched arrays and scratch need {over} more than the {limit} of SMEM",
         "prefetch fewer scalars, or keep the table in VMEM", at="call"),
    Rule("smem", r"would exceed memory \(size=(?P<limit>\d+)\)[^\n]*space=smem",
         "scalars, prefetched arrays and scratch do not fit in the {limit} bytes of SMEM",
         "prefetch fewer scalars, or keep the table in VMEM", at="call"),
    Rule("vmem", r"CompileTimeScopedVmemOom.*?size (?P<used>[\d.]+[KMG]) and limit (?P<limit>[\d.]+[KMG])",
         "the blocks need {used} of VMEM, the limit is {limit}", SMALLER, at="call"),
    Rule("vmem", r"Allocation \(size=(?P<used>\d+)\) would exceed memory \(size=(?P<limit>\d+)\)[^\n]*?tag = '"
         r"(?P<what>input window|output window|scratch operand)(?: allocation for operator (?P<which>\w+ \d+)\. "
         r"The window shape is (?P<shape>\w+\[[\d,]*\]))?",
         "the {what} {which} {shape} alone needs {used} bytes, more than the {limit} bytes of VMEM there are (blocks of a "
         "grid are held twice)", SMALLER, at="call"),
    Rule("vmem", r"Used (?P<used>[\d.]+[KMG]) of (?P<limit>[\d.]+[KMG]) vmem",
         "the blocks need {used} of VMEM, there are {limit}", SMALLER, at="call"),
    Rule("vmem", r"CompileTimeScopedVmemOom|Ran out of memory in memory space vmem", "the blocks do not fit in VMEM", SMALLER,
         at="call"),
    Rule("hbm", r"CompileTimeHbmOom[^\n]*?\((?P<used>[\d.]+[KMG])\) exceeds available HBM \((?P<limit>[\d.]+[KMG])\)",
         "the arrays need {used} of the device's memory, it has {limit}", "smaller sizes", at="call"),
    Rule("hbm", r"Ran out of memory in memory space hbm", "the arrays do not fit in the device's memory", "smaller sizes",
         at="call"),
    Rule("memory-space", r"Loads are only allowed on VMEM and SMEM references\. (?P<space>\w+)",
         "a block in memory space {space} cannot be read like an array: it is still in HBM",
         "copy it into scratch with pltpu.make_async_copy, or give it a BlockSpec with a block", "get"),
    Rule("memory-space", r"Stores are only allowed on VMEM and SMEM references",
         "an output that stays in HBM cannot be written like an array",
         "write scratch and copy it out with pltpu.make_async_copy", "swap"),
    Rule("scalar-store", r"Cannot store scalars to VMEM", "a single number is stored to VMEM, which takes vectors only",
         "store a [1, 1] slice (ref[0:1, 0:1] = ...), or give the output memory_space=pltpu.SMEM", "swap"),
    # ---- dtypes and matrix units
    Rule("matrix-dtype", r"Unsupported matmul \w+ type on target: (?P<type>\S+)|Bad lhs/rhs type: (?P<type2>[^\n]*)",
         "the matrix unit of this generation takes no {type}{type2}",
         "cast the operands to bf16 or f32 (i8 and fp8: v5e and later), or take another generation", "dot_general"),
    Rule("matrix-dtype", r"Expected matmul acc to be 32-bit", "a product must be accumulated in 32 bits",
         "preferred_element_type=jnp.float32 (jnp.int32 for integers), then cast", "dot_general"),
    Rule("precision", r"Unsupported dot precision: (?P<precision>\w+)", "dots have no precision {precision} here",
         "DEFAULT (bf16 products) or HIGHEST", "dot_general"),
    Rule("store-dtype", r"Invalid dtype for `swap`\. Ref dtype: (?P<ref>\w+)\. Value dtype: (?P<value>\w+)",
         "a value of {value} is stored to a block of {ref}", "cast it: value.astype(ref.dtype)", "swap"),
    Rule("store-shape", r"Invalid shape for `swap`\..*?Expected shape: (?P<ref>\([\d, ]*\))\. Value shape: "
         r"(?P<value>\([\d, ]*\))",
         "a value of shape {value} is stored where {ref} is", "store to a slice of that shape, or broadcast the value", "swap"),
    Rule("dtype", r"Invalid vector type for load", "a TPU has no vectors of this type",
         "compute in f32 or i32; store bf16, f32, i32 or i8", "get"),
    Rule("dtype", r"Only vector<i16> and vector<i32> are supported, but got '(?P<type>[^']+)'",
         "this generation has no arithmetic on {type}, which it can only store", "compute in i32 or f32 and cast at the end"),
    Rule("block-shape", r"Invalid type:.*?non-positive|got a zero-sized|failed to verify[^\n]*shape", "a block has no elements",
         "blocks have at least one element in every dim", at="call"),
    Rule("dtype", r"Invalid type:.*?failed to verify", "a TPU has no vectors of this type",
         "there are f32, bf16, i32, i16 and i8, and fp8 on some: compute in f32 or i32, complex as two arrays"),
    # ---- operations
    Rule("missing-op", r"Unimplemented primitive in Pallas TPU lowering for tc: (?P<op>\w+)", "Pallas has no {op} on TPUs",
         "say it with other operations: running sums by shifted adds or a dot with a triangle, sorts and top-k outside, "
         "convolutions by shifted dots", "{op}"),
    Rule("gather", r"Only take_along_axis-like gathers supported|Multiple source vregs along gather|"
         r"Sublane gather not supported",
         "Mosaic gathers only inside one vector, along one axis",
         "an index map on prefetched scalars, copies of rows, a dot with a one-hot matrix, or a select summed over the axis",
         "gather"),
    Rule("strided-slice", r"last dim size is not 128 in original base memref",
         "a load with a step takes 32-bit elements in arrays of 128 columns",
         "load f32 or i32 by columns of 128, or all rows and take those wanted by a dot with a 0-1 matrix"),
    Rule("batch-dims", r"Up to 1 batch dim supported", "a dot has more than one batch dim",
         "loop over all but one of them, or make them axes of the grid", "dot_general"),
    Rule("strided-slice", r"expected strides to be confined to \[1, 2\)", "a value cannot be sliced with a step",
         "read it so: ref[pl.ds(start, size, stride=step), :]", "slice"),
    Rule("iota", r"'tpu\.iota' op result #0 must be vector of integer", "iota makes integers only",
         "broadcasted_iota of jnp.int32, then cast", "iota"),
    Rule("reshape", r"infer-vector-layout: unsupported shape cast|Unsupported shape cast",
         "a reshape that moves elements between lanes: the last dim changes to what is no multiple of 128",
         "keep the last dim, or reshape outside the kernel, where XLA can", "reshape"),
    Rule("relayout", r"(?P<what>Unsupported input layout|Unsupported output layout|unsupported relayout|Not implemented: [^\n]*"
         r"(?:layout|transpose|relayout)[^\n]*)", "Mosaic has no way to bring a value into the layout it needs: {what}",
         "keep rows in the last dim but one and columns in the last; broadcast or transpose outside the kernel"),
    Rule("unaligned", r"index in dimension (?P<dim>\d+) is a multiple of (?P<by>\d+)",
         "an index in dim {dim} must be known to be a multiple of {by}",
         "pl.multiple_of(index, {by}) where it is one, else read the aligned block around it and shift or mask", "get"),
    Rule("unaligned", r"Offsets along tiled dimensions must be aligned.*?index at dimension (?P<dim>\d+) is divisible by "
         r"the tile dimension (?P<by>\d+)", "a copy begins or ends inside a tile: in dim {dim} it must be a multiple of {by}",
         "copy whole tiles, or pl.multiple_of(index, {by}) where it is one", "dma_start"),
    Rule("outside", r"Out of bound slice: start=(?P<start>\d+),(?: size=(?P<size>\d+),)?.*?dim=(?P<dim>\d+)",
         "a slice that starts at {start} {size} is outside an array whose dim is {dim}", "keep start + size within it"),
    Rule("constant", r"captures constants", "the kernel closes over an array", "pass the array as an input", at="call"),
    # ---- Python
    Rule("traced-branch", r"Tracer(?:Bool|Integer|Array)ConversionError|ConcretizationTypeError",
         "Python decides on a value that is known only when the kernel runs",
         "pl.when(condition) for blocks of code, jnp.where for values, jax.lax.fori_loop for loops"),
    Rule("kernel-arguments", r"(?:too many|not enough) values to unpack[^\n]*|\w*kernel\w*\(\) (?:takes|missing)[^\n]*",
         "the kernel takes another number of references than it is given: inputs, then outputs, then scratch",
         "one parameter for each in_spec, each output and each of scratch_shapes, prefetched scalars first"),
    Rule("name", r"NameError: (?P<what>name '\w+' is not defined)", "{what}", "define or import it in the text"),
    Rule("entry", r"(?P<what>missing \d+ required positional[^\n]*|takes \d+ positional[^\n]*|got an unexpected keyword[^\n]*)",
         "the entry function cannot be called on these arrays: {what}", "define `def entry(x, w)` that returns the outputs"),
    Rule("mosaic", r"Mosaic failed to compile TPU kernel.*?HLO name `[^`]*`: (?P<reason>[^\n]+)"
         r"(?:.*?operation involved:\s*(?P<op>[^\n]{0,160}))?",
         "Mosaic cannot compile the kernel: {reason} ({op})", "the operation is the compiler's own; say it with simpler ones"),
    Rule("mosaic", r"internal verification error.*?Error details: (?P<reason>[^\n]+)",
         "Mosaic refuses what Pallas made of the kernel: {reason}", "say it with other operations"),
    Rule("trace", r"\A(?P<what>(?:Type|Value|Index|Attribute|Assertion|NotImplemented)Error: [^\n]*)", "{what}",
         "jax refuses it while it is traced, before any compiler sees it"),
)  # fmt: skip

FirstLine = Callable[[str], str]
"""From a primitive of jax to the first line of the kernels that uses it (or nothing), from "" to that of the first launch."""


def explain(text: str, what: str, origins: dict[int, str], file: str, lines: FirstLine = lambda operation: "") -> CompileError:
    """The error to raise for a failed compilation.

    Args:
        text: everything the compiler said.
        what: what was compiled, ``softmax for v5e``.
        origins: the operator's line behind lines of the source.
        file: the name the source was compiled under; frames in it are looked up in ``origins``.
        lines: where the text uses an operation, for errors that name no line.
    """
    for rule in RULES:
        if found := re.search(rule.pattern, text, re.DOTALL):
            words = {k: _words(v or "") for k, v in found.groupdict().items()}
            where = _where(text, rule, words, file, lines)
            cause = re.sub(r"\s+([,:)]|\Z)|\s*\(\)", r"\1", re.sub(r"  +", " ", rule.cause.format(**words)))
            return CompileError(f"{what}: {cause}", rule.fix.format(**words), origin_of(where, origins, file),
                                kind=f"compile-{rule.kind}", log=text)  # fmt: skip
    first = next((line for line in text.splitlines() if line.strip()), "no message")
    where = _named(text, file) or lines("")
    return CompileError(f"{what}: {first[:300]}", "the log has the compiler's own words", origin_of(where, origins, file),
                        log=text)  # fmt: skip


def _words(text: str) -> str:
    """On one line, blocks as plain numbers."""
    return re.sub(r"\s+", " ", re.sub(r"Blocked\(block_size=(\d+)\)", r"\1", text))[:300]


def _where(text: str, rule: Rule, words: dict[str, str], file: str, lines: FirstLine) -> str:
    if rule.at == "call":
        return lines("") or _named(text, file)
    operation = rule.operation.format(**words)
    return _located(text, file) or (lines(operation) if operation else "") or _framed(text, file) or lines("")


def _named(text: str, file: str) -> str:
    return _located(text, file) or _framed(text, file)


def _located(text: str, file: str) -> str:
    """The line of ``file`` that the compiler's locations name."""
    found = re.search(rf'"{re.escape(file)}":(\d+)', text)
    return f"{file}:{found[1]}" if found else ""


def _framed(text: str, file: str) -> str:
    """The line of the innermost frame in ``file``."""
    found = re.findall(rf'File "{re.escape(file)}", line (\d+)', text)
    return f"{file}:{found[-1]}" if found else ""


def origin_of(where: str, origins: dict[int, str], file: str) -> str:
    """The operator's line behind a line of the source; for a line without one, such as a launch, that of the line before it."""
    name, _, number = where.rpartition(":")
    if name != file or not number.isdigit() or not origins:
        return where
    before = [n for n in origins if n <= int(number)]
    return origins[max(before, default=min(origins))]
