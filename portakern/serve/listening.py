"""A socket that is bound before anything else is made, so that a port that is taken is said at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from portakern.errors import UsageError


@contextmanager
def listener(host: str, port: int) -> Iterator[socket.socket]:
    """Raises :class:`UsageError` where the host is none of this machine, or the port is taken."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM,
                                                             flags=socket.AI_PASSIVE)[0]  # fmt: skip
        made = socket.socket(family, kind, proto)
    except OSError as error:
        raise UsageError(f"cannot listen at {host}: {error.strerror or error}", hint="--host names an address here") from error
    with made:
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(1024)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen at {host}:{port}: {error}",
                             hint="--port names another one; 0 takes a free one") from error
        yield made
