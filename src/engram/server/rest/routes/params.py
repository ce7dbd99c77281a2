"""Parameters that several routes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from anyio.to_thread import run_sync
from fastapi import Depends, Header, Path, Query, Request

from engram.api.paging import MOST
from engram.errors import InvalidInput
from engram.model import Moment
from engram.recording.draft import MAX_LABEL
from engram.server.rest.operations import IDEMPOTENCY

T = TypeVar("T")
Limit = Annotated[int, Query(ge=1, le=MOST, description="How many, at most.")]
Cursor = Annotated[str | None, Query(max_length=500, description="The `next_cursor` of the page before.")]
Since = Annotated[Moment | None, Query(description="Only what happened from then on.")]
Until = Annotated[Moment | None, Query(description="Only what happened before then.")]
Id = Annotated[str, Path(max_length=MAX_LABEL, description="The id of the memory.")]
Key = Annotated[
    str | None,
    Header(
        alias=IDEMPOTENCY,
        min_length=1,
        max_length=255,
        description="Makes it safe to send the same again: it is carried out once. Another request needs another one.",
    ),
]


async def _once(idempotency_key: Key = None) -> None:
    """Declares the key of a write; `engram.server.rest.idempotency` heeds it."""


ONCE = Depends(_once)
"""What a route depends on that is carried out once for each key."""


async def slowly(request: Request, call: Callable[[], T]) -> T:
    """Do what takes long in one of the threads that are there for it, so that nobody else has to wait for one."""
    return await run_sync(call, limiter=request.app.state.slow)


def one_key(header: str | None, own: str | None) -> str | None:
    """The key of a write, from the header or the body. Raises `InvalidInput` if they contradict each other."""
    if header is not None and own is not None and header != own:
        raise InvalidInput("the Idempotency-Key and the key in the body differ; give one of them")
    return own if header is None else header
