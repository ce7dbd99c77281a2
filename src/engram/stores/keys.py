"""Callers' keys in SQL tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from engram.clock import from_micros, micros
from engram.model.api_key import ApiKey
from engram.stores.rows import to_json
from engram.stores.schema import api_keys


def add(conn: sa.Connection, key: ApiKey, hash: str) -> bool:
    """Keep a key and the hash of its secret; `False` if its id is taken."""
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


def one(conn: sa.Connection, id: str) -> tuple[ApiKey, str] | None:
    """A key and the hash of its secret."""
    row = conn.execute(sa.select(api_keys).where(api_keys.c.id == id)).mappings().one_or_none()
    return None if row is None else (_key(row), row["hash"])


def every(conn: sa.Connection) -> list[ApiKey]:
    """All keys, the oldest first."""
    rows = sa.select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
    return [_key(row) for row in conn.execute(rows).mappings()]


def note(conn: sa.Connection, id: str, revoked_at: datetime | None, last_used: datetime | None) -> bool:
    """Say when a key was revoked, the first time, or used; `False` if there is none."""
    k = api_keys.c
    told: dict[str, Any] = {}
    if revoked_at is not None:
        told["revoked_at"] = sa.func.coalesce(k.revoked_at, micros(revoked_at))
    if last_used is not None:
        told["last_used"] = micros(last_used)
    return conn.execute(api_keys.update().where(k.id == id).values(told)).rowcount > 0


def close(conn: sa.Connection, agent: str, at: datetime) -> list[str]:
    """Take an agent out of all keys, and revoke those that open nothing else; the keys that named it."""
    k, found = api_keys.c, [key for key in every(conn) if agent in key.agents]
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
