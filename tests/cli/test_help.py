"""Help with examples that are understood, and completion for shells."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess

import pytest

from portakern.cli import COMMANDS, command, completion, main, parser_of
from portakern.cli.examples import EXAMPLES

pytestmark = pytest.mark.quick


def parsed(words: list[str]) -> argparse.Namespace:
    return parser_of(words[0], command(words[0])).parse_args(words[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_in_its_help_that_it_understands(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    said = capsys.readouterr().out
    assert EXAMPLES[name] and set(EXAMPLES) == set(COMMANDS)
    for line in EXAMPLES[name]:
        assert f"  portakern {line}\n" in said and len(line) < 110
        words = shlex.split(line.partition(" > ")[0])
        assert words[0] == name and parsed(words)
    outside = [line for line in said.splitlines() if len(line) > 80 and not line.startswith("  portakern ")]
    assert not outside, "lines of help fit a terminal"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(("line", "some"), [
    (["portakern", "be"], ["bench"]), (["portakern", "bench", "--ca"], ["--cache"]),
    (["portakern", "bench", "soft"], ["softmax"]), (["portakern", "bench", "softmax", "--cache", ""], ["cold", "warm"]),
    (["portakern", "cache", ""], ["prune", "size"]),
])  # fmt: skip
def test_bash_completes(line: list[str], some: list[str]):
    words = " ".join(map(shlex.quote, line))
    asked = f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _portakern; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    script = f"{completion.bash()}\n{asked}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert not done.stderr and set(some) <= set(done.stdout.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_ones_that_the_shell_can_read(shell: str, capsys: pytest.CaptureFixture[str]):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr
