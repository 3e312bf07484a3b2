"""A process that ends in whatever way says nothing of what it left: no ignored exceptions, no leaked resources."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

NOISE = re.compile(r"Exception ignored|resource_tracker|leaked|Fatal Python|terminate called|core dumped")

SCRIPTS = {
    "a build, calls and a prepared call, with an error": """
import numpy as np, portakern as pk
k = pk.build("softmax", target="cpp:cpu", dtype="f32", M=pk.dynamic, N=64)
x = np.ones((8, 64), np.float32)
y, p = k(x), k.prepare(x)
p()
1 / 0
""",
    "a judge that is not closed": """
import portakern as pk
task = pk.task("row_sum", "numba:cpu", dtype="f32", M=8, N=16)
judge = pk.judge(task, workers=2)
rows = [judge.submit(task.starting_kernel) for _ in range(3)]
raise SystemExit(3)
""",
    "workers and compilers left open": """
import portakern as pk
from portakern.tools.workers import WorkerPool
pool = WorkerPool(2)
pool.call("os:getpid")
study = pk.check("row_sum", targets="numba:cpu,hip:gfx942", dtype="f32", M=4, N=16)
raise KeyboardInterrupt
""",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_scripts_end_quietly(tmp_path: Path, script: str):
    file = tmp_path / "script.py"
    file.write_text(script)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=180, cwd=tmp_path)
    assert done.returncode, "these scripts end with an error of their own"
    assert not NOISE.search(done.stderr + done.stdout), done.stderr


@pytest.mark.parametrize("after_s", [2.0, 4.0])  # sooner, the interpreter itself may still be starting
def test_commands_end_quietly_when_they_are_interrupted(tmp_path: Path, after_s: float):
    words = ["compare", "row_sum", "-t", "numba:cpu,cpp:cpu,hip:gfx942", "--shape", "M=8,N=64", "--dtype", "f32", "--no-store"]
    process = subprocess.Popen([sys.executable, "-m", "portakern", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, cwd=tmp_path, start_new_session=True)  # fmt: skip
    time.sleep(after_s)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert not NOISE.search(out + err) and "Traceback" not in err, err
    assert process.returncode in (0, 130)


def test_a_reader_that_has_gone_ends_a_command_quietly(tmp_path: Path):
    done = subprocess.run(f"{sys.executable} -m portakern targets | head -n 1", shell=True, capture_output=True, text=True,
                          timeout=60, cwd=tmp_path)  # fmt: skip
    assert done.stdout.startswith("target") and not done.stderr
