"""Authenticate, limit, run and log calls, and turn every failure into a gRPC status."""

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
from engram.api.problems import code_locations
from engram.engine import Engram
from engram.errors import EngramError, InvalidInput, StoreBusy, TooMany, Unauthenticated
from engram.model.api_key import Right
from engram.ports import principal
from engram.server.grpc.convert import from_message, to_message
from engram.server.grpc.messages import MESSAGE, REQUEST
from engram.server.grpc.problems import InvalidRequest, RateLimited, TimedOut, detail_of, status_of, trailers
from engram.sharing.api_keys import Keys
from engram.transfer.signing import PublicKey

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
Observe = Callable[[str, str, float], None]
"""Receives the method, status and seconds of each call."""

WORKERS = 32
MOST_STREAMS = 256
"""The most streams at a time, of all callers."""
NO_KEY = "this needs a key in the metadata: `authorization: Bearer eng_…`"

_log = logging.getLogger("engram.server.grpc")
_OWN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


def parse(kind: type[Message], data: bytes, model: type[Model]) -> Model:
    """Parse a request. Raises `InvalidInput`."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise InvalidInput("the message cannot be read; check that it has this version of the protocol") from None
    try:
        return model.model_validate(from_message(message, sparse=True))
    except ValidationError as error:
        raise InvalidRequest(error) from None


def render(model: BaseModel, kind: type[Message]) -> bytes:
    """Serialize a response. Raises `TooMany` if it is larger than a message may be."""
    data: bytes = to_message(model, kind).SerializeToString()
    if len(data) > MESSAGE:
        raise TooMany(f"the answer has more than {MESSAGE:,} bytes; ask for less at once")
    return data


@dataclass(slots=True)
class IncomingCall:
    """A received call, with the values of its metadata."""

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
class Interceptor:
    """Run the calls to an open memory, which the caller closes."""

    brain: Engram
    limits: Limits
    observe: Observe | None = None
    poll_seconds: float = 0.5
    trusted: Mapping[str, PublicKey] = field(default_factory=dict)
    """Public keys that imported files may be signed with, by name."""
    clock: Callable[[], float] = time.monotonic
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to end the streams."""
    keys: Keys = field(init=False)
    running: int = 0
    streams: int = 0
    _pool: ThreadPoolExecutor = field(init=False)
    _callers: Buckets = field(init=False)
    _unknown_callers: Buckets = field(init=False)
    _listeners: Streams = field(init=False)
    _counter_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        limits = self.limits
        self.keys = self.brain.keys
        self._listeners = Streams(limits)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="engram-rpc")
        self._callers = Buckets(limits.rate, limits.burst, self.clock)
        self._unknown_callers = Buckets(limits.refusals, max(1, int(limits.refusals * 5)), self.clock)

    def close(self) -> None:
        """Wait until all running calls are done."""
        self._pool.shutdown(wait=True)

    def receive(self, method: str, right: Right, context: Any) -> IncomingCall:
        """Read the metadata of a call."""
        metadata = {str(name): value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
        own = metadata.get(REQUEST, "")
        scheme, _, token = metadata.get("authorization", "").partition(" ")
        return IncomingCall(
            method,
            right,
            context,
            own if _OWN_ID.fullmatch(own) else self.brain.sources.new_id(),
            token.strip() if scheme.lower() == "bearer" else "",
            metadata.get("engram-agent"),
        )

    async def respond(self, incoming: IncomingCall, work: Awaitable[T]) -> T:
        """Await the work of a call and log its result; an exception becomes the status of the call."""
        began = self.clock()
        try:
            done = await work
        except asyncio.CancelledError:
            self._log_call(incoming, grpc.StatusCode.CANCELLED, began)
            raise
        except EngramError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - the outermost border: the caller gets a status whatever it was
            failure = EngramError("it failed")
            if not incoming.context.done():
                fields = {"where": code_locations(error), "request": incoming.id}
                _log.error("a call failed: %s", type(error).__name__, extra={"told": fields})
        else:
            incoming.context.set_trailing_metadata(((REQUEST, incoming.id),))
            self._log_call(incoming, grpc.StatusCode.OK, began)
            return done
        self._log_call(incoming, status_of(failure), began)
        await incoming.context.abort(status_of(failure), detail_of(failure), trailers(failure, incoming.id))
        raise failure  # never reached: `abort` raises

    async def run(self, incoming: IncomingCall, work: Callable[[Call], T], seconds: float | None = None) -> T:
        """Authenticate the caller, and run the work in a thread.

        Raises `TimedOut` after the deadline; the work then continues, and its result is dropped.
        """
        if self.running >= self.limits.running:
            raise StoreBusy("too many calls are being answered; try again")
        remaining = incoming.context.time_remaining()
        most = self.limits.seconds if seconds is None else seconds
        most = most if remaining is None else min(most, remaining)
        future = asyncio.get_running_loop().run_in_executor(self._pool, self._run_as_caller, incoming, work)
        self.running += 1
        future.add_done_callback(self._ended)
        await asyncio.wait({future}, timeout=most)
        if not future.done():
            raise TimedOut("it took too long")
        return future.result()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work for an authenticated caller in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self.running -= 1
        if not future.cancelled():
            future.exception()  # retrieve the exception, since nobody awaits it any more

    def _run_as_caller(self, incoming: IncomingCall, work: Callable[[Call], T]) -> T:
        call = self._authenticate(incoming)
        with acting_for(call):
            return work(call)

    def _authenticate(self, incoming: IncomingCall) -> Call:
        """Check the key of a call. Raises `Unauthenticated`, `NotAllowed` and `RateLimited`."""
        key = self.keys.accept(incoming.token)
        with self._counter_lock:
            wait = self._unknown_callers.wait(incoming.peer) if key is None else self._callers.wait(key.id)
        if wait:
            raise RateLimited(wait)
        if key is None:
            raise Unauthenticated(NO_KEY)
        incoming.key = key.id
        call = Call(self.brain, key, incoming.named)
        call.check_right(incoming.right)
        return call

    def wait_time(self, call: Call) -> float:
        """Return the seconds until the rate of a key allows more of a stream; if 0, count it."""
        with self._counter_lock:
            return self._callers.wait(call.key.id)

    @contextmanager
    def count_listener(self, call: Call) -> Iterator[None]:
        """Count an event stream. Raises `TooMany` at the limit of the key, and `Crowded` at the limit of all."""
        self._listeners.enter(call.key.id)
        try:
            yield
        finally:
            self._listeners.leave(call.key.id)

    @contextmanager
    def count_stream(self) -> Iterator[None]:
        """Count an open stream. Raises `StoreBusy` if there are too many."""
        if self.streams >= MOST_STREAMS:
            raise StoreBusy("too many streams are open; try again")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    def _log_call(self, incoming: IncomingCall, status: grpc.StatusCode, began: float) -> None:
        seconds = self.clock() - began
        line = {"op": incoming.method, "status": status.name, "ms": round(seconds * 1000, 1)}
        _log.info("call", extra={"told": line | {"key": incoming.key, "request": incoming.id}})
        if self.observe is not None:
            self.observe(incoming.method, status.name, seconds)


@contextmanager
def acting_for(call: Call) -> Iterator[None]:
    """Set the key as the principal of audit entries."""
    before = principal.set(f"key:{call.key.id}")
    try:
        yield
    finally:
        principal.reset(before)
