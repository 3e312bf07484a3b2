"""What a judgement keeps from the kernel that it judges: one number, drawn where the kernel is not, told in the row afterwards.

Everything that a kernel could foresee comes from it: inputs, poison, places, the order of stages, hidden sizes.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field

import numpy as np

from portakern.errors import UsageError

BYTES = 16
_HEX = re.compile("[0-9a-f]{32,128}")


@dataclass(frozen=True)
class Secret:
    """``text``, in hex, repeats a judgement.  What is drawn under one label tells nothing of any other."""

    text: str = field(repr=False)

    @staticmethod
    def drawn() -> Secret:
        return Secret(secrets.token_hex(BYTES))

    @staticmethod
    def read(text: str) -> Secret:
        """Raises :class:`UsageError` for what is none."""
        if not isinstance(text, str) or not _HEX.fullmatch(text.lower()) or len(text) % 2:
            raise UsageError(f"{str(text)[:40]!r} is no secret", hint="it is the `secret` of a row: 32 digits in hex or more")
        return Secret(text.lower())

    def number(self, *labels: object) -> int:
        """128 bits for the use that ``labels`` name."""
        told = hashlib.blake2b(repr(labels).encode(), key=bytes.fromhex(self.text), digest_size=BYTES).digest()
        return int.from_bytes(told, "little")

    def random(self, *labels: object) -> np.random.Generator:
        return np.random.default_rng(self.number(*labels))

    def other(self, *labels: object) -> Secret:
        """One for a part of the judgement, from which this one does not follow."""
        return Secret(f"{self.number(*labels):0{2 * BYTES}x}")
