"""The in-memory store: the reference implementation that every other store is tested against."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from engram.clock import EPOCH, Sources
from engram.errors import Conflict, Hint, NotFound, StoreClosed
from engram.model import AuditEntry, Checkpoint, ForgetReceipt, Memory, MemoryIndex, Receipt
from engram.model.api_key import ApiKey
from engram.model.audit import GENESIS
from engram.ports import (
    AuditAction,
    Changes,
    Credit,
    Entry,
    Event,
    Filter,
    LoggedRecall,
    Match,
    MemoryChange,
    Placed,
    Query,
    RankingInput,
    Scope,
    TermCounts,
    VectorSpace,
    VectorStore,
)
from engram.stores import audit_entries
from engram.stores.rules import (
    ENOUGH,
    MERGED,
    accepts,
    annotated,
    by_place,
    fingerprint,
    forgotten,
    key_receipt,
    memory_terms,
    merged,
    nearest,
    refuse_foreign,
    stacked,
    superseded,
    term_score,
    term_weight,
    usefulness,
    vector_key,
)
from engram.text.terms import digest, normal_form, query_terms

_GENESIS = audit_entries.to_entry(audit_entries.sealing(AuditAction(GENESIS, count=0), EPOCH).at(1, ""))


@dataclass(slots=True)
class Row:
    """A stored memory and what belongs to it."""

    memory: Memory
    seq: int
    terms: Counter[str]
    length: int
    context_key: str
    merge_key: str | None
    placed: dict[tuple[str, str], tuple[int, list[str]]] = field(default_factory=dict)
    """The spaces in which it has vectors, each with their length and the keys of its passages."""
    helped: float = 0
    hindered: float = 0


@dataclass(slots=True)
class Room:
    """All data of one scope (agent)."""

    rows: dict[str, Row] = field(default_factory=dict)
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    merges: dict[str, str] = field(default_factory=dict)
    credits: dict[str, Credit] = field(default_factory=dict)
    events: dict[str, Event] = field(default_factory=dict)
    """The events by id, in the order of recording."""
    shown: dict[str, LoggedRecall] = field(default_factory=dict)
    gone: list[MemoryChange] = field(default_factory=list)
    """The deleted memories, in the order of deletion."""


class InMemoryStore:
    """A `Store` in the memory of this process."""

    def __init__(self, vectors: VectorStore, sources: Sources | None = None) -> None:
        self._vectors = vectors
        self._sources = sources or Sources()
        self._rooms: dict[Scope, Room] = {}
        self._agents: set[str] = set()
        self._lock = threading.RLock()
        self._seq = 0
        self._embedder: str | None = None
        self._settings: dict[str, str] = {}
        self._trail = [_GENESIS]
        self._checkpoints: dict[int, Checkpoint] = {}
        self._keys: dict[str, tuple[ApiKey, str]] = {}
        self._closed = False

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries; return one receipt per entry, in order."""
        with self._lock:
            room = self._room(scope)
            refuse_foreign(scope, entries)
            undo: list[Callable[[], object]] = []
            try:
                receipts = [self._add(scope, room, entry, undo) for entry in entries]
            except BaseException:
                for step in reversed(undo):
                    step()
                raise
            if entries:
                self._agents.add(scope.agent)
                self._note(audit_entries.wrote(scope, entries, receipts))
            return receipts

    def preview_add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Return the receipts that `add` would give now, in order; store nothing."""
        with self._lock:
            room, undo = self._room(scope), list[Callable[[], object]]()
            refuse_foreign(scope, entries)
            try:
                return [self._add(scope, room, entry, undo) for entry in entries]
            finally:
                for step in reversed(undo):
                    step()

    def _add(self, scope: Scope, room: Room, entry: Entry, undo: list[Callable[[], object]]) -> Receipt:
        memory = entry.memory
        if entry.key is not None and (known := room.keys.get(entry.key)):
            return key_receipt(entry, *known)
        if entry.merge_key is not None and (twin := room.merges.get(entry.merge_key)):
            self._supersede(room, room.rows[twin], memory, undo)
        if entry.merge_key is not None and entry.merge_key in room.merges:
            row = room.rows[room.merges[entry.merge_key]]
            known_before = row.memory
            undo.append(lambda: self._replace(row, known_before))
            self._replace(row, merged(row.memory, memory))
            receipt = Receipt(id=row.memory.id, status="merged", reason=MERGED)
        else:
            if memory.id in room.rows:
                raise Conflict(f"there is a memory {memory.id} already; nothing was stored. Use a new id")
            self._seq += 1
            row = Row(memory, self._seq, Counter(), 0, normal_form(memory.context), entry.merge_key)
            self._replace(row, memory)
            room.rows[memory.id] = row
            undo.append(lambda: self._remove(scope, room, memory.id))
            if entry.merge_key is not None:
                room.merges[entry.merge_key] = memory.id
            self._place(scope, row, entry.vectors)
            news = [event.id for event in entry.events if event.id not in room.events]
            self._append(room, entry.events)
            undo.append(lambda: [room.events.pop(id, None) for id in news])
            receipt = Receipt(id=memory.id, status="stored")
        if entry.key is not None:
            room.keys[entry.key] = (row.memory.id, fingerprint(entry))
            undo.append(lambda: room.keys.pop(entry.key or ""))
        return receipt

    def _supersede(self, room: Room, row: Row, newcomer: Memory, undo: list[Callable[[], object]]) -> None:
        """Let a new statement replace an equal one whose validity has ended."""
        key = row.merge_key
        if key is not None and superseded(row.memory, newcomer):
            del room.merges[key]
            row.merge_key = None

            def back() -> None:
                room.merges[key] = row.memory.id
                row.merge_key = key

            undo.append(back)

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """Return one memory per id, in order; `None` for an id that is not in this scope."""
        with self._lock:
            rows = self._room(scope).rows
            return [rows[id].memory if id in rows else None for id in ids]

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first, or newest first without words and vector."""
        with self._lock:
            rows = self._passing(scope, query.where)
            if query.among is not None:
                rows = {id: row for id, row in rows.items() if id in query.among}
            if query.words is not None:
                found = self._by_words(scope, rows, query_terms(query.words))
            elif query.near is not None:
                found = self._by_vector(scope, rows, query.near, query.limit + query.offset)
            else:
                newest = sorted(rows.values(), key=lambda r: (r.memory.happened_at, r.seq), reverse=True)
                found = [Match(row.memory.id, 0.0) for row in newest]
            return found[query.offset : query.offset + query.limit]

    def versions(self, scope: Scope, where: Filter) -> Mapping[str, int]:
        """Return the version of every memory that passes the filter, by id."""
        with self._lock:
            return {id: row.memory.version for id, row in self._passing(scope, where).items()}

    def speakers(self, scope: Scope) -> list[str]:
        """Return the names of speakers."""
        with self._lock:
            return sorted({row.memory.speaker for row in self._room(scope).rows.values() if row.memory.speaker})

    def neighbours(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[RankingInput]:
        """Return these memories and those up to `reach` before and after each in its session, once, in any order."""
        with self._lock:
            rows = self._room(scope).rows
            sessions: defaultdict[str, list[Row]] = defaultdict(list)
            for row in sorted(rows.values(), key=lambda row: row.seq):
                if row.memory.session is not None:
                    sessions[row.memory.session].append(row)
            seen: dict[str, Row] = {}
            for row in (rows[id] for id in ids if id in rows):
                session = sessions[row.memory.session] if row.memory.session is not None else [row]
                place = session.index(row)
                seen |= {near.memory.id: near for near in session[max(0, place - reach) : place + reach + 1]}
            return [_ranking_input(row, terms) for row in seen.values()]

    def term_counts(self, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """Count the memories of a scope, and those that hold each term."""
        with self._lock:
            rows = self._room(scope).rows.values()
            return TermCounts(len(rows), {term: sum(term in row.terms for row in rows) for term in terms})

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Delete memories and all that belongs to them; return one receipt per id, in order."""
        with self._lock:
            receipts = [self._forget(scope, self._room(scope), id) for id in ids]
            if ids:
                self._note(audit_entries.forgot(scope, receipts))
            return receipts

    def _forget(self, scope: Scope, room: Room, id: str) -> ForgetReceipt:
        receipt = self._remove(scope, room, id)
        if receipt.forgotten:
            self._seq += 1
            room.gone.append(MemoryChange(self._seq, "forgotten", id, self._sources.now()))
        if receipt.removed.get("events"):
            self._append(room, [forgotten(id, self._seq + 1, self._sources.now())])
        return receipt

    def _remove(self, scope: Scope, room: Room, id: str) -> ForgetReceipt:
        row = room.rows.pop(id, None)
        if row is None:
            return ForgetReceipt(id=id, forgotten=False)
        if row.merge_key is not None:
            del room.merges[row.merge_key]
        keys = [key for key, (owner, _) in room.keys.items() if owner == id]
        for key in keys:
            del room.keys[key]
        for place, (_, vectors) in row.placed.items():
            self._vectors.remove(VectorSpace(scope, *place), vectors)
        events = [event.id for event in room.events.values() if event.subject == id]
        for event in events:
            del room.events[event]
        removed = {
            "memories": 1,
            "evidence": row.memory.evidence - 1,
            "keys": len(keys),
            "vectors": sum(len(vectors) for _, vectors in row.placed.values()),
            "words": 1,
        } | ({"events": len(events)} if events else {})
        return ForgetReceipt(id=id, forgotten=True, removed=removed)

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """Change a memory's metadata and return the memory."""
        with self._lock:
            row = self._room(scope).rows.get(id)
            if row is None:
                raise NotFound(f"there is no memory {id}", hint=Hint("memory list"))
            if expected_version is not None and expected_version != row.memory.version:
                raise Conflict(f"memory {id} is at version {row.memory.version}, not {expected_version}; read it again")
            update = {name: value for name, value in _fields(changes).items() if value is not None}
            self._replace(row, annotated(row.memory, update))
            self._note(audit_entries.annotated(scope, row.memory, changes))
            return row.memory

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Count that these memories were recalled."""
        with self._lock:
            rows = self._room(scope).rows
            for row in (rows[id] for id in ids if id in rows):
                count, last = row.memory.access_count + 1, max(at, row.memory.last_accessed or at)
                row.memory = row.memory.model_copy(update={"access_count": count, "last_accessed": last})

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Store the outcome of a recall and count it for each memory; return `False` if its id is known."""
        with self._lock:
            room = self._room(scope)
            fresh = credit.id not in room.credits and scope.agent in self._agents
            self._note(audit_entries.credited(scope, credit, fresh))
            if not fresh:
                return False
            room.credits[credit.id] = credit
            for id, (helped, hindered) in credit.counts.items():
                if id in room.rows:
                    room.rows[id].helped += helped
                    room.rows[id].hindered += hindered
            return True

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """Return the newest credits, the oldest of them first."""
        with self._lock:
            newest = sorted(self._room(scope).credits.values(), key=lambda credit: (credit.at, credit.id), reverse=True)
            return newest[:limit][::-1]

    def log_recall(self, scope: Scope, shown: LoggedRecall) -> None:
        """Log a recall."""
        with self._lock:
            if shown.id not in self._room(scope).credits:
                self._room(scope).shown[shown.id] = shown

    def get_recall(self, scope: Scope, id: str) -> LoggedRecall | None:
        """Return a logged recall, also if its outcome is known."""
        with self._lock:
            room = self._room(scope)
            if (credit := room.credits.get(id)) is not None:
                return LoggedRecall(id, credit.at, credit.order, credit.parts, credit.about, told=True)
            return room.shown.get(id)

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Store events; return for each, in order, `False` if its id is known already."""
        with self._lock:
            fresh = self._append(self._room(scope), events)
            if events:
                self._agents.add(scope.agent)
                self._note(audit_entries.recorded(scope, events, fresh))
            return fresh

    def _append(self, room: Room, events: Sequence[Event]) -> list[bool]:
        fresh = []
        for event in events:
            fresh.append(event.id not in room.events)
            if fresh[-1]:
                self._seq += 1
                room.events[event.id] = replace(event, seq=self._seq)
        return fresh

    def delete_events(self, scope: Scope, ids: Sequence[str]) -> int:
        """Delete events by id and record an event about it; return how many."""
        with self._lock:
            room = self._room(scope)
            gone = [room.events.pop(id) for id in dict.fromkeys(ids) if id in room.events]
            for event in gone:
                self._append(room, [forgotten(event.id, self._seq + 1, self._sources.now())])
            if gone:
                self._note(audit_entries.unrecorded(scope, gone))
            return len(gone)

    def delete_recalls(self, scope: Scope, chosen: Callable[[LoggedRecall], bool]) -> int:
        """Delete the chosen logged recalls that have no outcome yet; return how many."""
        with self._lock:
            shown = self._room(scope).shown
            gone = [id for id, each in shown.items() if chosen(each)]
            for id in gone:
                del shown[id]
            return len(gone)

    def derived(self, ids: Collection[str]) -> list[tuple[Scope, str]]:
        """Return the memories of any scope that name one of these as a source."""
        sought = frozenset(ids)
        with self._lock:
            return [
                (scope, id)
                for scope, room in self._rooms.items()
                for id, row in room.rows.items()
                if not sought.isdisjoint(row.memory.provenance.sources)
            ]

    def delete_scope(self, scope: Scope) -> Mapping[str, int]:
        """Delete all data of a scope; return how many of each kind."""
        with self._lock:
            room = self._rooms.pop(scope, Room())
            for row in room.rows.values():
                for place, (_, vectors) in row.placed.items():
                    self._vectors.remove(VectorSpace(scope, *place), vectors)
            own = ":" + digest(scope.agent)
            self._settings = {name: value for name, value in self._settings.items() if not name.endswith(own)}
            gone = {"memories": len(room.rows), "events": len(room.events), "recall_events": len(room.credits)}
            self._agents.discard(scope.agent)
            self._note(AuditAction("destroy", agent=scope.agent, count=gone["memories"]))
            return gone

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """Return the events numbered higher than `after`, the oldest first."""
        with self._lock:
            return [event for event in self._room(scope).events.values() if event.seq > after][:limit]

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """Return the newest events of a topic, the oldest of them first."""
        with self._lock:
            return (
                [event for event in self._room(scope).events.values() if event.topic == topic][-limit:] if limit else []
            )

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """Return all events about these subjects, the oldest first."""
        with self._lock:
            wanted = set(subjects)
            return [event for event in self._room(scope).events.values() if event.subject in wanted]

    def changes(self, scope: Scope, after: int, limit: int) -> list[MemoryChange]:
        """Return the memories stored and deleted after a number, the oldest first."""
        with self._lock:
            room = self._room(scope)
            came = [MemoryChange(row.seq, "stored", id, row.memory.created_at) for id, row in room.rows.items()]
            return sorted(change for change in [*came, *room.gone] if change.seq > after)[:limit]

    def newest(self, scope: Scope) -> int:
        """Return the number of the newest write of a memory or an event; 0 if there is none."""
        with self._lock:
            room = self._room(scope)
            numbers = [row.seq for row in room.rows.values()] + [event.seq for event in room.events.values()]
            return max([*numbers, *(change.seq for change in room.gone)], default=0)

    def lag(self) -> int:
        """Return 0, as writes become visible in order."""
        return 0

    def add_key(self, key: ApiKey, hash: str) -> bool:
        """Store a key; return `False` if its id is taken."""
        self._guard()
        with self._lock:
            fresh = self._keys.setdefault(key.id, (key, hash)) == (key, hash)
            self._note(AuditAction("key.add", target=key.id, count=int(fresh)))
            return fresh

    def key(self, id: str) -> tuple[ApiKey, str] | None:
        """Return the key with this id and the hash of its secret, or `None`."""
        self._guard()
        return self._keys.get(id)

    def keys(self) -> list[ApiKey]:
        """Return all keys, the oldest first."""
        self._guard()
        with self._lock:
            return sorted((key for key, _ in self._keys.values()), key=lambda key: (key.created_at, key.id))

    def note_key(self, id: str, *, revoked_at: datetime | None = None, last_used: datetime | None = None) -> bool:
        """Record when a key was revoked (the first time counts) or used; return `False` if there is none."""
        self._guard()
        with self._lock:
            if revoked_at is not None:
                self._note(AuditAction("key.revoke", target=id, count=int(id in self._keys)))
            if id not in self._keys:
                return False
            key, hash = self._keys[id]
            told = {"revoked_at": key.revoked_at or revoked_at, "last_used": last_used or key.last_used}
            self._keys[id] = (key.model_copy(update=told), hash)
            return True

    def close_keys(self, agent: str, at: datetime) -> int:
        """Remove an agent from all keys, and revoke those that are for no other agent; return how many named it."""
        self._guard()
        with self._lock:
            found = [(key, hash) for key, hash in self._keys.values() if agent in key.agents]
            for key, hash in found:
                rest = tuple(name for name in key.agents if name != agent)
                told = {"agents": rest, "revoked_at": key.revoked_at or (None if rest else at)}
                self._keys[key.id] = (key.model_copy(update=told), hash)
                self._note(AuditAction("key.close", agent=agent, target=key.id))
            return len(found)

    def agents(self) -> list[str]:
        """Return every agent that ever stored something, by name."""
        self._guard()
        with self._lock:
            return sorted(self._agents)

    def embedder(self) -> str | None:
        """Return the identity of the embedder in use."""
        self._guard()
        return self._embedder

    def set_embedder(self, identity: str) -> None:
        """Store the identity of the embedder in use."""
        self._guard()
        with self._lock:
            self._embedder = identity
            self._note(AuditAction("setting", target="embedder"))

    def setting(self, name: str) -> str | None:
        """Return the value of a setting, or `None`."""
        self._guard()
        return self._settings.get(name)

    def set_setting(self, name: str, value: str) -> None:
        """Set the value of a setting."""
        self._guard()
        with self._lock:
            self._settings[name] = value
            if audit_entries.administrative(name):
                self._note(AuditAction("setting", target=name))

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Return memories of any agent without a vector of this embedder, oldest first."""
        self._guard()
        with self._lock:
            rows = [row for room in self._rooms.values() for row in room.rows.values()]
            missing = [row for row in rows if (namespace, embedder) not in row.placed]
            return [row.memory for row in sorted(missing, key=lambda row: row.seq)[:limit]]

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """Count the memories without a vector of this embedder."""
        self._guard()
        with self._lock:
            rows = [row for room in self._rooms.values() for row in room.rows.values()]
            return sum((namespace, embedder) not in row.placed for row in rows)

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """List the vectors of a memory by namespace and embedder; none if it is not in this scope."""
        with self._lock:
            row = self._room(scope).rows.get(id)
            places = sorted(row.placed.items()) if row else []
            return [
                MemoryIndex(memory_id=id, namespace=namespace, embedder=embedder, dim=dim, passages=len(keys))
                for (namespace, embedder), (dim, keys) in places
            ]

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Replace the vectors of memories that still exist; return how many were added."""
        self._guard()
        with self._lock:
            living: defaultdict[tuple[Scope, str], list[Placed]] = defaultdict(list)
            for scope, id, placed in vectors:
                if id in self._room(scope).rows:
                    living[scope, id].append(placed)
            for (scope, id), several in living.items():
                self._place(scope, self._room(scope).rows[id], several)
            added = sum(map(len, living.values()))
            if vectors:
                self._note(audit_entries.embedded(vectors, added))
            return added

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Delete the vectors of all other embedders; return how many."""
        self._guard()
        with self._lock:
            gone = 0
            for scope, room in self._rooms.items():
                for row in room.rows.values():
                    for place in [p for p in row.placed if p[0] == namespace and p[1] != keep]:
                        _, keys = row.placed.pop(place)
                        self._vectors.remove(VectorSpace(scope, *place), keys)
                        gone += len(keys)
            self._note(audit_entries.unembedded(keep, gone))
            return gone

    def _note(self, action: AuditAction) -> None:
        last = self._trail[-1]
        row = audit_entries.sealing(action, self._sources.now()).at(last.seq + 1, last.hash)
        self._trail.append(audit_entries.to_entry(row))

    def note(self, actions: Sequence[AuditAction]) -> None:
        """Add audit entries for actions that are not calls of the store."""
        self._guard()
        audit_entries.refuse_unstorable(actions)
        with self._lock:
            for action in actions:
                self._note(action)

    def head(self) -> AuditEntry | None:
        """The newest entry."""
        self._guard()
        return self._trail[-1]

    def trail(
        self,
        after: int = 0,
        limit: int = 1000,
        *,
        agent: str | None = None,
        grant: str | None = None,
        since: datetime | None = None,
        newest: bool = False,
    ) -> list[AuditEntry]:
        """Return entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
        self._guard()
        with self._lock:
            found = [
                entry
                for entry in self._trail
                if entry.seq > after
                and agent in {None, entry.agent}
                and grant in {None, entry.grant}
                and (since is None or entry.at >= since)
            ]
        return found[max(0, len(found) - limit) :] if newest else found[:limit]

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Store a checkpoint and record that; return `False` if there is one of that entry already."""
        self._guard()
        with self._lock:
            fresh = checkpoint.seq not in self._checkpoints
            if fresh:
                self._checkpoints[checkpoint.seq] = checkpoint
                self._note(audit_entries.checked(checkpoint))
            return fresh

    def checkpoints(self) -> list[Checkpoint]:
        """Return all checkpoints, in order."""
        self._guard()
        with self._lock:
            return [self._checkpoints[seq] for seq in sorted(self._checkpoints)]

    def prune(self, through: int) -> int:
        """Delete entries up to a checkpoint and record that; return how many. Raises `NotFound` if there is none."""
        self._guard()
        with self._lock:
            if through not in self._checkpoints:
                raise NotFound(f"there is no checkpoint of entry {through}", hint=Hint("audit checkpoint", "makes one"))
            gone = sum(entry.seq <= through for entry in self._trail)
            self._note(audit_entries.pruned(self._checkpoints[through], gone))
            self._trail = [entry for entry in self._trail if entry.seq > through]
            return gone

    def close(self) -> None:
        """Release all resources; calling it twice is harmless."""
        self._closed = True
        self._rooms.clear()

    def _guard(self) -> None:
        if self._closed:
            raise StoreClosed("this memory was closed; open it again with engram.open(...)")

    def _room(self, scope: Scope) -> Room:
        self._guard()
        return self._rooms.setdefault(scope, Room())

    def _passing(self, scope: Scope, where: Filter) -> dict[str, Row]:
        rows = self._room(scope).rows.items()
        return {id: row for id, row in rows if accepts(where, row.memory, row.context_key)}

    def _replace(self, row: Row, memory: Memory) -> None:
        row.memory = memory
        row.terms = Counter(memory_terms(memory))
        row.length = sum(row.terms.values())

    def _place(self, scope: Scope, row: Row, vectors: Sequence[Placed]) -> None:
        """Replace the vectors of a memory in their spaces."""
        for place, passages in by_place(vectors).items():
            space, keys = VectorSpace(scope, *place), [vector_key(row.memory.id, passage) for passage in passages]
            matrix = stacked(list(passages.values()))
            self._vectors.add(space, keys, matrix)
            _, before = row.placed.get(place, (0, []))
            self._vectors.remove(space, [key for key in before if key not in keys])
            row.placed[place] = (matrix.shape[1], keys)

    def _by_vector(self, scope: Scope, rows: dict[str, Row], near: Placed, wanted: int) -> list[Match]:
        place = (near.namespace, near.embedder)
        keys = frozenset(key for row in rows.values() if place in row.placed for key in row.placed[place][1])
        search = partial(self._vectors.search, VectorSpace(scope, *place), near.vector, among=keys)
        return nearest(search, wanted, wanted * ENOUGH)[0]

    def _by_words(self, scope: Scope, rows: dict[str, Row], terms: list[str]) -> list[Match]:
        everyone = self._room(scope).rows.values()
        mean = sum(row.length for row in everyone) / max(1, len(everyone))
        scores: defaultdict[str, float] = defaultdict(float)
        for term in terms:
            holders = sum(term in row.terms for row in everyone)
            weight = term_weight(len(everyone), holders)
            for id, row in rows.items():
                if count := row.terms.get(term):
                    scores[id] += term_score(weight, count, row.length, mean)
        best = sorted(scores, key=lambda id: (scores[id], rows[id].seq), reverse=True)
        return [Match(id, scores[id]) for id in best]


def _ranking_input(row: Row, terms: Sequence[str]) -> RankingInput:
    memory = row.memory
    return RankingInput(
        memory.id,
        row.seq,
        memory.session,
        memory.speaker,
        memory.role,
        memory.happened_at,
        memory.text,
        row.length,
        [row.terms.get(term, 0) for term in terms],
        memory.importance,
        memory.trust,
        usefulness(row.helped, row.hindered),
    )


def _fields(changes: Changes) -> dict[str, object]:
    return {name: getattr(changes, name) for name in changes.__slots__}


def open_store(location: str, vectors: VectorStore, sources: Sources, options: Mapping[str, Any]) -> InMemoryStore:
    """Open a store in the memory of this process; it has no location and no options."""
    return InMemoryStore(vectors, sources)
