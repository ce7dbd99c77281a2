"""Memories in SQL tables: everything that SQLite and PostgreSQL do in the same way."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from engram.clock import micros
from engram.errors import Conflict, Hint, NotFound
from engram.model import ForgetReceipt, Memory, Receipt
from engram.model.api_key import ApiKey
from engram.ports import AuditAction, Changes, Entry, Event, Filter, Match, Query, RankingInput, Scope, TermCounts
from engram.stores import audit_entries, keys, neighbours, rekey
from engram.stores.rows import Row, to_row
from engram.stores.rules import (
    MERGED,
    annotated,
    evidence,
    fingerprint,
    forgotten,
    key_receipt,
    memory_terms,
    merged,
    refuse_foreign,
    superseded,
)
from engram.stores.schema import agents, events, memories, memory_evidence, memory_index, memory_keys, memory_tags
from engram.stores.sql.checks import SqlChecks
from engram.stores.sql.copies import SqlCopies
from engram.stores.sql.encryption import SqlEncryption
from engram.stores.sql.events import SqlEvents
from engram.stores.sql.external_vectors import SqlOutside
from engram.stores.sql.mirror import pushed_name, vector_rows
from engram.stores.sql.recalls import SqlRecalls
from engram.stores.sql.tables import ENROL, HYDRATE, LATER, PAGE, UNSET, storable, tag_rows
from engram.stores.sql.trail import SqlTrail
from engram.system import batched
from engram.text.terms import query_terms

_BURY = sa.text(
    "INSERT INTO tombstones (agent, memory_id, seq, at, passages) VALUES (:agent, :id, :seq, :at, :passages) "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET seq = excluded.seq, at = excluded.at, passages = CASE "
    "WHEN tombstones.passages > excluded.passages THEN tombstones.passages ELSE excluded.passages END"
).execution_options(**LATER)


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


class SqlStore(SqlRecalls, SqlEvents, SqlOutside, SqlTrail, SqlChecks, SqlCopies, SqlEncryption):
    """A `MemoryStore` on SQL tables, with all the abilities of `engram.ports`, each from a module of its own."""

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

    def speakers(self, scope: Scope) -> list[str]:
        """Whose words are remembered; the first few hundred, if there are more."""
        return self._look(scope, lambda conn: self._named(conn, scope, neighbours.speakers(conn, scope)))

    def neighbours(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[RankingInput]:
        """These memories, and those up to `reach` before and after each in its session, each once, in any order."""

        def look(conn: sa.Connection) -> list[RankingInput]:
            if self._sealer is None:
                return self._around(conn, scope, storable(ids), reach, terms)
            keys = self._keyring(conn, scope)
            return [keys.glimpse(seen) for seen in self._around(conn, scope, storable(ids), reach, keys.terms(terms))]

        return self._look(scope, look) if ids else []

    def term_counts(self, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """How common the terms are."""

        def look(conn: sa.Connection) -> TermCounts:
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
            found = (row if self._sealer is None else self._decrypt_row(conn, memories, row) for row in rows)
            return [(Scope(row["agent"]), row["id"]) for row in found if sought & set(json.loads(row["sources"]))]

        return self._look(None, look) if ids else []

    def _fetch(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> Iterator[Memory]:
        found = HYDRATE.where(memories.c.agent == scope.agent, self._one_of(memories.c.id, ids))
        for row in conn.execute(found).mappings():
            yield self._memory(conn, row)

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one durable transaction; one receipt per entry, in order."""
        self._guard()
        if not entries:
            return []
        refuse_foreign(scope, entries)
        return self._transact(scope, lambda conn: self._add(conn, scope, entries))

    def preview_add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """The receipts that `add` would give now, in order, if no id is taken; nothing is stored."""
        self._guard()
        refuse_foreign(scope, entries)

        def look(conn: sa.Connection) -> list[Receipt]:
            keys, plan = self._known_keys(conn, scope, entries), _Plan()
            twins = self._known_twins(conn, scope, entries, lock=False)
            return [self._decide(scope, entry, 0, keys, twins, plan) for entry in entries]

        return self._look(scope, look) if entries else []

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
        self._note(conn, audit_entries.wrote(scope, entries, receipts))
        return receipts

    def _enrol(self, conn: sa.Connection, scope: Scope, count: int) -> list[int]:
        """Make sure that the agent is known; so many write numbers."""
        conn.execute(ENROL, {"agent": scope.agent, "at": micros(self._sources.now())})
        return self._number(conn, count)

    def _known_keys(self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry]) -> dict[str, tuple[str, str]]:
        table, keys = memory_keys.c, [str(entry.key) for entry in entries if entry.key is not None]
        if not keys:
            return {}
        if self._sealer is not None:
            keys = [self._keyring(conn, scope).mask("memory_keys", "key", key) for key in keys]
        rows = sa.select(memory_keys).where(table.agent == scope.agent, self._one_of(table.key, keys))
        found = [self._decrypt_row(conn, memory_keys, row) for row in conn.execute(rows).mappings()]
        return {row["key"]: (row["memory_id"], row["fingerprint"]) for row in found}

    def _known_twins(
        self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry], *, lock: bool = True
    ) -> dict[str, tuple[int, Memory]]:
        keys = [entry.merge_key for entry in entries if entry.merge_key is not None]
        if not keys:
            return {}
        if self._sealer is not None:
            keys = [self._keyring(conn, scope).mask("memories", "merge_key", key) for key in keys]
        rows = HYDRATE.where(memories.c.agent == scope.agent, self._one_of(memories.c.merge_key, keys))
        if lock:
            rows = rows.with_for_update(of=memories, key_share=True)  # what belongs to them may come meanwhile
        found = [self._decrypt_row(conn, memories, row) for row in conn.execute(rows).mappings()]
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
            plan.vectors += [place | row for row in vector_rows(memory.id, entry.vectors)]
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
        self._insert(conn, memory_tags, [row for _, memory, _ in fresh for row in tag_rows(memory)])
        self._index(conn, [(scope.agent, seq, memory_terms(memory)) for seq, memory, _ in fresh])
        self._insert(conn, memory_keys, plan.keys)
        self._insert(conn, memory_evidence, plan.evidence)
        self._insert(conn, memory_index, [row | {"seq": next(numbers)} for row in plan.vectors])
        self._vectors_came(plan.vectors)
        if plan.events:
            self._append(conn, scope, plan.events)

    def _rewrite(self, conn: sa.Connection, memory: Memory, seq: int, merge_key: str | None) -> None:
        """Replace what surrounds a memory: its row, its tags, its terms."""
        row = self._encrypt_row(conn, memories, to_row(memory, seq, merge_key))
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
            raise NotFound(f"there is no memory {id}", hint=Hint("memory list"))
        row = self._decrypt_row(conn, memories, stored)
        known = self._to_memory(row)
        if expected_version is not None and expected_version != known.version:
            raise Conflict(f"memory {id} is at version {known.version}, not {expected_version}; read it again")
        update = {name: getattr(changes, name) for name in changes.__slots__}
        update = {name: value for name, value in update.items() if value is not None}
        memory = annotated(known, update)
        self._rewrite(conn, memory, row["seq"], row["merge_key"])
        self._note(conn, audit_entries.annotated(scope, memory, changes))
        return memory

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Remove memories and all that belongs to them, in one transaction; unknown ids say so."""
        spaces = [] if self._remote is None else self._vector_spaces(scope)
        receipts = self._transact(scope, lambda conn: self._forget(conn, scope, ids))
        self._forget_remotely(spaces)
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
            self._note(conn, audit_entries.forgot(scope, receipts))
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

    def add_key(self, key: ApiKey, hash: str) -> bool:
        """Keep a key, durably; `False` if its id is taken."""

        def work(conn: sa.Connection) -> bool:
            fresh = keys.add(conn, key, hash)
            self._note(conn, AuditAction("key.add", target=key.id, count=int(fresh)))
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
                self._note(conn, AuditAction("key.revoke", target=id, count=int(known)))
            return known

        return self._transact(None, work)

    def close_keys(self, agent: str, at: datetime) -> int:
        """Take an agent out of all keys, and revoke those that open nothing else; how many keys named it."""

        def work(conn: sa.Connection) -> int:
            closed = keys.close(conn, agent, at)
            for id in closed:
                self._note(conn, AuditAction("key.close", agent=agent, target=id))
            return len(closed)

        return self._transact(None, work)

    def destroy(self, scope: Scope) -> Mapping[str, int]:
        """Remove an agent's keys and all its rows, in one transaction; how many of each table.

        What is left of the rows in free space and logs cannot be opened any more. Backups have their own keys.
        """
        self._need_sealer()
        return self.delete_scope(scope)

    def delete_scope(self, scope: Scope) -> Mapping[str, int]:
        """Remove all that is kept of a scope, its keys and its name too, in one transaction; how many of each table.

        Raises `StoreError`, and nothing has gone from here, if the vector database is away.
        """
        spaces = self._vector_spaces(scope)
        if self._remote is not None:
            for space in spaces:
                self._remote.clear(self._place_of(space))

        def work(conn: sa.Connection) -> Mapping[str, int]:
            if self._sealer is not None:
                self._announce(conn, self._sealer.cipher)
            seqs = conn.scalars(sa.select(memories.c.seq).where(memories.c.agent == scope.agent)).all()
            for some in batched(seqs, PAGE):
                self._unindex_words(conn, scope.agent, some)
            gone = rekey.destroy(conn, scope.agent)
            for space in spaces:
                conn.execute(UNSET, {"name": pushed_name(space)})
            self._vectors_went(conn)
            self._note(conn, AuditAction("destroy", agent=scope.agent, count=gone["memories"]))
            return gone

        with self._touching:
            self._touches = {key: value for key, value in self._touches.items() if key[0] != scope.agent}
            self._shown = {key: value for key, value in self._shown.items() if key[0] != scope.agent}
        return self._transact(None, work)
