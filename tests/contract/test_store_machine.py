"""SQLite against the specification: whatever is done, both stores give the same answers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from engram.clock import Sources
from engram.errors import EngramError
from engram.model import Clean, Memory, MemoryType
from engram.ports import LONG_TERM, Changes, Entry, Filter, Placed, Query, Scope
from engram.recording.input import merge_key
from engram.stores.memory import InMemoryStore
from engram.stores.sql import SqlStore
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import FixedSources, Maker
from engram.testing.factories import START, placed, unit
from engram.text.terms import normal_form

T = TypeVar("T")

LONG = "ENGRAM_LONG" in os.environ
ALL = 10_000

NAMES = ["a", "ab", "A", "a%", "a_", "a ", "\u0430", "\u00e9", "e\u0301", "a' OR '1'='1", "🚀" * 100]
TEXTS = [
    "deploy the cluster",
    "Deployed the Clusters.",
    "deploy  the cluster.",
    "not deploy the cluster",
    "deploy 15 clusters",
    "🚀 👩‍👩‍👧‍👦",
    "קלאסטר الكتلة deploy",
    "caf\u00e9 deploy",
    "cafe\u0301 deploy",
    "部署集群到生产环境",
    '"deploy" OR * NEAR(cluster, 2) -the : ^a {b}',
    "'); DROP TABLE memories; --",
    "deployTheCluster deploy_the_cluster deploy-the-cluster",
    "the of and",
    "AND OR NOT NEAR",
    "deploy cluster words " * 500,
    "x" * 5000,
]
WORDS = [
    "deploy",
    "CLUSTERS",
    "cafe",
    "集群",
    "the",
    '"',
    "a OR b",
    "NEAR(",
    "-deploy",
    "deploy:",
    "*",
    "x" * 70,
    "الكتلة",
]
TAGS = ["x", "X", "y", "%", "a b", "é", "e\u0301", "'"]
KEYS = ["k", "K", "k%", "k ", "'", "鍵"]
SESSIONS = ["s", "S", "s%", "'"]
CONTEXTS = ["", "release", "Release.", "cafe\u0301", "caf\u00e9"]
EMBEDDERS = ["small@1", "large@1"]
NAMESPACES = [LONG_TERM, "working"]
KINDS = [MemoryType.OBSERVATION, MemoryType.KNOWLEDGE, MemoryType.PROCEDURE, MemoryType.DECISION]
LENGTHS = {"small@1": 3, "large@1": 4}

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
texts = st.sampled_from(TEXTS) | storable.filter(str.strip)
moments = st.integers(-3, 3).map(lambda days: START + timedelta(days=days))
shares = st.sampled_from([0.0, 0.25, 0.5, 1.0])
which = st.integers(0, 1)
whose = st.sampled_from([0, 0, 0, 1])


@st.composite
def places(draw: st.DrawFn) -> Placed:
    embedder = draw(st.sampled_from(EMBEDDERS))
    length = LENGTHS[embedder]
    values = draw(st.lists(st.integers(-3, 3), min_size=length, max_size=length).filter(any))
    return placed(*values, namespace=draw(st.sampled_from(NAMESPACES)), embedder=embedder)


@st.composite
def texts_in_passages(draw: st.DrawFn) -> list[Placed]:
    """The vectors of one memory on one space."""
    place = draw(places())
    directions = st.lists(st.integers(-3, 3), min_size=len(place.vector), max_size=len(place.vector)).filter(any)
    more = [unit(*values) for values in draw(st.lists(directions, max_size=3))]
    return [replace(place, vector=vector, passage=number) for number, vector in enumerate([place.vector, *more])]


conditions: dict[str, st.SearchStrategy[Any]] = {
    "kinds": st.frozensets(st.sampled_from(KINDS), min_size=1, max_size=2),
    "tags": st.frozensets(st.sampled_from(TAGS), min_size=1, max_size=2),
    "since": moments,
    "until": moments,
    "as_of": moments,
    "session": st.sampled_from(SESSIONS),
    "context_key": st.sampled_from(CONTEXTS).map(normal_form),
}
one_condition = [st.fixed_dictionaries({name: values}) for name, values in conditions.items()]
filters = st.one_of(st.just({}), *one_condition, st.fixed_dictionaries({}, optional=conditions)).map(
    lambda given: Filter(**given)
)


givens = st.fixed_dictionaries(
    {
        "text": texts,
        "kind": st.sampled_from(KINDS),
        "tags": st.lists(st.sampled_from(TAGS), max_size=3, unique=True),
        "at": st.none() | moments,
        "session": st.none() | st.sampled_from(SESSIONS),
        "context": st.sampled_from(CONTEXTS),
        "metadata": st.dictionaries(storable, st.none() | st.booleans() | st.integers() | storable, max_size=2),
        "importance": shares,
        "valid_until": st.none() | moments,
    }
)
givens_with_key_and_vectors = st.tuples(
    givens,
    st.none() | st.sampled_from(KEYS),
    st.lists(
        texts_in_passages(), max_size=3, unique_by=lambda several: (several[0].namespace, several[0].embedder)
    ).map(lambda several: [placed for each in several for placed in each]),
)


@cache
def empty_database() -> bytes:
    """The bytes of a database without memories: quicker to copy than to make."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engram.db"
        SqliteStore(path, ExactVectors(), Sources()).close()
        return path.read_bytes()


class StoreMachine(RuleBasedStateMachine):
    """One store in memory, and two on one SQLite file, as two processes would have it open."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="engram-")
        self.path = Path(self.folder.name) / "engram.db"
        self.path.write_bytes(empty_database())
        self.sources = FixedSources()
        self.spec = InMemoryStore(ExactVectors())
        self.stores = [self.open(), self.open()]
        self.uncounted = [False, False]
        self.ids = ["nobody"]
        self.scopes: list[Scope] = []

    @initialize(names=st.lists(st.sampled_from(NAMES), min_size=2, max_size=2, unique=True))
    def choose_scopes(self, names: list[str]) -> None:
        self.scopes = [Scope(name) for name in names]

    @property
    def known(self) -> st.SearchStrategy[str]:
        """Ids that were given out, mostly of late."""
        return st.sampled_from(self.ids[-6:]) | st.sampled_from(self.ids)

    def open(self) -> SqlStore:
        return SqliteStore(self.path, ExactVectors(), Sources(), durable=False)

    def teardown(self) -> None:
        problems = self.stores[0].check()
        for store in self.stores:
            store.close()
        self.folder.cleanup()
        assert problems == []

    def write(self, one: int, call: Callable[[InMemoryStore | SqlStore], object]) -> None:
        """Both stores write the same and say the same, be it a result or an error."""
        expected, found = outcome(lambda: call(self.spec)), outcome(lambda: call(self.stores[one]))
        assert without_counts(found) == without_counts(expected)
        if not isinstance(found, type):
            self.uncounted[one] = False

    @rule(one=which, who=whose, batch=st.lists(givens_with_key_and_vectors, min_size=1, max_size=5))
    def add(self, one: int, who: int, batch: list[tuple[dict[str, Any], str | None, list[Placed]]]) -> None:
        scope = self.scopes[who]
        make = Maker(scope.agent, self.sources)
        entries = []
        for given, key, vectors in batch:
            memory = make.memory(**given)
            entries.append(Entry(memory, None if key is None else Clean(key), merge_key(memory), tuple(vectors)))
            self.ids.append(memory.id)
        self.write(one, lambda store: store.add(scope, entries))

    @rule(one=which, who=whose, place=places())
    def add_what_cannot_be(self, one: int, who: int, place: Placed) -> None:
        scope = self.scopes[who]
        make = Maker(scope.agent, self.sources)
        good = replace(make.event("good", key="good"), vectors=(place,))
        bad = Entry(make.memory("bad").model_copy(update={"id": good.memory.id}))
        self.write(one, lambda store: store.add(scope, [good, bad]))

    @rule(one=which, who=whose, data=st.data())
    def get(self, one: int, who: int, data: st.DataObject) -> None:
        scope = self.scopes[who]
        ids = data.draw(st.lists(self.known, max_size=5))
        self.compare_memories(one, scope, ids)
        for id in ids:
            assert self.stores[one].indexes(scope, id) == self.spec.indexes(scope, id)

    def compare_memories(self, one: int, scope: Scope, ids: list[str]) -> None:
        expected, found = self.spec.get(scope, ids), self.stores[one].get(scope, ids)
        if any(self.uncounted):
            assert without_counts(found) == without_counts(expected)
        else:
            assert found == expected

    @rule(one=which, who=whose, where=filters, limit=st.integers(0, 6), offset=st.integers(0, 6))
    def search_newest(self, one: int, who: int, where: Filter, limit: int, offset: int) -> None:
        scope = self.scopes[who]
        for query in (Query(where=where, limit=limit, offset=offset), Query(where=where, limit=ALL)):
            expected = self.spec.search(scope, query)
            assert self.stores[one].search(scope, query) == expected
        self.compare_memories(one, scope, [match.id for match in expected])

    @rule(one=which, who=whose, words=st.sampled_from(WORDS) | texts, where=filters)
    def search_words(self, one: int, who: int, words: str, where: Filter) -> None:
        scope = self.scopes[who]
        query = Query(words=Clean(words), where=where, limit=ALL)
        expected, found = self.spec.search(scope, query), self.stores[one].search(scope, query)
        assert sorted(match.id for match in found) == sorted(match.id for match in expected)
        piece = self.stores[one].search(scope, replace(query, limit=2, offset=1))
        assert piece == found[1:3]

    @rule(one=which, who=whose, place=places(), where=filters, limit=st.integers(0, 4))
    def search_near(self, one: int, who: int, place: Placed, where: Filter, limit: int) -> None:
        scope = self.scopes[who]
        query = Query(near=place, where=where, limit=ALL)
        expected = self.compare_near(one, scope, query)
        piece = self.stores[one].search(scope, replace(query, limit=limit, offset=1))
        best = sorted(expected.values(), reverse=True)[1 : 1 + limit]
        assert [match.score for match in piece] == pytest.approx(best, abs=1e-5)
        assert {match.id for match in piece} <= expected.keys()

    def compare_near(self, one: int, scope: Scope, query: Query) -> dict[str, float]:
        expected = {match.id: match.score for match in self.spec.search(scope, query)}
        found = {match.id: match.score for match in self.stores[one].search(scope, query)}
        assert found == pytest.approx(expected, abs=1e-5)
        return expected

    @rule(one=which, who=whose, data=st.data())
    def forget(self, one: int, who: int, data: st.DataObject) -> None:
        scope = self.scopes[who]
        ids = data.draw(st.lists(self.known, max_size=3))
        self.write(one, lambda store: store.forget(scope, ids))

    @rule(
        one=which,
        who=whose,
        tags=st.none() | st.lists(st.sampled_from(TAGS), max_size=2, unique=True).map(tuple),
        importance=st.none() | shares,
        until=st.none() | moments,
        version=st.none() | st.integers(1, 3),
        data=st.data(),
    )
    def annotate(
        self,
        one: int,
        who: int,
        tags: tuple[Clean, ...] | None,
        importance: float | None,
        until: datetime | None,
        version: int | None,
        data: st.DataObject,
    ) -> None:
        scope = self.scopes[who]
        id = data.draw(self.known)
        changes = Changes(tags=tags, importance=importance, valid_until=until)
        self.write(one, lambda store: store.annotate(scope, id, changes, version))

    @rule(one=which, who=whose, at=moments, data=st.data())
    def touch(self, one: int, who: int, at: datetime, data: st.DataObject) -> None:
        scope = self.scopes[who]
        ids = data.draw(st.lists(self.known, max_size=3))
        self.spec.touch(scope, ids, at)
        self.stores[one].touch(scope, ids, at)
        self.uncounted[one] = True

    @rule(one=which, who=whose, batch=st.lists(texts_in_passages(), min_size=1, max_size=3), data=st.data())
    def place(self, one: int, who: int, batch: list[list[Placed]], data: st.DataObject) -> None:
        scope = self.scopes[who]
        owners = [data.draw(self.known) for _ in batch]
        vectors = [(scope, id, placed) for id, several in zip(owners, batch, strict=True) for placed in several]
        self.write(one, lambda store: store.place(vectors))
        for id in owners:
            assert self.stores[one].indexes(scope, id) == self.spec.indexes(scope, id)

    @rule(one=which, namespace=st.sampled_from(NAMESPACES), keep=st.sampled_from(EMBEDDERS))
    def discard_vectors(self, one: int, namespace: str, keep: str) -> None:
        directions = [placed(*range(1, 1 + LENGTHS[e]), namespace=namespace, embedder=e) for e in EMBEDDERS]
        for place in directions:
            self.compare_near(one, self.scopes[0], Query(near=place, limit=ALL))
        self.write(one, lambda store: store.discard_vectors(namespace, keep))
        for place in directions:
            self.compare_near(one, self.scopes[0], Query(near=place, limit=ALL))

    @rule(one=which, namespace=st.sampled_from(NAMESPACES), embedder=st.sampled_from(EMBEDDERS))
    def look_around(self, one: int, namespace: str, embedder: str) -> None:
        store = self.stores[one]
        assert store.agents() == self.spec.agents()
        missing = store.unembedded(namespace, embedder, 5)
        assert without_counts(missing) == without_counts(self.spec.unembedded(namespace, embedder, 5))
        assert store.count_unembedded(namespace, embedder) == self.spec.count_unembedded(namespace, embedder)

    @rule(one=which)
    def restart(self, one: int) -> None:
        self.stores[one].close()
        self.uncounted[one] = False
        self.stores[one] = self.open()

    @rule(one=which)
    def rebuild(self, one: int) -> None:
        self.stores[one].rebuild()
        self.uncounted[one] = False


def outcome(call: Callable[[], T]) -> T | type[EngramError]:
    """What a call gives, or which error it raises."""
    try:
        return call()
    except EngramError as error:
        return type(error)


def without_counts(value: object) -> object:
    """The value with the access counts left out: a store may write them later."""
    if isinstance(value, list):
        return [without_counts(item) for item in value]
    if isinstance(value, Memory):
        return value.model_copy(update={"access_count": 0, "last_accessed": None})
    return value


@pytest.mark.slow
def test_sqlite_does_what_the_store_in_memory_does() -> None:
    examples, steps = (400, 100) if LONG else (60, 40)
    run_state_machine_as_test(StoreMachine, settings=settings(max_examples=examples, stateful_step_count=steps))
