"""What others' work keeps a process from is told by the system."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from portakern.tools.waiting import Waiting

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs the schedstat of Linux")


@contextmanager
def busy(processes: int) -> Iterator[list[int]]:
    """On the processor where this thread runs, which keeps to it meanwhile."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield [p.pid for p in started]
    finally:
        os.sched_setaffinity(0, allowed)
        for p in started:
            p.kill()
            p.wait()


@pytest.mark.quick
def test_who_has_no_processor_waits_and_who_sleeps_does_not():
    waiting = Waiting()
    time.sleep(0.1)
    assert waiting.waited_us() < 5e4
    with busy(2) as pids:
        others = Waiting(pids)
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        assert waiting.waited_us() > 2e4
        assert others.waited_us() > waiting.waited_us()


def test_of_a_process_that_has_ended_nothing_is_known():
    child = subprocess.Popen([sys.executable, "-c", ""])
    waiting = Waiting([child.pid])
    child.wait()
    assert waiting.waited_us() >= 0
