"""The door of the page's server: who may ask, how often and how much, and what browsers are told about every answer.

Everything here is decided before a request reaches the app. A name that an attacker's server resolves to this machine
(DNS rebinding) is refused by the Host header, and a page of another site by its Origin; there is no CORS.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gspn.web.limits import Limits

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}

_BURST = 3.0
"""Seconds' worth of requests that may come at once"""


class Guard:
    """Refuses what does not belong here, bounds bodies and rates, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, limits: Limits, names: Collection[str] = ()) -> None:
        self.app, self.limits = app, limits
        self.names = {"localhost", *(name.lower() for name in names)}
        self.allowance, self.since = _BURST * limits.requests_per_second, time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        most = self.limits.upload_bytes if scope["path"] == "/api/tables" else self.limits.body_bytes

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            self._check(scope, headers, most)
        except HTTPException as refusal:
            refused = JSONResponse({"error": refusal.detail}, refusal.status_code, refusal.headers)
            await refused(scope, receive, answer)
            return
        await self.app(scope, _bounded(receive, most), answer)

    def _check(self, scope: Scope, headers: Mapping[str, str], most: int) -> None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise HTTPException(400, f"this server does not answer to the name {host[:100]!r}; see allowed_names")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise HTTPException(403, "this server answers its own page only, not pages of other sites")
        if scope["path"].startswith("/api/"):
            self._count()
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise _too_large(most)

    def _is_ours(self, host: str) -> bool:
        """Numbers are fine, wherever the server listens: a rebound request carries a name."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return True

    def _count(self) -> None:
        now, rate = time.monotonic(), self.limits.requests_per_second
        self.allowance = min(_BURST * rate, self.allowance + rate * (now - self.since))
        self.since = now
        if self.allowance < 1:
            raise HTTPException(429, f"too many requests: at most {rate:g} a second", {"Retry-After": "1"})
        self.allowance -= 1


def _bounded(receive: Receive, most: int) -> Receive:
    """The same body, counted: its announced length may be missing or wrong."""
    read = 0

    async def bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most:
            raise _too_large(most)
        return message

    return bounded


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the request is too large: at most {most:,} bytes are read")
