"""A recall taken apart says the same as the recall, and why the rest was left out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.engine import Engram
from engram.ports import Filter, Scope
from engram.recall.explain import Explanation, explain
from engram.recall.rank import Weights
from engram.recall.search import RecallRequest, recall

NOW = datetime(2026, 11, 1, tzinfo=UTC)
ALICE = Scope("alice")
TEXTS = [
    f"{what} of {service} takes {number} minutes"
    for number, (what, service) in enumerate(
        (what, service) for what in ("deploy", "backup", "restart") for service in ("billing", "auth", "search", "mail")
    )
]


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path: Path = tmp_path_factory.mktemp("explain") / "team.db"
    with engram.open(path, embedder="hashing", durable=False) as opened:
        alice = opened.agent("alice")
        alice.remember([{"text": text, "session": f"s{at // 3}"} for at, text in enumerate(TEXTS)])
        alice.remember("the office has a coffee machine")
        yield opened


def told(brain: Engram, query: str, **wanted: Any) -> tuple[Explanation, list[str]]:
    asked = RecallRequest(NOW, where=Filter(), **wanted)
    clean = brain.clean(query)
    own = explain(brain.store, ALICE, clean, brain.near, asked)
    return own, [hit.id for hit in recall(brain.store, ALICE, clean, brain.near, asked)]


@given(
    query=st.sampled_from(["deploy of billing", "how long does a restart take?", "coffee", "zebra", "auth"]),
    k=st.integers(1, 15),
    min_score=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    group_by=st.sampled_from([None, "session"]),
    budget=st.sampled_from([None, 1, 9, 30, 1000]),
    recency=st.sampled_from([0.05, 5.0]),
)
def test_what_is_kept_is_what_the_recall_answers(
    brain: Engram, query: str, k: int, min_score: float, group_by: Any, budget: int | None, recency: float
) -> None:
    wanted = {"k": k, "min_score": min_score, "group_by": group_by, "budget_tokens": budget}
    own, hits = told(brain, query, weights=Weights(recency=recency), **wanted)
    assert [candidate.id for candidate in own.kept] == hits


def test_every_candidate_says_how_it_was_found_and_what_its_score_is_made_of(brain: Engram) -> None:
    own, _ = told(brain, "deploy of billing", k=3)
    best = own.candidates[0]
    assert best.rank == 1
    assert best.found_by == "both"
    assert best.memory is not None
    assert best.memory.text == TEXTS[0]
    assert best.word_rank == 1
    assert best.similarity is not None
    assert best.parts["similar"] > 0
    assert [candidate.rank for candidate in own.candidates if candidate.rank] == list(
        range(1, len([candidate for candidate in own.candidates if candidate.rank]) + 1)
    )
    assert {candidate.found_by for candidate in own.candidates} <= {"words", "vector", "both", "neighbour"}
    assert len({candidate.id for candidate in own.candidates}) == len(own.candidates)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"k": 2}, "k"),
        ({"k": 50, "min_score": 0.9}, "min_score"),
        ({"k": 50, "group_by": "session"}, "group"),
        ({"k": 50, "budget_tokens": 10}, "budget"),
    ],
)
def test_what_is_left_out_says_why(brain: Engram, wanted: dict[str, Any], reason: str) -> None:
    own, _ = told(brain, "deploy of billing", **wanted)
    assert reason in {candidate.dropped for candidate in own.candidates}


def test_what_was_not_looked_at_closely_is_shown_too(tmp_path: Path) -> None:
    with engram.open(tmp_path / "many.db", embedder="hashing", durable=False) as brain:
        brain.agent("alice").remember([f"deploy number {n} of the billing service" for n in range(90)])
        own = explain(brain.store, ALICE, brain.clean("deploy"), lambda _: None, RecallRequest(NOW, k=40))
        assert own.vectors is None
        left = [candidate for candidate in own.candidates if candidate.dropped == "choice"]
        assert own.words == 80
        assert len(left) == 0  # words alone: all of them are looked at
        own = explain(brain.store, ALICE, brain.clean("deploy number 7 billing"), brain.near, RecallRequest(NOW, k=3))
        assert all(candidate.rank is None for candidate in own.candidates if candidate.dropped == "choice")
        assert {candidate.id for candidate in own.candidates} >= {candidate.id for candidate in own.kept}


def test_the_vector_of_a_query_is_asked_for_once(brain: Engram) -> None:
    asked = list[str]()

    def near(query: Any) -> None:
        asked.append(query)

    own = explain(brain.store, ALICE, brain.clean("deploy of billing"), near, RecallRequest(NOW))
    assert len(asked) == 1
    assert own.vectors is None
    assert {candidate.found_by for candidate in own.candidates} <= {"words", "neighbour"}
