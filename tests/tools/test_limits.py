"""A cache is kept within its limits, the least recently used going first, and beside processes that use it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from portakern.cli import main
from portakern.errors import UsageError
from portakern.tools import limits
from portakern.tools.cache import Cache, digest
from portakern.tools.limits import Limits, prune

DAY = 86400.0


def filled(cache: Cache, count: int, size: int = 8192, step_s: float = DAY) -> list[str]:
    """Entries that were last used one, two, three ... steps ago."""
    keys = [digest(n) for n in range(count)]
    for n, key in enumerate(keys):
        cache.put(key, os.urandom(size))
        used(cache._entry(key), (n + 1) * step_s)
    return keys


def used(path: Path, ago_s: float) -> None:
    then = time.time() - ago_s
    os.utime(path, (then, then))


def there(cache: Cache, keys: list[str]) -> list[bool]:
    return [cache._entry(key).exists() for key in keys]


@pytest.mark.quick
@pytest.mark.parametrize(("text", "size"), [("500MB", 500 << 20), ("2.5 gb", 5 << 29), ("12", 12), ("1kb", 1024)])
def test_sizes(text: str, size: int):
    assert limits.bytes_of(text) == size


@pytest.mark.quick
@pytest.mark.parametrize("text", ["", "GB", "5XB", "-1GB", "1.2.3MB"])
def test_what_is_no_size_or_time(text: str):
    with pytest.raises(UsageError):
        limits.bytes_of(text)
    with pytest.raises(UsageError):
        limits.seconds_of(text)


@pytest.mark.quick
def test_limits_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PORTAKERN_CACHE_SIZE", raising=False)
    monkeypatch.delenv("PORTAKERN_CACHE_AGE", raising=False)
    assert Limits.of_environment() == Limits(5 << 30, 30 * DAY)
    monkeypatch.setenv("PORTAKERN_CACHE_SIZE", "off")
    monkeypatch.setenv("PORTAKERN_CACHE_AGE", "12h")
    assert Limits.of_environment() == Limits(None, DAY / 2)
    monkeypatch.setenv("PORTAKERN_CACHE_AGE", "long")
    with pytest.raises(UsageError, match="long"):
        Limits.of_environment()


@pytest.mark.quick
def test_what_is_too_old_goes(tmp_path: Path):
    cache = Cache(tmp_path)
    keys = filled(cache, 5)
    done = prune(tmp_path, Limits(None, 3.5 * DAY))
    assert there(cache, keys) == [True, True, True, False, False] and (done.removed, done.left) == (2, 3)


@pytest.mark.quick
def test_the_least_recently_used_go_first_and_some_room_is_made(tmp_path: Path):
    cache = Cache(tmp_path)
    keys = filled(cache, 10)
    assert cache.get(keys[-1]) is not None  # used again
    whole = sum(p.size for p in limits.pieces(tmp_path))
    assert prune(tmp_path, Limits(whole, None)).removed == 0
    done = prune(tmp_path, Limits(whole - 1, None))
    assert 0 < done.left_bytes <= limits.ROOM * whole
    assert there(cache, keys) == [True] * (9 - done.removed) + [False] * done.removed + [True]


@pytest.mark.quick
def test_what_was_just_used_stays_whatever_the_limits(tmp_path: Path):
    cache = Cache(tmp_path)
    keys = filled(cache, 3, step_s=60)
    path = cache.file(keys[0], ".so")
    assert path is not None
    used(path, 90 * DAY)
    assert cache.file(keys[0], ".so") == path  # handed out: it may be loaded now
    assert prune(tmp_path, Limits(0, 0.0)).removed == 0 and path.exists()


@pytest.mark.quick
def test_a_file_that_was_removed_is_made_again(tmp_path: Path):
    cache = Cache(tmp_path)
    (key,) = filled(cache, 1)
    path = cache.file(key, ".so")
    assert path is not None
    used(path, 90 * DAY)
    assert prune(tmp_path, Limits(None, 60 * DAY)).removed == 1 and not path.exists()
    assert cache.file(key, ".so") == path and path.exists()


@pytest.mark.quick
def test_folders_of_triton_go_as_a_whole(tmp_path: Path):
    for name, ago in (("old", 90 * DAY), ("new", DAY)):
        for file in ("kernel.json", "kernel.cubin"):
            (tmp_path / "triton" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "triton" / name / file).write_bytes(b"x" * 5000)
            used(tmp_path / "triton" / name / file, ago)
    assert prune(tmp_path, Limits(None, 30 * DAY)).removed == 1
    assert [p.name for p in (tmp_path / "triton").iterdir()] == ["new"]


@pytest.mark.quick
def test_locks_and_what_is_being_written_are_left_alone(tmp_path: Path):
    others = [tmp_path / "timing" / "host.lock", tmp_path / "tmp" / "1-abc", tmp_path / "prune.lock"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        used(path, 90 * DAY)
    prune(tmp_path, Limits(0, 0.0))
    assert all(p.exists() for p in others)


@pytest.mark.quick
def test_who_writes_looks_after_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PORTAKERN_CACHE_AGE", "2d")
    keys = filled(Cache(tmp_path), 4)
    used(tmp_path / "pruned", 2 * limits.EVERY_S)
    Cache(tmp_path).put(digest("another"), b"")
    assert there(Cache(tmp_path), keys)[2:] == [False, False]
    again = filled(Cache(tmp_path), 4)
    Cache(tmp_path).put(digest("yet another"), b"")
    assert all(there(Cache(tmp_path), again)), "somebody did so within the hour"


@pytest.mark.quick
def test_limits_that_make_no_sense_cost_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PORTAKERN_CACHE_SIZE", "lots")
    with pytest.warns(UserWarning, match="lots"):
        Cache(tmp_path).put(digest(1), b"kept")
    assert Cache(tmp_path).get(digest(1)) == b"kept"


USER = """
import sys, time
from portakern.tools import cache as store
from portakern.tools.cache import Cache, digest
store._USED_AGAIN_S = 0  # every use is noted: months pass between two of them here
cache = Cache(sys.argv[1])
end = time.monotonic() + float(sys.argv[2])
rounds = 0
while time.monotonic() < end or rounds < 5:
    for n in range(20):
        key, asked = digest("shared", n), time.monotonic()
        path = cache.file(key, ".bin")
        if path is None:
            cache.put(key, bytes([n]) * 3000)
            path = cache.file(key, ".bin")
        try:
            assert path is None or path.read_bytes() == bytes([n]) * 3000
        except FileNotFoundError:
            if time.monotonic() - asked < 0.04:  # a busy machine may stop a process until its file seems old
                raise
    rounds += 1
    time.sleep(0.1)
"""


def test_processes_use_a_cache_that_is_pruned_all_the_time(tmp_path: Path):
    """Files seem old again and again, as if nobody had used them for months."""
    users = [subprocess.Popen([sys.executable, "-c", USER, str(tmp_path), "1.5"], stderr=subprocess.PIPE) for _ in range(2)]
    removed = 0
    while any(u.poll() is None for u in users):
        with limits.turn(tmp_path, alone=True):  # else a file might be handed out between the look at its age and the change
            for piece in list(limits.pieces(tmp_path)):
                if time.time() - piece.used > 0.05:  # nobody has just been handed it
                    with suppress(OSError):
                        used(piece.path, 90 * DAY)
        removed += prune(tmp_path, Limits(None, DAY)).removed
    said = [u.communicate()[1].decode() for u in users]
    assert [u.returncode for u in users] == [0, 0], said
    assert removed > 0


@pytest.mark.quick
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("PORTAKERN_CACHE", str(tmp_path))
    keys = filled(Cache(), 4)
    assert main(["cache", "size"]) == 0
    assert "entries  4" in capsys.readouterr().out
    assert main(["cache", "prune", "--age", "36h", "--dry-run"]) == 0
    assert "3 pieces" in capsys.readouterr().out and all(there(Cache(), keys))
    assert main(["cache", "prune", "--age", "36h"]) == 0
    assert there(Cache(), keys) == [True, False, False, False]
    assert main(["cache", "prune", "--size", "much"]) == 2 and main(["cache", "size", "--age", "1d"]) == 2
