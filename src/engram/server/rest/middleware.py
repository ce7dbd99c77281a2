"""Middleware that checks each request: host, origin, API key, rate, and size of the body.

`RequestGuard` is the outermost: it gives each request an id, checks its host and origin, limits the number of requests
and their time, and counts and logs their results. `Authentication`, behind it, checks the key and its rate, and reads
the body.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.api.limits import Buckets, Limits, flaw_of_json
from engram.api.problems import code_locations
from engram.errors import EngramError, TooMany, Unauthenticated
from engram.model.api_key import ApiKey
from engram.ports import principal
from engram.server.metrics import Metrics
from engram.server.rest.parameters import IDEMPOTENCY
from engram.server.rest.problems import CODES, answer, of_error
from engram.sharing.api_keys import Keys
from engram.system import LOOPBACK

_log = logging.getLogger("engram.server")
_OWN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
EVENTS = "/v1/events"
KNOWLEDGE = "/v1/knowledge"
"""The path of knowledge files, whose bodies are streams."""
LONG = (KNOWLEDGE, "/v1/knowledge/merge", "/v1/audit/verification", "/v1/retention/runs")
"""Paths of operations that may take long, since they read all data."""
METRICS = "/metrics"
BODY = "engram.body"
"""The name of the whole body in the scope of a request."""
ANYWHERE = "*"

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("engram_request", default="")
"""The id of the request that is being answered, for log lines."""


@dataclass(frozen=True, slots=True)
class Address:
    """The host names that a server answers to, and the web pages that may call it."""

    hosts: Collection[str] = LOOPBACK
    """Names in the `Host` header, without a port; `*` for any."""
    origins: Collection[str] = ()
    """Origins of web pages, such as `https://tools.example`; none by default."""

    def answers_to(self, host: str) -> bool:
        """Return true if a `Host` header names this server."""
        return ANYWHERE in self.hosts or _name(host) in {_name(known) for known in self.hosts}

    def lets_in(self, origin: str, host: str) -> bool:
        """Return true if a page of this origin may call the server: one of its own, or an allowed one."""
        return origin in self.origins or origin.lower() in {
            f"{scheme}://{host.lower()}" for scheme in ("http", "https")
        }


def _name(host: str) -> str:
    name, separator, port = host.lower().rpartition(":")
    return name if separator and port.isdigit() and (not name.startswith("[") or name.endswith("]")) else host.lower()


class RequestGuard:
    """The outermost application: every request passes it, and every failure inside becomes a response."""

    def __init__(
        self,
        app: ASGIApp,
        address: Address,
        limits: Limits,
        metrics: Metrics,
        new_id: Callable[[], str],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._app = app
        self._address = address
        self._limits = limits
        self._metrics = metrics
        self._new_id = new_id
        self._clock = clock
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        own = headers.get("x-request-id", "")
        scope["engram.request"] = id = own if _OWN_ID.fullmatch(own) else self._new_id()
        request_id.set(id)
        reply, started = _Sender(send, id), self._clock()
        self._metrics.running.inc()
        try:
            refusal = self._refusal(headers, id)
            if refusal is not None:
                await refusal(scope, receive, reply)
            else:
                await self._carry_out(scope, receive, reply, id)
        finally:
            self._metrics.running.dec()
            self._told(scope, reply.status, self._clock() - started)

    def _refusal(self, headers: Headers, id: str) -> Response | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._address.answers_to(host):
            self._metrics.refused.labels("host").inc()
            return answer(421, CODES[421], "this server does not go by the name in the Host header", id)
        if origin is not None and not self._address.lets_in(origin, host):
            self._metrics.refused.labels("origin").inc()
            return answer(403, "not_allowed", "pages of this origin may not ask this server", id)
        if len(self._running) >= self._limits.running:
            self._metrics.refused.labels("load").inc()
            return answer(503, "busy", "too many requests are being answered; try again", id)
        return None

    async def _carry_out(self, scope: Scope, receive: Receive, reply: _Sender, id: str) -> None:
        """Run the request; one that takes too long gets an error response and continues in the background."""
        task = asyncio.create_task(self._safely(scope, receive, reply, id))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({task}, timeout=_patience(self._limits, scope["path"]))
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done() and not reply.started:
            detail = (
                "it took too long and may still be carried out; the same Idempotency-Key makes it safe to try again"
            )
            late = answer(503, "busy", detail, id)
            final, reply.cut = _Sender(reply.send, id), True
            await late(scope, receive, final)
            reply.status = 503
        elif not task.done():
            await task

    async def _safely(self, scope: Scope, receive: Receive, reply: _Sender, id: str) -> None:
        try:
            await self._app(scope, receive, reply)
        except Exception as error:  # noqa: BLE001 - the outermost handler: the caller gets a response in any case
            _log.error("a request failed: %s", type(error).__name__, extra={"told": {"where": code_locations(error)}})
            if not reply.started:
                detail = "the server failed; its log says why, under this request's id"
                await answer(500, EngramError.code, detail, id)(scope, receive, reply)

    def _told(self, scope: Scope, status: int, seconds: float) -> None:
        op = getattr(scope.get("route"), "name", "") or "none"
        self._metrics.done(op, status, seconds)
        key: ApiKey | None = scope.get("engram.key")
        line = {"op": op, "method": scope["method"], "status": status, "ms": round(seconds * 1000, 1)}
        _log.info("request", extra={"told": line | {"key": key.id if key else ""}})

    async def drained(self, seconds: float) -> None:
        """Wait at most `seconds` for requests that continue in the background."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds)


def _patience(limits: Limits, path: str) -> float | None:
    """Seconds that a request may take; a stream of events has no limit."""
    if path == EVENTS:
        return None
    return limits.long_seconds if path in LONG else limits.seconds


class _Sender:
    """Send a response with the headers that all responses have, unless it was cancelled."""

    def __init__(self, send: Send, id: str) -> None:
        self.send = send
        self.started = False
        self.status = 0
        self.cut = False
        self._id = id

    async def __call__(self, message: Message) -> None:
        if self.cut:
            return
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self._id
            headers.setdefault("Cache-Control", "no-store")
            headers["X-Content-Type-Options"] = "nosniff"
        await self.send(message)


class Authentication:
    """Require a valid key, its rate limit and the size limit of the body, for all paths but the public ones."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        limits: Limits,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        repeatable: ASGIApp | None = None,
    ) -> None:
        self._app = app
        self._repeatable = repeatable or app
        """The application for requests that have an Idempotency-Key."""
        self._keys = keys
        self._limits = limits
        self._metrics = metrics
        self._callers = Buckets(limits.rate, limits.burst, clock)
        self._strangers = Buckets(limits.refusals, max(1, int(limits.refusals * 5)), clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and _guarded(scope["path"]):
            if (refusal := await self._refusal(scope)) is not None:
                await refusal(scope, receive, send)
                return
            if not _uploads(scope):
                body = await self._body(scope, receive)
                if isinstance(body, Response):
                    await body(scope, receive, send)
                    return
                scope[BODY] = body
                receive = _replayed(body, receive)
        keyed = scope["type"] == "http" and IDEMPOTENCY in Headers(scope=scope)
        app = self._repeatable if keyed else self._app
        await app(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        id, headers = scope["engram.request"], Headers(scope=scope)
        try:
            key = await run_in_threadpool(self._keys.accept, _bearer(headers.get("authorization", "")))
        except EngramError as error:
            return of_error(error, id)
        if key is None:
            wait = self._strangers.wait(str((scope.get("client") or ("",))[0]))
            self._metrics.refused.labels("key").inc()
            return self._later(wait, id) if wait else of_error(Unauthenticated(_NO_KEY), id)
        if wait := self._callers.wait(key.id):
            self._metrics.refused.labels("rate").inc()
            return self._later(wait, id)
        scope["engram.key"] = key
        principal.set(f"key:{key.id}")
        return None

    def _later(self, wait: float, id: str) -> Response:
        detail = "requests come too fast; wait as long as Retry-After says"
        return answer(429, TooMany.code, detail, id, headers={"Retry-After": str(max(1, round(wait + 0.5)))})

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response:
        """Read the whole body, or return the response that refuses it."""
        id, headers, most = scope["engram.request"], Headers(scope=scope), self._limits.body
        too_large = f"the body has more than {most:,} bytes; send it in parts"
        announced = headers.get("content-length", "0")
        if announced.isdigit() and int(announced[:20]) > most:
            return answer(413, CODES[413], too_large, id)
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        break
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        return answer(413, CODES[413], too_large, id)
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            return answer(408, CODES[408], "the body did not come in time", id)
        body = b"".join(parts)
        if body and "json" in headers.get("content-type", "") and (flaw := flaw_of_json(body, self._limits.depth)):
            return answer(400, CODES[400], flaw, id)
        return body


_NO_KEY = "this needs a key: `Authorization: Bearer eng_…`"


def _guarded(path: str) -> bool:
    return path in {METRICS, "/v1"} or path.startswith("/v1/")


def _uploads(scope: Scope) -> bool:
    """Return true for an upload, whose route reads the body in parts after it has checked the caller's right."""
    return (scope["path"], scope["method"]) == (KNOWLEDGE, "POST")


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body that was read before, then further messages."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
