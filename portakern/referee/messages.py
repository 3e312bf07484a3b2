"""What the two processes say to each other: a length, JSON, then blobs of the lengths that it names.

The side that judges reads with :func:`receive`, which trusts nothing: sizes are capped before memory is taken, and
:func:`field` checks types.  Nothing that is received from a kernel's process is ever unpickled.
"""

from __future__ import annotations

import json
import math
import re
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from portakern.errors import PortakernError

TEXT_BYTES = 64 << 20
BLOB_BYTES = 256 << 20
_LENGTH = struct.Struct("<I")
_CHUNK = 1 << 20

Kind = TypeVar("Kind")


class Garbled(PortakernError):
    """What came from the kernel's process is no message."""

    def __init__(self, what: str) -> None:
        super().__init__("bad-message", f"the kernel's process sent what is no answer: {what}",
                         hint="a kernel must leave the process that calls it alone")


class Ended(Exception):
    """The other process closed its end."""


@dataclass(frozen=True)
class Message:
    body: Mapping[str, Any]
    blobs: tuple[bytes, ...] = ()
    descriptors: list[int] = field(default_factory=list)


def send(to: socket.socket, body: Mapping[str, Any], blobs: Sequence[bytes] = (), descriptors: Sequence[int] = ()) -> None:
    """Raises :class:`Ended` where nobody is there to read."""
    text = json.dumps({**body, "blobs": [len(b) for b in blobs]}).encode()
    try:
        if descriptors:
            socket.send_fds(to, [_LENGTH.pack(len(text))], list(descriptors))
        else:
            to.sendall(_LENGTH.pack(len(text)))
        to.sendall(text)
        for blob in blobs:
            to.sendall(blob)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Ended from error


def receive(of: socket.socket, text_bytes: int = TEXT_BYTES, blob_bytes: int = BLOB_BYTES, descriptors: int = 0,
            until: float | None = None) -> Message:  # fmt: skip
    """Raises :class:`Ended`, :class:`Garbled` for what is too long or no JSON object, or :class:`TimeoutError` where the whole
    of it is not here ``until`` then, by ``time.monotonic``: who sends a byte now and then wins nothing."""
    given: list[int] = []
    if descriptors:
        head, given, _, _ = socket.recv_fds(of, _LENGTH.size, descriptors)
        head += _exactly(of, _LENGTH.size - len(head), until) if head else b""
    else:
        head = _exactly(of, _LENGTH.size, until)
    if len(head) < _LENGTH.size:
        raise Ended
    (length,) = _LENGTH.unpack(head)
    if length > text_bytes:
        raise Garbled(f"{length} bytes of text")
    try:
        body = json.loads(_exactly(of, length, until), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Garbled("no JSON") from error
    if not isinstance(body, dict):
        raise Garbled("no JSON object")
    sizes = body.pop("blobs", [])
    if not isinstance(sizes, list) or not all(type(n) is int and n >= 0 for n in sizes) or sum(sizes) > blob_bytes:
        raise Garbled("blobs of no sensible size")
    return Message(body, tuple(_exactly(of, n, until) for n in sizes), given)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def limited(channel: socket.socket, until: float | None) -> None:
    """What is done next with the channel ends ``until`` then.  Raises :class:`TimeoutError` where that has passed."""
    if until is not None:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        channel.settimeout(left)


def _exactly(of: socket.socket, size: int, until: float | None) -> bytes:
    content = bytearray()
    while len(content) < size:
        limited(of, until)
        try:
            chunk = of.recv(min(size - len(content), _CHUNK))
        except ConnectionResetError as error:
            raise Ended from error
        if not chunk:
            raise Ended
        content += chunk
    return bytes(content)


_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text that does nothing to a terminal and can be written anywhere: other characters by their numbers."""
    return _UNPRINTABLE.sub(lambda m: ascii(m[0])[1:-1], text)


_WORDS, _MANY, _DEEP = 300, 40, 3
_LARGEST = 1 << 53


def plain_values(x: Any, depth: int = _DEEP) -> Any:
    """Numbers that JSON and databases have, short printable texts, and a few of them together; ``None`` for all else."""
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, str):
        return printable(x[:_WORDS])
    if isinstance(x, int | float):
        return x if abs(x) <= _LARGEST else None
    if depth and isinstance(x, dict):
        return {printable(str(k)[:_WORDS]): plain_values(v, depth - 1) for k, v in list(x.items())[:_MANY]}
    if depth and isinstance(x, list):
        return [plain_values(v, depth - 1) for v in x[:_MANY]]
    return None


def member(body: Mapping[str, Any], name: str, kind: type[Kind], most: int = 4096) -> Kind:
    """``body[name]``, which must be of this very type; text is cut after ``most`` characters, and printable."""
    value: Any = body.get(name)
    if type(value) is not kind:
        raise Garbled(f"{name} is no {kind.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise Garbled(f"{name} is no number")
    return printable(value[:most]) if kind is str else value  # type: ignore[return-value]
