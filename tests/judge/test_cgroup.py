"""A control group is made where one was delegated, and its want is said; on folders that only look like the system's."""

from __future__ import annotations

from pathlib import Path

import pytest

from portakern.referee.process import GROUP, KernelProcess, lacks
from portakern.tools.jail import cgroup

pytestmark = pytest.mark.quick

MOUNTS = "25 1 0:23 / /proc rw - proc proc rw\n30 1 0:26 {root} {place} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
FILES = ("cgroup.procs", "cgroup.kill", "pids.max", "memory.max", "memory.oom.group", "memory.swap.max", "memory.events")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which folders have a group's files, and go with them."""
    made, removed = Path.mkdir, Path.rmdir

    def mkdir(self: Path, *args: object, **more: object) -> None:
        made(self, *args, **more)  # type: ignore[arg-type]
        for name in FILES:
            (self / name).write_text("")

    def rmdir(self: Path) -> None:
        for name in FILES:
            (self / name).unlink(missing_ok=True)
        removed(self)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("memory pids")
    return tmp_path


def test_a_group_has_limits_takes_a_process_and_goes(groups: Path):
    group = cgroup.group_in(cgroup.usable([groups]), 1 << 30, 77)
    assert (group.folder / "memory.max").read_text() == str(1 << 30) and (group.folder / "pids.max").read_text() == "77"
    assert (group.folder / "memory.swap.max").read_text() == "0" and (group.folder / "memory.oom.group").read_text() == "1"
    group.take(123)
    assert (group.folder / "cgroup.procs").read_text() == "123" and not group.ran_out()
    (group.folder / "memory.events").write_text("low 0\nmax 4\noom 1\noom_kill 1\n")
    assert group.ran_out()
    group.end()
    assert not group.folder.exists()


@pytest.mark.parametrize("file", ["cgroup.controllers", "cgroup.subtree_control"])
def test_a_folder_without_both_controllers_is_of_no_use(groups: Path, file: str):
    """What is not there cannot be asked for; what was not asked for is, where that is allowed."""
    (groups / file).write_text("cpu pids")
    if file == "cgroup.controllers":
        with pytest.raises(OSError, match="no controller memory"):
            cgroup.usable([groups])
    else:
        assert cgroup.usable([groups]) == groups and (groups / file).read_text().startswith("+memory")


def test_our_own_group_is_found_where_it_is_mounted():
    plain = MOUNTS.format(root="/", place="/sys/fs/cgroup")
    assert cgroup.candidates("0::/user.slice/a.scope\n", plain) == [
        Path("/sys/fs/cgroup/user.slice/a.scope"), Path("/sys/fs/cgroup/user.slice")]  # fmt: skip
    assert cgroup.candidates("4:memory:/x\n0::/\n", plain) == [Path("/sys/fs/cgroup")]
    part = MOUNTS.format(root="/docker/1", place="/cg")
    assert cgroup.candidates("0::/docker/1/a\n", part) == [Path("/cg/a"), Path("/cg")]
    for own, mounts in (("4:memory:/x\n", plain), ("0::/\n", ""), ("0::/elsewhere\n", part)):
        with pytest.raises(OSError):
            cgroup.candidates(own, mounts)


def test_a_process_says_whether_it_has_a_group():
    with KernelProcess() as process:
        parts = process.parts or []
        assert (GROUP in parts) != (GROUP in process.missing)
        assert GROUP not in lacks(parts) and (GROUP in process.method) == (GROUP not in parts)
