"""Processes are ended by id and beginning, with all below them, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from portakern.fleet.places import Folder, NodeFile
from portakern.fleet.processes import Process, alive, descendants, end, process
from tests.serve.support import until

pytestmark = pytest.mark.quick

TREE = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); time.sleep(60)"


def test_a_tree_is_ended_and_its_neighbour_lives():
    tree, neighbour = (subprocess.Popen([sys.executable, "-c", TREE]) for _ in range(2))
    try:
        until(lambda: descendants(tree.pid) and descendants(neighbour.pid))
        root = process(tree.pid)
        assert root is not None
        mine = [root, *descendants(tree.pid)]
        assert end(mine) == 2
        assert tree.wait(10) != 0 and not any(map(alive, mine))
        assert neighbour.poll() is None and len(descendants(neighbour.pid)) == 1
    finally:
        root = process(neighbour.pid)
        end([*descendants(neighbour.pid), *([root] if root else [])])
        for started in (neighbour, tree):
            started.wait(10)


def test_an_id_that_was_given_again_is_left_alone():
    me = process(os.getpid())
    assert me is not None and alive(me)
    assert end([Process(me.pid, me.began - 1)]) == 0


def test_what_a_node_is_comes_back_as_it_was(tmp_path):
    folder = Folder(tmp_path)
    me = process(os.getpid())
    assert me is not None
    kept = NodeFile("head", "head", "127.0.0.1:1", me, (me, Process(1, 2)), 3, {"cpp:cpu": 1.0})
    folder.keep(kept)
    assert list(folder.nodes()) == [kept] and kept.alive
    folder.forget("head")
    assert list(folder.nodes()) == [] and folder.state() == {}
