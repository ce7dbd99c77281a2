"""Encrypt an SQL database by fields, and change its keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from engram.errors import NotFound, StoreCorrupt, StoreError
from engram.model import Memory
from engram.ports import AuditAction, Cipher, Event, Query, RankingInput, Scope, TermCounts
from engram.stores import rekey as resealing
from engram.stores import sealing
from engram.stores.rows import Row, seal, seal_event, to_event, to_memory
from engram.stores.schema import agents, events, memories, memory_index, memory_keys
from engram.stores.sealing import CRYPT, READY, Sealer
from engram.stores.sql.tables import SET, UNSEEN, ReadTerms, RowCodec, Tables

CONVERTING = "converting"
"""The value of `encryption` for opening a database that is to be encrypted."""
KEYS = 2
"""The keys of an agent: one for data, one for masks and words; there is one more while data is encrypted again."""


class EncryptedRows(RowCodec):
    """Encrypt and decrypt rows with the keys of each agent; vectors are packed as the database needs them."""

    encrypted = True

    def __init__(self, sealer: Sealer, pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]) -> None:
        self.sealer = sealer
        self._pack, self._unpack = pack, unpack

    def begin(self, conn: sa.Connection, setting: Callable[[], str | None]) -> None:
        """Notice changed keys when a transaction begins."""
        self.sealer.begin(conn, setting())

    def announce(self, conn: sa.Connection) -> None:
        """Notify all processes that have the database open of changed keys; waits for running writes."""
        announce(conn, self.sealer.cipher)

    def encrypt_row(self, conn: sa.Connection, table: sa.Table, row: Row) -> Row:
        """Encrypt a row."""
        if not sealing.concerns(table.name, row):
            return row
        shut = self.sealer.keys(conn, row.get("agent", sealing.EVERYBODY), make=True).shut(table.name, row)
        return shut | {"vector": self._pack(shut["vector"])} if table is memory_index else shut

    def encrypt_rows(self, conn: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> Sequence[Row]:
        """Encrypt rows."""
        return [self.encrypt_row(conn, table, row) for row in rows]

    def decrypt_row(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row:
        """Decrypt a row. Raises `StoreCorrupt` if it was changed."""
        if not sealing.concerns(table.name, row):
            return dict(row)
        stored = self.unpacked(table, row)
        return self.sealer.of(conn, row.get("agent", sealing.EVERYBODY), table.name, stored).open(table.name, stored)

    def unpacked(self, table: sa.Table, row: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Return a stored row with its encrypted vector unpacked."""
        return {**row, "vector": self._unpack(row["vector"])} if table is memory_index else row

    def plain_row(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row:
        """Return a stored row in the form of a database that is not encrypted."""
        plain = self.decrypt_row(conn, table, row)
        if table is memories:
            plain["digest"] = seal(plain)
        if table is events:
            plain["digest"] = seal_event(plain)
        return plain

    def stored_key(self, conn: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the primary key of a plain row as it is stored."""
        column = {"memory_tags": "tag", "memory_keys": "key"}.get(table.name)
        if column is None:
            return row
        keys = self.sealer.keys(conn, str(row["agent"]), make=True)
        return {**row, column: keys.mask(table.name, column, str(row[column]))}

    def is_sound(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> bool:
        """Return True if the digest of a row matches, or the row has none."""
        try:
            self.decrypt_row(conn, table, row)
        except StoreCorrupt:
            return False
        return True

    def memory(self, conn: sa.Connection, row: Mapping[Any, Any]) -> Memory:
        """Return the memory in a stored row."""
        return self.to_memory(self.decrypt_row(conn, memories, row))

    def to_memory(self, row: Mapping[Any, Any]) -> Memory:
        """Return the memory in a decrypted row."""
        return to_memory(row, verified=True)

    def event(self, conn: sa.Connection, row: Mapping[Any, Any]) -> Event:
        """Return the event in a stored row."""
        return to_event(self.decrypt_row(conn, events, row), verified=True)

    def vector(self, conn: sa.Connection, row: Any) -> bytes:
        """Return the vector in a row of `memory_index`; empty if it is damaged."""
        try:
            place = (row.memory_id, row.namespace, row.embedder, str(row.passage))
            return self.sealer.vector(conn, row.agent, place, self._unpack(row.vector))
        except StoreCorrupt:
            return b""

    def query(self, conn: sa.Connection, scope: Scope, query: Query) -> Query:
        """Return a search whose filters are masked like the rows."""
        return self.sealer.keys(conn, scope.agent).asked(query)

    def mask(self, conn: sa.Connection, scope: Scope, table: sa.Table, column: str, value: str) -> str:
        """Return the stored form of a value that is searched for."""
        return self.sealer.keys(conn, scope.agent).mask(table.name, column, value)

    def terms(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> list[str]:
        """Return the terms as the word index has them, in the same order."""
        return self.sealer.keys(conn, scope.agent).terms(terms)

    def words(self, conn: sa.Connection, agent: str, terms: list[str]) -> list[str]:
        """Return the entry of the word index for a row with these terms."""
        return self.sealer.keys(conn, agent, make=True).words(terms)

    def speakers(self, conn: sa.Connection, scope: Scope, names: list[str]) -> list[str]:
        """Decrypt names of speakers."""
        keys = self.sealer.keys(conn, scope.agent)
        return sorted(keys.unmask("memories", "speaker", name) for name in names)

    def ranking_inputs(
        self,
        conn: sa.Connection,
        scope: Scope,
        terms: Sequence[str],
        read: Callable[[Sequence[str]], list[RankingInput]],
    ) -> list[RankingInput]:
        """Read ranking inputs, decrypted."""
        keys = self.sealer.keys(conn, scope.agent)
        return [keys.ranking_input(seen) for seen in read(keys.terms(terms))]

    def term_counts(
        self, conn: sa.Connection, scope: Scope, terms: Sequence[str], count: ReadTerms[TermCounts]
    ) -> TermCounts:
        """Read term counts, by the plain terms."""
        keys = self.sealer.keys(conn, scope.agent)  # masked differently each time if the agent has no keys
        return keys.term_counts(count(keys.terms(terms)), terms)


class Encryption:
    """Encrypt a database with keys of each agent, and change these (`ports.Encrypts`)."""

    def __init__(self, tables: Tables, cipher: Cipher | None) -> None:
        self._tables = tables
        self.cipher = cipher

    def unlock(self, name: str, wanted: str, *, remote: bool) -> None:
        """Set the row codec by the encryption of the database; a new database is encrypted as `wanted`.

        Raises `StoreError` if the key is missing or wrong, or if rows are not encrypted that should be.
        """
        with self._tables.read(None) as conn:
            state = sealing.unlocked(sealing.crypt_of(conn), self.cipher, name)
            used = conn.scalar(sa.select(agents.c.agent).limit(1)) is not None
        if state == sealing.SEALING and wanted != CONVERTING:
            raise StoreError(f"{name} is only partly encrypted; run `engram crypt init` to continue")
        if not state and wanted == "fields":
            if used:
                raise StoreError(f"{name} has memories that are not encrypted; run `engram crypt init` to encrypt them")
            if self.cipher is None:
                raise StoreError("encryption needs a key; run `engram crypt init` to create one")
            self._encrypt(self.cipher, READY, used=False)
            state = READY
        if state and remote:
            raise StoreError(
                f"{name} is encrypted, but a vector database would store its vectors unencrypted; unset `vectors`"
            )
        if state and self.cipher is not None:
            self._use(self.cipher)

    def _use(self, cipher: Cipher) -> None:
        sealer = Sealer(cipher, self._tables.sources.now)
        self._tables.codec = EncryptedRows(sealer, self._tables.pack_vector, self._tables.unpack_vector)

    def _encrypt(self, cipher: Cipher, state: str, *, used: bool = True) -> None:
        """Set the state of encryption in the database; unless it is new, add an audit entry."""

        def work(conn: sa.Connection) -> None:
            announce(conn, cipher, state)
            self._tables.refuse_plain_rows(conn)
            if used:
                self._tables.note(conn, AuditAction("encrypt", target=cipher.identity, detail={"state": state}))

        self._tables.transact(None, work)

    def encryption(self) -> Mapping[str, str | int]:
        """Return how the database is encrypted, and the number of keys."""
        if not isinstance(self._tables.codec, EncryptedRows):
            return {"mode": "none"}
        found = self._tables.look(None, resealing.key_ids)
        facts: dict[str, str | int] = {"mode": "fields", "master": self._tables.codec.sealer.cipher.identity}
        facts |= {"agents": len(found.keys() - {sealing.EVERYBODY}), "keys": sum(map(len, found.values()))}
        return facts | {"unfinished": sum(len(ids) > KEYS for ids in found.values())}

    def encrypt(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Encrypt every row of a plain database, or continue an interrupted run; return how many rows there are.

        Close the database in other processes before: they cannot write any more. Raises `StoreError` without a key.
        """
        if self.cipher is None:
            raise StoreError("encryption needs a key; run `engram crypt init` to create one")
        if not self._tables.codec.encrypted:
            self._encrypt(self.cipher, sealing.SEALING)
            self._use(self.cipher)
        total, done = self._tables.look(None, resealing.total), 0
        for agent in self._tables.look(None, resealing.everybody):
            for count in resealing.renew_all(partial(self._tables.transact, None), agent, self._seal_plain):
                done += count
                if progress is not None:
                    progress(done, max(total, done))
        self._tables.transact(None, lambda conn: resealing.renew_settings(conn, self._seal_plain))
        self._tables.scrub_files()
        self._encrypt(self.cipher, READY)
        return done

    def _seal_plain(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row | None:
        """Encrypt a plain row, and index its words and tags again."""
        if not resealing.is_plain(table, row):
            return None
        if table is memories:
            self._tables.reindex(conn, to_memory({**row, **UNSEEN}), row["seq"])
        elif table is events:
            to_event(row)
        return self._tables.codec.encrypt_row(conn, table, dict(row))

    def rekey(
        self, agent: str | None = None, *, index: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Create new data keys for all agents or one, and encrypt every row with them; return how many were examined.

        It can be interrupted and continued; meanwhile rows with either key can be read. `index` also changes the keys
        of masks and words, for each agent in one transaction that other writers have to wait for.
        """
        sealer, done = self.codec().sealer, 0
        total = self._tables.look(None, resealing.total)
        chosen = [*self._tables.look(None, resealing.key_ids)] if agent is None else [Scope(agent).agent]
        for name in chosen:
            self._tables.transact(None, partial(self._renew_key, sealer, name))
            for count in resealing.renew_all(partial(self._tables.transact, None), name, self._seal_anew):
                done += count
                if progress is not None:
                    progress(done, max(total, done))
            self._tables.transact(None, partial(self._retire_keys, sealer, name))
            if index:
                self._tables.transact(None, partial(self._renew_index, sealer, name))
        return done

    def codec(self) -> EncryptedRows:
        """Return the codec of an encrypted database. Raises `StoreError` for another one."""
        if not isinstance(self._tables.codec, EncryptedRows):
            raise StoreError("the fields of this database are not encrypted; run `engram crypt init` to encrypt them")
        return self._tables.codec

    def _renew_key(self, sealer: Sealer, agent: str, conn: sa.Connection) -> None:
        """Add a data key, unless an unfinished run has done so."""
        announce(conn, sealer.cipher)
        keys = sealer.read(conn, agent)
        if keys is None:
            raise NotFound(f"{agent} has no key; it has never stored anything")
        if len(keys.data) == 1:
            sealer.add_key(conn, agent, f"d{sealing.number_of(keys.current) + 1}")

    def _seal_anew(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row | None:
        codec = self.codec()
        keys = codec.sealer.keys(conn, row.get("agent", sealing.EVERYBODY))
        if keys.is_current(table.name, codec.unpacked(table, row)):
            return None
        return codec.encrypt_row(conn, table, codec.decrypt_row(conn, table, row))

    def _retire_keys(self, sealer: Sealer, agent: str, conn: sa.Connection) -> None:
        """Delete the data keys that no row is encrypted with any more."""
        if agent == sealing.EVERYBODY:
            resealing.renew_settings(conn, self._seal_anew)
        announce(conn, sealer.cipher)
        keys = sealer.keys(conn, agent)
        resealing.drop_keys(conn, agent, resealing.outdated(keys))
        self._tables.note(conn, AuditAction("rekey", agent=agent, target=keys.current))

    def _renew_index(self, sealer: Sealer, agent: str, conn: sa.Connection) -> None:
        """Replace the index key of an agent, and all masks and words made with it."""
        announce(conn, sealer.cipher)
        old = sealer.keys(conn, agent)
        sealer.add_key(conn, agent, f"x{sealing.number_of(old.index_id) + 1}")
        new = sealer.read(conn, agent) or old

        def renew(conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row | None:
            if table not in {memories, memory_keys, events}:
                return None
            plain = old.open(table.name, row)
            if table is memories:
                with sealer.using(conn, new):
                    self._tables.reindex(conn, to_memory({**plain, **UNSEEN}, verified=True), row["seq"])
            return new.shut(table.name, plain)

        for _ in resealing.renew_all(lambda work: work(conn), agent, renew):
            pass
        resealing.drop_keys(conn, agent, [old.index_id])
        self._tables.note(conn, AuditAction("rekey", agent=agent, target=new.index_id))

    def rotate(self, cipher: Cipher) -> int:
        """Encrypt all data keys with another master key, in one transaction; return how many there are."""
        sealer = self.codec().sealer

        def work(conn: sa.Connection) -> int:
            announce(conn, cipher)
            renewed = resealing.rewrap(conn, partial(sealing.rewrapped, sealer.cipher, cipher))
            self._tables.note(conn, AuditAction("rotate", target=cipher.identity, count=renewed))
            return renewed

        number = self._tables.transact(None, work)
        self.cipher = cipher
        self._use(cipher)
        return number


def announce(conn: sa.Connection, cipher: Cipher, state: str = READY) -> None:
    """Notify all processes that have the database open of changed keys; waits for running writes."""
    conn.execute(SET, {"name": CRYPT, "value": sealing.announced(cipher, state)})
