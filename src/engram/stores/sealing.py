"""Encrypt the content columns of rows when they are written, and decrypt them when they are read.

Each agent has a data key, which encrypts ("seals") columns that are only read, and an index key, which encrypts columns
that are searched deterministically ("masks" them). Both are stored beside the rows, encrypted ("wrapped") with a master
key that is not. The digest of an encrypted row is a MAC with the index key over all stored columns, also the readable
ones; it is verified before anything is decrypted.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from engram.clock import micros
from engram.errors import StoreCorrupt, StoreError
from engram.model import Clean
from engram.ports import Cipher, Filter, Query, RankingInput, Seal, TermCounts
from engram.stores.rows import Row, event_parts, memory_parts, to_json
from engram.stores.schema import agent_keys, settings

CRYPT = "crypt"
"""The setting with the mode of encryption and the identity of the master key."""
EVERYBODY = ""
"""The name, which no agent has, whose key encrypts the settings."""
VERSION = "v1"
READY, SEALING = "ready", "sealing"
KEY_BYTES = 32

Stored = Mapping[Any, Any]
_MADE = "engram_made_keys"
_PENDING = '"helped":null'
_PACKED = ("content", "context", "tags", "metadata", "author", "sources")
_MASKED = {
    "memories": ("context_key", "session", "role", "speaker", "merge_key"),
    "memory_tags": ("tag",),
    "memory_keys": ("key",),
    "events": ("topic",),
}
_SEALED = {
    "memory_keys": ("fingerprint", ("memory_id",)),
    "memory_evidence": ("detail", ("memory_id", "seq")),
    "recall_events": ("detail", ("id",)),
    "events": ("body", ("id",)),
    "memory_index": ("vector", ("memory_id", "namespace", "embedder", "passage")),
    "settings": ("value", ("name",)),
}
"""For each table the encrypted column, and those that identify its row among others of the agent."""
MARKERS = {"memories": "content"} | {table: column for table, (column, _) in _SEALED.items()}
"""The column of each table that distinguishes an encrypted row from a plain one."""
RESEALED = ("memories", "memory_keys", "memory_evidence", "memory_index", "recall_events", "events")


@dataclass(frozen=True, slots=True)
class AgentKeys:
    """The keys of one agent; `data` has all keys that rows are encrypted with, `current` is the one for new rows."""

    agent: str
    data: Mapping[str, Seal]
    current: str
    index: Seal
    index_id: str

    def shut(self, table: str, row: Stored) -> Row:
        """Encrypt a row."""
        shut = dict(row)
        for column in _MASKED.get(table, ()):
            if shut[column]:
                shut[column] = self.mask(table, column, shut[column])
        if table == "memories":
            shut["text"] = self._cell(table, (shut["id"],), "text", shut["text"])
            packed = to_json([shut[column] for column in _PACKED])
            shut |= dict.fromkeys(_PACKED, "")
            shut["content"] = self._cell(table, (shut["id"],), "content", packed)
            shut["digest"] = self._sign(memory_parts(shut))
        elif table in _SEALED:
            column, named = _SEALED[table]
            place = tuple(str(shut[name]) for name in named)
            shut[column] = self._shut_cell(table, place, column, shut[column])
            if table == "events":
                shut["digest"] = self._sign(event_parts(shut))
        return shut

    def open(self, table: str, row: Stored) -> Row:
        """Decrypt a row that `shut` encrypted, without its digest. Raises `StoreCorrupt` if it was changed."""
        plain = dict(row)
        self.verify(table, row)
        for column in _MASKED.get(table, ()):
            if plain[column]:
                plain[column] = self.unmask(table, column, plain[column])
        if table == "memories":
            plain["text"] = self.text(row["id"], row["text"])
            packed = self._open_cell(table, (row["id"],), "content", row["content"])
            plain |= dict(zip(_PACKED, json.loads(packed), strict=True))
        elif table in _SEALED:
            column, named = _SEALED[table]
            place = tuple(str(row[name]) for name in named)
            if isinstance(row[column], bytes):
                plain[column] = self._open_bytes(table, place, column, row[column])
            else:
                plain[column] = self._open_cell(table, place, column, row[column].removeprefix(_PENDING + " "))
        return plain

    def verify(self, table: str, row: Stored) -> None:
        """Verify the digest of a row, if it has one. Raises `StoreCorrupt` if it does not match."""
        if table == "memories" and row["digest"] != self._sign(memory_parts(row)):
            raise StoreCorrupt(
                f"memory {row['id']} of {row['agent']} is damaged; `engram db check` shows what else is, "
                "and `engram db restore` brings back a backup"
            )
        if table == "events" and row["digest"] != self._sign(event_parts(row)):
            raise StoreCorrupt(
                f"an event of {row['agent']} is damaged; `engram db check` shows what else is, "
                "and `engram db restore` brings back a backup"
            )

    def text(self, id: str, stored: str) -> str:
        """Decrypt the text of a memory."""
        return self._open_cell("memories", (id,), "text", stored)

    def vector(self, place: tuple[str, ...], stored: bytes) -> bytes:
        """Decrypt the vector in a row of `memory_index`, which `place` identifies."""
        return self._open_bytes("memory_index", place, "vector", stored)

    def mask(self, table: str, column: str, value: str) -> str:
        """Return the masked form of a value that is searched for."""
        return self.index.mask(value, _about(table, self.agent, column))

    def unmask(self, table: str, column: str, masked: str) -> str:
        """Decrypt a value that `mask` encrypted."""
        return self.index.unmask(masked, _about(table, self.agent, column))

    def terms(self, terms: Iterable[str]) -> list[str]:
        """Return the masked forms of words, in the same order."""
        return [self.index.blind(term) for term in terms]

    def words(self, terms: Iterable[str]) -> list[str]:
        """Return the masked words of a row, sorted, so that their order says nothing about the text."""
        return sorted(map(self.index.blind, terms))

    def asked(self, query: Query) -> Query:
        """Return a search whose filter values are masked like the rows."""
        where = query.where
        if not (where.tags or where.session or where.context_key):
            return query
        return replace(query, where=self._masked(where))

    def _masked(self, where: Filter) -> Filter:
        def mask(column: str, value: str | None) -> str | None:
            return self.mask("memories", column, value) if value else value

        return replace(
            where,
            tags=frozenset(self.mask("memory_tags", "tag", tag) for tag in where.tags),
            session=mask("session", where.session),
            context_key=mask("context_key", where.context_key),
        )

    def ranking_input(self, seen: RankingInput) -> RankingInput:
        """Decrypt ranking input."""

        def label(column: str, value: str | None) -> str | None:
            return self.unmask("memories", column, value) if value else value

        return seen._replace(
            text=Clean(self.text(seen.id, seen.text)),
            session=label("session", seen.session),
            speaker=label("speaker", seen.speaker),
            role=label("role", seen.role),
        )

    def term_counts(self, found: TermCounts, terms: Sequence[str]) -> TermCounts:
        """Return term counts by the plain terms instead of the masked ones."""
        named = dict(zip(self.terms(terms), terms, strict=True))
        return found._replace(holders={named[term]: count for term, count in found.holders.items()})

    def is_current(self, table: str, row: Stored) -> bool:
        """Return True if a row is encrypted with the current data key."""
        stored, mark = row[MARKERS[table]], f"{VERSION}.{self.current}."
        if isinstance(stored, bytes):
            return stored.startswith(mark.encode())
        return bool(stored.removeprefix(_PENDING + " ").startswith(mark))

    def _sign(self, parts: Sequence[str]) -> str:
        return self.index.sign("\x1f".join(parts).encode("utf-8", "surrogatepass"))

    def _shut_cell(self, table: str, place: tuple[str, ...], column: str, value: Any) -> Any:
        if isinstance(value, bytes):
            return f"{VERSION}.{self.current}.".encode() + self.data[self.current].seal(
                value, _about(table, self.agent, *place, column, self.current)
            )
        pending = table == "recall_events" and _PENDING in value
        return (f"{_PENDING} " if pending else "") + self._cell(table, place, column, value)

    def _cell(self, table: str, place: tuple[str, ...], column: str, text: str) -> str:
        about = _about(table, self.agent, *place, column, self.current)
        sealed = self.data[self.current].seal(text.encode("utf-8", "surrogatepass"), about)
        return f"{VERSION}.{self.current}.{base64.b64encode(sealed).decode()}"

    def _open_cell(self, table: str, place: tuple[str, ...], column: str, cell: str) -> str:
        version, id, text = (*cell.split(".", 2), "", "")[:3]
        try:
            sealed = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            sealed = b""
        data = self._key(version, id).unseal(sealed, _about(table, self.agent, *place, column, id))
        return data.decode("utf-8", "surrogatepass")

    def _open_bytes(self, table: str, place: tuple[str, ...], column: str, cell: bytes) -> bytes:
        version, id, sealed = (*cell.split(b".", 2), b"", b"")[:3]
        name = id.decode("latin-1")
        about = _about(table, self.agent, *place, column, name)
        return self._key(version.decode("latin-1"), name).unseal(sealed, about)

    def _key(self, version: str, id: str) -> Seal:
        if version != VERSION or id not in self.data:
            raise StoreCorrupt(
                f"a value of {self.agent or 'the settings'} is encrypted with a key that is missing here; "
                "`engram db check` shows what else is damaged"
            )
        return self.data[id]


class Sealer:
    """Load and cache the keys of agents, and notice when they change."""

    def __init__(self, cipher: Cipher, now: Callable[[], datetime]) -> None:
        self.cipher = cipher
        self._now = now
        self._said = ""
        self._known: dict[str, AgentKeys] = {}

    def begin(self, conn: sa.Connection, said: str | None) -> None:
        """Drop cached keys if they were changed; called when a transaction begins, with the setting `CRYPT`.

        Raises `StoreError` if the master key was changed.
        """
        conn.info.pop(_MADE, None)
        if said == self._said:
            return
        if said is None:
            raise StoreError("this database is no longer encrypted; open it again")
        if json.loads(said)["master"] != self.cipher.identity:
            raise StoreError("the master key of this database was changed; open it again with the new one")
        self._said = said
        self._known = {}

    def keys(self, conn: sa.Connection, agent: str, *, make: bool = False) -> AgentKeys:
        """Return the keys of an agent; with `make` they are created if needed, else missing ones are a random key."""
        made: dict[str, AgentKeys] = conn.info.get(_MADE, {})
        if (known := self._known.get(agent) or made.get(agent)) is not None:
            return known
        if (keys := self.read(conn, agent)) is not None:
            self._known[agent] = keys
            return keys
        if make:
            for id in ("d1", "x1"):  # if two clients do this at once, both use the keys of the first
                self.add_key(conn, agent, id)
            if (keys := self.read(conn, agent)) is not None:
                conn.info.setdefault(_MADE, {})[agent] = keys  # for this transaction only, as it may be rolled back
                return keys
        return AgentKeys(agent, {}, "", self.cipher.lock(os.urandom(KEY_BYTES)), "")

    def of(self, conn: sa.Connection, agent: str, table: str, row: Stored) -> AgentKeys:
        """Return the keys for a row; they are read again if it was encrypted with a newer one."""
        known = self.keys(conn, agent)
        if (id := sealed_with(table, row)) and id not in known.data and agent in self._known:
            del self._known[agent]
            known = self.keys(conn, agent)
        return known

    def vector(self, conn: sa.Connection, agent: str, place: tuple[str, ...], stored: bytes) -> bytes:
        """Decrypt only the vector of a row of `memory_index`, as there are many of them."""
        return self.of(conn, agent, "memory_index", {"vector": stored}).vector(place, stored)

    def read(self, conn: sa.Connection, agent: str) -> AgentKeys | None:
        """Read the keys of an agent; those with the highest numbers are in use."""
        k = agent_keys.c
        rows = conn.execute(sa.select(k.key_id, k.wrapped).where(k.agent == agent)).all()
        if not rows:
            return None
        keys = {id: self.cipher.unwrap(wrapped, _naming(agent, id)) for id, wrapped in rows}
        seals = {id: self.cipher.lock(key) for id, key in keys.items()}
        index = max((id for id in seals if id.startswith("x")), key=number_of)
        data = {id: one for id, one in seals.items() if id.startswith("d")}
        return AgentKeys(agent, data, max(data, key=number_of), seals[index], index)

    @contextmanager
    def using(self, conn: sa.Connection, keys: AgentKeys) -> Iterator[None]:
        """Encrypt rows inside this context with these keys, which no other transaction knows yet."""
        before = self._known.pop(keys.agent, None)
        made: dict[str, AgentKeys] = conn.info.setdefault(_MADE, {})
        made[keys.agent] = keys
        try:
            yield
        finally:
            del made[keys.agent]
            if before is not None:
                self._known[keys.agent] = before

    def add_key(self, conn: sa.Connection, agent: str, id: str) -> None:
        """Create a key, unless there is one of this name."""
        wrapped = self.cipher.wrap(os.urandom(KEY_BYTES), _naming(agent, id))
        conn.execute(_ADD_KEY, {"agent": agent, "id": id, "wrapped": wrapped, "at": micros(self._now())})


def unlocked(said: str | None, cipher: Cipher | None, name: str) -> str:
    """Return the state in the setting `CRYPT`: `READY`, `SEALING`, or an empty text if the database is not encrypted.

    Raises `StoreError` if the database is encrypted with another key.
    """
    if said is None:
        return ""
    crypt = json.loads(said)
    if cipher is None:
        raise StoreError(f"{name} is encrypted; give its key by the setting `key_file`, or as ENGRAM_KEY")
    if crypt["master"] != cipher.identity:
        raise StoreError(
            f"{name} is encrypted with another key ({crypt['master']}) than the one given ({cipher.identity}); "
            "give the right one by the setting `key_file`, or as ENGRAM_KEY"
        )
    if cipher.unwrap(crypt["check"], _CHECK) != _CHECK:
        raise StoreCorrupt(
            f"the check value of the key of {name} was changed; restore a backup with `engram db restore`"
        )
    return str(crypt["state"])


def announced(cipher: Cipher, state: str) -> str:
    """Return a value for the setting `CRYPT`, different each time, so that all processes notice the change."""
    check = cipher.wrap(_CHECK, _CHECK)
    return to_json({"mode": "fields", "master": cipher.identity, "check": check, "state": state})


def rewrapped(old: Cipher, new: Cipher, agent: str, id: str, wrapped: str) -> str:
    """Encrypt a key of an agent with another master key."""
    return new.wrap(old.unwrap(wrapped, _naming(agent, id)), _naming(agent, id))


def sealed_with(table: str, row: Stored) -> str:
    """Return the name of the data key that a row is encrypted with; empty for a plain row."""
    if table not in MARKERS:
        return ""
    stored = row[MARKERS[table]]
    text = stored[:32].decode("latin-1") if isinstance(stored, bytes) else stored
    version, mark, rest = text.removeprefix(_PENDING + " ").partition(".")
    return rest.partition(".")[0] if mark and version == VERSION else ""


def number_of(id: str) -> int:
    """Return the number of a key in its name: the higher, the newer."""
    return int(id[1:])


GUARDS = {
    "memories": "substr(NEW.content, 1, 3) <> 'v1.'",
    "memory_evidence": "substr(NEW.detail, 1, 3) <> 'v1.'",
    "memory_index": "length(NEW.vector) = 4 * NEW.dim",
    "recall_events": f"substr(replace(NEW.detail, '{_PENDING} ', ''), 1, 3) <> 'v1.'",
    "events": "substr(NEW.body, 1, 3) <> 'v1.'",
}
"""SQL conditions for plain rows, which triggers refuse in an encrypted database."""
GUARDED = "this database is encrypted"


def guards() -> list[str]:
    """Return the SQLite triggers that refuse plain rows."""
    return [
        f"CREATE TRIGGER IF NOT EXISTS sealed_{table}_{way.lower()} BEFORE {way} ON {table} WHEN {plain} "
        f"BEGIN SELECT RAISE(ABORT, '{GUARDED}'); END"
        for table, plain in GUARDS.items()
        for way in ("INSERT", "UPDATE")
    ]


def sealed_setting(name: str) -> bool:
    """Return True if a setting may contain content of memories, so that it is encrypted."""
    return name not in _ABOUT_THE_DATABASE and not name.startswith("pushed:")


def concerns(table: str, row: Stored) -> bool:
    """Return True if a row has encrypted or masked columns."""
    return table in MARKERS or table in _MASKED if table != settings.name else sealed_setting(row["name"])


def crypt_of(conn: sa.Connection, *, writing: bool = False) -> str | None:
    """Read the setting `CRYPT`; with `writing`, lock it, so that a change of keys waits for this transaction."""
    named = sa.select(settings.c.value).where(settings.c.name == CRYPT)
    return conn.scalar(named.with_for_update(read=True) if writing else named)


_CHECK = b"engram key check"
_ABOUT_THE_DATABASE = frozenset({CRYPT, "embedder", "copying", "vector_space", "audit_pruning"})
_ADD_KEY = sa.text(
    "INSERT INTO agent_keys (agent, key_id, wrapped, created_at) VALUES (:agent, :id, :wrapped, :at) "
    "ON CONFLICT (agent, key_id) DO NOTHING"
)


def _naming(agent: str, id: str) -> bytes:
    return _about("agent_keys", agent, id)


def _about(*parts: str) -> bytes:
    """Return the associated data of an encrypted value; lengths keep different lists of parts apart."""
    return "".join([f"{len(part)}:{part}" for part in parts]).encode("utf-8", "surrogatepass")
