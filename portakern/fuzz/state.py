"""What a run knows, as JSON lines that are only ever appended: killed at any point, it goes on from there.

``batches.jsonl``: number, seed, size and weights of every batch.  ``programs.jsonl``: each program of a batch, with its text.
``outcomes.jsonl``: what became of a program on a target.  ``found.jsonl``: findings, made smaller, and met again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from portakern.errors import PortakernError, UsageError

FILES = ("batches", "programs", "outcomes", "found")


@dataclass
class RunFolder:
    """The directory of a run.  Raises :class:`UsageError` where a fresh run is asked for in one that has a run already."""

    folder: Path
    resume: bool = False

    def __post_init__(self) -> None:
        self._open: dict[str, TextIO] = {}
        if not self.resume and any((self.folder / f"{n}.jsonl").exists() for n in FILES):
            raise UsageError(f"{self.folder} holds a run already", hint=f"--resume {self.folder} goes on with it, or name "
                                                                        "another with --out")  # fmt: skip
        if self.resume and not (self.folder / "batches.jsonl").exists():
            raise UsageError(f"{self.folder} holds no run to go on with", hint="--out names the directory of a fresh one")
        try:
            (self.folder / "found").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PortakernError("output", f"cannot write {self.folder}: {error.strerror}",
                                 hint="name another directory with --out") from error

    @property
    def found(self) -> Path:
        """Where findings are written."""
        return self.folder / "found"

    @property
    def database(self) -> Path:
        """Hypothesis's database."""
        return self.folder / "hypothesis"

    def append(self, kind: str, line: Mapping[str, Any]) -> None:
        """Adds a line to one of :data:`FILES`, at once."""
        if kind not in self._open:
            path = self.folder / f"{kind}.jsonl"
            torn = path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
            self._open[kind] = path.open("a", encoding="utf-8")
            if torn:  # the line that a kill cut off ends here, and is skipped when read
                self._open[kind].write("\n")
        self._open[kind].write(json.dumps(line) + "\n")
        self._open[kind].flush()

    def lines(self, kind: str) -> Iterator[dict[str, Any]]:
        """The lines so far; one that a kill cut off is left out."""
        path = self.folder / f"{kind}.jsonl"
        if not path.exists():
            return
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def close(self) -> None:
        for stream in self._open.values():
            stream.close()
        self._open.clear()
