"""Facts that are kept in a process are those that are stored, whoever has written them, at any time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.engine import AgentHandle
from engram.memories.facts.fact_cache import MAX_AGENTS, FactCaches
from engram.memories.facts.graph import Graph
from engram.memories.semantic import SemanticMemory
from engram.model import Memory
from engram.ports import Scope
from engram.ports.completed import complete
from engram.testing import FixedSources
from support.redis_server import redis_url

pytest_plugins = ["support.postgres_server"]
__all__ = ["redis_url"]

ALICE = Scope("alice")
NAMES = st.sampled_from(["API", "Billing", "Ledger", "Redis"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), NAMES, st.sampled_from(["uses", "runs on", "is not"]), NAMES, st.integers(-3, 3)),
        st.tuples(st.just("forget"), st.integers(0, 9)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 5)),
    ),
    max_size=12,
)


def anew(agent: AgentHandle, sources: FixedSources) -> SemanticMemory:
    """The same facts, read from the store at each call."""
    return SemanticMemory(agent, sources=sources)


def check_alike(agent: AgentHandle, sources: FixedSources) -> None:
    kept, fresh = agent.semantic, anew(agent, sources)
    assert kept.facts(denials=True) == fresh.facts(denials=True)
    assert plain(kept.graph()) == plain(fresh.graph())
    then = sources.now() - timedelta(days=1)
    assert kept.facts(as_of=then) == fresh.facts(as_of=then)
    assert kept.contradictions() == fresh.contradictions()


def plain(graph: Graph) -> tuple[Any, ...]:
    return dict(graph.spellings), graph.edges, dict(graph.edges_of)


@settings(max_examples=40)
@given(STEPS)
def test_what_is_kept_is_what_is_stored_after_any_steps(steps: list[tuple[Any, ...]]) -> None:
    sources = FixedSources(step=timedelta(seconds=1))
    with engram.open(":memory:", embedder="hashing", sources=sources) as brain:
        alice = brain.agent("alice")
        for what, *how in steps:
            known = alice.list(tags="fact")
            if what == "learn":
                subject, predicate, object, days = how
                alice.semantic.learn(subject, predicate, object, valid_from=sources.now() + timedelta(days=days))
            elif what == "wait":
                sources.advance(timedelta(days=how[0]))
            elif known and what == "forget":
                alice.forget(known[how[0] % len(known)].id)
            elif known:
                one = known[how[0] % len(known)]
                alice.annotate(one.id, valid_until=max(sources.now(), one.valid_from) + timedelta(days=1))
            check_alike(alice, sources)


@pytest.fixture(params=["sqlite", "redis", "postgresql"])
def url(request: pytest.FixtureRequest, path: Path) -> str:
    if request.param == "sqlite":
        return str(path)
    if request.param == "redis":
        return f"{request.getfixturevalue('redis_url')}?prefix={path.parent.name}"
    return str(request.getfixturevalue("postgres_url"))


def test_what_another_process_writes_is_seen(url: str) -> None:
    with engram.open(url, embedder="hashing") as mine, engram.open(url, embedder="hashing") as theirs:
        here, there = mine.agent("alice"), theirs.agent("alice")
        there.semantic.learn("API", "uses", "Redis")
        assert here.semantic.neighbours("API") == ["Redis"]
        learned = there.semantic.learn("API", "runs on", "Ubuntu")
        assert here.semantic.neighbours("API") == ["Redis", "Ubuntu"]
        there.semantic.learn("API", "runs on", "Debian", valid_from=mine.sources.now() + timedelta(microseconds=1))
        assert here.semantic.neighbours("API") == ["Redis", "Debian"]
        assert learned.fact is not None
        for memory in there.list(tags="fact"):
            there.forget(memory.id)
            assert here.semantic.graph().spellings == anew(here, FixedSources(mine.sources.now())).graph().spellings
        assert here.semantic.facts() == []


@pytest.mark.process
def test_what_a_child_process_writes_is_seen(path: Path) -> None:
    with engram.open(path, embedder="hashing") as brain:
        brain.agent("alice").semantic.learn("API", "uses", "Redis")
        assert brain.agent("alice").semantic.neighbours("API") == ["Redis"]
        write = f"import engram; engram.open({str(path)!r}).agent('alice').semantic.learn('API', 'uses', 'Kafka')"
        subprocess.run([sys.executable, "-c", write], check=True, timeout=120)
        assert brain.agent("alice").semantic.neighbours("API") == ["Redis", "Kafka"]


def test_a_fact_that_begins_or_ends_later_does_so_without_a_write() -> None:
    sources = FixedSources()
    with engram.open(":memory:", embedder="hashing", sources=sources) as brain:
        known = brain.agent("alice").semantic
        now = sources.now()
        known.learn("API", "uses", "Redis", valid_until=now + timedelta(days=2))
        known.learn("API", "uses", "Kafka", valid_from=now + timedelta(days=1))
        seen = []
        for _ in range(4):
            seen.append(known.neighbours("API"))
            sources.advance(timedelta(days=1))
        assert seen == [["Redis"], ["Redis", "Kafka"], ["Kafka"], ["Kafka"]]


def test_only_what_changed_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with engram.open(":memory:", embedder="hashing") as brain:
        alice = brain.agent("alice")
        for number in range(5):
            alice.semantic.learn(f"Service {number}", "uses", "Redis")
        alice.semantic.graph()
        read = list[int]()
        get = brain.store.get

        def counted(scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
            read.append(len(ids))
            return get(scope, ids)

        monkeypatch.setattr(brain.store, "get", counted)
        alice.semantic.graph()
        assert read == []
        alice.semantic.relate("Service 9", "uses", "Redis")
        read.clear()
        assert len(alice.semantic.edges()) == 6
        assert read == [1]


def test_a_fact_that_is_forgotten_is_not_kept_on() -> None:
    with engram.open(":memory:", embedder="hashing") as brain:
        alice = brain.agent("alice")
        learned = alice.semantic.learn("Carol", "lives in", "Oslo")
        assert learned.fact is not None
        book = brain._parts.fact_caches.of(ALICE)
        assert book is not None
        assert [fact.object for fact in book.facts()] == ["Oslo"]
        alice.forget(learned.fact.id)
        assert book.facts() == ()
        assert not book._by_id


def test_the_books_of_few_agents_are_kept() -> None:
    with engram.open(":memory:", embedder="hashing") as brain:
        books = FactCaches(brain.store)
        first = books.of(Scope("agent 0"))
        assert books.of(Scope("agent 0")) is first
        for number in range(1, MAX_AGENTS + 1):
            books.of(Scope(f"agent {number}"))
        assert books.of(Scope("agent 0")) is not first


def test_a_store_that_tells_no_versions_is_read_each_time() -> None:
    with engram.open(":memory:", embedder="hashing") as brain:

        class Plain:
            add, get, search = brain.store.add, brain.store.get, brain.store.search
            forget, close = brain.store.forget, brain.store.close

        brain.agent("alice").semantic.learn("Bob", "works at", "Acme")
        book = FactCaches(complete(Plain())).of(ALICE)
        assert [fact.object for fact in book.facts()] == ["Acme"]
        brain.agent("alice").semantic.learn("Bob", "works at", "Initech")
        assert [fact.object for fact in book.facts()] == ["Acme", "Initech"]
