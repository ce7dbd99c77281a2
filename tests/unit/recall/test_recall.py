"""Recall from end to end: what is found, and what never is, on a store in memory and on a real file."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engram
from engram.embed.hashing import HashingEmbedder
from engram.engine import AgentHandle, Engram
from engram.model import Clean, ForgetReceipt, Hit, Memory, Receipt
from engram.ports import (
    Embedder,
    Entry,
    Match,
    Matrix,
    MemoryStore,
    Purpose,
    Query,
    RankingInput,
    ReadsNeighbours,
    Scope,
)
from engram.privacy import SecretRedactor
from engram.stores.memory import InMemoryStore
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import FixedSources
from engram.text.terms import query_terms

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)  # a Wednesday
MEANINGS: Mapping[str, Mapping[str, float]] = {
    "dog": {"pet": 1.0},
    "pet": {"pet": 1.0},
    "beagl": {"breed": 1.0},
    "zoo": {"pet": 0.4, "town": 1.0},
    "museum": {"town": 1.0},
    "hike": {"sport": 1.0},
    "climb": {"sport": 1.0},
    "cake": {"food": 1.0},
    "bake": {"food": 0.8},
    "flute": {"music": 1.0},
    "concert": {"music": 0.9, "town": 0.2},
}
AXES = ("pet", "breed", "town", "sport", "food", "music", "else")


class Meaning:
    """An embedder that knows what a few words mean, and no names."""

    identity, dim = "meaning@1", len(AXES)

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        rows[:, -1] = 0.3
        for row, text in zip(rows, texts, strict=True):
            for term in query_terms(text):
                for axis, weight in MEANINGS.get(term, {}).items():
                    row[AXES.index(axis)] += weight
        unit: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


class Plain:
    """A store that can do what every store must, and no more."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        return self._store.add(scope, entries)

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        return self._store.get(scope, ids)

    def search(self, scope: Scope, query: Query) -> list[Match]:
        assert query.among is None
        return self._store.search(scope, query)

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        return self._store.forget(scope, ids)

    def close(self) -> None:
        self._store.close()


def brain_on(store: MemoryStore, embedder: Embedder | None = None) -> Engram:
    chosen = embedder or Meaning()
    sources = FixedSources(NOW)
    return Engram(store, embedder=lambda: chosen, redactor=SecretRedactor(), sources=sources, say=lambda line: None)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[InMemoryStore | SqliteStore]:
    if request.param == "memory":
        opened: InMemoryStore | SqliteStore = InMemoryStore(ExactVectors())
    else:
        opened = SqliteStore(tmp_path / "engram.db", ExactVectors(), FixedSources(), durable=False)
    yield opened
    opened.close()


@pytest.fixture
def alice(store: InMemoryStore | SqliteStore) -> AgentHandle:
    return brain_on(store).agent("alice")


def said(alice: AgentHandle, session: str | None, *turns: tuple[str, str], **fields: Any) -> list[str]:
    """Store the turns of a session, each a speaker and a text; their ids."""
    drafts = [engram.Draft(text, speaker=speaker, kind="message", **fields) for speaker, text in turns]
    receipts = alice.remember(drafts, **({} if session is None else {"session": session}))
    return [str(receipt.id) for receipt in receipts]


def crowd(alice: AgentHandle, text: str = "The zoo opened hall {}", count: int = 150, **fields: Any) -> None:
    """Many memories that are a little like what is asked, each in a session of its own."""
    for start in range(0, count, 50):
        alice.remember([engram.Draft(text.format(start + n), session=f"c{start + n}", **fields) for n in range(50)])


def texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.memory.text for hit in hits]


# Neighbours, speakers, times -------------------------------------------------------------------------


def test_an_answer_beside_its_question_is_found_though_it_shares_no_word_with_the_query(alice: AgentHandle) -> None:
    _, question, answer, _ = said(
        alice,
        "s1",
        ("Bob", "Nice weather today"),
        ("Bob", "Which dog did you get?"),
        ("Ann", "A beagle, and she is lovely"),
        ("Bob", "See you tomorrow"),
    )
    crowd(alice)
    hits = alice.recall("Which dog is it?", k=3)
    why = {hit.id: hit.why for hit in hits}
    assert hits[0].id == question
    assert why[question]["found_by"] == "both"
    assert why[answer]["found_by"] == "neighbour"
    assert "similarity" not in why[answer]


def test_an_answer_in_another_session_is_no_neighbour(alice: AgentHandle) -> None:
    said(alice, "s1", ("Bob", "Which dog did you get?"))
    (stray,) = said(alice, "s2", ("Ann", "A beagle, and she is lovely"))
    (loose,) = said(alice, None, ("Ann", "Two of them"))
    crowd(alice)
    assert not {stray, loose} & {hit.id for hit in alice.recall("Which dog is it?", k=50)}


def test_of_two_who_said_alike_the_one_is_found_who_was_asked_about(alice: AgentHandle) -> None:
    ann, bob = said(alice, "s1", ("Ann", "I took my dog for a hike"), ("Bob", "I took my dog for a hike too"))
    crowd(alice)
    assert alice.recall("Where did Ann take her dog?")[0].id == ann
    best = alice.recall("Where did Bob take his dog?")[0]
    assert best.id == bob
    assert isinstance(best.why["about"], float)
    assert best.why["about"] > 0


def test_the_role_is_asked_about_by_i_and_you(alice: AgentHandle) -> None:
    roles = ("user", "assistant")
    user, assistant = (
        str(alice.remember(f"The concert is nice to {verb}", role=role, session="s").id)
        for verb, role in zip(("hear", "see"), roles, strict=True)
    )
    crowd(alice, "The museum opened hall {}")
    assert alice.recall("Which concert did I like?")[0].id == user
    assert alice.recall("Which concert was it that you recommended?")[0].id == assistant


def test_a_time_in_the_query_is_meant_from_now(alice: AgentHandle) -> None:
    for week in range(12):
        at = NOW - timedelta(weeks=week, days=1)
        alice.remember(f"Baked a cake, number {week}", at=at, session=f"week {week}")
    assert texts(alice.recall("Which cake did I bake last week?", k=1)) == ["Baked a cake, number 1"]
    asked = NOW - timedelta(weeks=5)
    assert texts(alice.recall("Which cake did I bake last week?", k=1, now=asked)) == ["Baked a cake, number 6"]
    assert texts(alice.recall("Which cake did I bake yesterday?", k=1, now=asked)) == ["Baked a cake, number 5"]


def test_a_long_text_names_the_passage_that_matched(store: InMemoryStore | SqliteStore) -> None:
    alice = brain_on(store, HashingEmbedder()).agent("alice")
    report = " ".join(f"Line {n} is about the weather in the mountains." for n in range(200))
    id = str(alice.remember(report + " Marmots whistle.").id)
    alice.remember(["Snow is cold", "Rain is wet"])
    (last,) = [index.passages for index in alice.indexes(id)]
    why = {hit.id: hit.why for hit in alice.recall("Marmots whistle")}
    assert repr(why[id]["passage"]) == repr(last)
    assert last > 1
    assert all("passage" not in parts for other, parts in why.items() if other != id)


def test_a_query_that_nothing_answers_scores_low(alice: AgentHandle) -> None:
    said(alice, "s", ("Ann", "My dog is a beagle"), ("Bob", "The cake was good"))
    assert alice.recall("What does the dog look like?")[0].score > 0.6
    assert max((hit.score for hit in alice.recall("Who plays the flute?")), default=0.0) < 0.2


# What never is found ---------------------------------------------------------------------------------

FILTERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "kinds": ({"kind": "message"}, {"kind": "observation"}, {"kinds": "message"}),
    "tags": ({"tags": ["x", "y"]}, {"tags": ["x"]}, {"tags": ["x", "y"]}),
    "since": ({"at": NOW}, {"at": NOW - timedelta(days=9)}, {"since": NOW - timedelta(days=1)}),
    "until": ({"at": NOW - timedelta(days=9)}, {"at": NOW}, {"until": NOW - timedelta(days=1)}),
    "valid": ({}, {"at": NOW - timedelta(days=9), "valid_until": NOW - timedelta(days=8)}, {}),
    "as_of": (
        {"at": NOW - timedelta(days=9)},
        {"at": NOW - timedelta(days=5)},
        {"as_of": NOW - timedelta(days=7)},
    ),
}


@pytest.mark.parametrize(("passing", "failing", "filters"), FILTERS.values(), ids=FILTERS.keys())
def test_filters_hold_for_neighbours_too(
    alice: AgentHandle, passing: dict[str, Any], failing: dict[str, Any], filters: dict[str, Any]
) -> None:
    turns = ["Which dog did you get?", "A beagle, and she is lovely", "Is the dog house-trained?", "Quite"]
    good, bad, good_too, bad_too = (
        str(alice.remember(text, session="s", **(failing if n % 2 else passing)).id) for n, text in enumerate(turns)
    )
    crowd(alice)
    found = {hit.id for hit in alice.recall("Which dog is it?", k=200, **filters)}
    assert found >= {good, good_too}
    assert not found & {bad, bad_too}


@pytest.mark.parametrize(("passing", "failing", "filters"), FILTERS.values(), ids=FILTERS.keys())
def test_filters_are_applied_before_the_best_are_taken(
    alice: AgentHandle, passing: dict[str, Any], failing: dict[str, Any], filters: dict[str, Any]
) -> None:
    wanted = str(alice.remember("Somebody had a dog, of which little is known", session="s", **passing).id)
    for start in range(0, 200, 50):
        alice.remember([f"The dog, the dog! {start + n}" for n in range(50)], session="s", **failing)
    assert [hit.id for hit in alice.recall("the dog", k=3, **filters)] == [wanted]


def test_a_session_filter_keeps_to_the_session(alice: AgentHandle) -> None:
    mine = said(alice, "s", ("Ann", "My dog is a beagle"), ("Bob", "Nice"))
    said(alice, "S", ("Ann", "My dog is a beagle"), ("Bob", "Nice"))
    said(alice, "s2", ("Ann", "My dog is a beagle"), ("Bob", "Nice"))
    assert {hit.id for hit in alice.recall("dog", k=20, session="s")} == set(mine)


def test_scopes_never_mix_though_their_sessions_have_the_same_name(store: InMemoryStore | SqliteStore) -> None:
    brain = brain_on(store)
    alice, bob = brain.agent("alice"), brain.agent("bob")
    owners: dict[str, str] = {}
    for n in range(20):  # turn by turn, so that neighbours by number are of the other one
        for agent in (alice, bob):
            owners |= dict.fromkeys(said(agent, "s", ("Ann", f"My dog did trick {n}")), agent.name)
    assert len(owners) == 40
    for agent in (alice, bob):
        found = agent.recall("Which trick did the dog of Ann do?", k=50)
        assert len(found) == 20
        assert {owners[hit.id] for hit in found} == {agent.name}
    assert brain.agent("carol").recall("Which trick did the dog of Ann do?") == []


def test_speakers_of_another_scope_are_nobody_here(store: InMemoryStore | SqliteStore) -> None:
    brain = brain_on(store)
    said(brain.agent("bob"), "s", ("Rex", "My dog is a beagle"))
    alice = brain.agent("alice")
    said(alice, "s", ("Ann", "Rex is a dog"))
    (hit,) = alice.recall("Who is Rex?")
    assert hit.why["found_by"] == "both"
    assert "about" not in hit.why


def test_what_is_forgotten_vanishes_at_once(alice: AgentHandle) -> None:
    question, answer, last = said(alice, "s", ("Bob", "Which dog?"), ("Ann", "A beagle"), ("Bob", "A dog!"))
    crowd(alice)
    assert answer in {hit.id for hit in alice.recall("Which dog?", k=9)}
    alice.forget(answer)
    assert answer not in {hit.id for hit in alice.recall("Which dog?", k=200)}
    alice.forget(question)
    alice.forget(last)
    assert not {question, answer, last} & {hit.id for hit in alice.recall("Which dog?", k=200)}


class Forgetful(InMemoryStore):
    """A store in which others forget everything between two looks at it."""

    def neighbours(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[RankingInput]:
        self.forget(scope, ids)
        return super().neighbours(scope, ids, reach, terms)


def test_what_is_forgotten_during_a_recall_is_not_found() -> None:
    alice = brain_on(Forgetful(ExactVectors())).agent("alice")
    said(alice, "s", ("Bob", "Which dog?"), ("Ann", "A beagle"))
    assert alice.recall("Which dog?") == []


# Stores that know less, groups, budgets --------------------------------------------------------------


def test_a_store_that_knows_nothing_of_surroundings_is_searched_by_words_and_vectors() -> None:
    store = Plain(InMemoryStore(ExactVectors()))
    assert not isinstance(store, ReadsNeighbours)
    alice = brain_on(store).agent("alice")
    dog, answer = said(alice, "s", ("Bob", "Which dog did you get?"), ("Ann", "A beagle"))
    crowd(alice)
    hits = alice.recall("Which dog did Ann get?", k=3)
    assert hits[0].id == dog
    assert answer not in {hit.id for hit in hits}
    assert set(hits[0].why) == {"words", "similar", "similarity", "found_by"}
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert len(alice.recall("dog", kinds="message", k=9)) == 2


def test_grouping_gives_each_session_once_with_its_best(alice: AgentHandle) -> None:
    for n in range(4):
        said(alice, f"s{n}", ("Ann", f"The dog, day {n}"), ("Bob", "Fine"), ("Ann", f"The dog again, day {n}"))
    loose = [said(alice, None, ("Ann", f"No dog in sight {n}"))[0] for n in range(2)]
    hits = alice.recall("the dog", k=20, group_by="session")
    sessions = [hit.session for hit in hits]
    assert sorted(name for name in sessions if name) == ["s0", "s1", "s2", "s3"]
    assert {hit.id for hit in hits if hit.session is None} == set(loose)
    whole = alice.recall("the dog", k=20)
    assert [hit.id for hit in hits] == [
        next(hit.id for hit in whole if (hit.session or hit.id) == group)
        for group in dict.fromkeys(hit.session or hit.id for hit in whole)
    ]


@pytest.mark.parametrize("k", [1, 3, 10, 40])
def test_fewer_are_the_first_of_more(alice: AgentHandle, k: int) -> None:
    for n in range(20):
        said(alice, f"s{n}", ("Ann", f"The dog on day {n}"), ("Bob", "Hike again?"), ("Ann", f"Cake number {n}"))
    assert texts(alice.recall("dog hike", k=k)) == texts(alice.recall("dog hike", k=40))[:k]


# The same quality whatever people are called and whenever it was -------------------------------------

TOPICS = {
    "dog": ("took the dog to the vet", "the dog ate my shoes", "a pet is a joy"),
    "hike": ("went for a hike at the lake", "a climb up the hill", "my hike was long"),
    "cake": ("baked a cake for the fair", "my cake fell apart", "had to bake all night"),
    "flute": ("played the flute in public", "a concert at the park", "my flute broke"),
}
QUESTIONS = (
    "What did {a} say about the dog?",
    "Where did {b} hike last week?",
    "Which cake did {a} bake yesterday?",
    "Did {a} hear {b}'s flute?",
    "When was the concert?",
    "What did {c} do two weeks ago?",
    "{b}",
)


def chat(alice: AgentHandle, names: Sequence[str], shift: timedelta, seed: int) -> list[str]:
    """Forty sessions of small talk, the same but for who speaks and when; the ids in order."""
    chance, ids = random.Random(seed), list[str]()
    for session in range(40):
        at = NOW + shift - timedelta(days=chance.randint(0, 60), hours=chance.randint(0, 9))
        first, second = chance.sample(range(3), 2)
        drafts = []
        for turn in range(chance.randint(2, 6)):
            me, you = (first, second) if turn % 2 else (second, first)
            text = chance.choice(TOPICS[chance.choice(list(TOPICS))])
            text = (
                f"{names[you]}, I {text}" if chance.random() < 0.5 else f"Oh, I {text} on day {chance.randint(1, 99)}"
            )
            drafts.append(engram.Draft(text, speaker=names[me], at=at + timedelta(minutes=turn), session=f"s{session}"))
        ids += [str(receipt.id) for receipt in alice.remember(drafts)]
    return ids


def answers(alice: AgentHandle, ids: Sequence[str], names: Sequence[str], now: datetime) -> list[list[int]]:
    """For each question, the places of the hits in the chat, best first."""
    place = {id: n for n, id in enumerate(ids)}
    asked = [question.format(a=names[0], b=names[1], c=names[2]) for question in QUESTIONS]
    return [[place[hit.id] for hit in alice.recall(query, k=10, now=now)] for query in asked]


@pytest.mark.parametrize(
    ("names", "weeks"),
    [
        (("Cleo", "Ann", "Bob"), 0),
        (("Zoë", "Li", "Иван"), 0),
        (("Ann", "Bob", "Cleo"), 1),
        (("Ann", "Bob", "Cleo"), -260),
        (("Sam", "Mo", "Björk"), -52),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_names_and_dates_do_not_change_what_is_found(
    store: InMemoryStore | SqliteStore, names: Sequence[str], weeks: int, seed: int
) -> None:
    brain, usual = brain_on(store), ("Ann", "Bob", "Cleo")
    before, after = brain.agent("before"), brain.agent("after")
    shift = timedelta(weeks=weeks)
    expected = answers(before, chat(before, usual, timedelta(0), seed), usual, NOW)
    assert answers(after, chat(after, names, shift, seed), names, NOW + shift) == expected
    assert all(len(found) == 10 for found in expected)
