from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from engram.text.passages import LONGEST_WHOLE, MOST, OVERLAP, SIZE, passages

SENTENCES = " ".join(f"This is sentence number {n} of a long report about the deploy." for n in range(200))


def test_a_short_text_is_its_own_only_passage() -> None:
    assert passages("Staging runs PostgreSQL 15") == ["Staging runs PostgreSQL 15"]
    assert passages("x" * LONGEST_WHOLE) == ["x" * LONGEST_WHOLE]


def test_a_long_text_is_cut_between_sentences_and_neighbours_overlap() -> None:
    found = passages(SENTENCES)
    assert len(found) > 10
    assert all(passage.endswith(".") and passage.startswith("This is") for passage in found)
    for before, after in itertools.pairwise(found):
        assert after[:20] in before[SIZE // 2 :]


def test_paragraphs_are_better_places_to_cut_than_sentences() -> None:
    text = "\n\n".join("A short paragraph. It has three sentences. This is the last." * 2 for _ in range(40))
    assert all(passage.startswith("A short") for passage in passages(text))


def test_a_text_without_any_place_to_cut_is_cut_anyway() -> None:
    assert {len(passage) for passage in passages("x" * 5000)[:-1]} == {SIZE}


@given(st.text(st.sampled_from("ab .\n漢。!"), min_size=0, max_size=6000))
def test_every_character_is_in_some_passage(text: str) -> None:
    found, reached = passages(text), 0
    for passage in found:
        first = text.find(passage, max(0, reached - SIZE - OVERLAP))
        assert first >= 0
        assert not text[reached:first].strip()
        reached = max(reached, first + len(passage))
    assert not text[reached:].strip()
    assert all(len(passage) <= LONGEST_WHOLE for passage in found)


def test_there_are_never_too_many() -> None:
    assert len(passages("some words " * 90_000)) == MOST
