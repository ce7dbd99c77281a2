"""SQL queries for speakers, and for the neighbours of memories in their sessions.

Every recall runs these statements, so they are plain SQL, and each is prepared once.
"""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa

from engram.ports import Scope

MOST_SPEAKERS = 300
STATS = "LEFT JOIN memory_stats s ON s.agent = m.agent AND s.memory_id = m.id"

# A loose index scan: it reads one row per speaker.
SPEAKERS = sa.text(
    "WITH RECURSIVE known(speaker, number) AS ("
    "SELECT (SELECT min(speaker) FROM memories WHERE agent = :agent), 1 UNION ALL "
    "SELECT (SELECT min(m.speaker) FROM memories m WHERE m.agent = :agent AND m.speaker > known.speaker), number + 1 "
    "FROM known WHERE known.speaker IS NOT NULL AND number < :most) "
    "SELECT speaker FROM known WHERE speaker IS NOT NULL"
)


def speakers(conn: sa.Connection, scope: Scope) -> list[str]:
    """Return the names of all speakers, sorted."""
    return list(conn.scalars(SPEAKERS, {"agent": scope.agent, "most": MOST_SPEAKERS}))


@cache
def neighbours(listed: str, reach: int) -> sa.TextClause:
    """Build the query for the numbers of rows under the condition `listed`, and of up to `reach` around each."""
    beside = (
        "(SELECT n.seq FROM memories n WHERE n.agent = m.agent AND n.session = m.session AND n.seq {way} m.seq "
        "ORDER BY n.seq {order} LIMIT 1 OFFSET {distance})"
    )
    ways = (("<", "DESC"), (">", "ASC"))
    sides = [beside.format(way=way, order=order, distance=n) for n in range(reach) for way, order in ways]
    chosen = f"FROM memories m WHERE m.agent = :agent AND m.id {listed}"
    return sa.text(", ".join(["SELECT m.seq", *sides]) + " " + chosen)


@cache
def ranking_query(listed: str, words: str, join: str) -> sa.TextClause:
    """Build the query for ranking inputs; `words` are the columns of the word index, `join` joins its table."""
    return sa.text(
        " ".join([shown(words), "FROM memories m", join, STATS, f"WHERE m.agent = :agent AND m.seq {listed}"])
    )


def shown(words: str) -> str:
    """Return the columns that `to_ranking_input` reads, of `memories m` and `STATS`."""
    columns = "id seq session speaker role happened_at text importance trust".split()
    stats = ("coalesce(s.helped, 0)", "coalesce(s.hindered, 0)")
    return "SELECT " + ", ".join([*(f"m.{name}" for name in columns), *stats, words])
