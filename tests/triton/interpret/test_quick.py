"""Operators that skip the interpreter's way through types give what its own way gives, and are taken where they can be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

KERNEL = '''
import triton
import triton.language as tl


@triton.jit
def mixed(ints, floats, halves, results, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(ints + i)
    big = a * 65537 + 2147483647 - i
    wide = a.to(tl.int64) * 4294967296 + i
    bits = (big & 255) ^ (a | 3)
    x = tl.load(floats + i)
    some = tl.load(floats + i[:, None] * 0 + i[None, :], mask=(i < 5)[None, :], other=-1)
    x += tl.sum(tl.where(some > 1, some, 2.5), 0) + tl.load(halves + i, mask=i > 2, other=1.0)
    y = 2 - x * x + 1
    z = y[:, None] * x[None, :]
    inside = (i[:, None] < 3) & (i[None, :] >= 1) | (z == 0.0)
    half = tl.load(halves + i)
    h = (half * 3 + half).to(tl.float32) + tl.where(half > 1, 1.0, 0.5)
    s = N * tl.load(ints) - 7
    tl.store(results + i[:, None] * N + i[None, :], tl.where(inside, z, 0.25))
    base = results + N * N
    tl.store(base + i, (big % 1000).to(tl.float32) + bits + h + s)
    tl.store(base + N + i, (wide // 65536).to(tl.float32) + (a * 0.5) + (1.5 - a) + (3 > i))


@triton.jit
def products(floats, results, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(floats + i[:, None] * N + i[None, :])
    acc = tl.zeros((N, N), tl.float32) + 1.0
    for step in range(2):
        acc = tl.dot(tl.trans(a), a, acc, input_precision="ieee")
    tl.store(results + i[:, None] * N + i[None, :], acc + tl.trans(acc))


@triton.jit
def twice(x):
    return x + x


@triton.jit
def calling(floats, results, N: tl.constexpr):
    x = tl.load(floats + tl.arange(0, N))
    for step in range(2000):
        x = twice(x) * 0.5 + step % 2
    tl.store(results + tl.arange(0, N), x)


@triton.jit
def plain(floats, results, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(floats + i, mask=(i >= 0) & (i * 2 - 1 < 2 * N), other=0.0)
    tl.store(results + i, x * x - tl.where(x > 0, x, 2) + 1)
'''

RUN = '''
import sys
import numpy as np
import torch
from triton.runtime import interpreter

from portakern.backends.triton.interpret import repairs

usual = []
quicken, quicken_language = repairs.quicken, repairs.quicken_language
repairs.mend()
assert not interpreter.interpreter_builder.options.sanitize_overflow
sys.path.insert(0, sys.argv[1])
import kernels

torch.manual_seed(0)
ints = torch.tensor([2**31 - 1, -(2**31), 5, -7, 0, 1, 1 << 20, 77], dtype=torch.int32)
floats = torch.tensor([0.0, -1.5, 3e38, float("nan"), float("inf"), 1e-40, 2.25, -0.0])
halves = torch.randn(8).bfloat16()
random = torch.randn(16, 16)
got = []
for quick in (False, True):
    repairs.quicken = quicken if quick else lambda *_: None
    repairs.quicken_language = quicken_language if quick else lambda *_: None
    results = torch.zeros(80)
    kernels.mixed[(1,)](ints, floats, halves, results, N=8)
    square = torch.zeros(16, 16)
    kernels.products[(1,)](random, square, N=16)
    got.append(torch.cat([results, square.flatten()]))
assert got[1].view(torch.int32).equal(got[0].view(torch.int32)), got
results = torch.zeros(8)
kernels.calling[(1,)](torch.ones(8), results, N=8)  # no wrapper around a wrapper for each call
assert results.tolist() == [1001.0] * 8, results
semantic = type(interpreter.interpreter_semantic)
for name in ("add", "sub", "mul", "and_", "less_than", "greater_equal", "expand_dims", "load", "where", "arange"):
    def counted(self, *args, name=name, old=getattr(semantic, name)):
        usual.append(name)
        return old(self, *args)
    setattr(semantic, name, counted)
loads = []
load = interpreter.InterpreterBuilder.create_masked_load
interpreter.InterpreterBuilder.create_masked_load = lambda *args: loads.append(args) or load(*args)
kernels.plain[(1,)](floats, torch.zeros(8), N=8)
assert not usual, usual
assert len(loads) == 1  # what looks for races sees it
'''


def test_quick_operators_give_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNEL)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_words_for_caches_are_as_many_as_this_triton_has() -> None:
    """One place for them in 3.9, two before."""
    from portakern.backends.triton.interpret.quick import _policies

    def now(self, ptrs, mask, other, cache_policy, is_volatile): ...
    def before(self, ptrs, mask, other, cache_modifier, eviction_policy, is_volatile): ...

    assert _policies(now) == (None,)
    assert _policies(before) == (None, None)
