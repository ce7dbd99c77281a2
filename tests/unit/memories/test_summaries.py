from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.memories.summaries import MAX_SENTENCE, Utterance, sentences, summarise
from engram.recall.pack import tokens

TALK = [
    Utterance("user", "Hi there. Our staging database ran out of disk space again last night."),
    Utterance("assistant", "Sorry to hear that. How large is the disk of the staging database?"),
    Utterance("user", "It has 40 GB. The write-ahead log took 31 GB because a replication slot was left behind."),
    Utterance("assistant", "Then drop the replication slot `old_standby`; the log shrinks at the next checkpoint."),
    Utterance("user", "That worked, thanks. Please remember to check slots before every release on Friday."),
]


def test_a_summary_keeps_what_the_talk_was_about_and_leaves_out_the_courtesies() -> None:
    summary = summarise(TALK, budget=60)
    assert "replication slot" in summary
    assert "31 GB" in summary
    assert "Hi there" not in summary
    assert "Sorry" not in summary


def test_sentences_stay_in_their_order_each_after_who_said_it() -> None:
    lines = summarise(TALK, budget=80).splitlines()
    whole = [f"{one.speaker}: {sentence}" for one in TALK for sentence in sentences(one.text)]
    assert [line for line in whole if line in lines] == lines


def test_what_was_said_twice_is_said_once() -> None:
    assert (
        summarise([Utterance("user", "The build is red."), Utterance("user", "The build is red.")])
        == "user: The build is red."
    )


def test_nothing_said_gives_nothing() -> None:
    assert summarise([]) == ""
    assert summarise([Utterance("user", " \n ... ")]) == ""


def test_a_sentence_too_long_for_the_budget_is_cut_at_a_word() -> None:
    summary = summarise([Utterance("user", "word " * 500)], budget=20)
    assert tokens(summary) <= 20
    assert summary.endswith("word …")


def test_quotes_and_brackets_stay_with_the_sentence_they_close() -> None:
    assert sentences('He said "stop." Then (at 3 p.m.) it ended! 好。行') == [
        'He said "stop."',
        "Then (at 3 p.m.)",
        "it ended!",
        "好。",
        "行",
    ]


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", ""]), st.text(max_size=300))), st.integers(1, 100))
def test_nothing_is_invented_and_the_budget_is_kept(said: list[tuple[str, str]], budget: int) -> None:
    talk = [Utterance(who, text) for who, text in said]
    summary = summarise(talk, budget)
    assert summary == summarise(talk, budget)
    assert not summary or tokens(summary) <= budget
    originals = [
        f"{one.speaker}: {sentence}" if one.speaker else sentence for one in talk for sentence in sentences(one.text)
    ]
    for line in summary.split("\n") if summary else []:
        assert any(original.startswith(line.removesuffix("…").rstrip()) for original in originals)


@pytest.mark.parametrize("text", ['."' * 50_000, "a. " * 50_000, "x" * 500_000, "?!" * 100_000, "\n" * 100_000])
def test_hostile_text_takes_no_longer_than_its_length(text: str) -> None:
    start = time.thread_time()
    summarise([Utterance("user", text)])
    assert time.thread_time() - start < 5


def test_a_line_is_never_longer_than_the_limit() -> None:
    assert len(summarise([Utterance("user", "y" * 5000)], budget=10_000)) <= MAX_SENTENCE
