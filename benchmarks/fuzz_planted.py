"""Whether `portakern fuzz` finds faults: known ones are planted in lowering and emitters, one at a time, and it is run on each.

    python benchmarks/fuzz_planted.py [NAME ...] [--minutes 10] [--seed 1] [--jobs 2]

A fault is a piece of source text and what stands in its place.  It is planted by an import hook that a `sitecustomize` of the
child processes installs (this process's copy of the package stays as it is, and nothing in the package knows of faults), so
that the parent and every worker of a run have it.  A run ends at the first finding that does not show without the fault.
Prints, for each fault, whether it was found, after how many programs and seconds, and as what.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from portakern.fuzz.outcome import ABSENT

FUZZ = (sys.executable, "-m", "portakern", "fuzz")

GRACE_S = 300.0
"""Beyond its time a run finishes its batch."""

HOOK = '''
import importlib.abc, importlib.machinery, importlib.util, json, os, sys

FAULT = json.loads(os.environ["FUZZ_PLANTED"])


class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        text = self.get_data(self.path).decode()
        assert text.count(FAULT["old"]) == 1, f"{FAULT['name']}: {text.count(FAULT['old'])} places in {self.path}"
        return compile(text.replace(FAULT["old"], FAULT["new"]), self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname != FAULT["module"]:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target) if finder is not self else None
            if spec is not None:
                spec.loader = Loader(fullname, spec.origin)
                return spec


sys.meta_path.insert(0, Finder())
'''
"""Plants the fault that FUZZ_PLANTED describes when its module is imported."""


@dataclass(frozen=True)
class Planted:
    """A fault: in ``module`` the text ``new`` stands where ``old`` should; ``targets`` are cheap ones that it shows on."""

    name: str
    module: str
    old: str
    new: str
    targets: str = "numba:cpu,cpp:cpu"


LOWER, CLIKE, BACKENDS = "portakern.lower.", "portakern.emit.clike.", "portakern.backends."

FAULTS = (
    Planted("rows: no mask at a ragged end", LOWER + "rows",
            "if axis.ragged:\n            x = b.add(t.Mask(x, run.name", "if False:\n            x = b.add(t.Mask(x, run.name"),
    Planted("rows: an online sum is not rescaled", LOWER + "rows",
            "_shifted(b, soft, state[f], state[soft.m], top), part)", "state[f], part)"),
    Planted("rows: a line of -inf so far", LOWER + "rows",
            'return b.select(dead, b.const(0.0, dtype), b.binary("mul", total, scale))',
            'return b.binary("mul", total, scale)'),
    Planted("scan: exclusive where inclusive", LOWER + "scan",
            "carry if scan.exclusive else totals[-1]", "totals[-1] if scan.exclusive else carry"),
    Planted("scan: no mask at a ragged end", LOWER + "scan",
            "        if axis.ragged:\n", "        if False:\n", "hip:gfx942,cuda:sm_80"),  # loops of a CPU end where rows do
    Planted("product: no mask at a ragged end", LOWER + "contraction",
            "    if b.axis[k].ragged:\n", "    if False:\n"),
    Planted("attention: the product is not rescaled", LOWER + "attention_walk",
            'scaled = b.binary("mul", acc, b.fit(b.cast(scale, dtype), result))', "scaled = acc"),
    Planted("attention: a causal walk ends one early", LOWER + "attention_walk",
            "reach = bound.offset + last if", "reach = bound.offset + last - 1 if"),
    Planted("tiles: operands of a difference swapped", LOWER + "tiles",
            "self.b.binary(op.fn, *args)", 'self.b.binary(op.fn, *(args[::-1] if op.fn == "sub" else args))'),
    Planted("tiles: a flip is off by one", LOWER + "tiles",
            "self._moved(c, -1, shape[i] - 1, shape[i])", "self._moved(c, -1, shape[i] - 2, shape[i])"),
    Planted("tiles: a slice forgets its step", LOWER + "tiles",
            "tuple(self._moved(c, step, lo, size) for c, step, lo", "tuple(self._moved(c, 1, lo, size) for c, step, lo"),
    Planted("simplify: two transposes in the wrong order", LOWER + "simplify",
            "tuple(op.x.order[i] for i in op.order)", "tuple(op.order[i] for i in op.x.order)"),
    Planted("simplify: argmax takes the last of equals", LOWER + "simplify",
            'Convert(Fold("min", places', 'Convert(Fold("max", Map("select", (hit, Iota(t.shape, op.axis, wide), '
            'Literal(-1, wide)), loc=op.loc)'),
    Planted("parts: a part ends one tile late", LOWER + "parts",
            'b.binary("add", begin, b.scalar_size(length))', 'b.binary("add", begin, b.scalar_size(length + walked.tile))'),
    Planted("windows: a stride of 3 is one of 2", LOWER + "tiles",
            "begin, way = self._affine(inner[d], stride, 0)", "begin, way = self._affine(inner[d], min(stride, 2), 0)"),
    Planted("windows: taps that lie apart begin one late", LOWER + "tiles",
            "begin.offset + way.offset)", "begin.offset + way.offset + (dilation > 1))"),
    Planted("windows: pads of a maximum are 0", LOWER + "windows",
            "_within(op.x, op.low, op.high, identity(op.fn, t.dtype), op)",
            "_within(op.x, op.low, op.high, type(identity(op.fn, t.dtype))(0), op)"),
    Planted("windows: two taps of a phase are not turned", LOWER + "windows",
            "for i, p in enumerate(chosen) if p.taps > 1)", "for i, p in enumerate(chosen) if p.taps > 2)"),
    Planted("pieces: what is padded with is forgotten", LOWER + "pieces",
            "return assembled([op.x], shape, [(op.low, (1,) * len(shape))], op.value, op)",
            "return assembled([op.x], shape, [(op.low, (1,) * len(shape))], type(op.value)(0), op)"),
    Planted("pieces: what lies around pieces is not computed with", LOWER + "pieces",
            "fill = _computed(Map(op.fn, tuple(_fill(a) for a in op.args)))", "fill = first.fill"),
    Planted("pieces: steps of a piece inside a piece", LOWER + "pieces",
            "tuple(o + s * i for o, s, i in zip(*outer, inner[0], strict=True))",
            "tuple(max(o, s * i) for o, s, i in zip(*outer, inner[0], strict=True))"),
    Planted("gathers: what is outside of a slice is not outside", LOWER + "tiles",
            'b.compare("ge", c.tile, b.const(0, dtype))', 'b.compare("ge", c.tile, b.const(-1, dtype))'),
    Planted("gathers: numba reads the element after the last", BACKENDS + "cpu.numba.values",
            'found.append(f"0 <= {self._index(index, op).at(6)} < {', 'found.append(f"0 <= {self._index(index, op).at(6)} <= {',
            "numba:cpu"),
    Planted("orders: NaN stands where its bits say", LOWER + "orders",
            'return chosen(Map("isnan", (wide,)), largest, ordered)', 'return ordered'),
    Planted("scatters: updates stay where they are", LOWER + "scatters",
            'SegmentFold(fn, Gather(updates, order, axis), _begins', 'SegmentFold(fn, updates, _begins', "cpp:cpu"),
    Planted("orders: equal elements of two runs change places", LOWER + "orders",
            'Map("and", (inside, Map("le", (a, b)))), more, before)', 'Map("and", (inside, Map("lt", (a, b)))), more, before)',
            "opencl:cpu"),  # a CPU's core sorts far longer lines at once
    Planted("random: two words of four", LOWER + "random_bits", '_bits("and", number, 3)', '_bits("and", number, 1)'),
    Planted("C family: no barrier before what is read is written again", CLIKE + "barriers",
            "why = pending.before_writing(frozenset({s.shared.name}))", "why = None", "hip:gfx942,cuda:sm_80"),
    Planted("C family: no barrier before what was written is read", CLIKE + "barriers",
            "elif isinstance(s, p.Dot) and pending.written & _read_by(s):", "elif False:", "hip:gfx942,cuda:sm_80"),
    Planted("C family: stores are not masked", CLIKE + "memory",
            "return frozenset(a for index in op.indices for a in index.axes if kernel.axis[a].ragged)", "return frozenset()",
            "cpp:cpu"),
    Planted("numba: reductions begin at 0", BACKENDS + "cpu.numba.loops",
            'fresh(hint))\n        self.out.line(f"{name} = {words.identity(r.fn, tile_type(r).dtype)}")',
            'fresh(hint))\n        self.out.line(f"{name} = {words.identity(\'sum\', tile_type(r).dtype)}")', "numba:cpu"),
    Planted("OpenCL: an offset is one too far", BACKENDS + "sycl.loops.access",
            "parts.append(size_text(index.offset * stride))", "parts.append(size_text((index.offset + 1) * stride))",
            "opencl:cpu"),
    Planted("Triton: stores are not masked", BACKENDS + "triton.text.memory",
            "masked = ragged if isinstance(op, Store) else", "masked = [] if isinstance(op, Store) else", "triton:sm_90"),
    Planted("Pallas: what lies past a ragged end is kept", BACKENDS + "tpu.text.values",
            "return self.plan.spans[axis].ragged and axis in self.contracted", "return False", "pallas:v5e"),
)  # fmt: skip
"""A barrier removed, an operand swapped, a mask dropped, an index, a step or a fill forgotten: in lowering, the C family, and
each language."""


@dataclass(frozen=True)
class Result:
    """``what`` was found, after ``programs`` and ``seconds``; empty where the time ran out."""

    what: str
    programs: int
    seconds: float


def check_places(faults: Sequence[Planted]) -> list[str]:
    """The faults whose text does not stand exactly once in their module."""
    def count(f: Planted) -> int:
        spec = find_spec(f.module)
        return Path(spec.origin).read_text().count(f.old) if spec and spec.origin else 0

    return [f.name for f in faults if count(f) != 1]


def hunt(fault: Planted, seconds: float, seed: int, jobs: int, folder: Path) -> Result:
    """One run of the fuzzer with ``fault`` planted, until it finds what is right without the fault, or the time is over."""
    hook = folder / "hook"
    hook.mkdir(parents=True)
    (hook / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join(filter(None, [str(hook), os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "PYTHONPATH": path, "FUZZ_PLANTED": json.dumps(asdict(fault))}
    out = folder / "run"
    command = [*FUZZ, "--targets", fault.targets, "--seconds", f"{seconds:g}s", "--shrink", "0", "--seed", str(seed), "--jobs",
               str(jobs), "--out", str(out)]  # fmt: skip
    began = time.monotonic()
    running = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    looked = 0
    try:
        while time.monotonic() - began < seconds + GRACE_S:
            over = running.poll() is not None
            found = [x for x in lines(out, "found") if x["state"] == "small"]
            for finding in found[looked:]:
                if not shows(out / "found" / f"{finding['name']}.py", finding["targets"]):
                    return Result(what(finding), tried(out), time.monotonic() - began)
            looked = len(found)
            if over:
                break
            time.sleep(0.5)
        if running.poll() not in (None, 0, 1):
            raise SystemExit(f"{fault.name}: {running.stderr.read() if running.stderr else ''}")
        return Result("", tried(out), time.monotonic() - began)
    finally:
        running.terminate()  # as an interrupt ends it, which what runs in the background ignores
        try:
            running.wait(30)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def shows(file: Path, targets: Sequence[str]) -> bool:
    """Whether a finding shows without the planted fault."""
    return subprocess.run([*FUZZ, "--again", str(file), "--targets", ",".join(targets)], capture_output=True).returncode == 1


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    """What a run has written so far, without a line that is being written."""
    file = folder / f"{kind}.jsonl"
    text = file.read_text() if file.exists() else ""
    return [json.loads(x) for x in text[: text.rfind("\n") + 1].splitlines()]


def tried(folder: Path) -> int:
    """Programs that some target ran, compiled or refused: none where what the targets need is not installed."""
    return len({x["program"] for x in lines(folder, "outcomes") if x.get("kind") not in ABSENT})


def what(finding: dict[str, Any]) -> str:
    return f"{finding['kind']} on {', '.join(finding['targets'])}: {finding['message'].splitlines()[0][:90]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of faults; all where none is given")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each fault (default 10)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(arguments)
    chosen = [f for f in FAULTS if not asked.names or any(n in f.name for n in asked.names)]
    if lost := check_places(chosen):
        raise SystemExit(f"the source has changed: {'; '.join(lost)}")
    print(f"{'fault':<60}{'found':>6}{'programs':>10}{'seconds':>9}  as")
    found = 0
    for fault in chosen:
        with tempfile.TemporaryDirectory(prefix="portakern-planted-") as folder:
            result = hunt(fault, 60 * asked.minutes, asked.seed, asked.jobs, Path(folder))
        found += bool(result.what)
        print(f"{fault.name:<60}{'yes' if result.what else 'no':>6}{result.programs:>10}{result.seconds:>9.0f}  {result.what}",
              flush=True)  # fmt: skip
    print(f"\n{found} of {len(chosen)} found")
    return 0 if found == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
