"""No kernel of a lazy or hostile generator passes for what it is not, and none does harm."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from portakern.referee.secret import Secret
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from portakern.study import steps
from portakern.study.row import Row
from portakern.study.work import Foreign, Problem, works
from portakern.tools.cache import Cache
from tests.judge.attacks import ATTACKS, DAEMON_S, Attack, cpp
from tests.judge.judges import SMALL

MEMORY = 4 << 30


def checked(target: str, text: str, entry: str | None = None, jail: str = "auto", operator: str = "row_sum",
            dims: Mapping[str, int | None] = SMALL, secret: Secret | None = None) -> Row:  # fmt: skip
    """Compiled and checked, without timing."""
    problem = Problem(load_operator(operator), {n: dynamic if s is None else s for n, s in dims.items()}, {})
    (work,) = works(problem, [registry().target(target)], ["f32"],
                    foreign=Foreign(text, entry, jail, MEMORY, secret or Secret.drawn()))  # fmt: skip
    made = steps.build(work)
    return steps.check(work, made) if made.row.error is None and made.runner else made.row


def each(slow: bool):
    return [pytest.param(a, id=a.name) for a in ATTACKS if a.slow == slow]


def judged(attack: Attack, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witness, cache = folder / "witness", folder / "cache"
    monkeypatch.setenv("PORTAKERN_CACHE", str(cache))
    folder.chmod(0o777)
    Cache().put("ab" * 32, b"ours")
    text = attack.text.replace("@WITNESS@", str(witness)).replace("@CACHE@", str(cache))
    row = checked(attack.target, text, attack.entry, operator=attack.operator, dims=attack.dims)
    assert not witness.exists()
    assert Cache().get("ab" * 32) == b"ours"
    assert "root:" not in str(row.to_dict())
    if attack.correct:
        assert row.correct, row.error
    elif attack.kind:
        assert row.error is not None and row.error["kind"] in attack.kind.split("|"), row
    if not row.correct:
        assert row.error is not None
    if "daemon" in attack.name:
        time.sleep(DAEMON_S + 0.5)
        assert not witness.exists()


@pytest.mark.usefixtures("whole_jail")
@pytest.mark.parametrize("attack", each(slow=False))
def test_no_attack_passes_or_does_harm(attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    judged(attack, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("whole_jail")
@pytest.mark.parametrize("attack", each(slow=True))
def test_no_flood_passes_or_does_harm(attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    judged(attack, tmp_path, monkeypatch)


@pytest.mark.usefixtures("whole_jail")
def test_nothing_of_the_files_that_a_text_names_is_in_its_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    secret = Path.home() / ".portakern-test-secret"
    secret.write_text("a-secret-of-this-user")
    try:
        monkeypatch.setenv("PORTAKERN_CACHE", str(tmp_path / "cache"))
        row = checked("cpp:cpu", cpp("honest(x, out);", f'asm(".section .rodata\\n.incbin \\"{secret}\\"\\n.previous");\n'))
    finally:
        secret.unlink()
    assert row.error is not None and row.binary_hash is None
    assert not any(b"a-secret-of-this-user" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_the_row_says_what_kept_the_kernel_in():
    row = checked("cpp:cpu", cpp("honest(x, out);"))
    assert row.correct and row.method is not None and "jailed" in row.method
    bare = checked("cpp:cpu", cpp("honest(x, out);"), jail="off")
    assert bare.correct and bare.method is not None and "without a jail" in bare.method


def test_a_secret_repeats_a_judgement_and_another_does_not():
    text, secret = cpp("honest(x, out);"), Secret.drawn()
    one, two, other = (checked("cpp:cpu", text, secret=s).max_error_ratio for s in (secret, secret, Secret.drawn()))
    assert one == two and one != other


@pytest.mark.usefixtures("whole_jail")
def test_nothing_is_left_of_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Other tests judge at the same time: the process is known by its name, and its folders by where they are made."""
    name = f"left{os.getpid()}"
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = _folders_made(monkeypatch)
    checked("cpp:cpu", cpp(f'honest(x, out); if (!fork()) {{ syscall(SYS_prctl, 15, "{name}"); setsid(); sleep(600); }}'))
    assert name not in [_name(p) for p in Path("/proc").glob("[0-9]*")]
    assert made and all(p.parent == tmp_path for p in made)
    for _ in range(200):
        if not (left := [p for p in tmp_path.iterdir() if p.name.startswith("portakern-")]):
            break
        time.sleep(0.1)
    assert not left


def _folders_made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that this process makes from now on."""
    make, made = tempfile.mkdtemp, []

    def noted(*args: Any, **kwargs: Any) -> str:
        made.append(Path(make(*args, **kwargs)))
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", noted)
    return made


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""
