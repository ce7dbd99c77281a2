"""Full-text search in SQLite: an FTS5 table whose rows are numbered like the memories.

Scoring a row costs far more than finding it, and frequent words say little. So the rarest words select the candidates,
the index alone ranks them, and only the best are looked up in the tables. If these are too few, the newest rows with
the frequent words follow; and if too few pass the filter, the search is repeated without these shortcuts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from engram.ports import Match, Query, Scope, TermCounts
from engram.stores.rows import scope_term
from engram.stores.rules import ENOUGH, telling
from engram.stores.schema import memories

MAJORITY = 0.5
"""The share of all rows from which on naming the scope in the search costs more than it saves."""

VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab('main', 'memory_words', 'row')"
"""A table, made on each connection, with the number of rows that hold each term."""

_words = sa.table("memory_words", sa.column("rowid"), sa.column("scope"), sa.column("words"))
_score: sa.ColumnElement[float] = sa.literal_column("-bm25(memory_words, 0.0, 1.0)")
_KNOWN = "SELECT v.term, v.doc FROM json_each(:terms) t CROSS JOIN temp.vocabulary v ON v.term = t.value"
_HOLDERS = "SELECT count(*) FROM memory_words WHERE memory_words MATCH :match"
_BEST = (
    "SELECT rowid, -bm25(memory_words, 0.0, 1.0) AS score FROM memory_words WHERE memory_words MATCH :match "
    "ORDER BY score DESC, rowid DESC LIMIT :most"
)
_NEWEST = "SELECT rowid FROM memory_words WHERE memory_words MATCH :match ORDER BY rowid DESC LIMIT :most"
_ROWS = "SELECT count(*) FROM memory_words_docsize"


Passing = Callable[[Sequence[int]], Mapping[int, str]]
"""Return the ids of those rows, by number, that pass the filter."""
Clauses = Callable[[], Sequence[sa.ColumnElement[bool]]]
"""Build the conditions of the filter."""


def fetch(conn: sa.Connection, statement: str, asked: Mapping[str, object]) -> list[Any]:
    """Fetch all rows of a frequent statement directly from the driver, whose errors it raises."""
    rows: list[Any] = conn.connection.driver_connection.execute(statement, asked).fetchall()  # type: ignore[union-attr]
    return rows


class FtsWords:
    """The full-text index of one database; its estimates of sizes are only used to choose the faster query."""

    def __init__(self) -> None:
        self._sizes: dict[Scope, tuple[int, int, int]] = {}

    def search(
        self,
        conn: sa.Connection,
        scope: Scope,
        terms: list[str],
        query: Query,
        clauses: Clauses,
        passing: Passing,
        holders: Mapping[str, int],
        latest: int,
    ) -> list[Match]:
        """Return the rows that hold any of the terms and pass the filter, best first; `latest` is the newest number.

        `holders` is the result of the method of that name for the terms.
        """
        wanted = query.limit + query.offset
        known = [term for term in terms if term in holders]
        if not known:
            return []
        few = telling(known, holders)
        own, all_rows = self._size(conn, scope, latest)
        within = None if own > MAJORITY * all_rows else scope
        found = self._shortcut(conn, _match(few, within), query, passing)
        if found is not None and len(found) < wanted and len(few) < len(known):
            found = self._filled(conn, found, _match(known, within), query, passing)
        if found is None:
            found = self._thorough(conn, _match(known, scope), query, clauses())
        return found[query.offset : wanted]

    def holders(self, conn: sa.Connection, terms: Sequence[str]) -> Mapping[str, int]:
        """Count the rows of the file that hold each term; terms that none holds are left out."""
        return dict(fetch(conn, _KNOWN, {"terms": json.dumps(list(terms))}))

    def term_counts(
        self, conn: sa.Connection, scope: Scope, terms: Sequence[str], holders: Mapping[str, int], latest: int
    ) -> TermCounts:
        """Count the rows of a scope that hold each term, or estimate from the file if most rows are of this scope."""
        own, all_rows = self._size(conn, scope, latest)
        if own > MAJORITY * all_rows:
            return TermCounts(own, {term: min(own, count) for term, count in holders.items()})
        counts = {term: fetch(conn, _HOLDERS, {"match": _match([term], scope)})[0][0] for term in terms}
        return TermCounts(own, counts)

    def marks(self, conn: sa.Connection) -> Iterator[tuple[int, object]]:
        """Return the index entry of each row, for comparison in checks."""
        rows = conn.execute(sa.select(_words.c.rowid, _words.c.scope, _words.c.words))
        return ((seq, (scope, words)) for seq, scope, words in rows)

    def _shortcut(self, conn: sa.Connection, match: str, query: Query, passing: Passing) -> list[Match] | None:
        """Return the best rows of the index that pass the filter; `None` if better ones may have been cut off."""
        wanted = query.limit + query.offset
        best = fetch(conn, _BEST, {"match": match, "most": wanted * ENOUGH})
        found: list[Match] = []
        for some in (best[:wanted], best[wanted:]):  # usually all pass, and the second half is not needed
            if len(found) < wanted:
                ids = passing([seq for seq, _ in some])
                found += [Match(ids[seq], max(0.0, score)) for seq, score in some if seq in ids]
        return None if len(best) == wanted * ENOUGH and len(found) < wanted else found

    def _filled(
        self,
        conn: sa.Connection,
        found: list[Match],
        match: str,
        query: Query,
        passing: Passing,
    ) -> list[Match] | None:
        """Append the newest rows with frequent words, which have no score, to those with rare words."""
        enough = (query.limit + query.offset) * ENOUGH
        seqs = [seq for (seq,) in fetch(conn, _NEWEST, {"match": match, "most": enough})]
        known, ids = {one.id for one in found}, passing(seqs)
        more = [Match(ids[seq], 0.0) for seq in seqs if seq in ids and ids[seq] not in known]
        full = len(found) + len(more) >= query.limit + query.offset
        return [*found, *more] if full or len(seqs) < enough else None

    def _thorough(
        self, conn: sa.Connection, match: str, query: Query, clauses: Sequence[sa.ColumnElement[bool]]
    ) -> list[Match]:
        """Filter every row that the index finds, then rank."""
        found = (
            sa.select(memories.c.id, _score.label("score"))
            .select_from(sa.join(_words, memories, memories.c.seq == _words.c.rowid))
            .where(sa.literal_column("memory_words").op("MATCH")(match), *clauses)
            .order_by(sa.desc("score"), memories.c.seq.desc())
            .limit(query.limit + query.offset)
        )
        return [Match(id, max(0.0, score)) for id, score in conn.execute(found)]

    def _size(self, conn: sa.Connection, scope: Scope, latest: int) -> tuple[int, int]:
        """Count the rows of this scope and of all; the result is cached until there are a tenth more writes."""
        seen, own, all_rows = self._sizes.get(scope, (0, 0, 0))
        if latest > 1.1 * seen:
            own = self.holders(conn, [scope_term(scope.agent)]).get(scope_term(scope.agent), 0)
            all_rows = int(fetch(conn, _ROWS, {})[0][0])
            self._sizes[scope] = (latest, own, all_rows)
        return own, all_rows


def passing_rows(conn: sa.Connection, seqs: Sequence[int], clauses: Sequence[sa.ColumnElement[bool]]) -> dict[int, str]:
    """Return the ids of those rows that fulfil the clauses."""
    listed = sa.func.json_each(json.dumps(list(seqs))).table_valued("value")
    rows = sa.select(memories.c.seq, memories.c.id).where(memories.c.seq.in_(sa.select(listed.c.value)), *clauses)
    return {row.seq: row.id for row in conn.execute(rows)}


def counter_of(terms: Sequence[str]) -> Callable[[str], tuple[int, list[int]]]:
    """Return a function that counts the words of a row, and each of the terms among them."""
    place = {term: column for column, term in enumerate(terms)}

    def counted(words: str) -> tuple[int, list[int]]:
        held, counts = words.split(), [0] * len(place)
        for term in held:
            if term in place:
                counts[place[term]] += 1
        return len(held), counts

    return counted


def _match(terms: Sequence[str], scope: Scope | None) -> str:
    """Return an FTS5 query for any of the terms; the scope is an indexed term, too, which narrows the search."""
    any_of = "words : (" + " OR ".join(f'"{term}"' for term in terms) + ")"
    return any_of if scope is None else f'scope : "{scope_term(scope.agent)}" AND {any_of}'
