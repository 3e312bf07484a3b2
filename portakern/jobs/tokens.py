"""The secret that those who ask from other machines must know, in a file of its owner's."""

from __future__ import annotations

import ipaddress
import stat
from pathlib import Path

from portakern.errors import UsageError

TOKEN_CHARACTERS = 16
"""The least that a token has."""


def is_loopback(host: str) -> bool:
    name = host.strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def token_of(file: str | None, host: str, what: str = "a server") -> str | None:
    """The token in a file, or none.  Raises :class:`UsageError` where there must be one, or the file is not as it should be."""
    if file is None:
        if not is_loopback(host):
            raise UsageError(f"{what} at {host} can be reached from elsewhere and has no token",
                             hint="write a secret into a file (python -c 'import secrets; print(secrets.token_hex())' > token; "
                                  "chmod 600 token) and give --token-file token")  # fmt: skip
        return None
    path = Path(file).expanduser()
    try:
        token = path.read_text(encoding="utf-8").strip()
        others = stat.S_IMODE(path.stat().st_mode) & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the token in {file}: {error}") from error
    if others:
        raise UsageError(f"others may read the token in {file}", hint=f"chmod 600 {file}")
    if len(token) < TOKEN_CHARACTERS or not token.isascii() or any(c.isspace() for c in token):
        raise UsageError(f"the token in {file} is too short, or no single word", hint="`secrets.token_hex()` gives a good one")
    return token
