from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_bench_data import LOCOMO, LONGMEMEVAL

import engram
from engram.embed.hashing import HashingEmbedder
from engram.errors import InvalidInput, MissingExtra, ModelUnavailable
from engram.model import Clean
from engram.ports import Embedder, Matrix, Purpose
from engram.privacy import SecretRedactor
from engram_bench import retrieval
from engram_bench.baselines import Baseline, bm25, by_vector, chroma, fused, text_of
from engram_bench.cached_embedder import CHUNK, CachedEmbedder
from engram_bench.data import Turn, locomo, longmemeval
from engram_bench.rankings import report

TURNS = [
    Turn("1", "s1", "the red kite flew over the hill", "Ada"),
    Turn("2", "s1", "bread needs flour and water", "Bo"),
    Turn("3", "s2", "a kite", "Bo"),
]


class Counting(HashingEmbedder):
    """Counts what it is asked to embed."""

    def __init__(self) -> None:
        super().__init__(64)
        self.seen = 0

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        self.seen += len(texts)
        return super().embed(texts, purpose)


def clean(*texts: str) -> list[Clean]:
    return [cleaned.text for cleaned in SecretRedactor().clean(texts)]


def test_nothing_is_embedded_twice_and_the_order_is_kept() -> None:
    behind, told = Counting(), list[tuple[int, int]]()
    cached = CachedEmbedder(behind, lambda done, total, label="": told.append((done, total)))
    both = cached.embed(clean("a", "b", "a"))
    assert behind.seen == 2
    assert (both == HashingEmbedder(64).embed(clean("a", "b", "a"))).all()
    cached.embed(clean("b"))
    assert behind.seen == 2
    cached.embed(clean("b"), "query")
    assert behind.seen == 3
    assert cached.embed([]).shape == (0, 64)
    assert told == []
    cached.embed(clean(*(f"text {number}" for number in range(CHUNK + 1))))
    assert told == [(CHUNK, CHUNK + 1), (CHUNK + 1, CHUNK + 1)]


def test_bm25_prefers_the_shorter_of_two_and_leaves_out_what_does_not_match() -> None:
    found = bm25(TURNS)("which kites?")
    assert [place for place, _ in found] == [2, 0]
    assert found[0][1] > found[1][1] > 0
    assert bm25(TURNS)("zebra") == []


def test_bm25_is_the_formula() -> None:
    ((_, score),) = bm25([Turn("1", "s", "kite"), Turn("2", "s", "bread")])("kite")
    assert score == pytest.approx(0.6931471805599453)  # ln(1 + 1.5 / 1.5), and the rest is 1


def test_vectors_are_ranked_by_cosine() -> None:
    search = by_vector(HashingEmbedder(), SecretRedactor())(TURNS)
    ((place, score), *_) = search("Bo: a kite")
    assert place == 2
    assert score == pytest.approx(1)


def test_fusion_adds_reciprocal_ranks() -> None:
    one, two = (lambda _: [(0, 9.0), (1, 8.0)]), (lambda _: [(1, 0.5), (2, 0.4)])
    found = dict(fused(lambda _: one, lambda _: two)([])("anything"))
    assert found == {1: 1 / 61 + 1 / 62, 0: 1 / 61, 2: 1 / 62}
    assert list(found) == [1, 0, 2]


def test_chroma_finds_the_same_as_cosine_and_can_be_filled_again() -> None:
    pytest.importorskip("chromadb")
    over = chroma(HashingEmbedder(), SecretRedactor())
    assert over(TURNS)("Bo: a kite")[0][0] == 2
    assert [place for place, _ in over(TURNS[:1])("Bo: a kite")] == [0]


def test_a_speaker_is_part_of_what_others_index() -> None:
    assert text_of(TURNS[0]).startswith("Ada: ")
    assert text_of(Turn("1", "s", "plain")) == "plain"


def test_turns_are_stored_as_memories_with_all_that_is_known(path: Path) -> None:
    data = longmemeval(LONGMEMEVAL)
    with engram.open(path) as brain:
        assert retrieval.store(brain, data) == 0
        assert len(brain.agents()) == 3
        stored = [m for name in brain.agents() for m in brain.agent(name).list()]
        assert len(stored) == sum(len(c.turns) for c in data.conversations)
        (reply, *_) = (m for m in stored if m.text == "Nice.")
        assert (reply.kind, reply.session, reply.role, reply.metadata) == ("message", "s1", "assistant", {"turn": 1})
        assert str(reply.at) == "2023-05-21 15:59:01+00:00"


def test_what_is_there_is_not_stored_again_and_another_embedder_is_refused(path: Path) -> None:
    data = locomo(LOCOMO)
    with engram.open(path) as brain:
        retrieval.run(data, brain)
    with engram.open(path) as brain:
        told: list[str] = []
        retrieval.run(data, brain, on_progress=lambda done, total, label="": told.append(f"{label} {done}/{total}"))
        (agent,) = brain.agents()
        assert len(brain.agent(agent).list()) == 3
        assert told[0] == "storing 3/3"
        assert told[-1] == "asking 5/5"
    with engram.open(path, embedder="hashing:32") as brain, pytest.raises(InvalidInput, match="reembed"):
        retrieval.run(data, brain)


def test_every_question_is_asked_at_both_levels_and_only_of_its_own_conversation(path: Path) -> None:
    data = longmemeval(LONGMEMEVAL)
    with engram.open(path) as brain:
        run, found = retrieval.run(data, brain)
    assert run.turns == 7
    assert [(r.question, r.level) for r in found[:4]] == [
        ("q1", "turn"),
        ("q1", "session"),
        ("q2", "turn"),
        ("q2", "session"),
    ]
    own = {c.id: {t.id for t in c.turns} | {t.session for t in c.turns} for c in data.conversations}
    assert all({id for id, _ in r.ranked} <= own[r.question] for r in found)
    assert all(len({id for id, _ in r.ranked}) == len(r.ranked) for r in found)
    assert [r.confidence is None for r in found[:2]] == [False, True]


def test_baselines_run_on_the_same_questions_and_what_cannot_be_had_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> Embedder:
        raise ModelUnavailable("the model minilm is not installed; run `engram model install minilm`")

    def nothing(*_: object) -> None:
        raise MissingExtra("chroma needs chromadb")

    said: list[str] = []
    with engram.open(path) as brain:
        run, found = retrieval.run(locomo(LOCOMO), brain, minilm=absent, say=said.append)
        assert said == list(run.skipped)
        assert "engram model install minilm" in said[0]
        assert {r.system for r in found} == {"engram", "BM25", "BM25, whole sessions", "vectors"}
        monkeypatch.setattr("engram_bench.baselines.chroma", nothing)
        systems, skipped = retrieval.baselines_for(brain, HashingEmbedder)
        assert [system.name for system in systems] == ["BM25", "BM25, whole sessions", "vectors", "RRF BM25 + MiniLM"]
        assert skipped == ["Chroma is left out: chroma needs chromadb"]
    results = report(run, found)
    asked = {(row["system"], row["questions"]) for row in results["results"] if row["type"] == "all"}
    assert asked == {("engram", 3), ("BM25", 3), ("BM25, whole sessions", 3), ("vectors", 3)}


def test_a_session_ranks_as_its_best_turn() -> None:
    data = locomo(LOCOMO)
    fixed = Baseline("fixed", lambda turns: lambda query: [(2, 0.9), (1, 0.8), (0, 0.7)])
    turns, sessions = retrieval.compare(data, [fixed])[:2]
    assert turns.ranked == (("D2:1", 0.9), ("D1:2", 0.8), ("D1:1", 0.7))
    assert sessions.ranked == (("session_2", 0.9), ("session_1", 0.8))


def test_a_conversation_without_turns_is_asked_in_vain(path: Path) -> None:
    empty = {**LOCOMO[0], "sample_id": "c0", "conversation": {}}
    with engram.open(path) as brain:
        _, found = retrieval.run(locomo([empty, *LOCOMO]), brain, minilm=HashingEmbedder)
    assert {r.system for r in found} >= {"engram", "BM25", "vectors", "RRF BM25 + MiniLM"}
    assert all(r.ranked == () for r in found if r.question.startswith("c0/"))


def test_confidence_is_that_of_the_first_hit_and_nothing_found_is_zero(brain: engram.Engram) -> None:
    agent = brain.agent("a")
    assert retrieval.confidence(agent.recall("kite")) == 0
    agent.remember("a red kite")
    hits = agent.recall("kite")
    assert retrieval.confidence(hits) == getattr(hits[0], "confidence", hits[0].score)
