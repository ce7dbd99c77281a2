"""Live changes as server-sent events: stored and deleted memories and learning events, in the order of writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State
from starlette.responses import StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as Request

from engram.api.live import Listener
from engram.ports import Scope

HEARTBEAT = 15.0
MEDIA = "text/event-stream"


class Stream(StreamingResponse):
    """A streaming response that calls a function when it ends, for whatever reason."""

    def __init__(
        self, lines: AsyncIterator[str], ended: Callable[[], None], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(lines, media_type=MEDIA, headers=headers)
        self._ended = ended

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def counted(state: State, caller: str, lines: AsyncIterator[str], headers: Mapping[str, str] | None = None) -> Stream:
    """Make the stream of a caller, and count it until it ends. Raises `TooMany` or `Crowded`."""
    state.streams.enter(caller)
    state.metrics.streams.inc()

    def ended() -> None:
        state.streams.leave(caller)
        state.metrics.streams.dec()

    return Stream(lines, ended, headers)


async def stream(
    listener: Listener,
    scopes: Callable[[], Sequence[Scope]],
    *,
    good: Callable[[], bool],
    stopping: asyncio.Event,
    every: float,
    seconds: float | None,
) -> AsyncIterator[str]:
    """Yield the text of the stream, until the server stops, the key is no longer valid, or the time is over.

    A comment every 15 seconds keeps the connection open, and detects a closed one.
    """
    loop = asyncio.get_running_loop()
    began = quiet = loop.time()
    yield "retry: 2000\n\n"
    while not stopping.is_set():
        if not await run_in_threadpool(good):
            return
        news = await run_in_threadpool(lambda: listener.news(scopes()))
        for event in news:
            yield f"id: {event.seq}\nevent: {event.event}\ndata: {json.dumps(event.model_dump(mode='json'))}\n\n"
        now = loop.time()
        if news:
            quiet = now
        elif now - quiet >= HEARTBEAT:
            quiet = now
            yield ": still here\n\n"
        if seconds is not None and now - began >= seconds and not news:
            return
        if not news:
            try:
                await asyncio.wait_for(stopping.wait(), every)
            except TimeoutError:
                continue
