"""Memories in SQL tables: everything that SQLite and PostgreSQL do in the same way.

A dialect adds how writes are numbered, how words are indexed and searched, and how vectors are searched.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa

from engram.errors import (
    Conflict,
    EngramError,
    InvalidInput,
    NotFound,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    Unsupported,
)
from engram.ids import Sources, micros
from engram.model import AuditEntry, Checkpoint, ForgetReceipt, Memory, MemoryIndex, Receipt
from engram.model.access import ApiKey
from engram.model.audit import GENESIS
from engram.ports import (
    Cells,
    Change,
    Changes,
    Cipher,
    Credit,
    Deed,
    Entry,
    Event,
    Filter,
    Glimpse,
    Match,
    Matrix,
    MirrorMatch,
    Placed,
    Problem,
    Query,
    Scope,
    Shelf,
    Shown,
    Spread,
    Tally,
    VectorStore,
    units,
    unstorable,
)
from engram.stores import auditing, history, keys, resealing, sealing, surveys, trails
from engram.stores.rows import (
    PENDING,
    Row,
    seal,
    seal_event,
    to_credit,
    to_event,
    to_event_row,
    to_memory,
    to_recall,
    to_row,
    to_shown,
    to_shown_row,
)
from engram.stores.rules import (
    ENOUGH,
    MERGED,
    annotated,
    by_place,
    evidence,
    fingerprint,
    forgotten,
    key_receipt,
    memory_terms,
    merged,
    nearest,
    refuse_foreign,
    superseded,
    tally,
    vector_key,
)
from engram.stores.schema import (
    agent_keys,
    agents,
    api_keys,
    audit,
    audit_checkpoints,
    events,
    memories,
    memory_evidence,
    memory_index,
    memory_keys,
    memory_stats,
    memory_tags,
    recall_events,
    settings,
    tombstones,
)
from engram.stores.sealing import CRYPT, READY, Keys, Sealer
from engram.words import digest, query_terms

R = TypeVar("R")
_log = logging.getLogger("engram")

MAX_PENDING_TOUCHES = 1000
SHOWN_FOR = timedelta(days=7)
"""For so long the outcome of a recall can be told by its id."""
WRITE = "engram_write"
LEDGER = "engram_ledger"
LATER = {"engram_later": True}
"""For statements whose answer nobody looks at: a distant server may be told together with the next statement."""
CONVERTING = "converting"
"""How a database is opened that is to be encrypted."""
KEYS = 2
"""So many keys an agent has: one for data, one for masks and words; one more while data is sealed anew."""
COPYING = "copying"
PUSHED = "pushed:"
OWED = "pushed:owed"
"""The setting with the shelves from which the vector database could not be told what was forgotten."""
SPACE = "vector_space"
PAGE = 500
COPIED = {
    table.name: table
    for table in (
        settings,
        agents,
        memories,
        memory_tags,
        memory_keys,
        memory_evidence,
        memory_stats,
        memory_index,
        tombstones,
        recall_events,
        events,
        audit,
        audit_checkpoints,
        agent_keys,
        api_keys,
    )
}

HYDRATE = sa.select(memories, memory_stats.c.last_accessed, memory_stats.c.access_count).select_from(
    memories.outerjoin(
        memory_stats,
        sa.and_(memory_stats.c.agent == memories.c.agent, memory_stats.c.memory_id == memories.c.id),
    )
)
_ENROL = sa.text("INSERT INTO agents (agent, created_at) VALUES (:agent, :at) ON CONFLICT DO NOTHING")
_BURY = sa.text(
    "INSERT INTO tombstones (agent, memory_id, seq, at, passages) VALUES (:agent, :id, :seq, :at, :passages) "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET seq = excluded.seq, at = excluded.at, passages = CASE "
    "WHEN tombstones.passages > excluded.passages THEN tombstones.passages ELSE excluded.passages END"
).execution_options(**LATER)
_TOUCH = sa.text(
    "INSERT INTO memory_stats (agent, memory_id, last_accessed, access_count) "
    "SELECT agent, id, :at, :n FROM memories WHERE agent = :agent AND id = :id "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET last_accessed = CASE "
    "WHEN memory_stats.last_accessed > excluded.last_accessed THEN memory_stats.last_accessed "
    "ELSE excluded.last_accessed END, "
    "access_count = memory_stats.access_count + excluded.access_count"
).execution_options(**LATER)
_CREDIT = sa.text(
    "INSERT INTO recall_events (agent, id, at, detail) "
    "SELECT agent, :id, :at, :detail FROM agents WHERE agent = :agent "
    "ON CONFLICT (agent, id) DO UPDATE SET at = excluded.at, detail = excluded.detail "
    "WHERE recall_events.detail LIKE :pending"
)
_SHOW = sa.text(
    "INSERT INTO recall_events (agent, id, at, detail) "
    "SELECT agent, :id, :at, :detail FROM agents WHERE agent = :agent ON CONFLICT DO NOTHING"
).execution_options(**LATER)
_UNSHOW = sa.text(
    "DELETE FROM recall_events WHERE agent = :agent AND at < :before AND detail LIKE :pending"
).execution_options(**LATER)
_COUNT = sa.text(
    "INSERT INTO memory_stats (agent, memory_id, access_count, helped, hindered) "
    "SELECT agent, id, 0, :helped, :hindered FROM memories WHERE agent = :agent AND id = :id "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET helped = memory_stats.helped + excluded.helped, "
    "hindered = memory_stats.hindered + excluded.hindered"
).execution_options(**LATER)
_SET = sa.text(
    "INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
).execution_options(**LATER)
_VECTOR_KEY = (memory_index.c.agent, memory_index.c.memory_id, memory_index.c.namespace, memory_index.c.embedder)
_INCOMPLETE = (
    sa.select(*_VECTOR_KEY).group_by(*_VECTOR_KEY).having(sa.func.count() <= sa.func.max(memory_index.c.passage))
)
_USED = sa.select(audit.c.seq).where(audit.c.action != GENESIS).limit(1)
_UNSET = sa.text("DELETE FROM settings WHERE name = :name").execution_options(**LATER)
_UNSEEN = {"last_accessed": None, "access_count": 0}
_SET_ONCE = sa.text("INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING")


class _Mirrored(NamedTuple):
    memory_id: str
    passage: int
    seq: int
    dim: int
    vector: bytes


@dataclass(slots=True)
class _Plan:
    """What a batch will write, worked out before the first row is inserted."""

    fresh: dict[str, tuple[int, Memory, str | None]] = field(default_factory=dict)
    changed: dict[str, tuple[int, Memory, str | None]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    keys: list[Row] = field(default_factory=list)
    evidence: list[Row] = field(default_factory=list)
    vectors: list[Row] = field(default_factory=list)

    def of(self, id: str) -> dict[str, tuple[int, Memory, str | None]]:
        """Where a known memory is planned: among those of this batch, or those that are there already."""
        return self.fresh if id in self.fresh else self.changed


class SqlStore(ABC):
    """A `MemoryStore` on SQL tables, with all the abilities of `engram.ports`."""

    def __init__(
        self,
        engine: sa.Engine,
        sources: Sources,
        remote: VectorStore | None = None,
        *,
        cipher: Cipher | None = None,
    ) -> None:
        self._engine = engine
        self._sources = sources
        self._remote = remote
        self._cipher = cipher
        self._sealer: Sealer | None = None
        self._space = ""
        self._pushed: dict[Shelf, set[tuple[str, int]]] = {}
        self._touches: dict[tuple[str, str], tuple[int, int]] = {}
        self._shown: dict[tuple[str, str], Shown] = {}
        self._showing: dict[tuple[str, str], Shown] = {}  # on its way to the database, and not there yet
        self._pruned: set[str] = set()
        self._touching = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    @abstractmethod
    def _number(self, conn: sa.Connection, count: int) -> list[int]:
        """So many write numbers that nobody else has, rising."""

    @abstractmethod
    def _one_of(self, column: sa.ColumnElement[Any], values: Sequence[str]) -> sa.ColumnElement[bool]:
        """Whether a column has one of the values, however many there are, in one parameter."""

    @abstractmethod
    def _index_words(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Make rows (agent, seq, terms) findable by their terms."""

    @abstractmethod
    def _unindex_words(self, conn: sa.Connection, agent: str, seqs: Sequence[int]) -> None:
        """Make rows unfindable."""

    @abstractmethod
    def _by_words(self, conn: sa.Connection, scope: Scope, terms: list[str], query: Query) -> list[Match]:
        """The rows of a scope that hold any of the terms, best first."""

    @abstractmethod
    def _by_vector(self, conn: sa.Connection, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """The rows of a scope nearest to a vector, best first."""

    @abstractmethod
    def _around(
        self, conn: sa.Connection, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]
    ) -> list[Glimpse]:
        """These rows and their neighbours in their sessions, each with its length and its counts of the terms."""

    @abstractmethod
    def _spread(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> Spread:
        """How many rows a scope has, and how many of them hold each term."""

    @abstractmethod
    def _translate(self, error: sa.exc.DBAPIError) -> EngramError:
        """The driver's error in our words."""

    def _enter(self, conn: sa.Connection, scope: Scope | None) -> None:
        """Called when a transaction begins: it is about this scope, or about all of them."""

    @abstractmethod
    def _empty_words(self, conn: sa.Connection) -> None:
        """Make every row unfindable, also when the index is damaged."""

    @abstractmethod
    def _word_marks(self, conn: sa.Connection) -> Iterator[tuple[int, object]]:
        """What the index has of each row: its number, and a mark of its terms."""

    @abstractmethod
    def _word_mark(self, agent: str, terms: list[str]) -> object:
        """The mark that the index should have for a row."""

    @abstractmethod
    def _chain(self, conn: sa.Connection, entries: Sequence[auditing.Sealing]) -> None:
        """Put entries at the end of the audit trail; nobody else can do that before this transaction ends."""

    def _as_keeper(self, conn: sa.Connection) -> None:
        """Work with the right to remove entries of the audit trail, for the rest of the transaction."""

    @abstractmethod
    def _facts(self, conn: sa.Connection) -> Mapping[str, str | int | float | None]:
        """Where the database is, how large, which schema."""

    @abstractmethod
    def _go_on_from(self, conn: sa.Connection, last: int) -> None:
        """Number the next writes higher than `last`."""

    _overlap = 0
    """How far write numbers may lag behind others that were committed before them."""

    def _epoch(self, conn: sa.Connection) -> str:
        """Changes when write numbers no longer tell what is new."""
        return ""

    def _vectors_came(self, rows: Sequence[Row]) -> None:
        """Called when vectors were added to the mirror."""

    def _vectors_went(self, conn: sa.Connection) -> None:
        """Called when vectors are taken from memories that stay."""

    def _after_write(self) -> None:
        """Called after each commit."""

    # Reading -----------------------------------------------------------------------------------------

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """One answer per id, in order; `None` for an id that is not in this scope."""
        self._guard()
        if not ids:
            return []
        found = self._look(scope, lambda conn: {memory.id: memory for memory in self._fetch(conn, scope, ids)})
        return [found.get(id) for id in ids]

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first, or newest first without words and vector; filtered before the limit is applied."""
        if query.words is None and query.near is not None and self._remote is not None:
            near = query.near
            if self._sealer is not None:
                query = self._look(scope, lambda conn: self._keyring(conn, scope).asked(query))
            return self._by_remote(self._remote, scope, near, query)
        return self._look(scope, lambda conn: self._search(conn, scope, query))

    def _search(self, conn: sa.Connection, scope: Scope, query: Query) -> list[Match]:
        if self._sealer is not None:
            query = self._keyring(conn, scope).asked(query)
        if query.words is not None:
            terms = self._terms(conn, scope, query_terms(query.words))
            return self._by_words(conn, scope, terms, query) if terms else []
        if query.near is not None:
            return self._by_vector(conn, scope, query.near, query)
        newest = (
            sa.select(memories.c.id)
            .where(*self._conditions(scope, query))
            .order_by(memories.c.happened_at.desc(), memories.c.seq.desc())
            .limit(query.limit)
            .offset(query.offset)
        )
        return [Match(id, 0.0) for id in conn.scalars(newest)]

    def versions(self, scope: Scope, where: Filter) -> Mapping[str, int]:
        """The id of every memory that passes, and its version."""

        def look(conn: sa.Connection) -> dict[str, int]:
            query = Query(where=where)
            query = query if self._sealer is None else self._keyring(conn, scope).asked(query)
            found = sa.select(memories.c.id, memories.c.version).where(*self._conditions(scope, query))
            return {row.id: row.version for row in conn.execute(found)}

        return self._look(scope, look)

    def _conditions(self, scope: Scope, query: Query) -> list[sa.ColumnElement[bool]]:
        """The WHERE clause of a search."""
        clauses = conditions(scope, query.where)
        return clauses if query.among is None else [*clauses, self._one_of(memories.c.id, sorted(query.among))]

    def speakers(self, scope: Scope) -> list[str]:
        """Whose words are remembered; the first few hundred, if there are more."""
        return self._look(scope, lambda conn: self._named(conn, scope, surveys.speakers(conn, scope)))

    def around(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[Glimpse]:
        """These memories, and those up to `reach` before and after each in its session, each once, in any order."""

        def look(conn: sa.Connection) -> list[Glimpse]:
            if self._sealer is None:
                return self._around(conn, scope, storable(ids), reach, terms)
            keys = self._keyring(conn, scope)
            return [keys.glimpse(seen) for seen in self._around(conn, scope, storable(ids), reach, keys.terms(terms))]

        return self._look(scope, look) if ids else []

    def spread(self, scope: Scope, terms: Sequence[str]) -> Spread:
        """How common the terms are."""

        def look(conn: sa.Connection) -> Spread:
            if self._sealer is None:
                return self._spread(conn, scope, terms)
            keys = self._keyring(conn, scope)
            return keys.spread(self._spread(conn, scope, keys.terms(terms)), terms)

        return self._look(scope, look)

    def agents(self) -> list[str]:
        """Every agent that ever stored something, by name."""
        return self._look(None, lambda conn: sorted(conn.scalars(sa.select(agents.c.agent))))

    def derived(self, ids: Collection[str]) -> list[tuple[Scope, str]]:
        """The memories of any scope that name one of these as a source."""
        m, sought = memories.c, frozenset(ids)
        columns = (m.agent, m.id, m.sources) if self._sealer is None else (memories,)
        citing = sa.select(*columns).where(m.sources != "[]")

        def look(conn: sa.Connection) -> list[tuple[Scope, str]]:
            rows = conn.execute(citing).mappings()
            found = (row if self._sealer is None else self._opened(conn, memories, row) for row in rows)
            return [(Scope(row["agent"]), row["id"]) for row in found if sought & set(json.loads(row["sources"]))]

        return self._look(None, look) if ids else []

    def _fetch(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> Iterator[Memory]:
        found = HYDRATE.where(memories.c.agent == scope.agent, self._one_of(memories.c.id, ids))
        for row in conn.execute(found).mappings():
            yield self._memory(conn, row)

    # Writing -----------------------------------------------------------------------------------------

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one durable transaction; one receipt per entry, in order."""
        self._guard()
        if not entries:
            return []
        refuse_foreign(scope, entries)
        return self._transact(scope, lambda conn: self._add(conn, scope, entries))

    def _add(self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        numbers = iter(self._enrol(conn, scope, len(entries) + sum(len(entry.vectors) for entry in entries)))
        keys = self._known_keys(conn, scope, entries)
        twins = self._known_twins(conn, scope, entries)
        plan = _Plan()
        receipts = [
            self._decide(scope, entry, seq, keys, twins, plan)
            for entry, seq in zip(entries, numbers, strict=False)  # the numbers of the vectors are left over
        ]
        self._carry_out(conn, scope, plan, numbers)
        self._note(conn, auditing.wrote(scope, entries, receipts))
        return receipts

    def _enrol(self, conn: sa.Connection, scope: Scope, count: int) -> list[int]:
        """Make sure that the agent is known; so many write numbers."""
        conn.execute(_ENROL, {"agent": scope.agent, "at": micros(self._sources.now())})
        return self._number(conn, count)

    def _known_keys(self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry]) -> dict[str, tuple[str, str]]:
        table, keys = memory_keys.c, [str(entry.key) for entry in entries if entry.key is not None]
        if not keys:
            return {}
        if self._sealer is not None:
            keys = [self._keyring(conn, scope).mask("memory_keys", "key", key) for key in keys]
        rows = sa.select(memory_keys).where(table.agent == scope.agent, self._one_of(table.key, keys))
        found = [self._opened(conn, memory_keys, row) for row in conn.execute(rows).mappings()]
        return {row["key"]: (row["memory_id"], row["fingerprint"]) for row in found}

    def _known_twins(
        self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry]
    ) -> dict[str, tuple[int, Memory]]:
        keys = [entry.merge_key for entry in entries if entry.merge_key is not None]
        if not keys:
            return {}
        if self._sealer is not None:
            keys = [self._keyring(conn, scope).mask("memories", "merge_key", key) for key in keys]
        rows = HYDRATE.where(memories.c.agent == scope.agent, self._one_of(memories.c.merge_key, keys))
        rows = rows.with_for_update(of=memories, key_share=True)  # what belongs to them may come meanwhile
        found = [self._opened(conn, memories, row) for row in conn.execute(rows).mappings()]
        return {row["merge_key"]: (row["seq"], self._to_memory(row)) for row in found}

    def _decide(
        self,
        scope: Scope,
        entry: Entry,
        seq: int,
        keys: dict[str, tuple[str, str]],
        twins: dict[str, tuple[int, Memory]],
        plan: _Plan,
    ) -> Receipt:
        memory, place = entry.memory, {"agent": scope.agent}
        if entry.key is not None and entry.key in keys:
            return key_receipt(entry, *keys[entry.key])
        if entry.merge_key is not None and entry.merge_key in twins and superseded(twins[entry.merge_key][1], memory):
            known_seq, known = twins.pop(entry.merge_key)
            plan.of(known.id)[known.id] = (known_seq, known, None)
        if entry.merge_key is not None and entry.merge_key in twins:
            known_seq, known = twins[entry.merge_key]
            memory = merged(known, memory)
            plan.of(known.id)[known.id] = (known_seq, memory, entry.merge_key)
            twins[entry.merge_key] = (known_seq, memory)
            plan.evidence.append(place | evidence(known.id, seq, entry.memory))
            receipt = Receipt(id=known.id, status="merged", reason=MERGED)
        else:
            if memory.id in plan.fresh:
                raise Conflict(f"the id {memory.id} is given twice; nothing was stored. Use a new id")
            plan.fresh[memory.id] = (seq, memory, entry.merge_key)
            plan.events += entry.events
            plan.vectors += [place | row for row in _vectors(memory.id, entry.vectors)]
            if entry.merge_key is not None:
                twins[entry.merge_key] = (seq, memory)
            receipt = Receipt(id=memory.id, status="stored")
        if entry.key is not None:
            keys[entry.key] = (memory.id, fingerprint(entry))
            key = {"key": entry.key, "memory_id": memory.id, "fingerprint": keys[entry.key][1]}
            plan.keys.append(place | key)
        return receipt

    def _carry_out(self, conn: sa.Connection, scope: Scope, plan: _Plan, numbers: Iterator[int]) -> None:
        self._refuse_other_lengths(conn, plan.vectors)
        for seq, memory, merge_key in plan.changed.values():
            self._rewrite(conn, memory, seq, merge_key)
        fresh = plan.fresh.values()
        self._insert(conn, memories, [to_row(memory, seq, merge_key) for seq, memory, merge_key in fresh])
        self._insert(conn, memory_tags, [row for _, memory, _ in fresh for row in _tags(memory)])
        self._index(conn, [(scope.agent, seq, memory_terms(memory)) for seq, memory, _ in fresh])
        self._insert(conn, memory_keys, plan.keys)
        self._insert(conn, memory_evidence, plan.evidence)
        self._insert(conn, memory_index, [row | {"seq": next(numbers)} for row in plan.vectors])
        self._vectors_came(plan.vectors)
        if plan.events:
            self._append(conn, scope, plan.events)

    def _rewrite(self, conn: sa.Connection, memory: Memory, seq: int, merge_key: str | None) -> None:
        """Replace what surrounds a memory: its row, its tags, its terms."""
        row = self._shut(conn, memories, to_row(memory, seq, merge_key))
        own = (memories.c.agent == memory.agent, memories.c.id == memory.id)
        conn.execute(memories.update().where(*own).values(row), execution_options=LATER)
        self._reindex(conn, memory, seq)

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """The changed memory, one version on. Raises `NotFound`, or `Conflict` if the version differs."""
        return self._transact(scope, lambda conn: self._annotate(conn, scope, id, changes, expected_version))

    def _annotate(
        self, conn: sa.Connection, scope: Scope, id: str, changes: Changes, expected_version: int | None
    ) -> Memory:
        found = HYDRATE.where(memories.c.agent == scope.agent, memories.c.id == id)
        found = found.with_for_update(of=memories, key_share=True)
        stored = conn.execute(found).mappings().one_or_none()
        if stored is None:
            raise NotFound(f"there is no memory {id}; `engram memory list` shows what there is")
        row = self._opened(conn, memories, stored)
        known = self._to_memory(row)
        if expected_version is not None and expected_version != known.version:
            raise Conflict(f"memory {id} is at version {known.version}, not {expected_version}; read it again")
        update = {name: getattr(changes, name) for name in changes.__slots__}
        update = {name: value for name, value in update.items() if value is not None}
        memory = annotated(known, update)
        self._rewrite(conn, memory, row["seq"], row["merge_key"])
        self._note(conn, auditing.annotated(scope, memory, changes))
        return memory

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Remove memories and all that belongs to them, in one transaction; unknown ids say so."""
        shelves = [] if self._remote is None else self._shelves(scope)
        receipts = self._transact(scope, lambda conn: self._forget(conn, scope, ids))
        self._forget_remotely(shelves)
        return receipts

    def _forget(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        own = (memories.c.agent == scope.agent, self._one_of(memories.c.id, ids))
        rows = conn.execute(sa.select(memories.c.id, memories.c.seq).where(*own).with_for_update())
        seqs = {row.id: row.seq for row in rows}
        removed, passages = self._count_belongings(conn, scope, list(seqs)), self._passages(conn, scope, list(seqs))
        self._unindex_words(conn, scope.agent, list(seqs.values()))
        if seqs:
            conn.execute(memories.delete().where(*own), execution_options=LATER)
            at = micros(self._sources.now())
            numbered = zip(seqs, self._number(conn, len(seqs)), strict=True)
            graves = [{"id": id, "seq": seq, "passages": passages.get(id, 1)} for id, seq in numbered]
            conn.execute(_BURY, [{"agent": scope.agent, "at": at} | grave for grave in graves])
            self._forget_events(conn, scope, {g["id"]: g["seq"] for g in graves if "events" in removed[g["id"]]})
        receipts = [ForgetReceipt(id=id, forgotten=id in removed, removed=removed.pop(id, {})) for id in ids]
        if ids:
            self._note(conn, auditing.forgot(scope, receipts))
        return receipts

    def _forget_events(self, conn: sa.Connection, scope: Scope, graves: Mapping[str, int]) -> None:
        """Take the events about memories away, and say so to whoever has learned from them."""
        if graves:
            gone = events.delete().where(events.c.agent == scope.agent, self._one_of(events.c.subject, list(graves)))
            conn.execute(gone, execution_options=LATER)
            self._append(conn, scope, [forgotten(id, seq, self._sources.now()) for id, seq in graves.items()])

    def _count_belongings(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        counts = {id: {"memories": 1, "evidence": 0, "keys": 0, "vectors": 0, "words": 1} for id in ids}
        owners = {
            "evidence": memory_evidence.c.memory_id,
            "keys": memory_keys.c.memory_id,
            "vectors": memory_index.c.memory_id,
            "events": events.c.subject,
        }
        for name, owner in owners.items():
            count = (
                sa.select(owner, sa.func.count())
                .where(owner.table.c.agent == scope.agent, self._one_of(owner, ids))
                .group_by(owner)
            )
            for id, number in conn.execute(count):
                counts[id][name] = number
        return counts

    def _passages(
        self, conn: sa.Connection, scope: Scope, ids: Sequence[str], *where: sa.ColumnElement[bool]
    ) -> dict[str, int]:
        """How many passages have vectors, at most in one shelf; without those that have one."""
        v = memory_index.c
        several = (
            sa.select(v.memory_id, (sa.func.max(v.passage) + 1).label("passages"))
            .where(v.agent == scope.agent, self._one_of(v.memory_id, ids), v.passage > 0, *where)
            .group_by(v.memory_id)
        )
        return {row.memory_id: row.passages for row in conn.execute(several)}

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Note that these memories were recalled; written with the next commit, or when it is much."""
        self._guard()
        moment = micros(at)
        self._count({(scope.agent, id): (number, moment) for id, number in Counter(ids).items()})
        if len(self._touches) > MAX_PENDING_TOUCHES:
            self._flush_statistics()

    def _flush_statistics(self) -> None:
        try:
            self._flush()
        except StoreError as error:  # a statistic must not cost anybody the memories that were found
            _log.warning("some access counts were not written: %s", error)

    def _flush(self) -> None:
        self._transact(None, lambda conn: None)  # every write carries the pending touches along

    def _count(self, touches: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        with self._touching:
            for memory, (number, moment) in touches.items():
                count, last = self._touches.get(memory, (0, moment))
                self._touches[memory] = (count + number, max(last, moment))

    def _write_touches(self, conn: sa.Connection) -> Mapping[tuple[str, str], tuple[int, int]]:
        """Write what is pending; what that was, in case it is undone."""
        self._write_shown(conn)
        with self._touching:
            pending, self._touches = self._touches, {}
        if pending:
            self._enter(conn, None)  # they may be about anybody
            conn.execute(
                _TOUCH,
                [{"agent": a, "id": id, "n": n, "at": at} for (a, id), (n, at) in sorted(pending.items())],
            )
        return pending

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Keep what became of a recall and count it for each memory; `False` if that was done before."""

        def work(conn: sa.Connection) -> bool:
            fresh = self._credit(conn, scope, credit)
            self._note(conn, auditing.credited(scope, credit, fresh))
            return fresh

        return self._transact(scope, work)

    def _credit(self, conn: sa.Connection, scope: Scope, credit: Credit) -> bool:
        told = self._shut(conn, recall_events, to_recall(scope, credit))
        if not conn.execute(_CREDIT, told | {"pending": PENDING}).rowcount:
            return False
        if counts := credit.counts:  # in one order for all, so that nobody waits in a circle
            rows = [{"id": id, "helped": good, "hindered": bad} for id, (good, bad) in sorted(counts.items())]
            conn.execute(_COUNT, [{"agent": scope.agent} | row for row in rows])
        return True

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """The newest credits, the oldest of them first."""
        e = recall_events.c
        told = (e.agent == scope.agent, e.detail.not_like(PENDING))
        newest = sa.select(recall_events).where(*told).order_by(e.at.desc(), e.id.desc()).limit(limit)

        def look(conn: sa.Connection) -> list[Credit]:
            rows = conn.execute(newest).mappings().all()
            return [to_credit(self._opened(conn, recall_events, row)) for row in reversed(rows)]

        return self._look(scope, look)

    def show(self, scope: Scope, shown: Shown) -> None:
        """Note what was shown; written with the next commit, or when it is much."""
        self._guard()
        with self._touching:
            self._shown[scope.agent, shown.id] = shown
        if len(self._shown) > MAX_PENDING_TOUCHES:
            self._flush_statistics()

    def shown(self, scope: Scope, id: str) -> Shown | None:
        """What was shown under an id, also if its outcome was told; `None` if it was not, or too long ago."""
        self._guard()
        with self._touching:
            key = (scope.agent, id)
            if (pending := self._shown.get(key) or self._showing.get(key)) is not None:
                return pending
        if unstorable(id):
            return None
        e = recall_events.c
        kept = sa.select(recall_events).where(e.agent == scope.agent, e.id == id)

        def look(conn: sa.Connection) -> Shown | None:
            row = conn.execute(kept).mappings().one_or_none()
            return None if row is None else to_shown(self._opened(conn, recall_events, row))

        return self._look(scope, look)

    def _write_shown(self, conn: sa.Connection) -> None:
        """Write what was shown, and drop what was shown long ago to the same agents, once per process."""
        with self._touching:
            pending, self._shown = self._shown, {}
            self._showing |= pending
        if not pending:
            return
        conn.get_execution_options()[LEDGER].shown = pending
        self._enter(conn, None)  # it may be anybody's
        rows = [to_shown_row(Scope(agent), shown) for (agent, _), shown in sorted(pending.items())]
        rows = [self._shut(conn, recall_events, row) for row in rows]
        conn.execute(_SHOW, rows)
        fresh = sorted({row["agent"] for row in rows} - self._pruned)
        if fresh:
            before = micros(self._sources.now() - SHOWN_FOR)
            conn.execute(_UNSHOW, [{"agent": agent, "before": before, "pending": PENDING} for agent in fresh])
            self._pruned |= set(fresh)

    def _arrived(self, shown: Mapping[tuple[str, str], Shown], *, safely: bool) -> None:
        """What was on its way is in the database, or has to be written again."""
        with self._touching:
            for key in shown:
                self._showing.pop(key, None)
            if not safely:
                self._shown = {**shown, **self._shown}

    # What is learned from ----------------------------------------------------------------------------

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Keep events in one durable transaction; for each, in order, `False` if there is one with its id already."""
        self._guard()

        def work(conn: sa.Connection) -> list[bool]:
            fresh = self._append(conn, scope, events)
            self._note(conn, auditing.recorded(scope, events, fresh))
            return fresh

        return self._transact(scope, work) if events else []

    def _append(self, conn: sa.Connection, scope: Scope, given: Sequence[Event]) -> list[bool]:
        """Number events only when nobody else can commit a higher number before them."""
        conn.execute(_ENROL, {"agent": scope.agent, "at": micros(self._sources.now())})
        history.take_turn(conn, scope)
        known = history.known(conn, scope, self._one_of(events.c.id, [event.id for event in given]))
        numbers = iter(self._number(conn, len(given)))
        rows, fresh = [], []
        for event in given:
            fresh.append(event.id not in known)
            if fresh[-1]:
                known.add(event.id)
                rows.append(to_event_row(scope, event, next(numbers)))
        self._insert(conn, events, rows)
        return fresh

    def unrecord(self, scope: Scope, ids: Sequence[str]) -> int:
        """Remove events by id in one transaction, and say so to whoever has learned from them; how many there were."""
        chosen = self._one_of(events.c.id, storable(ids))

        def work(conn: sa.Connection) -> int:
            gone = history.chosen(conn, scope, chosen, self._reading(conn))
            if not gone:
                return 0
            conn.execute(events.delete().where(events.c.agent == scope.agent, chosen))
            numbers, now = self._number(conn, len(gone)), self._sources.now()
            told = [forgotten(event.id, seq, now) for event, seq in zip(gone, numbers, strict=True)]
            self._append(conn, scope, told)
            self._note(conn, auditing.unrecorded(scope, gone))
            return len(gone)

        return self._transact(scope, work) if ids else 0

    def unshow(self, scope: Scope, chosen: Callable[[Shown], bool]) -> int:
        """Remove what was shown and whose outcome nobody has told, if it is chosen; how many there were."""
        e = recall_events.c
        pending = sa.select(recall_events).where(e.agent == scope.agent, e.detail.like(PENDING))

        def work(conn: sa.Connection) -> int:
            found = [to_shown(self._opened(conn, recall_events, row)) for row in conn.execute(pending).mappings()]
            ids = [shown.id for shown in found if chosen(shown)]
            if ids:
                conn.execute(recall_events.delete().where(e.agent == scope.agent, self._one_of(e.id, ids)))
            return len(ids)

        with self._touching:
            waiting = [key for key, shown in self._shown.items() if key[0] == scope.agent and chosen(shown)]
            for key in waiting:
                del self._shown[key]
        seen = self._look(scope, lambda conn: conn.execute(pending.limit(1)).first())
        return len(waiting) + (0 if seen is None else self._transact(scope, work))

    def feed(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """The events numbered higher than `after`, the oldest of them first."""
        return self._look(scope, lambda conn: history.feed(conn, scope, after, limit, self._reading(conn)))

    def about(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """The newest events of a topic, the oldest of them first."""

        def look(conn: sa.Connection) -> list[Event]:
            named = topic
            if self._sealer is not None and topic:
                named = self._keyring(conn, scope).mask("events", "topic", topic)
            return history.about(conn, scope, named, limit, self._reading(conn))

        return self._look(scope, look)

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """All events about these subjects, the oldest first."""
        chosen = self._one_of(events.c.subject, storable(subjects))
        if not subjects:
            return []
        return self._look(scope, lambda conn: history.chosen(conn, scope, chosen, self._reading(conn)))

    def changes(self, scope: Scope, after: int, limit: int) -> list[Change]:
        """What came and went after a number, the oldest of it first."""
        return self._look(scope, lambda conn: history.changes(conn, scope, after, limit))

    def newest(self, scope: Scope) -> int:
        """The number of the newest write, of an event, too; 0 if there is none."""
        return self._look(scope, lambda conn: history.newest(conn, scope))

    def lag(self) -> int:
        """How far below a higher one a number may be that shows up after it."""
        return self._overlap

    # Callers' keys -----------------------------------------------------------------------------------

    def add_key(self, key: ApiKey, hash: str) -> bool:
        """Keep a key, durably; `False` if its id is taken."""

        def work(conn: sa.Connection) -> bool:
            fresh = keys.add(conn, key, hash)
            self._note(conn, Deed("key", target=key.id, count=int(fresh)))
            return fresh

        return self._transact(None, work)

    def key(self, id: str) -> tuple[ApiKey, str] | None:
        """The key with this id and the hash of its secret, or `None`."""
        return self._look(None, lambda conn: keys.one(conn, id))

    def keys(self) -> list[ApiKey]:
        """All keys, the oldest first."""
        return self._look(None, keys.every)

    def note_key(self, id: str, *, revoked_at: datetime | None = None, last_used: datetime | None = None) -> bool:
        """Say when a key was revoked, of which the first time counts, or used; `False` if there is none."""

        def work(conn: sa.Connection) -> bool:
            known = keys.note(conn, id, revoked_at, last_used)
            if revoked_at is not None:
                self._note(conn, Deed("key revoked", target=id, count=int(known)))
            return known

        return self._transact(None, work)

    # The mirrored vectors ----------------------------------------------------------------------------

    def embedder(self) -> str | None:
        """The identity of the embedder this store was last embedded with, if any."""
        return self.setting("embedder")

    def set_embedder(self, identity: str) -> None:
        """Remember the embedder in use."""
        self.set_setting("embedder", identity)

    def setting(self, name: str) -> str | None:
        """The value of a setting, or `None`."""
        named = sa.select(settings).where(settings.c.name == name)

        def look(conn: sa.Connection) -> str | None:
            row = conn.execute(named).mappings().one_or_none()
            return None if row is None else str(self._opened(conn, settings, row)["value"])

        return self._look(None, look)

    def set_setting(self, name: str, value: str) -> None:
        """Keep a value, instead of the one that was there."""

        def work(conn: sa.Connection) -> None:
            conn.execute(_SET, self._shut(conn, settings, {"name": name, "value": value}))
            if auditing.administrative(name):
                self._note(conn, Deed("setting", target=name))

        self._transact(None, work)

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Memories of any agent without a vector of this embedder, oldest first."""
        missing = HYDRATE.where(_without_vector(namespace, embedder)).order_by(memories.c.seq).limit(limit)
        return self._look(
            None, lambda conn: [self._memory(conn, row) for row in conn.execute(missing).mappings().all()]
        )

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """How many memories have no vector of this embedder."""
        missing = sa.select(sa.func.count()).select_from(memories).where(_without_vector(namespace, embedder))
        return self._look(None, lambda conn: conn.scalar(missing)) or 0

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Give vectors to memories that still exist, instead of those they had there; how many were added."""
        if not vectors:
            return 0
        return self._transact(None, lambda conn: self._place(conn, vectors))

    def _place(self, conn: sa.Connection, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        shelves: dict[Shelf, dict[str, list[Placed]]] = {}
        for scope, id, placed in vectors:
            shelf = Shelf(scope, placed.namespace, placed.embedder)
            shelves.setdefault(shelf, {}).setdefault(id, []).append(placed)
        added = sum(self._fill(conn, shelf, given) for shelf, given in shelves.items())
        self._note(conn, auditing.embedded(vectors, added))
        return added

    def _fill(self, conn: sa.Connection, shelf: Shelf, given: Mapping[str, Sequence[Placed]]) -> int:
        m, v, agent, ids = memories.c, memory_index.c, shelf.scope.agent, list(given)
        here = (v.namespace == shelf.namespace, v.embedder == shelf.embedder)
        theirs = (v.agent == agent, *here, self._one_of(v.memory_id, ids))
        known = list(
            conn.scalars(
                sa.select(m.id).where(m.agent == agent, self._one_of(m.id, ids)).with_for_update(key_share=True)
            )
        )
        fresh = [{"agent": agent} | row for id in known for row in _vectors(id, given[id])]
        self._refuse_other_lengths(conn, fresh)
        before = self._passages(conn, shelf.scope, known, *here)
        conn.execute(memory_index.delete().where(*theirs), execution_options=LATER)
        seqs = self._number(conn, len(fresh))
        self._insert(conn, memory_index, [row | {"seq": seq} for seq, row in zip(seqs, fresh, strict=True)])
        self._vectors_came(fresh)
        if any(number > 1 + max(placed.passage for placed in given[id]) for id, number in before.items()):
            # No number tells which passages went, so that whoever keeps this shelf has to take it anew.
            self._vectors_went(conn)
            conn.execute(settings.delete().where(settings.c.name == _pushed_name(shelf)), execution_options=LATER)
        return sum(len(given[id]) for id in known)

    def _refuse_other_lengths(self, conn: sa.Connection, rows: Sequence[Row]) -> None:
        """Raise `InvalidInput` if a vector is not as long as those it would be compared with."""
        v, known = memory_index.c, {}
        for row in rows:
            shelf = (row["agent"], row["namespace"], row["embedder"])
            if shelf not in known:
                there = sa.select(v.dim).where(v.agent == shelf[0], v.namespace == shelf[1], v.embedder == shelf[2])
                known[shelf] = conn.scalar(there.limit(1)) or row["dim"]
            if row["dim"] != known[shelf]:
                raise InvalidInput(f"vectors of {row['dim']} dimensions cannot join a shelf of {known[shelf]}")

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Drop the vectors of every other embedder; how many went."""
        stale = memory_index.delete().where(memory_index.c.namespace == namespace, memory_index.c.embedder != keep)

        def discard(conn: sa.Connection) -> int:
            self._vectors_went(conn)
            gone = conn.execute(stale).rowcount
            self._note(conn, auditing.unembedded(keep, gone))
            return gone

        return self._transact(None, discard)

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """Where a memory has vectors, by namespace and embedder; none if it is not in this scope."""
        v = memory_index.c
        places = (
            sa.select(v.namespace, v.embedder, sa.func.max(v.dim).label("dim"), sa.func.count().label("passages"))
            .where(v.agent == scope.agent, v.memory_id == id)
            .group_by(v.namespace, v.embedder)
            .order_by(v.namespace, v.embedder)
        )
        rows = self._look(scope, lambda conn: conn.execute(places).mappings().all())
        return [MemoryIndex(memory_id=id, **row) for row in rows]

    # An outside vector database ----------------------------------------------------------------------

    def _by_remote(self, remote: VectorStore, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """Ask the vector database; when it is away, the mirror answers and says so."""
        if query.among is not None:  # a few memories that are at hand
            return self._by_mirror(scope, near, query)
        shelf, wanted = Shelf(scope, near.namespace, near.embedder), query.limit + query.offset
        try:
            self._push(remote, shelf)
            search = partial(remote.search, self._place_of(shelf), near.vector)
            found, everything = nearest(search, wanted, wanted * ENOUGH)
        except StoreError as error:
            _log.warning("the vector database is away, the local mirror answers: %s", error)
            return [MirrorMatch(*match) for match in self._by_mirror(scope, near, query)]
        if not found and (mirrored := self._by_mirror(scope, near, query)):
            _log.warning("the vector database lost what it had, the local mirror answers; run `engram upkeep sync`")
            return [MirrorMatch(*match) for match in mirrored]
        allowed = self._look(scope, lambda conn: self._allowed(conn, scope, query, [match.id for match in found]))
        kept = [match for match in found if match.id in allowed]
        if len(kept) < wanted and not everything:  # a filter that few pass: look at everything
            return self._by_mirror(scope, near, query)
        return kept[query.offset : wanted]

    def _by_mirror(self, scope: Scope, near: Placed, query: Query) -> list[Match]:
        return self._look(scope, lambda conn: self._by_vector(conn, scope, near, query))

    def _allowed(self, conn: sa.Connection, scope: Scope, query: Query, ids: list[str] | None) -> frozenset[str]:
        """The ids that pass the filter: of all, or of these."""
        passing = sa.select(memories.c.id).where(*self._conditions(scope, query))
        if ids is not None:
            passing = passing.where(self._one_of(memories.c.id, ids))
        return frozenset(conn.scalars(passing))

    def _passing_keys(self, conn: sa.Connection, shelf: Shelf, query: Query) -> frozenset[str]:
        """The names of all vectors of a shelf whose memories pass the filter."""
        v = memory_index.c
        passing = (
            sa.select(v.memory_id, v.passage)
            .join_from(memories, memory_index, sa.and_(v.agent == memories.c.agent, v.memory_id == memories.c.id))
            .where(v.namespace == shelf.namespace, v.embedder == shelf.embedder)
            .where(*self._conditions(shelf.scope, query))
        )
        return frozenset(vector_key(id, passage) for id, passage in conn.execute(passing))

    def _push(self, remote: VectorStore, shelf: Shelf, *, anew: bool = False) -> int:
        """Hand over what came and went since the last time; how many vectors."""
        name = _pushed_name(shelf)
        v, t, agent = memory_index.c, tombstones.c, shelf.scope.agent
        here = (v.agent == agent, v.namespace == shelf.namespace, v.embedder == shelf.embedder)

        def look(conn: sa.Connection) -> tuple[str, bool, int, Sequence[Any], Sequence[Any]]:
            epoch = self._epoch(conn)
            said = conn.scalar(sa.select(settings.c.value).where(settings.c.name == name))
            all_of_it = anew or said is None or said.partition(":")[0] != epoch
            last = 0 if all_of_it else int(str(said).partition(":")[2])
            since = last - self._overlap
            came = self._mirrored(conn, sa.select(memory_index).where(*here, v.seq > since))
            graves = sa.select(t.memory_id, t.seq, t.passages).where(t.agent == agent, t.seq > since)
            went = conn.execute(graves).all()
            return epoch, all_of_it, last, came, went

        epoch, anew, last, came, went = self._look(shelf.scope, look)
        done = set() if anew else self._pushed.setdefault(shelf, set())
        came = [row for row in came if (row.memory_id, row.seq) not in done]
        went = [row for row in went if (row.memory_id, row.seq) not in done]
        if not came and not went and not anew:
            return 0
        place = self._place_of(shelf)
        if anew:
            remote.clear(place)
        remote.remove(place, [vector_key(row.memory_id, n) for row in went for n in range(row.passages)])
        number = 0
        for first in range(0, len(came), PAGE):
            some = came[first : first + PAGE]
            for which, matrix in sound([row.dim for row in some], [row.vector for row in some]):
                remote.add(place, [vector_key(some[n].memory_id, some[n].passage) for n in which], matrix)
                number += len(which)
        news = {(row.memory_id, row.seq) for row in (*came, *went)}
        newest = max([last, *(seq for _, seq in news)])
        self._pushed[shelf] = {(id, seq) for id, seq in done | news if seq > newest - self._overlap}
        self.set_setting(name, f"{epoch}:{newest}")
        return number

    def _is_there(self, remote: VectorStore, shelf: Shelf) -> bool:
        """Whether the vector database finds the vector that was handed over first."""
        v = memory_index.c
        here = (v.agent == shelf.scope.agent, v.namespace == shelf.namespace, v.embedder == shelf.embedder)
        oldest = sa.select(memory_index).where(*here).order_by(v.seq).limit(1)
        rows = self._look(shelf.scope, lambda conn: self._mirrored(conn, oldest))
        if not rows or not (whole := list(sound([rows[0].dim], [rows[0].vector]))):
            return True
        return any(match.score > 0.99 for match in remote.search(self._place_of(shelf), whole[0][1][0], 1))

    def _place_of(self, shelf: Shelf) -> Shelf:
        """Where a shelf stands in the vector database: apart from those of other databases that use it too."""

        def agree(conn: sa.Connection) -> str:
            conn.execute(_SET_ONCE, {"name": SPACE, "value": self._sources.new_id()})
            return conn.scalar(sa.select(settings.c.value).where(settings.c.name == SPACE)) or ""

        if not self._space:
            self._space = self._transact(None, agree)
        return Shelf(shelf.scope, f"{self._space}/{shelf.namespace}", shelf.embedder)

    def sync(self, *, anew: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Hand over what the vector database lacks, or everything `anew`; how many vectors."""
        if self._remote is None:
            raise Unsupported("there is no vector database to fill; the setting `vectors` names one")
        v = memory_index.c
        everywhere = sa.select(v.agent, v.namespace, v.embedder).distinct()
        owed = [tuple(each) for each in json.loads(self.setting(OWED) or "[]")]
        found = [tuple(row) for row in self._look(None, lambda conn: conn.execute(everywhere).all())]
        shelves = list(dict.fromkeys([*found, *owed]))
        total = 0
        for number, (agent, namespace, embedder) in enumerate(shelves, start=1):
            shelf = Shelf(Scope(agent), namespace, embedder)
            handed_over = self._push(self._remote, shelf, anew=anew)
            if not anew and not self._is_there(self._remote, shelf):  # it was emptied, lost or exchanged
                handed_over = self._push(self._remote, shelf, anew=True)
            total += handed_over
            if progress is not None:
                progress(number, len(shelves))
        if owed:
            self.set_setting(OWED, "[]")
        return total

    def _shelves(self, scope: Scope) -> list[Shelf]:
        """Where a scope has vectors."""
        v = memory_index.c
        places = sa.select(v.namespace, v.embedder).where(v.agent == scope.agent).distinct()
        found = self._look(scope, lambda conn: conn.execute(places).all())
        return [Shelf(scope, namespace, embedder) for namespace, embedder in found]

    def _forget_remotely(self, shelves: Sequence[Shelf]) -> None:
        """Take what was forgotten out of the vector database now; if it is away, at the next chance."""
        if self._remote is None:
            return
        owed = []
        for shelf in shelves:
            try:
                self._push(self._remote, shelf)
            except StoreError as error:
                owed.append([shelf.scope.agent, shelf.namespace, shelf.embedder])
                _log.warning("the vector database still has what was forgotten, until `engram upkeep sync`: %s", error)
        if owed:
            known = json.loads(self.setting(OWED) or "[]")
            self.set_setting(OWED, json.dumps([*known, *(each for each in owed if each not in known)]))

    # What was done -----------------------------------------------------------------------------------

    def _note(self, conn: sa.Connection, deed: Deed) -> None:
        """Put a deed on record together with what this transaction does."""
        conn.get_execution_options()[LEDGER].deeds.append(deed)

    def _finish(self, conn: sa.Connection) -> Mapping[tuple[str, str], tuple[int, int]]:
        """Write what is pending, and last of all, once, what was done; what was pending, in case it is undone.

        The end of the audit trail is what all writers wait for, so nothing else may be waited for after it.
        """
        ledger: auditing.Ledger = conn.get_execution_options()[LEDGER]
        if ledger.closed:
            return {}
        pending = self._write_touches(conn)
        if ledger.deeds:
            now = self._sources.now()
            self._chain(conn, [auditing.sealing(deed, now) for deed in ledger.deeds])
        ledger.closed = True
        return pending

    def note(self, deeds: Sequence[Deed]) -> None:
        """Put on record what no other call of the store does, in one durable transaction."""
        self._guard()
        auditing.refuse_unstorable(deeds)

        def work(conn: sa.Connection) -> None:
            for deed in deeds:
                self._note(conn, deed)

        if deeds:
            self._transact(None, work)

    def head(self) -> AuditEntry | None:
        """The newest entry; `None` only if somebody has removed them all."""
        return self._look(None, trails.head)

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
        """Entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
        return self._look(None, lambda conn: trails.trail(conn, after, limit, agent, grant, since, newest))

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Keep a checkpoint for good, and note that; `False` if there is one of that entry already."""

        def work(conn: sa.Connection) -> bool:
            there = sa.select(audit_checkpoints.c.seq).where(audit_checkpoints.c.seq == checkpoint.seq)
            if conn.scalar(there) is not None:
                return False
            insert(conn, audit_checkpoints, [auditing.to_checkpoint_row(checkpoint)])
            self._note(conn, auditing.checked(checkpoint))
            return True

        return self._transact(None, work)

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, in order."""
        return self._look(None, trails.checkpoints)

    def prune(self, through: int) -> int:
        """Remove the entries up to a checkpoint, and note that; how many. Raises `NotFound` without a checkpoint."""
        return self._transact(None, lambda conn: self._prune(conn, through))

    def _prune(self, conn: sa.Connection, through: int) -> int:
        found = [known for known in trails.checkpoints(conn) if known.seq == through]
        if not found:
            raise NotFound(f"there is no checkpoint of entry {through}; `engram audit checkpoint` makes one")
        self._as_keeper(conn)
        conn.execute(_SET, {"name": auditing.PRUNING, "value": str(through)})
        gone = conn.execute(audit.delete().where(audit.c.seq <= through)).rowcount
        conn.execute(_UNSET, {"name": auditing.PRUNING})
        self._note(conn, auditing.pruned(found[0], gone))
        return gone

    # Keeping the database well -----------------------------------------------------------------------

    def info(self) -> Mapping[str, str | int | float | None]:
        """Facts about the database: where, how large, which schema, how many rows."""
        tables = (agents, memories, memory_evidence, memory_index, tombstones, events)

        def count(conn: sa.Connection) -> dict[str, int | None]:
            return {t.name: conn.scalar(sa.select(sa.func.count()).select_from(t)) for t in tables}

        facts, counts = self._look(None, lambda conn: (self._facts(conn), count(conn)))
        return {**facts, "embedder": self.embedder(), **counts}

    def check(self) -> list[Problem]:
        """Everything wrong with the rows and the derived indexes; empty when all is well."""
        return self._look(None, self._check_rows)

    def _check_rows(self, conn: sa.Connection) -> list[Problem]:
        problems: list[Problem] = []
        words: dict[int, object] = {}
        tags: set[tuple[str, str, str]] = set()
        for row in conn.execute(HYDRATE).mappings():
            if not self._is_sound(conn, memories, row):
                problems.append(Problem("memories", f"memory {row['id']} of {row['agent']} is damaged"))
                words[row["seq"]] = None
            else:
                memory = self._memory(conn, row)
                words[row["seq"]] = self._word_mark(
                    memory.agent, self._words_of(conn, memory.agent, memory_terms(memory))
                )
                tags |= {(row["agent"], row["memory_id"], row["tag"]) for row in self._labels(conn, memory)}
        for seq, mark in self._word_marks(conn):
            if seq not in words:
                problems.append(Problem("memory_words", f"row {seq} is indexed, but there is no such memory"))
            elif words.pop(seq) not in (None, mark):
                problems.append(Problem("memory_words", f"row {seq} is indexed with other words than it has"))
        problems += [Problem("memory_words", f"row {seq} is not indexed") for seq in words]
        t = memory_tags.c
        lost = tags - {(agent, id, tag) for agent, id, tag in conn.execute(sa.select(t.agent, t.memory_id, t.tag))}
        problems += [
            Problem("memory_tags", f"memory {id} is not found by its tag {tag}") for _, id, tag in sorted(lost)
        ]
        for damaged in self._unsound(conn):
            which = f" (passage {damaged.passage})" if damaged.passage else ""
            problems.append(Problem("memory_index", f"the vector of memory {damaged.memory_id} is damaged{which}"))
        for event in conn.execute(sa.select(events)).mappings():
            if not self._is_sound(conn, events, event):
                problems.append(Problem("events", f"event {event['id']} of {event['agent']} is damaged"))
        for lacking in conn.execute(_INCOMPLETE):
            problems.append(Problem("memory_index", f"memory {lacking.memory_id} lacks the vector of a passage"))
        return problems

    def _unsound(self, conn: sa.Connection) -> Iterator[sa.Row[Any]]:
        """The rows whose vectors are not what was written, whoever they belong to."""
        for page in conn.execute(sa.select(memory_index)).partitions(PAGE):
            vectors = [self._vector(conn, row) for row in page]
            good = {n for which, _ in sound([row.dim for row in page], vectors) for n in which}
            yield from (row for n, row in enumerate(page) if n not in good)

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Mapping[str, int]:
        """Make the word and tag indexes again from the canonical rows; how many rows went into each.

        Damaged vectors go, so that they count as missing.
        """
        return self._transact(None, lambda conn: self._rebuild(conn, progress or (lambda done, total: None)))

    def _rebuild(self, conn: sa.Connection, tell: Callable[[int, int], None]) -> Mapping[str, int]:
        total = conn.scalar(sa.select(sa.func.count()).select_from(memories)) or 0
        self._empty_words(conn)
        conn.execute(memory_tags.delete())
        self._drop_damaged_vectors(conn)
        self._recount(conn)
        done, tags, last = 0, 0, 0
        pages = HYDRATE.order_by(memories.c.seq).limit(1000)
        while rows := conn.execute(pages.where(memories.c.seq > last)).mappings().all():
            found = [(row["seq"], self._memory(conn, row)) for row in rows]
            self._index(conn, [(memory.agent, seq, memory_terms(memory)) for seq, memory in found])
            labels = [label for _, memory in found for label in _tags(memory)]
            self._insert(conn, memory_tags, labels)
            done, tags, last = done + len(rows), tags + len(labels), rows[-1]["seq"]
            tell(done, total)
        self._note(conn, Deed("rebuild", count=done))
        return {"words": done, "tags": tags}

    def _recount(self, conn: sa.Connection) -> None:
        """Count anew what helped and what hindered, from the log of recalls."""
        conn.execute(memory_stats.update().values(helped=0, hindered=0))
        counts: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        told = sa.select(recall_events).where(recall_events.c.detail.not_like(PENDING))
        for row in conn.execute(told.order_by(recall_events.c.agent, recall_events.c.id)).mappings():
            for id, (helped, hindered) in to_credit(self._opened(conn, recall_events, row)).counts.items():
                counts[row["agent"], id][0] += helped
                counts[row["agent"], id][1] += hindered
        if counts:
            rows = [{"agent": a, "id": id, "helped": g, "hindered": b} for (a, id), (g, b) in sorted(counts.items())]
            conn.execute(_COUNT, rows)

    def _drop_damaged_vectors(self, conn: sa.Connection) -> None:
        v = memory_index.c
        for row in [*self._unsound(conn), *conn.execute(_INCOMPLETE)]:
            where = (v.agent == row.agent, v.memory_id == row.memory_id)
            place = (v.namespace == row.namespace, v.embedder == row.embedder)
            conn.execute(memory_index.delete().where(*where, *place))  # all passages, so that it counts as missing
        self._vectors_went(conn)

    # Copying -----------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """The tables to copy, in an order in which they can be filled."""
        return list(COPIED)

    def page(self, table: str, after: Cells | None, limit: int) -> list[Cells]:
        """The next rows of a table in the order of its key, after a row or from the start."""
        columns = COPIED[table].primary_key.columns
        rows = sa.select(COPIED[table]).order_by(*columns).limit(limit)
        if table == settings.name:
            rows = rows.where(settings.c.name.not_in([COPYING, SPACE, CRYPT]), ~settings.c.name.startswith(PUSHED))

        def look(conn: sa.Connection) -> list[Cells]:
            chosen = rows
            if after is not None:
                last = self._stored_key(conn, COPIED[table], after)
                chosen = rows.where(sa.tuple_(*columns) > sa.tuple_(*(last[column.name] for column in columns)))
            return [self._whole(conn, COPIED[table], row) for row in conn.execute(chosen).mappings()]

        return [] if table == agent_keys.name else self._look(None, look)  # a copy has keys of its own

    def begin_copy(self, source: str) -> None:
        """Get ready for a copy of `source`. Raises `Conflict` if anything else is here."""
        self._transact(None, lambda conn: self._begin_copy(conn, source))

    def _begin_copy(self, conn: sa.Connection, source: str) -> None:
        begun = conn.scalar(sa.select(settings.c.value).where(settings.c.name == COPYING))
        used = conn.scalar(sa.select(agents.c.agent).limit(1)) or conn.scalar(_USED)
        if begun != source and used is not None:
            raise Conflict("the target is not empty; name a new database, or go on with the copy begun there")
        conn.execute(_SET, {"name": COPYING, "value": source})

    def take(self, table: str, rows: Sequence[Cells]) -> None:
        """Insert the rows that are not there yet, in one transaction."""
        self._transact(None, lambda conn: self._take(conn, table, rows))

    def _take(self, conn: sa.Connection, table: str, rows: Sequence[Cells]) -> None:
        columns = COPIED[table].primary_key.columns
        stored = [self._stored_key(conn, COPIED[table], row) for row in rows]
        keys = [tuple(row[column.name] for column in columns) for row in stored]
        there = sa.select(*columns).where(sa.tuple_(*columns).in_(keys))
        known = {tuple(row) for row in conn.execute(there)}
        fresh: list[Row] = [dict(row) for key, row in zip(keys, rows, strict=True) if key not in known]
        self._insert(conn, COPIED[table], fresh)
        if table == memories.name:
            found = [to_memory({**row, **_UNSEEN}) for row in fresh]
            numbered = zip((row["seq"] for row in fresh), found, strict=True)
            self._index(conn, [(m.agent, seq, memory_terms(m)) for seq, m in numbered])
        if table == memory_index.name:
            self._vectors_came(fresh)

    def end_copy(self) -> None:
        """Go on from where the copied database was."""
        numbered = (memories, memory_evidence, memory_index, tombstones, events)
        highest = [sa.select(sa.func.max(table.c.seq)) for table in numbered]
        self._transact(None, lambda conn: self._end_copy(conn, max(conn.scalar(last) or 0 for last in highest)))

    def _end_copy(self, conn: sa.Connection, last: int) -> None:
        self._go_on_from(conn, last)
        conn.execute(settings.delete().where(settings.c.name == COPYING))

    def tally(self, table: str) -> Tally:
        """Count and sum up a table."""
        return tally(self._all_rows(table))

    def _all_rows(self, table: str) -> Iterator[Cells]:
        last = None
        while rows := self.page(table, last, PAGE):
            yield from rows
            last = rows[-1]

    # Sealed rows -------------------------------------------------------------------------------------

    def _unlock(self, name: str, wanted: str) -> None:
        """Find out how the database is encrypted, and get ready for it; a new one becomes as it is `wanted`.

        Raises `StoreError` if the key is missing or another one, or the rows are not encrypted and should be.
        """
        with self._read(None) as conn:
            state = sealing.unlocked(sealing.crypt_of(conn), self._cipher, name)
            used = conn.scalar(sa.select(agents.c.agent).limit(1)) is not None
        if state == sealing.SEALING and wanted != CONVERTING:
            raise StoreError(f"{name} was being encrypted, and that is not done; `engram crypt init` goes on with it")
        if not state and wanted == "fields":
            if used:
                raise StoreError(f"{name} has memories that are not encrypted; `engram crypt init` does that")
            if self._cipher is None:
                raise StoreError("to encrypt, a key is needed; `engram crypt init` makes one")
            self._encrypt(self._cipher, READY, used=False)
            state = READY
        if state and self._remote is not None:
            raise StoreError(
                f"{name} is encrypted, and a vector database would have its vectors readable; unset `vectors`"
            )
        if state and self._cipher is not None:
            self._sealer = Sealer(self._cipher, self._sources.now)

    def _encrypt(self, cipher: Cipher, state: str, *, used: bool = True) -> None:
        """Say in the database that all of it is encrypted, or is about to be; of a new one nothing is put on record."""

        def work(conn: sa.Connection) -> None:
            self._announce(conn, cipher, state)
            self._guard_rows(conn)
            if used:
                self._note(conn, Deed("encrypt", target=cipher.identity, detail={"state": state}))

        self._transact(None, work)

    def _announce(self, conn: sa.Connection, cipher: Cipher, state: str = READY) -> None:
        """Tell everybody who has the database open that keys have changed; waits until nobody writes."""
        conn.execute(_SET, {"name": CRYPT, "value": sealing.announced(cipher, state)})

    def encryption(self) -> Mapping[str, str | int]:
        """How the database is encrypted, and with how many keys."""
        if self._sealer is None:
            return {"mode": "none"}
        found = self._look(None, resealing.key_ids)
        facts: dict[str, str | int] = {"mode": "fields", "master": self._sealer.cipher.identity}
        facts |= {"agents": len(found.keys() - {sealing.EVERYBODY}), "keys": sum(map(len, found.values()))}
        return facts | {"unfinished": sum(len(ids) > KEYS for ids in found.values())}

    def encrypt(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Seal every row of a database that is not encrypted, or go on with it; how many rows there are.

        Nobody else should have it open: they cannot write from the beginning on. Raises `StoreError` without a key.
        """
        if self._cipher is None:
            raise StoreError("to encrypt, a key is needed; `engram crypt init` makes one")
        if self._sealer is None:
            self._encrypt(self._cipher, sealing.SEALING)
            self._sealer = Sealer(self._cipher, self._sources.now)
        total, done = self._look(None, resealing.total), 0
        for agent in self._look(None, resealing.everybody):
            for count in resealing.renew_all(partial(self._transact, None), agent, self._seal_plain):
                done += count
                if progress is not None:
                    progress(done, max(total, done))
        self._transact(None, lambda conn: resealing.renew_settings(conn, self._seal_plain))
        self._scrub()
        self._encrypt(self._cipher, READY)
        return done

    def _seal_plain(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row | None:
        """What a plain row shall be; its words and tags are renewed along."""
        if not resealing.is_plain(table, row):
            return None
        if table is memories:
            self._reindex(conn, to_memory({**row, **_UNSEEN}), row["seq"])
        elif table is events:
            to_event(row)
        return self._shut(conn, table, dict(row))

    def _reindex(self, conn: sa.Connection, memory: Memory, seq: int) -> None:
        tagged = (memory_tags.c.agent == memory.agent, memory_tags.c.memory_id == memory.id)
        conn.execute(memory_tags.delete().where(*tagged), execution_options=LATER)
        self._insert(conn, memory_tags, _tags(memory))
        self._unindex_words(conn, memory.agent, [seq])
        self._index(conn, [(memory.agent, seq, memory_terms(memory))])

    def _scrub(self) -> None:
        """Leave nothing of what rows were before in the database's files, as far as that is in our hands."""

    def rekey(
        self, agent: str | None = None, *, index: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Give agents, or one of them, new data keys, and seal every row with them; how many rows were looked at.

        It can be stopped and goes on when it is started again; meanwhile rows under either key can be read. `index`
        renews the keys of masks and words, too, for each agent in one transaction that others have to wait for.
        """
        sealer, done = self._need_sealer(), 0
        total = self._look(None, resealing.total)
        chosen = [*self._look(None, resealing.key_ids)] if agent is None else [Scope(agent).agent]
        for name in chosen:
            self._transact(None, partial(self._renew_key, sealer, name))
            for count in resealing.renew_all(partial(self._transact, None), name, self._seal_anew):
                done += count
                if progress is not None:
                    progress(done, max(total, done))
            self._transact(None, partial(self._retire_keys, sealer, name))
            if index:
                self._transact(None, partial(self._renew_index, sealer, name))
        return done

    def _need_sealer(self) -> Sealer:
        if self._sealer is None:
            raise StoreError("the fields of this database are not encrypted; `engram crypt init` does that")
        return self._sealer

    def _renew_key(self, sealer: Sealer, agent: str, conn: sa.Connection) -> None:
        """Add a data key, unless an earlier run did, and has not finished."""
        self._announce(conn, sealer.cipher)
        keys = sealer.read(conn, agent)
        if keys is None:
            raise NotFound(f"{agent} has no key; it has never stored anything")
        if len(keys.data) == 1:
            sealer.add_key(conn, agent, f"d{sealing.number_of(keys.current) + 1}")

    def _seal_anew(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row | None:
        stored = {**row, "vector": self._unpacked(row["vector"])} if table is memory_index else row
        keys = self._need_sealer().keys(conn, row.get("agent", sealing.EVERYBODY))
        return None if keys.is_current(table.name, stored) else self._shut(conn, table, self._opened(conn, table, row))

    def _retire_keys(self, sealer: Sealer, agent: str, conn: sa.Connection) -> None:
        """Remove the data keys that no row is sealed with any more."""
        if agent == sealing.EVERYBODY:
            resealing.renew_settings(conn, self._seal_anew)
        self._announce(conn, sealer.cipher)
        keys = sealer.keys(conn, agent)
        resealing.drop_keys(conn, agent, resealing.outdated(keys))
        self._note(conn, Deed("rekey", agent=agent, target=keys.current))

    def _renew_index(self, sealer: Sealer, agent: str, conn: sa.Connection) -> None:
        """Renew the key of an agent's masks and words, and all that was made with it."""
        self._announce(conn, sealer.cipher)
        old = sealer.keys(conn, agent)
        sealer.add_key(conn, agent, f"x{sealing.number_of(old.index_id) + 1}")
        new = sealer.read(conn, agent) or old

        def renew(conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row | None:
            if table not in {memories, memory_keys, events}:
                return None
            plain = old.open(table.name, row)
            if table is memories:
                with sealer.using(conn, new):
                    self._reindex(conn, to_memory({**plain, **_UNSEEN}, verified=True), row["seq"])
            return new.shut(table.name, plain)

        for _ in resealing.renew_all(lambda work: work(conn), agent, renew):
            pass
        resealing.drop_keys(conn, agent, [old.index_id])
        self._note(conn, Deed("rekey", agent=agent, target=new.index_id))

    def rotate(self, cipher: Cipher) -> int:
        """Put the database under another master key, in one transaction; how many keys it opens."""
        sealer = self._need_sealer()

        def work(conn: sa.Connection) -> int:
            self._announce(conn, cipher)
            renewed = resealing.rewrap(conn, partial(sealing.rewrapped, sealer.cipher, cipher))
            self._note(conn, Deed("rotate", target=cipher.identity, count=renewed))
            return renewed

        number = self._transact(None, work)
        self._cipher, self._sealer = cipher, Sealer(cipher, self._sources.now)
        return number

    def destroy(self, scope: Scope) -> Mapping[str, int]:
        """Remove an agent's keys and all its rows, in one transaction; how many of each table.

        What is left of the rows in free space and logs cannot be opened any more. Backups have their own keys.
        """
        self._need_sealer()
        return self.vacate(scope)

    def vacate(self, scope: Scope) -> Mapping[str, int]:
        """Remove all that is kept of a scope, its keys and its name too, in one transaction; how many of each table.

        Raises `StoreError`, and nothing has gone from here, if the vector database is away.
        """
        shelves = self._shelves(scope)
        if self._remote is not None:
            for shelf in shelves:
                self._remote.clear(self._place_of(shelf))

        def work(conn: sa.Connection) -> Mapping[str, int]:
            if self._sealer is not None:
                self._announce(conn, self._sealer.cipher)
            seqs = conn.scalars(sa.select(memories.c.seq).where(memories.c.agent == scope.agent)).all()
            for first in range(0, len(seqs), PAGE):
                self._unindex_words(conn, scope.agent, seqs[first : first + PAGE])
            gone = resealing.destroy(conn, scope.agent)
            for shelf in shelves:
                conn.execute(_UNSET, {"name": _pushed_name(shelf)})
            self._vectors_went(conn)
            self._note(conn, Deed("destroy", agent=scope.agent, count=gone["memories"]))
            return gone

        with self._touching:
            self._touches = {key: value for key, value in self._touches.items() if key[0] != scope.agent}
            self._shown = {key: value for key, value in self._shown.items() if key[0] != scope.agent}
        return self._transact(None, work)

    @abstractmethod
    def _guard_rows(self, conn: sa.Connection) -> None:
        """Make the database refuse plain rows from now on, whoever writes them."""

    def _crypt(self, conn: sa.Connection, *, writing: bool = False) -> str | None:
        """What the database says about its encryption."""
        return sealing.crypt_of(conn, writing=writing)

    def _keyring(self, conn: sa.Connection, scope: Scope) -> Keys:
        if self._sealer is None:
            raise StoreError("this database is not encrypted")
        return self._sealer.keys(conn, scope.agent)

    def _terms(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> list[str]:
        """What stands for words in the index."""
        return list(terms) if self._sealer is None else self._sealer.keys(conn, scope.agent).terms(terms)

    def _words_of(self, conn: sa.Connection, agent: str, terms: list[str]) -> list[str]:
        """What the index holds of a row."""
        return terms if self._sealer is None else self._sealer.keys(conn, agent, make=True).words(terms)

    def _index(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Make rows (agent, seq, terms) findable by their terms."""
        self._index_words(conn, [(agent, seq, self._words_of(conn, agent, terms)) for agent, seq, terms in rows])

    def _named(self, conn: sa.Connection, scope: Scope, speakers: list[str]) -> list[str]:
        if self._sealer is None:
            return speakers
        keys = self._sealer.keys(conn, scope.agent)
        return sorted(keys.unmask("memories", "speaker", name) for name in speakers)

    def _insert(self, conn: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert plain rows, sealed if need be."""
        insert(conn, table, rows if self._sealer is None else [self._shut(conn, table, row) for row in rows])

    def _shut(self, conn: sa.Connection, table: sa.Table, row: Row) -> Row:
        """A plain row as it is stored."""
        if self._sealer is None or not sealing.concerns(table.name, row):
            return row
        shut = self._sealer.keys(conn, row.get("agent", sealing.EVERYBODY), make=True).shut(table.name, row)
        return shut | {"vector": self._packed(shut["vector"])} if table is memory_index else shut

    def _opened(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row:
        """A stored row, readable. Raises `StoreCorrupt` if it is not what was stored."""
        if self._sealer is None or not sealing.concerns(table.name, row):
            return dict(row)
        stored = {**row, "vector": self._unpacked(row["vector"])} if table is memory_index else row
        agent = row.get("agent", sealing.EVERYBODY)
        return self._sealer.of(conn, agent, table.name, stored).open(table.name, stored)

    def _whole(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row:
        """A stored row as a database that is not encrypted has it."""
        plain = self._opened(conn, table, row)
        if self._sealer is not None and table is memories:
            plain["digest"] = seal(plain)
        if self._sealer is not None and table is events:
            plain["digest"] = seal_event(plain)
        return plain

    def _stored_key(self, conn: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The key of a plain row as it is stored."""
        column = {memory_tags.name: "tag", memory_keys.name: "key"}.get(table.name)
        if self._sealer is None or column is None:
            return row
        keys = self._sealer.keys(conn, str(row["agent"]), make=True)
        return {**row, column: keys.mask(table.name, column, str(row[column]))}

    def _labels(self, conn: sa.Connection, memory: Memory) -> list[Row]:
        return [self._shut(conn, memory_tags, row) for row in _tags(memory)]

    def _is_sound(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> bool:
        """Whether a row that has a digest is what was written."""
        if self._sealer is None:
            return bool(row["digest"] == (seal if table is memories else seal_event)(row))
        try:
            self._opened(conn, table, row)
        except StoreCorrupt:
            return False
        return True

    def _to_memory(self, opened: Mapping[Any, Any]) -> Memory:
        return to_memory(opened, verified=self._sealer is not None)

    def _memory(self, conn: sa.Connection, row: Mapping[Any, Any]) -> Memory:
        """The memory in a stored row."""
        return to_memory(row) if self._sealer is None else self._to_memory(self._opened(conn, memories, row))

    def _reading(self, conn: sa.Connection) -> history.Read:
        """How a stored event is read."""
        if self._sealer is None:
            return to_event
        return lambda row: to_event(self._opened(conn, events, row), verified=True)

    def _packed(self, vector: bytes) -> bytes:
        """A sealed vector as the database can hold it."""
        return vector

    def _unpacked(self, vector: bytes) -> bytes:
        """The inverse of `_packed`."""
        return vector

    def _vector(self, conn: sa.Connection, row: Any) -> bytes:
        """The vector in a row of `memory_index`; what is damaged is none."""
        if self._sealer is None:
            return bytes(row.vector)
        try:
            place = (row.memory_id, row.namespace, row.embedder, str(row.passage))
            return self._sealer.vector(conn, row.agent, place, self._unpacked(row.vector))
        except StoreCorrupt:
            return b""

    def _mirrored(self, conn: sa.Connection, chosen: sa.Select[Any]) -> list[_Mirrored]:
        """The vectors in rows of `memory_index`, readable."""
        return [self._readable(conn, row) for row in conn.execute(chosen)]

    def _readable(self, conn: sa.Connection, row: Any) -> _Mirrored:
        return _Mirrored(row.memory_id, row.passage, row.seq, row.dim, self._vector(conn, row))

    # Connections -------------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        with self._engine.connect() as conn:
            try:
                yield conn
            finally:
                if self._closed and not conn.invalidated:  # meanwhile, by another thread: the pool is gone
                    conn.detach()

    @contextmanager
    def _read(self, scope: Scope | None) -> Iterator[sa.Connection]:
        """One consistent view of the database, about one scope, or about all of them."""
        self._guard()
        try:
            with self._connection() as conn, conn.begin():
                self._enter(conn, scope)
                if self._sealer is not None:
                    self._sealer.begin(conn, self._crypt(conn))
                yield conn
        except sa.exc.DBAPIError as error:
            raise self._translate(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreBusy(
                f"too many threads use this memory at once ({error.args[0]}); use fewer, or try again"
            ) from error

    def _look(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """The result of some reading in one transaction; a store may try it again."""
        with self._read(scope) as conn:
            return work(conn)

    def _transact(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """The result of some work in one transaction; a store may try it again."""
        with self._write(scope) as conn:
            return work(conn)

    @contextmanager
    def _write(self, scope: Scope | None) -> Iterator[sa.Connection]:
        """One durable transaction: committed when the block ends, undone when it raises."""
        self._guard()
        ledger, safely = auditing.Ledger(), False
        try:
            with self._connection() as conn:
                conn.execution_options(**{WRITE: True, LEDGER: ledger})
                with conn.begin():
                    self._enter(conn, scope)
                    if self._sealer is not None:
                        self._sealer.begin(conn, self._crypt(conn, writing=True))
                    yield conn
                    self._finish(conn)
                safely = True
        except sa.exc.DBAPIError as error:
            raise self._translate(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreBusy(
                f"too many threads use this memory at once ({error.args[0]}); use fewer, or try again"
            ) from error
        finally:
            if ledger.shown:
                self._arrived(ledger.shown, safely=safely)
        self._after_write()

    def _guard(self) -> None:
        if self._closed:
            raise StoreClosed("this memory was closed; open it again with engram.open(...)")
        if self._pid != os.getpid():
            self._after_fork()
            self._pid = os.getpid()

    def _after_fork(self) -> None:
        """Leave the parent's connections, locks and pending counts alone and start with new ones."""
        self._touching, self._touches, self._shown, self._showing = threading.Lock(), {}, {}, {}
        self._engine.dispose(close=False)

    def close(self) -> None:
        """Write what is pending and release everything; calling it twice is harmless."""
        if self._closed:
            return
        if self._pid != os.getpid():
            self._after_fork()
        try:
            if self._touches or self._shown:
                self._flush()
        except StoreError as error:  # only statistics are lost, and whoever closes cannot mend it
            _log.warning("some access counts were not written: %s", error)
        finally:
            self._closed = True
            self._engine.dispose()
            if self._remote is not None:
                self._remote.close()


def conditions(scope: Scope, where: Filter) -> list[sa.ColumnElement[bool]]:
    """The WHERE clause of a filter; the scope always leads it."""
    m = memories.c
    clauses: list[sa.ColumnElement[bool]] = [m.agent == scope.agent]
    if where.kinds:
        clauses.append(m.kind.in_(sorted(where.kinds)))
    for tag in sorted(where.tags):
        t = memory_tags.c
        clauses.append(sa.exists().where(t.agent == scope.agent, t.memory_id == m.id, t.tag == tag))
    if where.since is not None:
        clauses.append(m.happened_at >= micros(where.since))
    if where.until is not None:
        clauses.append(m.happened_at < micros(where.until))
    if where.session is not None:
        clauses.append(m.session == where.session)
    if where.context_key is not None:
        clauses.append(m.context_key == where.context_key)
    if where.as_of is not None:
        moment = micros(where.as_of)
        clauses += [m.valid_from <= moment, sa.or_(m.valid_until.is_(None), m.valid_until > moment)]
    if where.current is not None:
        moment = micros(where.current)
        clauses.append(sa.or_(m.valid_from <= moment, m.valid_from <= m.created_at))
        clauses.append(sa.or_(m.valid_until.is_(None), m.valid_until > moment))
    return clauses


def insert(conn: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert rows, if there are any."""
    if rows:
        conn.execute(table.insert(), rows, execution_options=LATER)


def storable(values: Sequence[str]) -> list[str]:
    """The values that a database can hold at all; no row has any other."""
    return [value for value in values if isinstance(value, str) and unstorable(value) is None]


def sound(dims: Sequence[int], vectors: Sequence[bytes]) -> Iterator[tuple[list[int], Matrix]]:
    """Which of these are vectors of length 1, of as many dimensions as they should be; for each dimension a matrix."""
    for dim in set(dims):
        which = [n for n, vector in enumerate(vectors) if dims[n] == dim and len(vector) == 4 * dim]
        if not which:
            continue
        matrix = np.frombuffer(b"".join([vectors[n] for n in which]), dtype="<f4").reshape(len(which), -1)
        fine = units(matrix)
        if fine.all():
            yield which, matrix
        elif fine.any():
            yield np.array(which)[fine].tolist(), matrix[fine]


def _without_vector(namespace: str, embedder: str) -> sa.ColumnElement[bool]:
    v = memory_index.c
    return ~sa.exists().where(
        v.agent == memories.c.agent,
        v.memory_id == memories.c.id,
        v.namespace == namespace,
        v.embedder == embedder,
    )


def _tags(memory: Memory) -> list[Row]:
    return [{"agent": memory.agent, "memory_id": memory.id, "tag": tag} for tag in dict.fromkeys(memory.tags)]


def _vectors(id: str, vectors: Sequence[Placed]) -> list[Row]:
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


def _pushed_name(shelf: Shelf) -> str:
    """The setting that says how much of a shelf the vector database has."""
    return PUSHED + digest(shelf.scope.agent, shelf.namespace, shelf.embedder)
