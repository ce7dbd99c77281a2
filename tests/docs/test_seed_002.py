"""The guide to advanced memory, sentence by sentence: what it sketches works here, under the names it uses."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import engram
from engram.facades import EnhancedAgentMemory, LongTermMemory
from engram.model import KnowledgeContent
from engram.ports import MemoryStore
from engram.stores.memory import InMemoryStore
from engram.stores.redis import RedisStore
from engram.stores.sqlite import SqliteStore, VectorMemoryStore
from engram.testing import FixedSources
from support.redis_server import redis_url

__all__ = ["redis_url"]

SECRET = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("persistent", [False, True, "file"])
@pytest.mark.parametrize("vector", [True, False])
def test_the_facade_takes_persistent_and_vector_and_has_its_three_parts(
    persistent: bool | str, vector: bool, path: Path
) -> None:
    with EnhancedAgentMemory(persistent=path if persistent == "file" else bool(persistent), vector=vector) as memory:
        memory.add_experience("The API is rate limited", importance=3)
        assert memory.recall("rate limit of the API", k=5)[0][1] == "The API is rate limited"
        assert memory.working.messages() == []
        assert memory.long_term.search("rate limited")[0][2] > 0
        assert (memory.vector is not None) == vector


def test_a_restart_does_not_wipe_the_agents_knowledge(path: Path) -> None:
    with EnhancedAgentMemory(persistent=path) as memory:
        key = memory.add_experience("Backups run at two")
        memory.add_message("user", "When do backups run?")
    with EnhancedAgentMemory(persistent=path) as memory:
        assert memory.long_term.get(key) == "Backups run at two"
        assert memory.get_recent_messages(n=10) == "user: When do backups run?"


@pytest.mark.parametrize("where", ["memory", "sqlite", "redis"])
def test_every_store_has_the_four_methods(where: str, path: Path, request: pytest.FixtureRequest) -> None:
    places = {"memory": ":memory:", "sqlite": str(path)}
    url = places.get(where) or f"{request.getfixturevalue('redis_url')}?prefix={path.parent.name}"
    with engram.open(url, embedder="hashing") as brain:
        assert isinstance(brain.store, MemoryStore)
        store = LongTermMemory(brain.agent("alice"))
        store.add("exp_0", "The build needs Java 21", meta={"importance": 2})
        store.add("exp_1", "Lunch is at noon")
        assert store.get("exp_0") == "The build needs Java 21"
        ((key, value, score),) = store.search("which Java does the build need?", top_k=1)
        assert (key, value) == ("exp_0", "The build needs Java 21")
        assert 0 < score <= 1
        assert store.forget("exp_0")
        assert store.get("exp_0") is None


def test_the_names_of_the_stores_are_those_of_the_guide(path: Path, redis_url: str) -> None:
    with engram.open(path) as brain:
        assert isinstance(brain.store, SqliteStore)
    assert issubclass(VectorMemoryStore, SqliteStore)
    with engram.open(":memory:") as brain:
        assert isinstance(brain.store, InMemoryStore)
    with engram.open(f"{redis_url}?prefix={path.parent.name}") as brain:
        assert isinstance(brain.store, RedisStore)


def test_any_embedder_can_be_plugged_in_and_finds_what_is_meant(path: Path) -> None:
    for embedder in ("hashing", "auto"):
        with engram.open(path.with_suffix(f".{embedder}"), embedder=embedder) as brain:
            alice = brain.agent("alice")
            alice.remember(["The deploy failed because the disk was full", "Lunch is at noon"])
            assert alice.recall("why did deploying fail?", k=1)[0].memory.text.startswith("The deploy failed")


def test_recent_messages_are_a_text_and_older_ones_are_pruned_every_n_steps(path: Path) -> None:
    with EnhancedAgentMemory(persistent=path, prune_every=4, keep=2) as memory:
        for number in range(10):
            memory.add_message("user", f"Message {number} is about disk {number}.")
        assert len(memory.working.messages()) <= 6
        assert memory.get_recent_messages(n=3).splitlines()[-1] == "user: Message 9 is about disk 9."
        assert len(memory.get_recent_messages(n=10).splitlines()) == 10
        assert "disk" in memory.create_summary()


def test_recall_before_a_tool_call_supplies_context_and_the_call_is_kept() -> None:
    with EnhancedAgentMemory() as memory:
        memory.add_experience("The search tool needs quotes around names")
        prompt = "\n".join(text for _, text, _ in memory.recall("use the search tool"))
        assert "needs quotes" in prompt
        memory.add_tool_call("search", {"query": '"Ada"'}, "found", ok=True)
        assert [(call.tool, call.ok) for call in memory.tool_call_history] == [("search", True)]


def test_secrets_are_stripped_before_they_are_kept(path: Path) -> None:
    with EnhancedAgentMemory(persistent=path) as memory:
        memory.add_experience(f"the token is {SECRET}")
        memory.add_message("user", f"use {SECRET}")
        memory.add_tool_call("login", {"token": SECRET}, f"ok {SECRET}")
        assert SECRET not in memory.get_recent_messages() + str(memory.tool_call_history) + str(memory.recall("token"))
    assert not any(SECRET.encode() in file.read_bytes() for file in path.parent.glob(f"{path.name}*") if file.is_file())


def test_retrieval_success_and_hit_ratio_are_tracked(path: Path) -> None:
    with engram.open(path) as brain:
        alice = brain.agent("alice")
        alice.remember(["Staging runs Ubuntu", "Lunch is at noon"])
        for outcome in ("success", "failure"):
            hits = alice.recall("what does staging run?", k=2)
            alice.credit(hits, [hits[0]] if outcome == "success" else [])
        total = brain.upkeep.evaluate(["alice"]).total
        assert (total.retrieval_success.some, total.retrieval_success.all) == (1, 2)
        assert total.hit_ratio.share is not None


@pytest.mark.slow
def test_thousands_of_memories_are_recalled_fast_enough_for_a_conversation(path: Path) -> None:
    with engram.open(path, durable=False) as brain:
        alice = brain.agent("alice")
        for start in range(0, 3000, 500):
            texts = [f"Server {n} in rack {n % 40} reports {n * 7 % 1000} GB" for n in range(start, start + 500)]
            alice.remember(texts)
        taken = []
        for number in range(20):
            begin = time.perf_counter()
            alice.recall(f"how much does server {number * 97} report?")
            taken.append(time.perf_counter() - begin)
        assert statistics.median(taken) < 1


def test_importance_decays_and_what_hardly_matters_is_pruned(path: Path, tmp_path: Path) -> None:
    clock = FixedSources(datetime(2026, 1, 1, tzinfo=UTC))
    with engram.open(path, sources=clock) as brain:
        alice = brain.agent("alice")
        alice.remember("Somebody coughed", importance=0.1)
        alice.remember("The vault needs two keys", importance=1)
        clock.advance(timedelta(days=400))
        gone = brain.upkeep.forget(["alice"], tmp_path / "gone.gz").gone
        assert [each.text for each in gone] == ["Somebody coughed"]
        assert [memory.text for memory in alice.list()] == ["The vault needs two keys"]


def test_facts_become_triples_that_can_be_reasoned_over() -> None:
    with engram.open(":memory:") as brain:
        known = brain.agent("alice").semantic
        (fact, *_) = known.tell("Billing depends on Ledger. Ledger uses PostgreSQL.")
        assert (fact.subject, fact.predicate, fact.object) == ("Billing", "depends on", "Ledger")
        assert [path.names for path in known.paths("Billing", "PostgreSQL")] == [("Billing", "Ledger", "PostgreSQL")]
        memory = brain.agent("alice").get(fact.id)
        assert memory is not None
        assert isinstance(memory.content, KnowledgeContent)
