"""Public models with random weights on our kernels: do they import, are they right, how long does it take?

    python benchmarks/models.py [--target cpp:cpu] [--models 'transformers/*,torchvision/resnet*'] [--compile] [--train]

Each model runs in a process of its own.  A row: seconds of the import and of the build; kernels, launches a call, and kernels
that prepare weights; `import` is the largest difference of our float64 oracle from PyTorch in float64, as a share of the
largest number of an output (0 where both agree, empty where the oracle would take too long), `error` that of the kernels,
`eager` that of PyTorch in float32, `bound` the largest error of the kernels as a share of what rounding allows.
With --compile the model runs under torch.compile(backend="portakern") too, with --train three steps of SGD against eager ones.
Models whose package is not installed are named as missing.  Exit status 1 if a row is wrong.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import importlib.util
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model_zoo import Entry, enlivened, entries

import portakern as pk
from portakern.errors import PortakernError

COLUMNS = ("import s", "build s", "kernels", "launches", "prepared", "import", "error", "eager", "bound")
LARGEST = 1e-3
"""An error of a kernel beyond this share of the largest number of an output is no rounding of float32, whatever the depth."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpp:cpu")
    parser.add_argument("--models", default="*")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    args = parser.parse_args()
    asked = [e for e in entries() if any(fnmatch.fnmatch(e.name, p) for p in args.models.split(","))]
    if args.alone:
        (entry,) = (e for e in entries() if e.name == args.alone)
        print(json.dumps(row(entry, args.target, args.compile, args.train)))
        return 0
    rows = []
    print(f"{'model':40s} " + " ".join(f"{c:>9s}" for c in COLUMNS))
    for package in dict.fromkeys(e.package for e in asked):
        if importlib.util.find_spec(package) is None:
            untried = sum(e.package == package for e in asked)
            print(f"{package} is missing: {untried} models are not tried (pip install {package})")
    for entry in asked:
        if importlib.util.find_spec(entry.package) is not None:
            rows.append(in_a_process(entry, args))
            print(text_of(rows[-1]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))
    good = sum(not r.get("wrong") for r in rows)
    print(f"{good} of {len(rows)} models are right")
    return 0 if good == len(rows) else 1


def in_a_process(entry: Entry, args: argparse.Namespace) -> dict[str, Any]:
    """The row of a model; one that takes its process down, or too long, is a row as well."""
    flags = [f for f, on in (("--compile", args.compile), ("--train", args.train)) if on]
    command = [sys.executable, __file__, "--alone", entry.name, "--target", args.target, *flags]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return {"model": entry.name, "wrong": f"it takes more than {args.timeout:g} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"model": entry.name, "wrong": f"exit {done.returncode}: {done.stderr.strip()[-600:]}"}


def text_of(row: dict[str, Any]) -> str:
    said = " ".join(f"{_cell(row.get(c)):>9s}" for c in COLUMNS)
    more = "".join(f"\n    {k}: {row[k]}" for k in ("compile", "train", "wrong") if row.get(k))
    return f"{row['model']:40s} {said}{more}"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.2g}" if isinstance(value, float) and value < 0.1 else f"{value:.4g}"


def row(entry: Entry, target: str, compiled: bool, train: bool) -> dict[str, Any]:
    """What became of one model."""
    import torch

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    found: dict[str, Any] = {"model": entry.name}
    try:
        model, args, kwargs = entry.make()
        enlivened(model)
    except Exception as error:  # the package's own: another version of it may not have the class
        return {**found, "wrong": f"the package does not make it: {type(error).__name__}: {error}"}
    for stage in (imported, *([under_compile] if compiled else []), *([trained] if train else [])):
        try:
            stage(found, model, args, kwargs, target)
        except PortakernError as error:
            found["wrong"] = f"{found.get('wrong', '')} {stage.__name__}: {error}".strip()
    return found


def imported(found: dict[str, Any], model: Any, args: Any, kwargs: Any, target: str) -> None:
    """The model as an operator: read, held against PyTorch in float64, built, checked, called."""
    import torch

    from portakern.check.sampled import affordable
    from portakern.ir.program import turns
    from portakern.study.steps import judged
    from portakern.study.work import Problem, works
    from portakern.torch_import.agreement import agreement, in_float64
    from portakern.torch_import.arrays import as_numpy
    from portakern.torch_import.trees import leaves

    begun = time.perf_counter()
    op = pk.from_torch(model, args, kwargs=kwargs)
    found["import s"] = time.perf_counter() - begun
    begun = time.perf_counter()
    k = pk.build(op, target=target)
    found |= {"build s": time.perf_counter() - begun, "kernels": len(k.program.kernels),
              "launches": sum(1 for _ in turns(len(k.program.kernels), k.program.repeats, {})),
              "prepared": len(k.preparation.program.kernels) if k.preparation else 0}  # fmt: skip
    made = k(*(op.examples[n] for n in op.examples))
    made = [as_numpy(x) for n, x in zip(op.program().outputs, made if isinstance(made, tuple) else (made,), strict=True)
            if n not in op.updates]  # fmt: skip
    exact = in_float64(op)
    found["error"] = _apart(made, exact)
    with torch.no_grad():
        theirs = [as_numpy(x) for x in leaves(model(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    found["eager"] = _apart(theirs, exact)
    if not found["error"] <= LARGEST:
        found["wrong"] = f"an output of the kernels is {found['error']:.2g} from PyTorch in float64"
    if affordable(op.program(op.typical.dims)):
        held = agreement(op)
        found["import"] = max((d.difference / max(d.largest, 1e-30) for d in held.disagreements), default=0.0)
        if not held:
            found["wrong"] = "; ".join(map(str, held.disagreements[:3]))
    (work,) = works(Problem(op, op.typical.dims, {}), [k.target], [op.dtypes[0]])
    verdict = judged(k.executable, work, 0, full=False).verdict
    found["bound"] = verdict.max_error_ratio
    if not verdict.correct:
        found["wrong"] = verdict.message


def _apart(made: Sequence[Any], exact: Sequence[Any]) -> float:
    """The largest difference of all outputs as a share of the largest number of that output."""
    import numpy as np

    shares = []
    for ours, theirs in zip(made, exact, strict=True):
        a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        with np.errstate(invalid="ignore"):
            apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        largest = np.abs(b[np.isfinite(b)]).max(initial=1e-30)
        shares.append(float(apart.max(initial=0.0) / largest) if np.isfinite(apart).all() else float("inf"))
    return max(shares, default=0.0)


def under_compile(found: dict[str, Any], model: Any, args: Any, kwargs: Any, target: str) -> None:
    """The model under ``torch.compile``."""
    import torch

    from portakern import torch_compile

    torch_compile.clear()
    begun = time.perf_counter()
    fast = torch.compile(model, backend="portakern", options={"target": target})
    with torch.no_grad():
        made, theirs = _arrays(fast(*args, **kwargs)), _arrays(model(*args, **kwargs))
    apart = _apart(made, theirs)
    found["compile"] = _said(apart, time.perf_counter() - begun)
    if not apart <= LARGEST:
        found["wrong"] = f"{found.get('wrong', '')} under torch.compile an output is {apart:.2g} from eager".strip()


def trained(found: dict[str, Any], model: Any, args: Any, kwargs: Any, target: str) -> None:
    """Three steps of SGD under ``torch.compile`` and in eager mode, from the same weights; without random numbers."""
    import torch

    from portakern import torch_compile

    torch_compile.clear()
    torch._dynamo.reset()
    begun = time.perf_counter()
    twin = copy.deepcopy(model)
    runs = [(torch.compile(model, backend="portakern", options={"target": target}), model), (twin, twin)]
    losses: list[list[float]] = []
    first: list[Any] = []  # the gradients of the first step, which weights would show to few digits
    for run, own in runs:
        steps = torch.optim.SGD(own.parameters(), 1e-3)
        losses.append([])
        for _ in range(3):
            steps.zero_grad()
            loss = torch.stack([x.float().square().mean() for x in _floats(run(*args, **kwargs))]).sum()
            loss.backward()
            if not losses[-1]:
                first.append(torch.cat([p.grad.reshape(-1).clone() for p in own.parameters() if p.grad is not None]))
            steps.step()
            losses[-1].append(loss.item())
    apart = _apart([p.detach().numpy() for p in model.state_dict().values()],
                   [p.detach().numpy() for p in twin.state_dict().values()])  # fmt: skip
    gradients = ((first[0] - first[1]).norm() / first[1].norm()).item()
    found["train"] = f"{_said(apart, time.perf_counter() - begun)}; gradients {gradients:.2g} from eager"
    largest = max(gradients, apart, *(abs(a - b) / max(abs(b), 1) for a, b in zip(*losses, strict=True)))
    if not largest <= LARGEST:
        said = f"in training weights are {apart:.2g} from eager, gradients {gradients:.2g}, losses {losses}"
        found["wrong"] = f"{found.get('wrong', '')} {said}".strip()


def _said(apart: float, seconds: float) -> str:
    from portakern import torch_compile

    parts = torch_compile.report()
    eager = [p for p in parts if p.eager]
    kept = "".join(f"\n        {p}" for p in eager)
    ours = f"{sum(p.kernels for p in parts)} kernels in {len(parts) - len(eager)} parts"
    return f"{seconds:.1f} s, {apart:.2g} from eager, {ours}, {len(eager)} parts are PyTorch's{kept}"


def _arrays(tree: Any) -> list[Any]:
    return [x.detach().numpy() for x in _floats(tree)]


def _floats(tree: Any) -> list[Any]:
    import torch

    from portakern.torch_import.trees import leaves

    return [x for x in leaves(tree) if isinstance(x, torch.Tensor) and x.is_floating_point()]


if __name__ == "__main__":
    raise SystemExit(main())
