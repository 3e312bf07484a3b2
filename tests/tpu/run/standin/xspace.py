"""Writes a plane of an XSpace, the message of jax's profiler, by the wire format of protocol buffers.

Fields: tensorflow/tsl, tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

from collections.abc import Iterable


def device_plane(name: str, runs: Iterable[tuple[str, float, float]], line: str = "XLA Modules") -> bytes:
    """An XSpace with one plane: ``runs`` are (program, start in ns, duration in ns).  An XSpace is put together of others by
    putting their bytes together."""
    runs = list(runs)
    names = {program: n for n, program in enumerate(dict.fromkeys(r[0] for r in runs), 1)}
    begun = int(min((r[1] for r in runs), default=0))
    events = b"".join(
        _message(4, _number(1, names[p]) + _number(2, int((start - begun) * 1000)) + _number(3, int(took * 1000)))
        for p, start, took in runs)  # fmt: skip
    modules = _number(1, 1) + _text(2, line) + _number(3, begun) + events
    metadata = b"".join(_message(4, _number(1, n) + _message(2, _number(1, n) + _text(2, p))) for p, n in names.items())
    return _message(1, _number(1, 1) + _text(2, name) + _message(3, modules) + metadata)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())
