"""Memories in SQL tables: add, read, search, change and delete."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa

from engram.clock import micros
from engram.errors import Conflict, Hint, NotFound
from engram.model import ForgetReceipt, Memory, Receipt
from engram.ports import AuditAction, Changes, Entry, Event, Filter, Match, Query, RankingInput, Scope, TermCounts
from engram.ports.arguments import refuse_foreign
from engram.stores import audit_entries, rekey
from engram.stores.rows import Row, memory_terms, tag_rows, to_row, vector_rows
from engram.stores.rules import (
    MERGED,
    annotated,
    evidence,
    fingerprint,
    forgotten,
    key_receipt,
    merged,
    superseded,
)
from engram.stores.schema import agents, events, memories, memory_evidence, memory_index, memory_keys, memory_tags
from engram.stores.sql.events import SqlEvents
from engram.stores.sql.mirror import VectorMirror, pushed_name
from engram.stores.sql.remote_vectors import VectorSync
from engram.stores.sql.tables import HYDRATE, LATER, PAGE, UNSET, Tables, storable
from engram.system import batched
from engram.text.terms import query_terms

_BURY = sa.text(
    "INSERT INTO tombstones (agent, memory_id, seq, at, passages) VALUES (:agent, :id, :seq, :at, :passages) "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET seq = excluded.seq, at = excluded.at, passages = CASE "
    "WHEN tombstones.passages > excluded.passages THEN tombstones.passages ELSE excluded.passages END"
).execution_options(**LATER)


@dataclass(slots=True)
class _Batch:
    """The rows to write for a batch of entries, computed before the first is inserted."""

    fresh: dict[str, tuple[int, Memory, str | None]] = field(default_factory=dict)
    changed: dict[str, tuple[int, Memory, str | None]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    keys: list[Row] = field(default_factory=list)
    evidence: list[Row] = field(default_factory=list)
    vectors: list[Row] = field(default_factory=list)

    def of(self, id: str) -> dict[str, tuple[int, Memory, str | None]]:
        """Return the dictionary with a known memory: those new in this batch, or those changed."""
        return self.fresh if id in self.fresh else self.changed


class Memories:
    """Add, read, search, change and delete memories (`ports.MemoryStore` and others)."""

    def __init__(self, tables: Tables, events: SqlEvents, vectors: VectorMirror, remote: VectorSync | None) -> None:
        self._tables = tables
        self._events = events
        self._vectors = vectors
        self._remote = remote

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """Return one memory per id, in order; `None` for an id that is not in this scope."""
        self._tables.guard()
        if not ids:
            return []
        found = self._tables.look(
            scope, lambda conn: {memory.id: memory for memory in self._tables.fetch_memories(conn, scope, ids)}
        )
        return [found.get(id) for id in ids]

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first, or newest first without words and vector; filtered before the limit is applied."""
        if query.words is None and query.near is not None and self._remote is not None:
            return self._remote.search(scope, query.near, query)
        return self._tables.look(scope, partial(self._search, scope, query))

    def _search(self, scope: Scope, query: Query, conn: sa.Connection) -> list[Match]:
        query = self._tables.codec.query(conn, scope, query)
        if query.words is not None:
            terms = self._tables.codec.terms(conn, scope, query_terms(query.words))
            return self._tables.search_words(conn, scope, terms, query) if terms else []
        if query.near is not None:
            return self._tables.search_vectors(conn, scope, query.near, query)
        newest = (
            sa.select(memories.c.id)
            .where(*self._tables.conditions(scope, query))
            .order_by(memories.c.happened_at.desc(), memories.c.seq.desc())
            .limit(query.limit)
            .offset(query.offset)
        )
        return [Match(id, 0.0) for id in conn.scalars(newest)]

    def versions(self, scope: Scope, where: Filter) -> Mapping[str, int]:
        """The id of every memory that passes, and its version."""

        def look(conn: sa.Connection) -> dict[str, int]:
            query = self._tables.codec.query(conn, scope, Query(where=where))
            found = sa.select(memories.c.id, memories.c.version).where(*self._tables.conditions(scope, query))
            return {row.id: row.version for row in conn.execute(found)}

        return self._tables.look(scope, look)

    def speakers(self, scope: Scope) -> list[str]:
        """Return the names of speakers; the first few hundred, if there are more."""
        tables = self._tables
        return tables.look(scope, lambda conn: tables.codec.speakers(conn, scope, tables.speakers(conn, scope)))

    def neighbours(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[RankingInput]:
        """Return these memories and those up to `reach` before and after each in its session, once, in any order."""
        tables = self._tables

        def look(conn: sa.Connection) -> list[RankingInput]:
            read = partial(tables.neighbours, conn, scope, storable(ids), reach)
            return tables.codec.ranking_inputs(conn, scope, terms, read)

        return tables.look(scope, look) if ids else []

    def term_counts(self, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """Count the memories of a scope, and those that hold each term."""
        tables = self._tables

        def look(conn: sa.Connection) -> TermCounts:
            return tables.codec.term_counts(conn, scope, terms, partial(tables.term_counts, conn, scope))

        return tables.look(scope, look)

    def agents(self) -> list[str]:
        """Return every agent that ever stored something, by name."""
        return self._tables.look(None, lambda conn: sorted(conn.scalars(sa.select(agents.c.agent))))

    def derived(self, ids: Collection[str]) -> list[tuple[Scope, str]]:
        """Return the memories of any scope that name one of these as a source."""
        m, sought = memories.c, frozenset(ids)
        columns = (memories,) if self._tables.codec.encrypted else (m.agent, m.id, m.sources)
        citing = sa.select(*columns).where(m.sources != "[]")

        def look(conn: sa.Connection) -> list[tuple[Scope, str]]:
            found = (self._tables.codec.decrypt_row(conn, memories, row) for row in conn.execute(citing).mappings())
            return [(Scope(row["agent"]), row["id"]) for row in found if sought & set(json.loads(row["sources"]))]

        return self._tables.look(None, look) if ids else []

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one durable transaction; return one receipt per entry, in order."""
        self._tables.guard()
        if not entries:
            return []
        refuse_foreign(scope, entries)
        return self._tables.transact(scope, partial(self._add, scope, entries))

    def preview_add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Return the receipts that `add` would give now, in order, if no id is taken; store nothing."""
        self._tables.guard()
        refuse_foreign(scope, entries)

        def look(conn: sa.Connection) -> list[Receipt]:
            keys, batch = self._known_keys(conn, scope, entries), _Batch()
            twins = self._known_twins(conn, scope, entries, lock=False)
            return [self._decide(scope, entry, 0, keys, twins, batch) for entry in entries]

        return self._tables.look(scope, look) if entries else []

    def _add(self, scope: Scope, entries: Sequence[Entry], conn: sa.Connection) -> list[Receipt]:
        numbers = iter(self._tables.enrol(conn, scope, len(entries) + sum(len(entry.vectors) for entry in entries)))
        keys = self._known_keys(conn, scope, entries)
        twins = self._known_twins(conn, scope, entries)
        batch = _Batch()
        receipts = [
            self._decide(scope, entry, seq, keys, twins, batch)
            for entry, seq in zip(entries, numbers, strict=False)  # the numbers for vectors remain
        ]
        tables, fresh = self._tables, batch.fresh.values()
        tables.refuse_other_dimensions(conn, batch.vectors)
        for seq, memory, merge_key in batch.changed.values():
            self._rewrite(conn, memory, seq, merge_key)
        tables.insert(conn, memories, [to_row(memory, seq, merge_key) for seq, memory, merge_key in fresh])
        tables.insert(conn, memory_tags, [row for _, memory, _ in fresh for row in tag_rows(memory)])
        tables.index_memories(conn, [(scope.agent, seq, memory_terms(memory)) for seq, memory, _ in fresh])
        tables.insert(conn, memory_keys, batch.keys)
        tables.insert(conn, memory_evidence, batch.evidence)
        tables.insert(conn, memory_index, [row | {"seq": next(numbers)} for row in batch.vectors])
        tables.vectors_added(batch.vectors)
        if batch.events:
            self._events.insert(conn, scope, batch.events)
        tables.note(conn, audit_entries.wrote(scope, entries, receipts))
        return receipts

    def _known_keys(self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry]) -> dict[str, tuple[str, str]]:
        table, keys = memory_keys.c, [str(entry.key) for entry in entries if entry.key is not None]
        if not keys:
            return {}
        keys = [self._tables.codec.mask(conn, scope, memory_keys, "key", key) for key in keys]
        rows = sa.select(memory_keys).where(table.agent == scope.agent, self._tables.one_of(table.key, keys))
        found = [self._tables.codec.decrypt_row(conn, memory_keys, row) for row in conn.execute(rows).mappings()]
        return {row["key"]: (row["memory_id"], row["fingerprint"]) for row in found}

    def _known_twins(
        self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry], *, lock: bool = True
    ) -> dict[str, tuple[int, Memory]]:
        keys = [entry.merge_key for entry in entries if entry.merge_key is not None]
        if not keys:
            return {}
        keys = [self._tables.codec.mask(conn, scope, memories, "merge_key", key) for key in keys]
        rows = HYDRATE.where(memories.c.agent == scope.agent, self._tables.one_of(memories.c.merge_key, keys))
        if lock:
            rows = rows.with_for_update(of=memories, key_share=True)  # others may add rows that belong to them
        found = [self._tables.codec.decrypt_row(conn, memories, row) for row in conn.execute(rows).mappings()]
        return {row["merge_key"]: (row["seq"], self._tables.codec.to_memory(row)) for row in found}

    def _decide(
        self,
        scope: Scope,
        entry: Entry,
        seq: int,
        keys: dict[str, tuple[str, str]],
        twins: dict[str, tuple[int, Memory]],
        batch: _Batch,
    ) -> Receipt:
        memory, place = entry.memory, {"agent": scope.agent}
        if entry.key is not None and entry.key in keys:
            return key_receipt(entry, *keys[entry.key])
        if entry.merge_key is not None and entry.merge_key in twins and superseded(twins[entry.merge_key][1], memory):
            known_seq, known = twins.pop(entry.merge_key)
            batch.of(known.id)[known.id] = (known_seq, known, None)
        if entry.merge_key is not None and entry.merge_key in twins:
            known_seq, known = twins[entry.merge_key]
            memory = merged(known, memory)
            batch.of(known.id)[known.id] = (known_seq, memory, entry.merge_key)
            twins[entry.merge_key] = (known_seq, memory)
            batch.evidence.append(place | evidence(known.id, seq, entry.memory))
            receipt = Receipt(id=known.id, status="merged", reason=MERGED)
        else:
            if memory.id in batch.fresh:
                raise Conflict(f"the id {memory.id} is given twice; nothing was stored. Use a new id")
            batch.fresh[memory.id] = (seq, memory, entry.merge_key)
            batch.events += entry.events
            batch.vectors += [place | row for row in vector_rows(memory.id, entry.vectors)]
            if entry.merge_key is not None:
                twins[entry.merge_key] = (seq, memory)
            receipt = Receipt(id=memory.id, status="stored")
        if entry.key is not None:
            keys[entry.key] = (memory.id, fingerprint(entry))
            key = {"key": entry.key, "memory_id": memory.id, "fingerprint": keys[entry.key][1]}
            batch.keys.append(place | key)
        return receipt

    def _rewrite(self, conn: sa.Connection, memory: Memory, seq: int, merge_key: str | None) -> None:
        """Replace the row, the tags and the terms of a memory."""
        row = self._tables.codec.encrypt_row(conn, memories, to_row(memory, seq, merge_key))
        own = (memories.c.agent == memory.agent, memories.c.id == memory.id)
        conn.execute(memories.update().where(*own).values(row), execution_options=LATER)
        self._tables.reindex(conn, memory, seq)

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """Change a memory's metadata and return the memory. Raises `NotFound`, or `Conflict` if the version differs."""
        return self._tables.transact(scope, lambda conn: self._annotate(conn, scope, id, changes, expected_version))

    def _annotate(
        self, conn: sa.Connection, scope: Scope, id: str, changes: Changes, expected_version: int | None
    ) -> Memory:
        found = HYDRATE.where(memories.c.agent == scope.agent, memories.c.id == id)
        found = found.with_for_update(of=memories, key_share=True)
        stored = conn.execute(found).mappings().one_or_none()
        if stored is None:
            raise NotFound(f"there is no memory {id}", hint=Hint("memory list"))
        row = self._tables.codec.decrypt_row(conn, memories, stored)
        known = self._tables.codec.to_memory(row)
        if expected_version is not None and expected_version != known.version:
            raise Conflict(f"memory {id} is at version {known.version}, not {expected_version}; read it again")
        update = {name: getattr(changes, name) for name in changes.__slots__}
        update = {name: value for name, value in update.items() if value is not None}
        memory = annotated(known, update)
        self._rewrite(conn, memory, row["seq"], row["merge_key"])
        self._tables.note(conn, audit_entries.annotated(scope, memory, changes))
        return memory

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Delete memories and all that belongs to them, in one transaction; return one receipt per id, in order."""
        spaces = [] if self._remote is None else self._vectors.vector_spaces(scope)
        receipts = self._tables.transact(scope, lambda conn: self._forget(conn, scope, ids))
        if self._remote is not None:
            self._remote.forget(spaces)
        return receipts

    def _forget(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        self._tables.before_forget(conn, scope, ids)
        own = (memories.c.agent == scope.agent, self._tables.one_of(memories.c.id, ids))
        rows = conn.execute(sa.select(memories.c.id, memories.c.seq).where(*own).with_for_update())
        seqs = {row.id: row.seq for row in rows}
        removed, passages = (
            self._count_belongings(conn, scope, list(seqs)),
            self._vectors.passages(conn, scope, list(seqs)),
        )
        self._tables.unindex_words(conn, scope.agent, list(seqs.values()))
        if seqs:
            conn.execute(memories.delete().where(*own), execution_options=LATER)
            at = micros(self._tables.sources.now())
            numbered = zip(seqs, self._tables.number(conn, len(seqs)), strict=True)
            graves = [{"id": id, "seq": seq, "passages": passages.get(id, 1)} for id, seq in numbered]
            conn.execute(_BURY, [{"agent": scope.agent, "at": at} | grave for grave in graves])
            self._forget_events(conn, scope, {g["id"]: g["seq"] for g in graves if "events" in removed[g["id"]]})
        receipts = [ForgetReceipt(id=id, forgotten=id in removed, removed=removed.pop(id, {})) for id in ids]
        if ids:
            self._tables.note(conn, audit_entries.forgot(scope, receipts))
        return receipts

    def _forget_events(self, conn: sa.Connection, scope: Scope, graves: Mapping[str, int]) -> None:
        """Delete the events about memories, and record an event about it."""
        if graves:
            gone = events.delete().where(
                events.c.agent == scope.agent, self._tables.one_of(events.c.subject, list(graves))
            )
            conn.execute(gone, execution_options=LATER)
            self._events.insert(
                conn, scope, [forgotten(id, seq, self._tables.sources.now()) for id, seq in graves.items()]
            )

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
                .where(owner.table.c.agent == scope.agent, self._tables.one_of(owner, ids))
                .group_by(owner)
            )
            for id, number in conn.execute(count):
                counts[id][name] = number
        return counts

    def delete_scope(self, scope: Scope) -> Mapping[str, int]:
        """Delete all data of a scope, its keys and its name too, in one transaction; return how many of each table.

        Raises `StoreError`, and deletes nothing here, if the vector database is unavailable.
        """
        spaces = self._vectors.vector_spaces(scope)
        if self._remote is not None:
            self._remote.clear(spaces)

        def work(conn: sa.Connection) -> Mapping[str, int]:
            self._tables.codec.announce(conn)
            seqs = conn.scalars(sa.select(memories.c.seq).where(memories.c.agent == scope.agent)).all()
            for some in batched(seqs, PAGE):
                self._tables.unindex_words(conn, scope.agent, some)
            gone = rekey.destroy(conn, scope.agent)
            for space in spaces:
                conn.execute(UNSET, {"name": pushed_name(space)})
            self._tables.vectors_removed(conn)
            self._tables.note(conn, AuditAction("destroy", agent=scope.agent, count=gone["memories"]))
            return gone

        self._tables.pending.drop_scope(scope)
        return self._tables.transact(None, work)
