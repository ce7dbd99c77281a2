"""Memories: remember, look at, annotate, forget, recall."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from engram.api import paging
from engram.api.problems import Refused
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
from engram.server.rest.auth import Reader, Writer
from engram.server.rest.problems import REPLAYED, Stale, told_receipt
from engram.server.rest.routes.params import ONCE, Cursor, Id, Key, Limit, Since, Until, one_key
from engram.text.terms import digest

router = APIRouter(prefix="/v1", tags=["memories"])
_TAG = re.compile(r'(W/)?"([!#-~\x80-\xff]{0,200})"')
_ETAG: dict[str, Any] = {
    "headers": {
        "ETag": {
            "description": "What it is now: its version, for `If-Match`, and all of it, for `If-None-Match`.",
            "schema": {"type": "string"},
        }
    }
}
_SAME: dict[str, Any] = {"description": "It is as `If-None-Match` says.", **_ETAG}
_KNOWN: dict[int | str, dict[str, Any]] = {
    200: {"model": Receipt, "description": "It was known: a statement that was made before."},
    202: {"model": Receipt, "description": "It was set apart: it tells the agent what to do and is not its own word."},
}
IfMatch = Annotated[
    str | None,
    Header(
        max_length=1000,
        description='Only if the memory has this version: an `ETag`, or a version such as `"3"`; `*` for any.',
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(max_length=1000, description="Only if the memory is not as this `ETag` says; `*` for never.")
]


@router.post("/memories", status_code=201, responses=_KNOWN)
def remember(agent: Writer, draft: NewMemory, response: Response, idempotency_key: Key = None) -> Receipt:
    """Remember something; the receipt comes after the commit."""
    receipt = agent.remember(_draft(draft, one_key(idempotency_key, draft.key)))
    return stored(receipt, response)


@router.post("/memories/batch")
def remember_batch(agent: Writer, drafts: NewMemories, response: Response, idempotency_key: Key = None) -> Receipts:
    """Remember several things in one transaction; one that cannot be kept gets a receipt that says so."""
    if idempotency_key is not None and any(draft.key is not None for draft in drafts.items):
        raise InvalidInput("with an Idempotency-Key, the drafts of a batch have no keys of their own")
    keys = (None if idempotency_key is None else f"{idempotency_key}/{n}" for n in range(len(drafts.items)))
    several = [_draft(draft, key or draft.key) for draft, key in zip(drafts.items, keys, strict=True)]
    return Receipts(receipts=tuple(first_answer(receipt, response) for receipt in agent.remember(several)))


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


@router.get("/memories/{id}", responses={200: _ETAG, 304: _SAME}, response_model=Memory)
def get_memory(agent: Reader, id: Id, response: Response, if_none_match: IfNoneMatch = None) -> Memory | Response:
    """One memory."""
    memory = agent.get(id)
    if memory is None:
        raise _missing()
    response.headers["ETag"] = tag = _tag(memory)
    if if_none_match is not None and _is_known(tag, if_none_match):
        return Response(status_code=304, headers={"ETag": tag})
    return memory


@router.patch("/memories/{id}", responses={200: _ETAG}, dependencies=[ONCE])
def annotate(agent: Writer, id: Id, changes: Annotation, response: Response, if_match: IfMatch = None) -> Memory:
    """Change what surrounds a memory; what it says never changes."""
    known = agent.get(id)
    if known is None:
        raise _missing()
    version = _expected(known, if_match)
    try:
        memory = agent.annotate(id, **changes.model_dump(exclude_none=True), expected_version=version)
    except Conflict:
        raise _stale() from None
    response.headers["ETag"] = _tag(memory)
    return memory


@router.delete("/memories/{id}", dependencies=[ONCE])
def forget(agent: Writer, id: Id, if_match: IfMatch = None) -> ForgetReceipt:
    """Remove a memory and everything that belongs to it; the receipt lists what went."""
    version = None if if_match is None else _expected(agent.get(id), if_match)
    try:
        return agent.forget(id, expected_version=version)
    except Conflict:
        raise _stale() from None


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
    elif receipt.status == "merged":
        response.status_code = 200
    return first_answer(receipt, response)


def first_answer(receipt: Receipt, response: Response) -> Receipt:
    """The receipt as it was given the first time; that it was given before is said in a header."""
    if receipt.code != "replayed":
        return told_receipt(receipt)
    response.headers[REPLAYED] = "true"
    return Receipt(id=receipt.id, status=receipt.status, redacted=receipt.redacted)


def _draft(draft: NewMemory, key: str | None) -> Draft:
    return Draft(**draft.model_dump(exclude_unset=True) | {"key": key})


def _tag(memory: Memory) -> str:
    """The entity tag of a memory: another one whenever anything in the answer is another."""
    return f'"{memory.version}-{digest(memory.model_dump_json())[:16]}"'


def _is_known(tag: str, if_none_match: str) -> bool:
    """Whether a caller has what the tag stands for; weak tags count, too (RFC 9110, 8.8.3.2)."""
    return if_none_match.strip() == "*" or tag[1:-1] in {opaque for _, opaque in _TAG.findall(if_none_match)}


def _expected(memory: Memory | None, if_match: str | None) -> int | None:
    """The version that a memory has to have when it is changed. Raises `Stale` if it has another one.

    Weak tags never match. Of a tag only the version counts, which a look at the memory does not change.
    """
    if if_match is None or (if_match.strip() == "*" and memory is not None):
        return None
    versions = {opaque.partition("-")[0] for weak, opaque in _TAG.findall(if_match) if not weak}
    if memory is None or str(memory.version) not in versions:
        raise _stale()
    return memory.version


def _stale() -> Stale:
    return Stale("the memory does not have the version that If-Match names; read it again")


def _missing() -> NotFound:
    return NotFound("there is no such memory; `GET /v1/memories` lists what there is")
