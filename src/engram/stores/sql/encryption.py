"""Encrypting a database, and giving it other keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import sqlalchemy as sa

from engram.errors import NotFound, StoreError
from engram.ports import AuditAction, Cipher, Scope
from engram.stores import rekey as resealing
from engram.stores import sealing
from engram.stores.rows import Row, to_event, to_memory
from engram.stores.schema import agents, events, memories, memory_index, memory_keys
from engram.stores.sealing import CRYPT, READY, Sealer
from engram.stores.sql.tables import SET, UNSEEN, SqlTables

CONVERTING = "converting"
"""How a database is opened that is to be encrypted."""
KEYS = 2
"""So many keys an agent has: one for data, one for masks and words; one more while data is sealed anew."""


class SqlEncryption(SqlTables):
    """Seals the rows of a database with keys of each agent (`ports.Encrypts`)."""

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
                self._note(conn, AuditAction("encrypt", target=cipher.identity, detail={"state": state}))

        self._transact(None, work)

    def _announce(self, conn: sa.Connection, cipher: Cipher, state: str = READY) -> None:
        """Tell everybody who has the database open that keys have changed; waits until nobody writes."""
        conn.execute(SET, {"name": CRYPT, "value": sealing.announced(cipher, state)})

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
            self._reindex(conn, to_memory({**row, **UNSEEN}), row["seq"])
        elif table is events:
            to_event(row)
        return self._encrypt_row(conn, table, dict(row))

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
        return (
            None
            if keys.is_current(table.name, stored)
            else self._encrypt_row(conn, table, self._decrypt_row(conn, table, row))
        )

    def _retire_keys(self, sealer: Sealer, agent: str, conn: sa.Connection) -> None:
        """Remove the data keys that no row is sealed with any more."""
        if agent == sealing.EVERYBODY:
            resealing.renew_settings(conn, self._seal_anew)
        self._announce(conn, sealer.cipher)
        keys = sealer.keys(conn, agent)
        resealing.drop_keys(conn, agent, resealing.outdated(keys))
        self._note(conn, AuditAction("rekey", agent=agent, target=keys.current))

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
                    self._reindex(conn, to_memory({**plain, **UNSEEN}, verified=True), row["seq"])
            return new.shut(table.name, plain)

        for _ in resealing.renew_all(lambda work: work(conn), agent, renew):
            pass
        resealing.drop_keys(conn, agent, [old.index_id])
        self._note(conn, AuditAction("rekey", agent=agent, target=new.index_id))

    def rotate(self, cipher: Cipher) -> int:
        """Put the database under another master key, in one transaction; how many keys it opens."""
        sealer = self._need_sealer()

        def work(conn: sa.Connection) -> int:
            self._announce(conn, cipher)
            renewed = resealing.rewrap(conn, partial(sealing.rewrapped, sealer.cipher, cipher))
            self._note(conn, AuditAction("rotate", target=cipher.identity, count=renewed))
            return renewed

        number = self._transact(None, work)
        self._cipher, self._sealer = cipher, Sealer(cipher, self._sources.now)
        return number
