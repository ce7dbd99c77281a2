"""What every call passes: a key, its rate, a request that can be read, a thread to carry it out, an answer in time."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from pydantic import BaseModel, ValidationError

from engram.api.call import Call
from engram.api.limits import Buckets, Limits, Streams
from engram.engine import Engram
from engram.errors import EngramError, InvalidInput, StoreBusy, TooMany, Unauthenticated
from engram.model.api_key import Right
from engram.ports import principal
from engram.server.grpc.convert import read, written
from engram.server.grpc.messages import MESSAGE, REQUEST
from engram.server.grpc.problems import Late, Later, Unfit, detail_of, status_of, trailers
from engram.sharing.api_keys import Keys
from engram.transfer.signing import PublicKey

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
Observe = Callable[[str, str, float], None]
"""Is told of each call how it ended: the method, the status, the seconds."""

WORKERS = 32
STREAMS = 256
"""Streams at a time, of all callers."""
NO_KEY = "this needs a key in the metadata: `authorization: Bearer eng_…`"

_log = logging.getLogger("engram.server.grpc")
_OWN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


def parsed(kind: type[Message], data: bytes, model: type[Model]) -> Model:
    """What a request says. Raises `InvalidInput`."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise InvalidInput("the message cannot be read; is it of this version of the protocol?") from None
    try:
        return model.model_validate(read(message, sparse=True))
    except ValidationError as error:
        raise Unfit(error) from None


def rendered(model: BaseModel, kind: type[Message]) -> bytes:
    """An answer as it is sent. Raises `TooMany` if it is larger than a message may be."""
    data: bytes = written(model, kind).SerializeToString()
    if len(data) > MESSAGE:
        raise TooMany(f"the answer has more than {MESSAGE:,} bytes; ask for less at once")
    return data


@dataclass(slots=True)
class Visit:
    """One call that came in, from its metadata to how it ended."""

    method: str
    right: Right
    context: Any
    id: str
    token: str
    named: str | None
    key: str = ""

    @property
    def peer(self) -> str:
        """The address of the caller, without its port."""
        return str(self.context.peer()).rpartition(":")[0]


@dataclass(slots=True)
class Door:
    """Lets calls in to an open memory, which whoever opened it closes."""

    brain: Engram
    limits: Limits
    observe: Observe | None = None
    poll_seconds: float = 0.5
    trusted: Mapping[str, PublicKey] = field(default_factory=dict)
    """The keys that files with knowledge may be signed with, by name."""
    clock: Callable[[], float] = time.monotonic
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to end the streams."""
    keys: Keys = field(init=False)
    running: int = 0
    streams: int = 0
    _pool: ThreadPoolExecutor = field(init=False)
    _callers: Buckets = field(init=False)
    _strangers: Buckets = field(init=False)
    _listeners: Streams = field(init=False)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        limits = self.limits
        self.keys = self.brain.keys
        self._listeners = Streams(limits)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="engram-rpc")
        self._callers = Buckets(limits.rate, limits.burst, self.clock)
        self._strangers = Buckets(limits.refusals, max(1, int(limits.refusals * 5)), self.clock)

    def close(self) -> None:
        """Wait until everything that was begun is done."""
        self._pool.shutdown(wait=True)

    def visit(self, method: str, right: Right, context: Any) -> Visit:
        """A call that has just come."""
        told = {str(name): value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
        own = told.get(REQUEST, "")
        scheme, _, token = told.get("authorization", "").partition(" ")
        return Visit(
            method,
            right,
            context,
            own if _OWN_ID.fullmatch(own) else self.brain.sources.new_id(),
            token.strip() if scheme.lower() == "bearer" else "",
            told.get("engram-agent"),
        )

    async def safely(self, visit: Visit, work: Awaitable[T]) -> T:
        """Do what a call asks for; whatever goes wrong, the caller gets a status that says so."""
        began = self.clock()
        try:
            done = await work
        except asyncio.CancelledError:
            self._told(visit, grpc.StatusCode.CANCELLED, began)
            raise
        except EngramError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - the outermost border: whatever it was, the caller gets an answer
            failure = EngramError("it failed")
            if not visit.context.done():
                said = {"where": [*_places(error)], "request": visit.id}
                _log.error("a call failed: %s", type(error).__name__, extra={"told": said})
        else:
            visit.context.set_trailing_metadata(((REQUEST, visit.id),))
            self._told(visit, grpc.StatusCode.OK, began)
            return done
        self._told(visit, status_of(failure), began)
        await visit.context.abort(status_of(failure), detail_of(failure), trailers(failure, visit.id))
        raise failure  # for the reader: abort raises

    async def carry_out(self, visit: Visit, work: Callable[[Call], T], seconds: float | None = None) -> T:
        """Let a caller in, and do something for it in a thread, in time.

        What takes too long goes on without anybody listening.
        """
        if self.running >= self.limits.running:
            raise StoreBusy("too many calls are being answered; try again")
        remaining = visit.context.time_remaining()
        most = self.limits.seconds if seconds is None else seconds
        most = most if remaining is None else min(most, remaining)
        future = asyncio.get_running_loop().run_in_executor(self._pool, self._let_in, visit, work)
        self.running += 1
        future.add_done_callback(self._ended)
        await asyncio.wait({future}, timeout=most)
        if not future.done():
            raise Late("it took too long")
        return future.result()

    async def aside(self, work: Callable[[], T]) -> T:
        """Do something for a caller that was let in already, without waiting for it here."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self.running -= 1
        if not future.cancelled():
            future.exception()  # whoever asked may be gone

    def _let_in(self, visit: Visit, work: Callable[[Call], T]) -> T:
        call = self._call(visit)
        with on_behalf(call):
            return work(call)

    def _call(self, visit: Visit) -> Call:
        """Who is calling. Raises `Unauthenticated`, `NotAllowed`, and `Later` for those who come too often."""
        key = self.keys.accept(visit.token)
        with self._counting:
            wait = self._strangers.wait(visit.peer) if key is None else self._callers.wait(key.id)
        if wait:
            raise Later(wait)
        if key is None:
            raise Unauthenticated(NO_KEY)
        visit.key = key.id
        call = Call(self.brain, key, visit.named)
        call.check_right(visit.right)
        return call

    def pause(self, call: Call) -> float:
        """Seconds until more of what a stream brings is welcome; 0 if it is now, and then it is counted."""
        with self._counting:
            return self._callers.wait(call.key.id)

    @contextmanager
    def listening(self, call: Call) -> Iterator[None]:
        """Count who listens to events while it lasts. Raises `TooMany` if a key does so too often, and `Crowded`."""
        self._listeners.enter(call.key.id)
        try:
            yield
        finally:
            self._listeners.leave(call.key.id)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count a stream while it lasts. Raises `StoreBusy` if there are too many."""
        if self.streams >= STREAMS:
            raise StoreBusy("too many streams are open; try again")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    def _told(self, visit: Visit, status: grpc.StatusCode, began: float) -> None:
        seconds = self.clock() - began
        line = {"op": visit.method, "status": status.name, "ms": round(seconds * 1000, 1)}
        _log.info("call", extra={"told": line | {"key": visit.key, "request": visit.id}})
        if self.observe is not None:
            self.observe(visit.method, status.name, seconds)


@contextmanager
def on_behalf(call: Call) -> Iterator[None]:
    """Put on record that what is done meanwhile is done for the owner of a key."""
    before = principal.set(f"key:{call.key.id}")
    try:
        yield
    finally:
        principal.reset(before)


def _places(error: Exception) -> Iterator[str]:
    """Where an error came from, without what it says: that may be what a memory says."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        yield f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next
