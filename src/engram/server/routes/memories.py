"""Memories: remember, look at, annotate, forget, recall."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from engram.errors import Conflict, InvalidInput, NotFound
from engram.model import Draft, ForgetReceipt, Memory, MemoryType, Moment, Receipt
from engram.model.wire import (
    Annotation,
    ContextQuery,
    ContextText,
    NewMemories,
    NewMemory,
    Page,
    Recalled,
    RecallQuery,
    Receipts,
)
from engram.server import paging
from engram.server.auth import Reader, Writer
from engram.server.problems import Refused, Stale
from engram.server.routes.asking import Cursor, Id, Key, Limit, Since, Until, one_key

router = APIRouter(prefix="/v1", tags=["memories"])
_VERSION = re.compile(r'(?:W/)?"(\d{1,15})"', re.ASCII)
_ETAG = {
    "headers": {"ETag": {"description": "The version of the memory, for `If-Match`.", "schema": {"type": "string"}}}
}
_KNOWN: dict[int | str, dict[str, Any]] = {
    200: {"model": Receipt, "description": "It was known: the same key, or a statement that was made before."},
    202: {"model": Receipt, "description": "It was set apart: it tells the agent what to do and is not its own word."},
}


@router.post("/memories", status_code=201, responses=_KNOWN)
def remember(agent: Writer, draft: NewMemory, response: Response, idempotency_key: Key = None) -> Receipt:
    """Remember something; the receipt comes after the commit."""
    receipt = agent.remember(_draft(draft, one_key(idempotency_key, draft.key)))
    return stored(receipt, response)


@router.post("/memories/batch")
def remember_batch(agent: Writer, drafts: NewMemories, idempotency_key: Key = None) -> Receipts:
    """Remember several things in one transaction; one that cannot be kept gets a receipt that says so."""
    if idempotency_key is not None and any(draft.key is not None for draft in drafts.items):
        raise InvalidInput("with an Idempotency-Key, the drafts of a batch have no keys of their own")
    keys = (None if idempotency_key is None else f"{idempotency_key}/{n}" for n in range(len(drafts.items)))
    several = [_draft(draft, key or draft.key) for draft, key in zip(drafts.items, keys, strict=True)]
    return Receipts(receipts=tuple(agent.remember(several)))


@router.get("/memories")
def list_memories(
    agent: Reader,
    kind: Annotated[list[MemoryType] | None, Query(description="Only these kinds.")] = None,
    tag: Annotated[list[str] | None, Query(description="Only what has all of these labels.")] = None,
    since: Since = None,
    until: Until = None,
    as_of: Annotated[Moment | None, Query(description="Only what was valid then.")] = None,
    session: Annotated[str | None, Query(description="Only of this session.")] = None,
    limit: Limit = paging.USUAL,
    cursor: Cursor = None,
) -> Page[Memory]:
    """List memories, newest first."""
    kinds, tags = [str(each) for each in kind or ()], tag or []
    fetch = partial(agent.list, kinds=kinds, tags=tags, since=since, as_of=as_of, session=session)
    which = ("memories", agent.name, sorted(kinds), sorted(tags), since, until, as_of, session)
    return paging.memories(fetch, limit, until, cursor, *which)


@router.get("/memories/{id}", responses={200: _ETAG})
def get_memory(agent: Reader, id: Id, response: Response) -> Memory:
    """One memory."""
    memory = agent.get(id)
    if memory is None:
        raise _missing()
    response.headers["ETag"] = f'"{memory.version}"'
    return memory


@router.patch("/memories/{id}", responses={200: _ETAG})
def annotate(
    agent: Writer,
    id: Id,
    changes: Annotation,
    response: Response,
    if_match: Annotated[
        str | None, Header(max_length=100, description='Only if the memory has this version, such as `"3"`.')
    ] = None,
) -> Memory:
    """Change what surrounds a memory; what it says never changes."""
    if agent.get(id) is None:
        raise _missing()
    given = changes.model_dump(exclude_none=True)
    try:
        memory = agent.annotate(id, **given, expected_version=_version(if_match))
    except Conflict as error:
        raise Stale(str(error)) from None
    response.headers["ETag"] = f'"{memory.version}"'
    return memory


@router.delete("/memories/{id}")
def forget(agent: Writer, id: Id) -> ForgetReceipt:
    """Remove a memory and everything that belongs to it; the receipt lists what went."""
    return agent.forget(id)


@router.post("/recall")
def recall(agent: Reader, query: RecallQuery) -> Recalled:
    """The memories that answer a question, best first."""
    asked = query.model_dump(exclude={"query", "k"}, exclude_defaults=True)
    hits = agent.recall(query.query, query.k, **asked)
    return Recalled(id=hits.id, hits=tuple(hits))


@router.post("/context")
def context(agent: Reader, query: ContextQuery) -> ContextText:
    """What is remembered about a question as a text for a model: quoted as data, each with its origin and trust."""
    asked = query.model_dump(exclude={"query", "k", "budget_tokens"}, exclude_defaults=True)
    return ContextText(text=agent.context(query.query, query.k, budget_tokens=query.budget_tokens, **asked))


def stored(receipt: Receipt, response: Response) -> Receipt:
    """The receipt of a draft that is kept, with the status that says whether it is new. Raises `Refused`."""
    if receipt.id is None:
        raise Refused(receipt)
    if receipt.status == "quarantined":
        response.status_code = 202
    elif receipt.status == "merged" or receipt.code == "replayed":
        response.status_code = 200
    return receipt


def _draft(draft: NewMemory, key: str | None) -> Draft:
    return Draft(**draft.model_dump(exclude_unset=True) | {"key": key})


def _version(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    known = _VERSION.fullmatch(if_match.strip())
    return int(known[1]) if known else -1


def _missing() -> NotFound:
    return NotFound("there is no such memory; `GET /v1/memories` lists what there is")
