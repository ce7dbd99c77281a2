"""Convert memories and events to table rows and back; each row has a digest that is verified when it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from engram.clock import from_micros, micros
from engram.errors import StoreCorrupt
from engram.model import Clean, Content, Memory, MemoryType, Origin, Provenance
from engram.ports import Credit, Event, LoggedRecall, Placed, RankingInput, Scope, Vector
from engram.text.terms import digest, index_terms, normal_form

Row = dict[str, Any]
Counts = Callable[[Any], tuple[int, list[int]]]
"""Convert the word columns of a row to its length in terms and its count of each query term."""

_content: TypeAdapter[Content] = TypeAdapter(Content)
_SEALED = (
    "agent id seq kind text content context context_key tags metadata author session role speaker sources origin "
    "importance confidence trust created_at happened_at valid_from valid_until evidence version merge_key"
).split()
_SEALED_EVENT = "agent id seq kind at subject topic body".split()


def to_row(memory: Memory, seq: int, merge_key: str | None) -> Row:
    """Return the row of a memory, with its digest."""
    row: Row = {
        "agent": memory.agent,
        "id": memory.id,
        "seq": seq,
        "kind": str(memory.kind),
        "text": memory.text,
        "content": to_json(memory.content.model_dump(mode="json", exclude={"kind"}, exclude_defaults=True)),
        "context": memory.context,
        "context_key": normal_form(memory.context),
        "tags": to_json(memory.tags),
        "metadata": to_json(memory.metadata),
        "author": memory.provenance.author,
        "session": memory.provenance.session,
        "role": memory.provenance.role,
        "speaker": memory.provenance.speaker,
        "sources": to_json(memory.provenance.sources),
        "origin": str(memory.provenance.origin),
        "importance": float(memory.importance),
        "confidence": float(memory.confidence),
        "trust": float(memory.trust),
        "created_at": micros(memory.created_at),
        "happened_at": micros(memory.happened_at),
        "valid_from": micros(memory.valid_from),
        "valid_until": None if memory.valid_until is None else micros(memory.valid_until),
        "evidence": memory.evidence,
        "version": memory.version,
        "merge_key": merge_key,
    }
    row["digest"] = digest(*memory_parts(row))
    return row


def seal(row: Mapping[Any, Any]) -> str:
    """Return the digest of a memory's row."""
    return digest(*memory_parts(row))


def memory_parts(row: Mapping[Any, Any]) -> list[str]:
    """Return the parts of a memory's row that its digest covers."""
    return [repr(row[name]) for name in _SEALED]


def to_memory(row: Mapping[Any, Any], *, verified: bool = False) -> Memory:
    """Return the memory of a row; unless it is `verified`, raises `StoreCorrupt` if the digest does not match."""
    if not verified and row["digest"] != digest(*memory_parts(row)):
        raise StoreCorrupt(
            f"memory {row['id']} of {row['agent']} is damaged; `engram db check` shows what else is, "
            "and `engram db restore` brings back a backup"
        )
    kind = MemoryType(row["kind"])
    content = _content.validate_python({"kind": kind} | json.loads(row["content"]))
    return Memory.model_construct(
        id=row["id"],
        agent=row["agent"],
        kind=kind,
        text=Clean(row["text"]),
        content=content,
        context=Clean(row["context"]),
        tags=tuple(json.loads(row["tags"])),
        metadata=json.loads(row["metadata"]),
        provenance=Provenance.model_construct(
            author=row["author"],
            session=row["session"],
            role=row["role"],
            speaker=row["speaker"],
            sources=tuple(json.loads(row["sources"])),
            origin=Origin(row["origin"]),
        ),
        importance=row["importance"],
        confidence=row["confidence"],
        trust=row["trust"],
        created_at=from_micros(row["created_at"]),
        happened_at=from_micros(row["happened_at"]),
        valid_from=from_micros(row["valid_from"]),
        valid_until=_moment(row["valid_until"]),
        last_accessed=_moment(row["last_accessed"]),
        access_count=row["access_count"] or 0,
        success_rate=getattr(content, "outcome_quality", None),
        evidence=row["evidence"],
        version=row["version"],
    )


def to_event_row(scope: Scope, event: Event, seq: int) -> Row:
    """Return the row of an event, with its digest."""
    row: Row = {
        "agent": scope.agent,
        "id": event.id,
        "seq": seq,
        "kind": event.kind,
        "at": micros(event.at),
        "subject": event.subject,
        "topic": event.topic,
        "body": to_json(event.body),
    }
    row["digest"] = digest(*event_parts(row))
    return row


def seal_event(row: Mapping[Any, Any]) -> str:
    """Return the digest of an event's row."""
    return digest(*event_parts(row))


def event_parts(row: Mapping[Any, Any]) -> list[str]:
    """Return the parts of an event's row that its digest covers."""
    return [repr(row[name]) for name in _SEALED_EVENT]


def to_event(row: Mapping[Any, Any], *, verified: bool = False) -> Event:
    """Return the event of a row; unless it is `verified`, raises `StoreCorrupt` if the digest does not match."""
    if not verified and row["digest"] != digest(*event_parts(row)):
        raise StoreCorrupt(
            f"an event of {row['agent']} is damaged; `engram db check` shows what else is, "
            "and `engram db restore` brings back a backup"
        )
    at, body = from_micros(row["at"]), json.loads(row["body"])
    return Event(row["id"], row["kind"], at, row["subject"], row["topic"], body, row["seq"])


def usefulness(helped: float, hindered: float) -> float:
    """Return the posterior mean of the share of recalls in which a memory helps; 0.5 without reports."""
    return (helped + 1) / (helped + hindered + 2)


def to_ranking_input(row: Any, counts: Counts) -> RankingInput:
    """Convert a row of `neighbours.ranking_query`; `counts` converts what it says about its words."""
    id, seq, session, speaker, role, at, text, importance, trust, helped, hindered, words = row
    useful = usefulness(helped, hindered)
    return RankingInput(
        id, seq, session, speaker, role, from_micros(at), text, *counts(words), importance, trust, useful
    )


def to_recall(scope: Scope, credit: Credit) -> Row:
    """Return the row of a recall's outcome."""
    shown = [id for id in credit.order if id in credit.helped]
    detail = {"order": credit.order, "helped": shown, "parts": {id: dict(own) for id, own in credit.parts.items()}}
    if credit.about:
        detail["about"] = dict(credit.about)
    if credit.shares:
        detail["shares"] = {id: list(share) for id, share in credit.shares.items()}
    return {"agent": scope.agent, "id": credit.id, "at": micros(credit.at), "detail": to_json(detail)}


def to_logged_recall_row(scope: Scope, shown: LoggedRecall) -> Row:
    """Return the row of a logged recall without outcome; `PENDING` distinguishes it from a credit."""
    parts = {id: dict(own) for id, own in shown.parts.items()}
    detail = {"order": shown.order, "helped": None, "parts": parts, "about": dict(shown.about)}
    return {"agent": scope.agent, "id": shown.id, "at": micros(shown.at), "detail": to_json(detail)}


PENDING = '%"helped":null%'


def to_logged_recall(row: Mapping[Any, Any]) -> LoggedRecall:
    """Return the logged recall of a row."""
    detail = json.loads(row["detail"])
    at, order, told = from_micros(row["at"]), tuple(detail.get("order", ())), detail.get("helped") is not None
    return LoggedRecall(row["id"], at, order, detail.get("parts", {}), detail.get("about", {}), told)


def to_credit(row: Mapping[Any, Any]) -> Credit:
    """Return the credit of a row; rows of older versions may lack fields."""
    detail = json.loads(row["detail"])
    order, helped = tuple(detail.get("order", ())), frozenset(detail.get("helped", ()))
    shares = {id: (good, bad) for id, (good, bad) in detail.get("shares", {}).items()}
    about = detail.get("about", {})
    return Credit(row["id"], from_micros(row["at"]), order, helped, detail.get("parts", {}), shares, about)


def to_json(value: object) -> str:
    """Return compact JSON; NaN and infinity are refused."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)


def tag_rows(memory: Memory) -> list[Row]:
    """Return the rows of a memory's tags."""
    return [{"agent": memory.agent, "memory_id": memory.id, "tag": tag} for tag in dict.fromkeys(memory.tags)]


def vector_rows(id: str, vectors: Sequence[Placed]) -> list[Row]:
    """Return the rows of a memory's vectors, without agent and number."""
    return [
        {
            "memory_id": id,
            "namespace": namespace,
            "embedder": embedder,
            "passage": passage,
            "dim": len(vector),
            "vector": np.asarray(vector, dtype="<f4").tobytes(),
        }
        for (namespace, embedder), passages in by_place(vectors).items()
        for passage, vector in passages.items()
    ]


def by_place(vectors: Iterable[Placed]) -> dict[tuple[str, str], dict[int, Vector]]:
    """Group the vectors of one memory by namespace and embedder, then by passage; the last of equal ones counts."""
    places: dict[tuple[str, str], dict[int, Vector]] = {}
    for placed in vectors:
        places.setdefault((placed.namespace, placed.embedder), {})[placed.passage] = placed.vector
    return places


def memory_terms(memory: Memory) -> list[str]:
    """Return the terms that index a memory: of its text, its context, its tags and its typed fields."""
    return index_terms("\n".join((memory.text, memory.context, *memory.tags, *_details(memory))))


def _details(memory: Memory) -> Iterator[str]:
    if memory.kind is MemoryType.DECISION:
        return  # its text and context contain them already
    for name, value in memory.content:
        if name != "kind" and value:
            yield from value if isinstance(value, tuple) else (str(value),)


@lru_cache(maxsize=1000)
def scope_term(agent: str) -> str:
    """Return the term that stands for a scope in the word index; no text has it."""
    return "s" + digest(agent)
