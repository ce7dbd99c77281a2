"""The hand-written routes of memories: entity tags, conditional requests, and batches with one key."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Response

from engram.api import operations
from engram.api.call import Call
from engram.api.requests import AnnotationOf, Forgetting
from engram.api.requests import Id as Which
from engram.errors import Conflict, InvalidInput
from engram.model import ForgetReceipt, Memory
from engram.model.wire import Annotation, NewMemories, Receipts
from engram.server.rest.parameters import Id, Key, caller
from engram.server.rest.problems import Stale
from engram.server.rest.routes.table import first_answer
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
Reader = Annotated[Call, Depends(caller("read", "agent"))]
Writer = Annotated[Call, Depends(caller("write", "agent"))]
IfMatch = Annotated[
    str | None,
    Header(
        max_length=1000,
        description='Only if the memory has this version: an `ETag`, or a version such as `"3"`; `*` for any.',
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(max_length=1000, description="Only if the memory does not match this `ETag`; `*` for never.")
]


@router.post("/memories/batch", description=operations.remember_batch.__doc__)
def remember_batch(call: Writer, drafts: NewMemories, response: Response, idempotency_key: Key = None) -> Receipts:
    """Remember a batch; each draft has a key that is made from the Idempotency-Key."""
    if idempotency_key is not None:
        if any(draft.key is not None for draft in drafts.items):
            raise InvalidInput("with an Idempotency-Key, the drafts of a batch have no keys of their own")
        keyed = (draft.model_copy(update={"key": f"{idempotency_key}/{n}"}) for n, draft in enumerate(drafts.items))
        drafts = NewMemories.model_construct(items=tuple(keyed))
    receipts = operations.remember_batch(call, drafts).receipts
    return Receipts(receipts=tuple(first_answer(receipt, response) for receipt in receipts))


@router.get(
    "/memories/{id}",
    responses={200: _ETAG, 304: _SAME},
    response_model=Memory,
    description=operations.get_memory.__doc__,
)
def get_memory(call: Reader, id: Id, response: Response, if_none_match: IfNoneMatch = None) -> Memory | Response:
    """Get a memory with its entity tag, or 304 if the caller has it."""
    memory = operations.get_memory(call, Which(id=id))
    response.headers["ETag"] = tag = _tag(memory)
    if if_none_match is not None and _is_known(tag, if_none_match):
        return Response(status_code=304, headers={"ETag": tag})
    return memory


@router.patch("/memories/{id}", responses={200: _ETAG}, description=operations.annotate.__doc__)
def annotate(
    call: Writer,
    id: Id,
    changes: Annotation,
    response: Response,
    if_match: IfMatch = None,
    idempotency_key: Key = None,
) -> Memory:
    """Annotate a memory if it has the version that `If-Match` names."""
    version = _version(operations.get_memory(call, Which(id=id)), if_match)
    try:
        memory = operations.annotate(call, AnnotationOf(id=id, changes=changes, expected_version=version))
    except Conflict:
        raise _stale() from None
    response.headers["ETag"] = _tag(memory)
    return memory


@router.delete("/memories/{id}", description=operations.forget.__doc__)
def forget(call: Writer, id: Id, if_match: IfMatch = None, idempotency_key: Key = None) -> ForgetReceipt:
    """Delete a memory if it has the version that `If-Match` names."""
    version = None if if_match is None else _version(call.agent.get(id), if_match)
    try:
        return operations.forget(call, Forgetting(id=id, expected_version=version))
    except Conflict:
        raise _stale() from None


def _tag(memory: Memory) -> str:
    """Return the entity tag of a memory, which changes with anything in the response."""
    return f'"{memory.version}-{digest(memory.model_dump_json())[:16]}"'


def _is_known(tag: str, if_none_match: str) -> bool:
    """Return True if the caller has the version of the tag; weak tags count, too (RFC 9110, 8.8.3.2)."""
    return if_none_match.strip() == "*" or tag[1:-1] in {opaque for _, opaque in _TAG.findall(if_none_match)}


def _version(memory: Memory | None, if_match: str | None) -> int | None:
    """Return the version that a memory must have to be changed. Raises `Stale` if it has another one.

    Weak tags never match. Only the version in the tag counts, which reading the memory does not change.
    """
    if if_match is None or (if_match.strip() == "*" and memory is not None):
        return None
    versions = {opaque.partition("-")[0] for weak, opaque in _TAG.findall(if_match) if not weak}
    if memory is None or str(memory.version) not in versions:
        raise _stale()
    return memory.version


def _stale() -> Stale:
    return Stale("the memory does not have the version that If-Match names; read it again")
