"""The cache: keys that are stable, entries that are whole or absent, errors that say what to do."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from portakern.errors import CacheError
from portakern.tools import cache as cache_module
from portakern.tools.cache import Cache, default_directory, digest

pytestmark = pytest.mark.quick


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: float


@dataclass(frozen=True)
class Vector:
    x: int
    y: float


def test_digest_is_the_same_everywhere():
    # The figure itself: a change of encoding would silently empty everyone's cache.
    assert digest("source", 3, ("a", b"b"), {"k": None}) == (
        "3069934be5bf9d5170cac21866166e674b60fbf14884c981c068a1d570238f88"
    )


def test_digest_ignores_the_order_of_sets_and_mappings():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"x", "y", "z"}) == digest({"z", "y", "x"})


def test_digest_tells_apart_what_is_different():
    values = [
        None, 0, 0.0, -0.0, False, "", b"", (), {}, "0", 1, True, 1.0, "1", b"1", ("1",), ("1", ""), ("", "1"),
        (("1",), ()), Colour.RED, Colour.BLUE, Point(1, 2.0), Point(2, 2.0), Vector(1, 2.0), Path("1"),
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    assert digest("ab", "c") != digest("a", "bc")


def test_digest_refuses_what_has_no_stable_form():
    with pytest.raises(TypeError, match="no stable form"):
        digest(object())


def test_what_was_put_is_got(tmp_path: Path):
    cache = Cache(tmp_path / "cache")
    key = digest("k")
    assert cache.get(key) is None
    cache.put(key, b"one")
    cache.put(key, b"two")
    assert Cache(tmp_path / "cache").get(key) == b"two"
    assert cache.get(digest("other")) is None


def test_empty_content_is_an_entry(tmp_path: Path):
    Cache(tmp_path).put(digest("k"), b"")
    assert Cache(tmp_path).get(digest("k")) == b""


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:10], lambda b: b"", lambda b: b[:-1] + b"!"])
def test_a_damaged_entry_is_absent_and_is_replaced(tmp_path: Path, damage):
    cache, key = Cache(tmp_path), digest("k")
    cache.put(key, b"content")
    (entry,) = (tmp_path / "entries").glob("*/*")
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.get(key) is None
    cache.put(key, b"content")
    assert cache.get(key) == b"content"


def test_file_has_the_content_and_is_mended(tmp_path: Path):
    cache, key = Cache(tmp_path), digest("library")
    assert cache.file(key, ".so") is None
    cache.put(key, b"\x7fELF")
    path = cache.file(key, ".so")
    assert path is not None and path.suffix == ".so" and path.read_bytes() == b"\x7fELF"
    path.write_bytes(b"torn")
    assert cache.file(key, ".so") == path and path.read_bytes() == b"\x7fELF"


def test_the_environment_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PORTAKERN_CACHE", str(tmp_path / "here"))
    assert default_directory() == tmp_path / "here"
    monkeypatch.delenv("PORTAKERN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "portakern"


def test_an_unwritable_directory_is_a_clear_error(tmp_path: Path):
    (tmp_path / "occupied").write_text("a file, not a directory")
    with pytest.raises(CacheError, match=r"cannot write the cache in .*occupied") as caught:
        Cache(tmp_path / "occupied").put(digest("k"), b"content")
    assert caught.value.kind == "cache-unwritable"
    assert "PORTAKERN_CACHE" in caught.value.hint


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fill_up(path: Path, content: bytes, mode: int) -> None:
        path.write_bytes(content[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache_module, "_write_synced", fill_up)
    with pytest.raises(CacheError, match="disk is full") as caught:
        Cache(tmp_path).put(digest("k"), b"content")
    assert caught.value.kind == "disk-full"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_really_full_device_is_a_clear_error(tmp_path: Path):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError) as caught, open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")
    assert Cache(tmp_path)._explain(caught.value, "write").kind == "disk-full"


def test_what_killed_writers_left_is_removed_when_old(tmp_path: Path):
    left = tmp_path / "tmp" / "1234-dead"
    fresh = tmp_path / "tmp" / "1234-alive"
    left.parent.mkdir()
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (1, 1))
    Cache(tmp_path).put(digest("k"), b"content")
    assert not left.exists() and fresh.exists()


_WRITER = """
import sys
from portakern.tools.cache import Cache, digest
cache, letter = Cache(sys.argv[1]), sys.argv[2].encode()
print("started", flush=True)
while True:
    cache.put(digest("shared"), letter * 3_000_000)
"""


def test_concurrent_writers_killed_at_any_moment_leave_a_whole_entry(tmp_path: Path):
    cache, key = Cache(tmp_path), digest("shared")
    whole = {letter * 3_000_000 for letter in (b"a", b"b", b"c")}
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), letter], stdout=subprocess.PIPE)
        for letter in "abc"
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == b"started\n"
        seen = 0
        stop = time.monotonic() + 1.0
        while time.monotonic() < stop or not seen:
            content = cache.get(key)
            assert content is None or content in whole
            seen += content is not None
    finally:
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            assert writer.stdout is not None
            writer.stdout.close()
    assert cache.get(key) in whole
