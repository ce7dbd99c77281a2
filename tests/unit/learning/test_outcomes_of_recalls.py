"""Telling what became of a recall."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import engram
from engram.embed.hashing import HashingEmbedder
from engram.engine import Engram
from engram.errors import InvalidInput, Unsupported
from engram.model import Hit
from engram.ports import CreditsRecalls, MemoryStore, Scope
from engram.privacy import SecretRedactor
from engram.stores.memory import InMemoryStore
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import FixedSources

TEXTS = ["The red comet was seen in May", "The blue comet was seen in June", "The grey comet was seen in July"]


@pytest.fixture(params=["sqlite", "memory"])
def alice(request: pytest.FixtureRequest, path: Path) -> Iterator[engram.AgentHandle]:
    with engram.open(path if request.param == "sqlite" else ":memory:") as brain:
        alice = brain.agent("alice")
        alice.remember([f"Note {n}: nothing happened on day {n}" for n in range(20)])
        alice.remember(TEXTS)
        yield alice


def ledger(agent: engram.AgentHandle) -> CreditsRecalls:
    store = agent._store
    assert isinstance(store, CreditsRecalls)
    return store


def test_what_helped_ranks_higher_the_next_time(alice: engram.AgentHandle) -> None:
    first = alice.recall("comet seen", k=3)
    last = first[1]
    for _ in range(5):
        assert alice.credit(alice.recall("comet seen", k=3), [last.id])
    again = alice.recall("comet seen", k=3)
    assert again[0].id == last.id
    assert again[0].why["usefulness"] == pytest.approx(6 / 7 - 0.5, abs=1e-3)
    assert again[1].id == first[0].id


def test_only_numbers_and_ids_are_kept(alice: engram.AgentHandle) -> None:
    hits = alice.recall("the blue comet", k=3)
    alice.credit(hits, hits[1])
    (credit,) = ledger(alice).credits(Scope("alice"), 9)
    assert credit.order == tuple(hit.id for hit in hits)
    assert credit.helped == {hits[1].id}
    for hit in hits:
        parts = credit.parts[hit.id]
        assert parts["similar"] == hit.why["similar"]
        assert not {"found_by", "similarity", "passage"} & parts.keys()
    assert "comet" not in json.dumps([credit.id, credit.order, dict(credit.parts)])


def test_those_that_helped_can_be_named_in_any_way(alice: engram.AgentHandle) -> None:
    hits = alice.recall("comet", k=3)
    for helped in (hits[0], hits[0].id, [hits[0]], (hit.id for hit in hits[:1]), {hits[0].id}, []):
        assert alice.credit(hits, helped)
    helped_each_time = [credit.helped for credit in ledger(alice).credits(Scope("alice"), 9)]
    assert helped_each_time == [{hits[0].id}] * 5 + [frozenset()]


def test_with_a_key_it_counts_once(alice: engram.AgentHandle) -> None:
    hits = alice.recall("comet", k=3)
    assert [alice.credit(hits, hits[0], key="turn-7") for _ in range(3)] == [True, False, False]
    assert alice.credit(hits, hits[0], key="turn-8")
    assert alice.credit(hits, hits[0])
    assert len(ledger(alice).credits(Scope("alice"), 9)) == 3


def test_nothing_found_is_nothing_to_credit(alice: engram.AgentHandle) -> None:
    assert not alice.credit([], [])
    assert ledger(alice).credits(Scope("alice"), 9) == []


def test_what_was_forgotten_meanwhile_is_no_error(alice: engram.AgentHandle) -> None:
    hits = alice.recall("comet", k=3)
    alice.forget(hits[0].id)
    assert alice.credit(hits, hits[0])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("not among", "is not among the hits"),
        ("not a text", "is not among the hits"),
        ("nothing", "give an empty list"),
        ("no hits", "as recall returned them"),
        ("one hit", "as recall returned them"),
        ("other agent", "credit it as that agent"),
        ("broken id", "as recall returned them"),
        ("empty key", "key is empty"),
    ],
)
def test_what_cannot_be_credited_is_refused_and_says_what_to_do(alice: engram.AgentHandle, bad: str, said: str) -> None:
    hits = alice.recall("comet", k=3)
    bob = alice._brain.agent("bob")
    bob.remember(TEXTS)
    theirs = bob.recall("comet", k=3)
    broken = hits[0].model_copy(update={"id": "a\x00b"})
    calls: dict[str, tuple[object, object, str | None]] = {
        "not among": (hits[:2], [hits[2].id], None),
        "not a text": (hits, [7], None),
        "nothing": (hits, None, None),
        "no hits": ([hit.id for hit in hits], [], None),
        "one hit": (hits[0], [], None),
        "other agent": (theirs, theirs[0], None),
        "broken id": ([broken], [], None),
        "empty key": (hits, hits, " "),
    }
    given, helped, key = calls[bad]
    with pytest.raises(InvalidInput, match=said):
        alice.credit(given, helped, key=key)  # type: ignore[arg-type]
    assert ledger(alice).credits(Scope("alice"), 9) == []


def test_a_store_that_cannot_keep_it_says_so() -> None:
    class Bare:
        """Only what a store must do."""

        def __init__(self) -> None:
            store = InMemoryStore(ExactVectors())
            self.add, self.get, self.search = store.add, store.get, store.search
            self.forget, self.close = store.forget, store.close

    store: MemoryStore = Bare()
    brain = Engram(
        store,
        embedder=HashingEmbedder,
        redactor=SecretRedactor(),
        sources=FixedSources(),
        say=lambda line: None,
    )
    alice = brain.agent("alice")
    alice.remember(TEXTS)
    hits: list[Hit] = alice.recall("comet")
    with pytest.raises(Unsupported, match="needs a store that keeps the outcomes of recalls"):
        alice.credit(hits, hits[0])
    with pytest.raises(Unsupported, match="learning from recalls needs a store"):
        brain.upkeep.tune()


def test_rebuilding_counts_anew_from_the_log(path: Path) -> None:
    with engram.open(path) as brain:
        alice, store = brain.agent("alice"), brain.store
        assert isinstance(store, SqliteStore)
        alice.remember(TEXTS)
        hits = alice.recall("comet", k=3)
        for helped in (hits[1], hits[2], hits[1]):
            alice.credit(hits, helped)
        before = store.page("memory_stats", None, 9)
        assert [(row["helped"], row["hindered"]) for row in before if row["memory_id"] == hits[1].id] == [(2, 1)]
        forge = "UPDATE memory_stats SET helped = 9, hindered = 9"
        store._file.transact(None, lambda conn: conn.exec_driver_sql(forge))
        brain.upkeep.rebuild()
        assert store.page("memory_stats", None, 9) == before


def test_it_can_be_awaited(path: Path) -> None:
    async def life() -> None:
        async with engram.AsyncEngram(engram.open(path)) as brain:
            alice = brain.agent("alice")
            await alice.remember(TEXTS)
            hits = await alice.recall("comet")
            assert await alice.credit(hits, hits[0], key="once")
            assert not await alice.credit(hits, hits[0], key="once")

    asyncio.run(life())
