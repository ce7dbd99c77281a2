"""Idempotency-Key: a write that is sent again is not carried out again, and gets its first response."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.api.call import agent_named
from engram.api.invalidation import Losses, Watch
from engram.errors import Conflict, EngramError
from engram.model import ForgetReceipt, Receipt
from engram.model.api_key import EVERYONE, ApiKey
from engram.model.grant import Grant, Revocation
from engram.model.retention import LegalHold, RetentionReport
from engram.model.wire import GroupView, Noted, Policy, Receipts
from engram.ports import Store
from engram.server.rest.middleware import BODY
from engram.server.rest.parameters import AGENT, IDEMPOTENCY, Operations
from engram.server.rest.problems import REPLAYED, answer, of_error

KEPT_SECONDS = 900.0
MOST_ANSWERS = 50_000
MOST_BYTES = 32_000_000
LARGEST = 2_000_000
LONGEST_KEY = 255
SILENT = (ForgetReceipt, Grant, GroupView, LegalHold, Noted, Policy, Receipt, Receipts, RetentionReport, Revocation)
"""Responses without the text of memories: deleting a memory does not invalidate them."""
CONDITIONS = ("if-match", "if-none-match")
_OTHER_REQUEST = "this Idempotency-Key belongs to another request; use a new one"
_DONE = (
    "this was done before, with status {status}, and not again; its answer is not kept, since something was forgotten "
    "meanwhile or it was too large: read what you need anew"
)

Slot = tuple[str, str, str]
"""The caller's key, the agent, and the key of the write."""


@dataclass(frozen=True, slots=True)
class Done:
    """A request that was carried out, by the digest of its content."""

    asked: bytes
    status: int
    until: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, with the number of deletions before it; after another deletion, it may not be replayed."""

    start: Message
    body: bytes
    agent: str
    lost: int
    silent: bool

    def holds(self, losses: Losses) -> bool:
        """Return true if nothing that it may contain was deleted since."""
        return self.lost == _lost(losses, self.agent, self.silent)


class Answers:
    """Cache of completed writes and their responses: in this process, for 15 minutes, within a size limit."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._done: OrderedDict[Slot, Done] = OrderedDict()
        self._said: OrderedDict[Slot, Answer] = OrderedDict()
        self._bytes = 0
        self._losses = Losses()

    def get(self, slot: Slot, losses: Losses) -> tuple[Done | None, Answer | None]:
        """Return the write in a slot and its response, if it may still be replayed."""
        self._invalidate(losses)
        self._evict()
        return self._done.get(slot), self._said.get(slot)

    def keep(self, slot: Slot, asked: bytes, status: int, said: Answer | None) -> None:
        """Store a write, and its response unless it is very large; the oldest are removed first."""
        self._done[slot] = Done(asked, status, self._clock() + KEPT_SECONDS)
        if said is not None and said.holds(self._losses) and len(said.body) <= LARGEST:
            self._said[slot] = said
            self._bytes += len(said.body)
        self._evict()

    def _invalidate(self, losses: Losses) -> None:
        """Remove responses that may contain deleted data; the record of the write stays."""
        if losses.number != self._losses.number:
            self._losses = losses
            for slot in [slot for slot, said in self._said.items() if not said.holds(losses)]:
                self._drop(slot)

    def _drop(self, slot: Slot) -> None:
        if (said := self._said.pop(slot, None)) is not None:
            self._bytes -= len(said.body)

    def _evict(self) -> None:
        now = self._clock()
        while self._done:
            slot, oldest = next(iter(self._done.items()))
            if oldest.until > now and len(self._done) <= MOST_ANSWERS:
                break
            del self._done[slot]
            self._drop(slot)
        while self._bytes > MOST_BYTES:
            self._drop(next(iter(self._said)))


class Idempotency:
    """Replay the response of a write that was carried out before, or wait for it if it is running.

    A refused write changed nothing and is tried again. When data of an agent is deleted, through any interface, the
    responses that may contain it are not replayed; the record of the write stays.
    """

    def __init__(
        self, app: ASGIApp, operations: Operations, store: Store, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._operations = operations
        self._watch = Watch(store)
        self._answers = Answers(clock)
        self._turns: WeakValueDictionary[Slot, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        key: ApiKey | None = scope.get("engram.key")
        own = "" if scope["type"] != "http" or key is None else Headers(scope=scope).get(IDEMPOTENCY, "")
        route = self._operations.keyed(scope["path"], scope["method"]) if own and len(own) <= LONGEST_KEY else None
        if key is None or route is None:
            await self._app(scope, receive, send)
            return
        slot = (key.id, _agent(scope, key), own)
        async with self._turns.setdefault(slot, asyncio.Lock()):
            try:
                losses = await run_in_threadpool(self._watch.look)
            except EngramError as error:
                await of_error(error, scope["engram.request"])(scope, receive, send)
                return
            asked = _digest(scope)
            done, said = self._answers.get(slot, losses)
            if done is None:
                reply = _Recorder(send, route, slot[1], losses)
                try:
                    await self._app(scope, receive, reply)
                finally:  # even if the caller has disconnected
                    if reply.status:
                        self._answers.keep(slot, asked, reply.status, reply.said)
            else:
                await self._replay(done, said, asked, scope, receive, send)

    async def _replay(
        self, done: Done, said: Answer | None, asked: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        id = scope["engram.request"]
        if done.asked != asked:
            await answer(409, Conflict.code, _OTHER_REQUEST, id)(scope, receive, send)
        elif said is None:
            detail = _DONE.format(status=done.status)
            await answer(409, Conflict.code, detail, id, headers={REPLAYED: "true"})(scope, receive, send)
        else:
            start: Message = {**said.start, "headers": [*said.start["headers"]]}
            MutableHeaders(scope=start)[REPLAYED] = "true"
            await send(start)
            await send({"type": "http.response.body", "body": said.body})


class _Recorder:
    """Send a response, and keep a copy if it is successful."""

    def __init__(self, send: Send, route: APIRoute, agent: str, losses: Losses) -> None:
        self._send = send
        self._agent = agent
        self._silent = route.response_model in SILENT
        self._lost = _lost(losses, agent, self._silent)
        self._start: Message = {}
        self._body = bytearray()
        self.status = 0
        self.said: Answer | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and 200 <= message["status"] < 300:
            self.status, self._start = message["status"], {**message, "headers": [*message["headers"]]}
        elif message["type"] == "http.response.body" and self.status:
            if len(self._body) <= LARGEST:
                self._body += message.get("body", b"")
            if not message.get("more_body", False):
                self.said = Answer(self._start, bytes(self._body), self._agent, self._lost, self._silent)
        await self._send(message)


def _lost(losses: Losses, agent: str, silent: bool) -> int:
    """Return the number of the last deletion that affects a response to an agent."""
    return losses.names if silent else losses.of(agent)


def _agent(scope: Scope, key: ApiKey) -> str:
    """Return the agent of a request; all agents, if it names none and the key is for several."""
    try:
        return agent_named(key, Headers(scope=scope).get(AGENT))
    except EngramError:  # the operation itself refuses it later
        return EVERYONE


def _digest(scope: Scope) -> bytes:
    """Return a digest of the content and conditions of a request, independent of the formatting of its JSON."""
    body: bytes = scope[BODY]
    try:
        said = json.dumps(json.loads(body), sort_keys=True).encode()
    except (ValueError, RecursionError):
        said = body
    headers = Headers(scope=scope)
    conditions = [json.dumps(headers.getlist(name)).encode() for name in CONDITIONS]
    parts = (scope["method"].encode(), scope["path"].encode(), scope.get("query_string", b""), *conditions, said)
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
