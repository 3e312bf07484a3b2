"""What stands before every request: whose host it names, its token, how long its body is, how many wait already."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from portakern.serve.answers import answer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/health", "/v1/health")
"""What anybody may ask for: whether there is a server."""


class Gate:
    """Lets requests through to ``app``.

    Args:
        token: what ``Authorization: Bearer`` must say, save for :data:`OPEN`.
        hosts: names that ``Host`` and ``Origin`` may have where there is no token, so that no page in a browser reaches a
            server on loopback, under a name of its own or by its address; empty: any.
        body_bytes: of one request.
        waiting: requests at once.
    """

    def __init__(self, app: App, token: str | None, hosts: Iterable[str], body_bytes: int, waiting: int) -> None:
        self._app, self._hosts = app, frozenset(hosts)
        self._token = token.encode() if token is not None else None
        self._body_bytes, self._waiting, self._inside = body_bytes, waiting, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {k.lower(): v for k, v in scope["headers"]}
        refusal = self._refusal(scope["path"], headers)
        if refusal is None and self._inside >= self._waiting:
            refusal = answer(503, "busy", f"{self._inside} requests wait", next="ask again later", headers={"Retry-After": "5"})
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._limited(scope, receive, send)
        finally:
            self._inside -= 1

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> Any:
        if self._hosts and _name(headers.get(b"host", b"")) not in self._hosts:
            return answer(421, "wrong-host", "the request names another host", where="Host",
                          next="ask by 127.0.0.1 or localhost, or give the server a token")  # fmt: skip
        if self._hosts and (origin := headers.get(b"origin")) and _name(origin.partition(b"://")[2]) not in self._hosts:
            return answer(403, "wrong-origin", "a page from elsewhere asks", where="Origin",
                          next="give the server a token, and the page, too")  # fmt: skip
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._body_bytes:
            return answer(413, "too-large", f"a request of {length.decode('latin-1')[:20]} bytes", where="Content-Length",
                          next=f"{self._body_bytes} are the most: ask in parts")  # fmt: skip
        if self._token is None or path in OPEN:
            return None
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return None
        return answer(401, "unauthorized", "the request has no token, or another one", where="Authorization",
                      next="send Authorization: Bearer and the server's token",
                      headers={"WWW-Authenticate": "Bearer"})  # fmt: skip

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Counts what comes, whatever the head said of it."""
        seen, begun = 0, False

        async def counted() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._body_bytes:
                raise _TooLong
            return message

        async def told(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, counted, told)
        except _TooLong:
            if not begun:
                await answer(413, "too-large", f"a request of more than {self._body_bytes} bytes",
                             next="ask in parts")(scope, receive, send)  # fmt: skip


class _TooLong(BaseException):
    """Not for handlers of errors on the way."""


def _name(host: bytes) -> str:
    text = host.decode("latin-1").lower()
    return text[: text.index("]") + 1] if text.startswith("[") and "]" in text else text.rpartition(":")[0] or text
