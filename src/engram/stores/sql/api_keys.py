"""API keys in SQL tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from engram.clock import from_micros, micros
from engram.model.api_key import ApiKey
from engram.ports import AuditAction
from engram.stores.rows import to_json
from engram.stores.schema import api_keys
from engram.stores.sql.tables import Tables


class ApiKeys:
    """Store API keys, each with the hash of its secret (`ports.KeepsApiKeys`, `ClosesKeys`)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def add_key(self, key: ApiKey, hash: str) -> bool:
        """Store a key, durably; return `False` if its id is taken."""

        def work(conn: sa.Connection) -> bool:
            fresh = _add(conn, key, hash)
            self._tables.note(conn, AuditAction("key.add", target=key.id, count=int(fresh)))
            return fresh

        return self._tables.transact(None, work)

    def key(self, id: str) -> tuple[ApiKey, str] | None:
        """Return the key with this id and the hash of its secret, or `None`."""
        return self._tables.look(None, lambda conn: _one(conn, id))

    def keys(self) -> list[ApiKey]:
        """Return all keys, the oldest first."""
        return self._tables.look(None, _every)

    def note_key(self, id: str, *, revoked_at: datetime | None = None, last_used: datetime | None = None) -> bool:
        """Record when a key was revoked (the first time counts) or used; return `False` if there is none."""

        def work(conn: sa.Connection) -> bool:
            known = _note(conn, id, revoked_at, last_used)
            if revoked_at is not None:
                self._tables.note(conn, AuditAction("key.revoke", target=id, count=int(known)))
            return known

        return self._tables.transact(None, work)

    def close_keys(self, agent: str, at: datetime) -> int:
        """Remove an agent from all keys, and revoke those that are for no other agent; return how many named it."""

        def work(conn: sa.Connection) -> int:
            closed = _close(conn, agent, at)
            for id in closed:
                self._tables.note(conn, AuditAction("key.close", agent=agent, target=id))
            return len(closed)

        return self._tables.transact(None, work)


def _add(conn: sa.Connection, key: ApiKey, hash: str) -> bool:
    """Store a key and the hash of its secret; return `False` if its id is taken."""
    if conn.scalar(sa.select(api_keys.c.id).where(api_keys.c.id == key.id)) is not None:
        return False
    row = key.model_dump(include={"id", "name"}) | {
        "hash": hash,
        "agents": to_json(key.agents),
        "rights": to_json(key.rights),
        "created_at": micros(key.created_at),
        "expires_at": None if key.expires_at is None else micros(key.expires_at),
        "revoked_at": None if key.revoked_at is None else micros(key.revoked_at),
        "last_used": None if key.last_used is None else micros(key.last_used),
    }
    conn.execute(api_keys.insert(), row)
    return True


def _one(conn: sa.Connection, id: str) -> tuple[ApiKey, str] | None:
    """Read a key and the hash of its secret."""
    row = conn.execute(sa.select(api_keys).where(api_keys.c.id == id)).mappings().one_or_none()
    return None if row is None else (_key(row), row["hash"])


def _every(conn: sa.Connection) -> list[ApiKey]:
    """Return all keys, the oldest first."""
    rows = sa.select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
    return [_key(row) for row in conn.execute(rows).mappings()]


def _note(conn: sa.Connection, id: str, revoked_at: datetime | None, last_used: datetime | None) -> bool:
    """Record when a key was revoked (the first time counts) or used; return `False` if there is none."""
    k = api_keys.c
    told: dict[str, Any] = {}
    if revoked_at is not None:
        told["revoked_at"] = sa.func.coalesce(k.revoked_at, micros(revoked_at))
    if last_used is not None:
        told["last_used"] = micros(last_used)
    return conn.execute(api_keys.update().where(k.id == id).values(told)).rowcount > 0


def _close(conn: sa.Connection, agent: str, at: datetime) -> list[str]:
    """Take an agent out of all keys, and revoke those that open nothing else; the keys that named it."""
    k, found = api_keys.c, [key for key in _every(conn) if agent in key.agents]
    for key in found:
        rest = [name for name in key.agents if name != agent]
        told: dict[str, Any] = {"agents": to_json(rest)}
        if not rest:
            told["revoked_at"] = sa.func.coalesce(k.revoked_at, micros(at))
        conn.execute(api_keys.update().where(k.id == key.id).values(told))
    return [key.id for key in found]


def _key(row: Mapping[Any, Any]) -> ApiKey:
    times = ("created_at", "expires_at", "revoked_at", "last_used")
    told = {name: None if row[name] is None else from_micros(row[name]) for name in times}
    return ApiKey.model_validate(
        {
            "id": row["id"],
            "name": row["name"],
            "agents": json.loads(row["agents"]),
            "rights": json.loads(row["rights"]),
            **told,
        }
    )
