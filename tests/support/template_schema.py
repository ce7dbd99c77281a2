"""New SQLite databases from a template: migrations run once in a test session, not once for each database."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from engram.stores.migrate import SCRIPTS, upgrade

_SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'memory_words_%' ORDER BY rowid"
"""Without the tables that SQLite makes for the word index itself."""
_ROWS = ("alembic_version", "audit")
_EPOCH = "INSERT INTO counter VALUES (lower(hex(randomblob(8))), 0)"


class _Template(NamedTuple):
    """The statements that create a database with the newest schema, and the rows that the migrations insert."""

    schema: list[str]
    rows: dict[str, list[tuple[Any, ...]]]


@cache
def _template() -> _Template:
    engine = sa.create_engine("sqlite://")
    with engine.begin() as conn:
        upgrade(conn)
        schema = [str(statement) for (statement,) in conn.exec_driver_sql(_SCHEMA)]
        rows = {table: [tuple(row) for row in conn.exec_driver_sql(f"SELECT * FROM {table}")] for table in _ROWS}
    engine.dispose()
    return _Template(schema, rows)


def upgrade_from_template(conn: sa.Connection, scripts: Path = SCRIPTS) -> None:
    """Stand in for `migrate.upgrade`: an empty SQLite database gets its schema from the template."""
    fresh = conn.dialect.name == "sqlite" and not conn.exec_driver_sql("SELECT 1 FROM sqlite_master").first()
    if scripts != SCRIPTS or not fresh:
        upgrade(conn, scripts)
        return
    schema, rows = _template()
    for statement in schema:
        conn.exec_driver_sql(statement)
    for table, found in rows.items():
        conn.exec_driver_sql(f"INSERT INTO {table} VALUES ({', '.join('?' * len(found[0]))})", found)
    conn.exec_driver_sql(_EPOCH)
