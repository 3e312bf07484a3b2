"""Kernels that are launched and do not do the work, which host code does, each with what it shows; and host code that only
looks like it.  All in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Host:
    """A kernel with its host code; ``shows`` what a decoy's host code does, or what a legal one is allowed to."""

    name: str
    text: str
    shows: str
    operator: str = "row_sum"
    dims: Mapping[str, int] = field(default_factory=lambda: {"M": 16, "N": 32})


TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def sums(x, out, n, stride, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + m, tl.sum(tl.load(x + m * stride + i, mask=i < n, other=0.0), 0))

@triton.jit
def copied(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def added(x, out, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    tl.atomic_add(out + m, tl.sum(tl.load(x + m * n + i, mask=i < n, other=0.0), 0))

@triton.jit
def scaled(x, out, by, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + m, tl.sum(tl.load(x + m * n + i, mask=i < n, other=0.0), 0) * tl.load(by + m))

@triton.jit
def halves(x, out, n, B: tl.constexpr):
    m, half, i = tl.program_id(0), tl.program_id(1), tl.program_id(1) * B + tl.arange(0, B)
    tl.store(out + m * 2 + half, tl.sum(tl.load(x + m * n + i, mask=i < n, other=0.0), 0))
"""


def triton(name: str, body: str, shows: str, before: str = "") -> Host:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return Host(f"triton-{name}", f"{TRITON}{before}\ndef row_sum(x, out):\n    m, n = x.shape\n{lines}\n", shows)


TRITON_DECOYS = (
    triton("overwritten", "sums[(m,)](x, out, n, n, 32)\nout.copy_(x.sum(1))", "an answer over that of an honest kernel"),
    triton("into-nowhere", "sums[(m,)](x, torch.empty_like(out), n, n, 32)\ntorch.sum(x, 1, out=out)",
           "a kernel whose result nobody reads"),
    triton("copies-torch's", "copied[(1,)](x.sum(1), out, m, 16)", "a kernel that copies what torch computed"),
    triton("by-numpy", "copied[(1,)](x, torch.empty_like(x), m, 16)\nif x.device.type == 'cpu':\n    out.numpy()[:] = x.numpy().sum(1)",
           "an answer that torch does not see"),
    triton("by-number", "copied[(1,)](torch.tensor([sum(r) for r in x.tolist()]) if x.device.type == 'cpu' else x, out, m, 16)",
           "numbers that were read from the inputs"),
    triton("in-the-grid", "def grid(meta):\n    out.copy_(x.sum(1))\n    return (1,)\ncopied[grid](x, torch.empty_like(x), m, 16)",
           "work while the grid is computed"),
    triton("in-a-hook", "copied.add_pre_run_hook(lambda *a, **k: out.copy_(x.sum(1)))\ncopied[(1,)](x, torch.empty_like(x), m, 16)",
           "work before every launch"),
    triton("in-a-thread", "sums[(m,)](x, torch.empty_like(out), n, n, 32)\nt = threading.Thread(target=lambda: out.copy_(x.sum(1)))\n"
           "t.start()\nt.join()", "work of another thread", before="import threading\n"),
    triton("in-small-steps", "copied[(1,)](x, torch.empty_like(x), m, 16)\nout.zero_()\nfor i in range(n):\n    out.add_(x[:, i])",
           "work that is small each time"),
    triton("only-the-rest", "sums[(m // 2,)](x, out, n, n, 32)\nout[m // 2:].copy_(x[m // 2:].sum(1))", "half of the answer"),
    Host("triton-moves-alone", TRITON + "\ndef transpose(x, out):\n    copied[(1,)](x, torch.empty_like(x), 16, 16)\n"
         "    out.copy_(x.t())\n", "an operator that is a copy itself", "transpose"),
)  # fmt: skip

TRITON_LEGAL = (
    triton("zeroed", "out.zero_()\nadded[(m,)](x, out, n, 32)", "an output filled before atomics"),
    triton("copied-in", "t = x.t().contiguous().t()\nsums[(m,)](t.contiguous(), out, n, n, 32)", "layouts changed"),
    triton("copied-out", "t = torch.empty((m,), dtype=torch.float64, device=x.device)\nsums[(m,)](x, t, n, n, 32)\nout.copy_(t)",
           "results that are cast"),
    triton("padded", "p = torch.nn.functional.pad(x, (0, 32))\nsums[(m,)](p, out, 64, 64, 64)", "padded inputs"),
    triton("scratch", "t = torch.zeros_like(out)\nadded[(m,)](x, t, n, 32)\ncopied[(1,)](t, out, m, 16)", "temporaries of zeros"),
    triton("constants", "by = torch.arange(m, dtype=torch.float32, device=x.device) * 0 + 1\nscaled[(m,)](x, out, by, n, 32)",
           "tables that hang on no input"),
    triton("light", "t = torch.empty((m, 2), device=x.device)\nhalves[(m, 2)](x, t, n, 16)\nout.copy_(t.sum(1))",
           "the sum of what each program left"),
    triton("grid-by-meta", "sums[lambda meta: (m * triton.cdiv(32, meta['B']),)](x, out, n, n, B=32)", "a grid that is computed"),
    triton("tuned", "tuned[(m,)](x, out, n, n)", "autotuning",
           "tuned = triton.autotune([triton.Config({'B': 32}), triton.Config({'B': 64})], key=['n'])(sums)\n"),
    triton("of-autograd", "Sums.apply(x, out)", "a function of torch.autograd", """
class Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, out):
        sums[(x.shape[0],)](x, out, x.shape[1], x.stride(0), 32)
        return out
"""),
)
