"""Queries for speakers and for neighbours in a session, in SQL tables.

These are the statements of every recall, so they are written out, and each is prepared once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import sqlalchemy as sa

from engram.clock import from_micros
from engram.ports import RankingInput, Scope
from engram.stores.rules import usefulness

MOST_SPEAKERS = 300
STATS = "LEFT JOIN memory_stats s ON s.agent = m.agent AND s.memory_id = m.id"
Counts = Callable[[Any], tuple[int, list[int]]]
"""From what a row says about its words to its length in terms and how often it has each term that was asked about."""

# Jumps from one speaker to the next in the index, however many memories each has.
SPEAKERS = sa.text(
    "WITH RECURSIVE known(speaker, number) AS ("
    "SELECT (SELECT min(speaker) FROM memories WHERE agent = :agent), 1 UNION ALL "
    "SELECT (SELECT min(m.speaker) FROM memories m WHERE m.agent = :agent AND m.speaker > known.speaker), number + 1 "
    "FROM known WHERE known.speaker IS NOT NULL AND number < :most) "
    "SELECT speaker FROM known WHERE speaker IS NOT NULL"
)


def speakers(conn: sa.Connection, scope: Scope) -> list[str]:
    """Everybody who spoke, by name."""
    return list(conn.scalars(SPEAKERS, {"agent": scope.agent, "most": MOST_SPEAKERS}))


@cache
def neighbours(listed: str, reach: int) -> sa.TextClause:
    """Numbers of listed rows, and of those up to `reach` before and after each; `listed` says "is one of :ids"."""
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
    """The query for ranking inputs of numbered rows; `words` are the columns of the word index, `join` its table."""
    return sa.text(
        " ".join([shown(words), "FROM memories m", join, STATS, f"WHERE m.agent = :agent AND m.seq {listed}"])
    )


def shown(words: str) -> str:
    """The columns that `to_ranking_input` reads, of `memories m` and `STATS`."""
    columns = "id seq session speaker role happened_at text importance trust".split()
    stats = ("coalesce(s.helped, 0)", "coalesce(s.hindered, 0)")
    return "SELECT " + ", ".join([*(f"m.{name}" for name in columns), *stats, words])


def to_ranking_input(row: Any, counts: Counts) -> RankingInput:
    """One row of `glances`."""
    id, seq, session, speaker, role, at, text, importance, trust, helped, hindered, words = row
    useful = usefulness(helped, hindered)
    return RankingInput(
        id, seq, session, speaker, role, from_micros(at), text, *counts(words), importance, trust, useful
    )
