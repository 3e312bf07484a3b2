"""The jail by itself: what root and who is not root may still do inside."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from portakern.referee.surroundings import _beside

INSIDE = """
import os
from portakern.tools.jail import enter as jail
if {other}:
    jail._may_unshare = lambda: False
found = jail.enter(jail.Spec(("/usr", "/lib", "/lib64", "/bin", "/proc"), ("/tmp",), processes=5000))
print(*found.parts)
print(open("/proc/self/status").read().split("CapEff:")[1].split()[0])
for path in ("/tmp/private", {outside!r}):
    try:
        open(path, "w").close()
        print("wrote")
    except OSError:
        print("refused")
import sys
print(sum(name.isdigit() for name in os.listdir("/proc")), flush=True)
os.kill(os.getpid(), 11)
"""


@pytest.mark.parametrize("other", [False, True])
def test_a_jailed_process_has_no_rights_and_ends_as_it_ends(other: bool, tmp_path: Path):
    outside = Path(__file__).with_name("written-from-inside")
    text = INSIDE.format(other=other, outside=str(outside))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    parts, rights, inside, beside, processes = done.stdout.splitlines()
    if not {"pid", "mount", "landlock", "seccomp"} <= set(parts.split()):
        pytest.skip(f"this machine has no whole jail: {parts}")
    assert int(rights, 16) == 0
    assert (inside, beside) == ("wrote", "refused") and not outside.exists()
    assert int(processes) <= 2
    assert done.returncode == -11


JUDGING = """
import time
from portakern.referee.process import KernelProcess
process = KernelProcess({jail!r})
def say():
    {hold}
    print(*process.family(), flush=True)
    {hold} and time.sleep(600)
say = [say]
process.call("time:sleep", (600,), meanwhile=lambda: say and say.pop()())
"""


@pytest.mark.usefixtures("whole_jail")
@pytest.mark.parametrize("jail", ["auto", "off"])
@pytest.mark.parametrize("stands", [False, True])
def test_a_kernel_ends_with_who_judges_it_however_that_ends(jail: str, stands: bool):
    """Nobody is left who could end it or let it go on, and what it waits for never comes."""
    text = JUDGING.format(jail=jail, hold="process.hold() or True" if stands else "False")
    judge = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert judge.stdout is not None
    with judge, judge.stdout:
        family = [Path(f"/proc/{number}") for number in judge.stdout.readline().split()]
        assert len(family) >= (3 if jail == "auto" else 1) and all(p.exists() for p in family)
        judge.kill()
    until = time.monotonic() + 20
    while any(p.exists() for p in family) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [p.name for p in family if p.exists()]


@pytest.mark.quick
def test_libraries_of_packages_are_read_wherever_they_were_installed():
    """Drivers are files beside the folder of modules."""
    read = list(_beside(["/home/a/.local/lib/python3.11/site-packages", "/srv/of-mine", "/usr/lib/python311.zip"]))
    assert read == ["/home/a/.local/lib", "/home/a/.local/include"]
