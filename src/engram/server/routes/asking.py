"""Parameters that several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query

from engram.errors import InvalidInput
from engram.memory.drafting import MAX_LABEL
from engram.model import Moment
from engram.server.paging import MOST

Limit = Annotated[int, Query(ge=1, le=MOST, description="How many, at most.")]
Cursor = Annotated[str | None, Query(max_length=500, description="The `next_cursor` of the page before.")]
Since = Annotated[Moment | None, Query(description="Only what happened from then on.")]
Until = Annotated[Moment | None, Query(description="Only what happened before then.")]
Id = Annotated[str, Path(max_length=MAX_LABEL, description="The id of the memory.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Makes it safe to send the same again: it is carried out once. Another request needs another one.",
    ),
]


def one_key(header: str | None, own: str | None) -> str | None:
    """The key of a write, from the header or the body. Raises `InvalidInput` if they contradict each other."""
    if header is not None and own is not None and header != own:
        raise InvalidInput("the Idempotency-Key and the key in the body differ; give one of them")
    return own if header is None else header
