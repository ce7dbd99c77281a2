"""Writes that are carried out once, however often they are sent: the second answer is the first one again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.errors import Conflict, EngramError
from engram.model.access import EVERYONE, ApiKey
from engram.server.auth import AGENT, chosen
from engram.server.operations import IDEMPOTENCY, Operations
from engram.server.problems import REPLAYED, answer

KEPT_SECONDS = 900.0
MOST_ANSWERS = 10_000
MOST_BYTES = 32_000_000
LARGEST = 256_000
LONGEST_KEY = 255
_OTHER = "this Idempotency-Key belongs to another request; use a new one"

Slot = tuple[str, str, str]
"""The caller's key, the agent, and the key of the write."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to a request, and to which."""

    asked: str
    start: Message
    body: bytes
    until: float


class Answers:
    """Answers that are kept for a while, in this process, within bounds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[Slot, Answer] = OrderedDict()
        self._bytes = 0

    def get(self, slot: Slot) -> Answer | None:
        """The answer that is kept there, if it still is."""
        self._tidy()
        return self._kept.get(slot)

    def keep(self, slot: Slot, asked: str, start: Message, body: bytes) -> None:
        """Keep an answer, unless it is very large; the oldest go first."""
        if len(body) <= LARGEST:
            self._kept[slot] = Answer(asked, start, body, self._clock() + KEPT_SECONDS)
            self._bytes += len(body)
            self._tidy()

    def drop(self, agent: str) -> None:
        """Keep nothing of what was answered about an agent, or about all of them."""
        for slot in [slot for slot in self._kept if agent == EVERYONE or slot[1] in {agent, EVERYONE}]:
            self._bytes -= len(self._kept.pop(slot).body)

    def _tidy(self) -> None:
        now = self._clock()
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if oldest.until > now and len(self._kept) <= MOST_ANSWERS and self._bytes <= MOST_BYTES:
                return
            self._bytes -= len(self._kept.popitem(last=False)[1].body)


class Once:
    """Answers a write that was answered before with what was said then, and one that is being answered after that.

    What was refused changed nothing and is tried again. When something is forgotten, no answer about that agent is
    kept.
    """

    def __init__(self, app: ASGIApp, operations: Operations, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._operations = operations
        self._answers = Answers(clock)
        self._turns: WeakValueDictionary[Slot, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        key: ApiKey | None = scope.get("engram.key")
        if scope["type"] != "http" or key is None or scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            await self._app(scope, receive, send)
            return
        agent = _agent(scope, key)
        if scope["method"] == "DELETE":
            reply = _Reply(send)
            await self._app(scope, receive, reply)
            if reply.done:
                self._answers.drop(agent)
            return
        own = Headers(scope=scope).get(IDEMPOTENCY, "")
        if not 0 < len(own) <= LONGEST_KEY or not self._operations.taking_keys(scope["path"], scope["method"]):
            await self._app(scope, receive, send)
            return
        body = await receive()
        slot = (key.id, agent, own)
        async with self._turns.setdefault(slot, asyncio.Lock()):
            await self._answered(slot, scope, body, receive, send)

    async def _answered(self, slot: Slot, scope: Scope, body: Message, receive: Receive, send: Send) -> None:
        asked = _digest(scope, body.get("body", b""))
        known = self._answers.get(slot)
        if known is None:
            reply = _Reply(send)
            await self._app(scope, _first(body, receive), reply)
            if reply.done and reply.start is not None:
                self._answers.keep(slot, asked, reply.start, bytes(reply.body))
        elif known.asked == asked:
            start: Message = {**known.start, "headers": [*known.start["headers"]]}
            MutableHeaders(scope=start)[REPLAYED] = "true"
            await send(start)
            await send({"type": "http.response.body", "body": known.body})
        else:
            await answer(409, Conflict.code, _OTHER, scope["engram.request"])(scope, receive, send)


class _Reply:
    """Sends an answer on, and keeps a copy of one that says that it was done."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.start: Message | None = None
        self.body = bytearray()
        self.done = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and 200 <= message["status"] < 300:
            self.start = {**message, "headers": [*message["headers"]]}
        elif message["type"] == "http.response.body" and self.start is not None:
            if len(self.body) <= LARGEST:
                self.body += message.get("body", b"")
            self.done = not message.get("more_body", False)
        await self._send(message)


def _agent(scope: Scope, key: ApiKey) -> str:
    """Whom a request is about; all agents, if it names none and the key is not for one."""
    try:
        return chosen(key, Headers(scope=scope).get(AGENT))
    except EngramError:  # what it names is refused later, by the operation itself
        return EVERYONE


def _digest(scope: Scope, body: bytes) -> str:
    """Equal for two requests that ask for the same thing, however their JSON is written."""
    try:
        said = json.dumps(json.loads(body), sort_keys=True).encode()
    except (ValueError, RecursionError):
        said = body
    parts = (scope["method"].encode(), scope["path"].encode(), scope.get("query_string", b""), said)
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _first(message: Message, receive: Receive) -> Receive:
    waiting = [message]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
