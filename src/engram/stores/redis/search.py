"""Search in Redis by words, by vectors or by time."""

from __future__ import annotations

import heapq
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np

from engram.clock import micros
from engram.errors import StoreCorrupt
from engram.ports import Filter, Match, Placed, Query, Scope, VectorSpace, VectorStore
from engram.stores.redis.batch import ScopeState
from engram.stores.redis.layout import ID_AT, Card, Posting, RedisKeys, groups, moment
from engram.stores.redis.server import CHUNK, Server, chunks
from engram.stores.redis.transactions import Locks, Transactions
from engram.stores.rules import ENOUGH, nearest, owner, term_score, term_weight
from engram.text.terms import K1, query_terms


class Finder:
    """Find memories. Vectors are compared in this process, in an index that is kept in sync with the server."""

    def __init__(self, server: Server, transactions: Transactions, vectors: VectorStore) -> None:
        self._server = server
        self._transactions = transactions
        self._vectors = vectors
        self._marks: dict[VectorSpace, int] = {}
        self._syncing = Locks(1)

    def find(self, scope: Scope, query: Query) -> list[Match]:
        """Return matches, best first (newest first without words and vector), filtered before the limit is applied."""
        self._server.guard()
        if query.words is not None:
            terms = query_terms(query.words)
            return self._by_words(scope, terms, query) if terms else []
        if query.near is not None:
            return self._by_vector(scope, query.near, query)
        return self._by_time(scope, query)

    def _by_words(self, scope: Scope, terms: list[str], query: Query) -> list[Match]:
        keys, wanted = self._transactions.keys(scope), query.offset + query.limit
        reads = [("HLEN", keys.cards), *(("HLEN", keys.word(term)) for term in terms)]
        state, (total, *holders) = self._transactions.fresh(scope, *reads)
        weights = {term: _weight(total, held) for term, held in zip(terms, holders, strict=True) if held}
        mean = max(1, state.length) / max(1, total)
        # Filter the best first; if too few of them pass, filter all.
        for enough in (wanted * (ENOUGH if _restricted(query) else 1), sys.maxsize):
            scores, best = _ranked(weights, self._postings(keys, weights, mean, enough), mean)
            kept = self._allowed(
                keys, state, _within(query, (id.decode() for id in best[:enough])), query.where, wanted
            )
            if len(kept) == wanted or len(best) < enough:
                break
        return [Match(id, scores[id.encode()]) for id in kept[query.offset :]]

    def _postings(
        self, keys: RedisKeys, weights: Mapping[str, float], mean: float, enough: int
    ) -> dict[str, dict[bytes, Posting]]:
        """Read the memories of each term, without those that cannot be among the `enough` best.

        It begins with the rarest term, which has the highest weight. Once enough memories have a score above what all
        other terms together can add, the long lists of those terms need not be read.
        """
        found: dict[str, dict[bytes, Posting]] = {}
        sums: defaultdict[bytes, float] = defaultdict(float)
        rest = sorted(weights, key=lambda term: weights[term], reverse=True)
        while rest:
            most, least = (K1 + 1 + 1e-9) * sum(weights[term] for term in rest), 0.0
            if 0 < enough <= len(sums):
                least = heapq.nlargest(enough, sums.values())[-1]
            if least > most:
                hopeful = [id for id, score in sums.items() if score + most >= least]
                found |= {term: self._postings_of(keys, term, hopeful) for term in rest}
                return {term: {id: each[id] for id in hopeful if id in each} for term, each in found.items()}
            term = rest.pop(0)
            (answer,) = self._server.ask(("HGETALL", keys.word(term)))
            found[term] = {id: Posting.read(value) for id, value in answer.items()}
            for id, posting in found[term].items():
                sums[id] += _score(posting, weights[term], mean)
        return found

    def _postings_of(self, keys: RedisKeys, term: str, ids: Sequence[bytes]) -> dict[bytes, Posting]:
        found: dict[bytes, Posting] = {}
        for some in chunks(ids):
            (answer,) = self._server.ask(("HMGET", keys.word(term), *some))
            pairs = zip(some, answer, strict=True)
            found.update({id: Posting.read(value) for id, value in pairs if value is not None})
        return found

    def _by_time(self, scope: Scope, query: Query) -> list[Match]:
        keys, where, wanted = self._transactions.keys(scope), query.where, query.offset + query.limit
        state, (total,) = self._transactions.fresh(scope, ("HLEN", keys.cards))
        group = self._smallest_group(keys, where)
        few = query.among is not None or (group is not None and group[0] ** 2 < wanted * total)
        if few:
            some = query.among if group is None else _within(query, self._members(group[1]))
            passing = list(self._passing(keys, state, some or (), where, sys.maxsize))
            passing.sort(key=lambda pair: (pair[1].happened, pair[1].seq), reverse=True)
            found = [id for id, _ in passing]
        else:
            found = self._allowed(keys, state, self._newest(keys, where, wanted), where, wanted)
        return [Match(id, 0.0) for id in found[query.offset : wanted]]

    def _newest(self, keys: RedisKeys, where: Filter, wanted: int) -> Iterator[str]:
        """Yield the ids within the filter's time span, newest first, read in pages."""
        low = "-" if where.since is None else "[" + moment(micros(where.since))
        high = "+" if where.until is None else "(" + moment(micros(where.until))
        size = min(max(wanted, 50), CHUNK)
        while True:
            (members,) = self._server.ask(("ZREVRANGEBYLEX", keys.newest, high, low, "LIMIT", 0, size))
            yield from (member.decode()[ID_AT:] for member in members)
            if len(members) < size:
                return
            high, size = "(" + members[-1].decode(), CHUNK

    def _smallest_group(self, keys: RedisKeys, where: Filter) -> tuple[int, list[str]] | None:
        """Return the smallest union of index sets with all memories that can pass: its size, and the sets."""
        unions = [[keys.group(name)] for name in groups((), where.tags, where.session, where.context_key)]
        if where.kinds:
            unions.append([keys.group(name) for name in groups(where.kinds)])
        if not unions:
            return None
        sizes = iter(self._server.ask(*(("SCARD", key) for union in unions for key in union)))
        return min((sum(next(sizes) for _ in union), union) for union in unions)

    def _members(self, union: list[str]) -> list[str]:
        return [id.decode() for ids in self._server.ask(*(("SMEMBERS", key) for key in union)) for id in ids]

    def _allowed(self, keys: RedisKeys, state: ScopeState, ids: Iterable[str], where: Filter, wanted: int) -> list[str]:
        """Return the first `wanted` of these ids that pass the filter, in order."""
        if where == Filter() and state.first_expiry is None:
            return list(islice(ids, wanted))
        return [id for id, _ in self._passing(keys, state, ids, where, wanted)]

    def _passing(
        self, keys: RedisKeys, state: ScopeState, ids: Iterable[str], where: Filter, wanted: int
    ) -> Iterator[tuple[str, Card]]:
        """Yield the first `wanted` of these ids that pass the filter, in order, with their cards."""
        size, rest = min(max(wanted, 50), CHUNK), iter(ids)
        while wanted > 0 and (some := list(islice(rest, size))):
            (found,) = self._server.ask(("HMGET", keys.cards, *some))
            for id, text in zip(some, found, strict=True):
                if text is None or not (card := Card.read(text)).passes(where, state.now_ms):
                    continue
                yield id, card
                wanted -= 1
                if wanted == 0:
                    return

    def _by_vector(self, scope: Scope, near: Placed, query: Query) -> list[Match]:
        keys, where, wanted = self._transactions.keys(scope), query.where, query.offset + query.limit
        space = VectorSpace(scope, near.namespace, near.embedder)
        with self._syncing.of(space):
            state, _ = self._transactions.fresh(scope)
            self._sync(keys, space, state)
            found, all_of_them = nearest(partial(self._vectors.search, space, near.vector), wanted, wanted * ENOUGH)
        ids: Iterable[str] = _within(query, (match.id for match in found))
        allowed = set(self._allowed(keys, state, ids, where, len(found)))
        kept = [match for match in found if match.id in allowed]
        if len(kept) < wanted and not all_of_them:
            group = self._smallest_group(keys, where)
            ids = self._newest(keys, where, CHUNK) if group is None else self._members(group[1])
            allowed = set(self._allowed(keys, state, _within(query, ids), where, sys.maxsize))
            (names,) = self._server.ask(("HKEYS", keys.vectors((space.namespace, space.embedder))))
            among = frozenset(name for name in map(bytes.decode, names) if owner(name)[0] in allowed)
            search = partial(self._vectors.search, space, near.vector, among=among)
            kept, _ = nearest(search, wanted, wanted * ENOUGH)
        return kept[query.offset : wanted]

    def _sync(self, keys: RedisKeys, space: VectorSpace, state: ScopeState) -> None:
        """Update the index of this process with all writes since its last update."""
        mark, place = self._marks.get(space, 0), (space.namespace, space.embedder)
        if mark == state.clock:
            return
        self._marks[space] = 0
        if mark == 0 or not state.floor <= mark <= state.clock:
            self._vectors.clear(space)
            for found in self._server.scan(keys.vectors(place)):
                self._take(space, found)
        else:
            (changed,) = self._server.ask(("ZRANGEBYSCORE", keys.log, f"({mark}", "+inf"))
            for some in chunks(changed):
                (found,) = self._server.ask(("HMGET", keys.vectors(place), *some))
                self._take(space, dict(zip(some, found, strict=True)))
        self._marks[space] = state.clock

    def _take(self, space: VectorSpace, found: Mapping[bytes, bytes | None]) -> None:
        """Update the index of this process: add vectors, and remove those that were deleted."""
        self._vectors.remove(space, [id.decode() for id, vector in found.items() if vector is None])
        present = {id.decode(): vector for id, vector in found.items() if vector is not None}
        if len({len(vector) for vector in present.values()}) > 1:
            raise StoreCorrupt(
                f"vectors of {space.embedder} differ in length; run `engram upkeep reembed` to compute them again"
            )
        if present:
            matrix = np.frombuffer(b"".join(present.values()), dtype="<f4").reshape(len(present), -1)
            self._vectors.add(space, list(present), matrix)


def _restricted(query: Query) -> bool:
    """Return True if a query has a filter."""
    return query.where != Filter() or query.among is not None


def _within(query: Query, ids: Iterable[str]) -> Iterable[str]:
    """Return the ids that are among those of the query."""
    return ids if query.among is None else (id for id in ids if id in query.among)


def _ranked(
    weights: Mapping[str, float], postings: Mapping[str, Mapping[bytes, Posting]], mean: float
) -> tuple[dict[bytes, float], list[bytes]]:
    """Return the score of each memory, and their ids, best first."""
    scores: defaultdict[bytes, float] = defaultdict(float)
    numbers: dict[bytes, int] = {}
    for term, weight in weights.items():  # summed in the order of the query, as the reference implementation does
        for id, posting in postings[term].items():
            scores[id] += _score(posting, weight, mean)
            numbers[id] = posting.seq
    return scores, sorted(scores, key=lambda id: (scores[id], numbers[id]), reverse=True)


def _weight(total: int, holders: int) -> float:
    """Return the weight of a term; the counts may be inconsistent, as others write between them."""
    return term_weight(max(total, holders), holders)


def _score(posting: Posting, weight: float, mean: float) -> float:
    return term_score(weight, posting.times, posting.length, mean)
