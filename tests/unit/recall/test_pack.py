"""Recalled memories fit into what the caller has room for."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from engram.model import Clean, Hit, Memory, MemoryType, ObservationContent, Provenance
from engram.recall.pack import best_per_session, tokens, within_budget

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def hit(id: str, text: str = "x", session: str | None = None) -> Hit:
    memory = Memory(
        id=id,
        agent="alice",
        kind=MemoryType.OBSERVATION,
        text=Clean(text),
        content=ObservationContent(),
        provenance=Provenance(author=Clean("alice"), session=None if session is None else Clean(session)),
        created_at=NOW,
        happened_at=NOW,
        valid_from=NOW,
    )
    return Hit(id=id, memory=memory, score=0.5)


@given(st.lists(st.text(min_size=1, max_size=80), max_size=20), st.integers(0, 60))
def test_what_is_kept_fits_and_keeps_its_order(texts: list[str], budget: int) -> None:
    hits = [hit(f"{i:03}", text) for i, text in enumerate(texts)]
    kept = within_budget(hits, budget)
    assert sum(tokens(h.memory.text) for h in kept) <= budget
    assert [h.id for h in kept] == sorted(h.id for h in kept)


def test_one_that_is_too_long_does_not_keep_shorter_ones_out() -> None:
    kept = within_budget([hit("a", "x" * 40), hit("b", "x" * 400), hit("c", "x" * 40)], 20)
    assert [h.id for h in kept] == ["a", "c"]


def test_each_session_is_there_once_by_its_best_and_the_sessionless_stand_alone() -> None:
    hits = [hit("a", session="s1"), hit("b"), hit("c", session="s1"), hit("d"), hit("e", session="s2")]
    assert [h.id for h in best_per_session(hits)] == ["a", "b", "d", "e"]
