"""Grouping episodes by similar situations."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from engram.learning.decisions.belief import DecisionEpisode
from engram.learning.situations.similar_contexts import descriptive_features, distinct_episodes, group_episodes

START = datetime(2026, 1, 1, tzinfo=UTC)


def episode(number: int, context: str) -> DecisionEpisode:
    return DecisionEpisode(f"{number:05}", "retry", 1.0, START + timedelta(minutes=number), context)


def groups_of(*contexts: str) -> list[list[str]]:
    made = group_episodes(episode(number, context) for number, context in enumerate(contexts))
    return [[one.context for one in group.episodes] for group in made]


def test_the_same_context_in_other_letters_is_one_situation() -> None:
    assert len(groups_of("API auth timeout", "api  auth timeout.", "api-auth-timeout")) == 1


def test_contexts_that_share_most_words_are_one_situation() -> None:
    assert groups_of("login fails on staging", "database migration", "login fails on production") == [
        ["login fails on staging", "login fails on production"],
        ["database migration"],
    ]


def test_a_number_names_a_case_and_not_a_kind() -> None:
    assert len(groups_of("deploy service 17", "deploy service 4711")) == 1


def test_contexts_without_words_are_situations_of_their_own() -> None:
    assert len(groups_of("", "?!", "deploy", "")) == 3


def test_a_group_is_called_after_the_context_it_was_first_met_in() -> None:
    later, earlier = episode(9, "login fails on staging now"), episode(1, "Login fails on staging")
    (group,) = group_episodes([later, earlier])
    assert group.signature == "login fails on staging"
    assert group.episodes == (earlier, later)


def test_of_two_copies_of_an_episode_the_better_trusted_one_counts() -> None:
    mine = episode(1, "deploy")
    assert distinct_episodes([replace(mine, trust=0.4), mine, replace(mine, trust=0.2)]) == [mine]


def test_a_situation_is_described_by_features_and_telling_words() -> None:
    assert descriptive_features("The build is slow", frozenset({"env=ci"})) == {"env=ci", "word=build", "word=slow"}


WORDS = ["login", "fails", "staging", "deploy", "slow", "7", "cache", "nightly"]
contexts = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), max_size=25)


@given(contexts, st.randoms())
def test_every_episode_is_in_one_group_whatever_the_order(texts: list[str], dice: random.Random) -> None:
    past = [episode(number, text) for number, text in enumerate(texts)]
    shuffled = list(past)
    dice.shuffle(shuffled)
    groups = group_episodes(shuffled)
    assert groups == group_episodes(past)
    assert sorted(one.id for group in groups for one in group.episodes) == [one.id for one in past]


@given(contexts, contexts)
def test_later_episodes_never_move_earlier_ones(first: list[str], then: list[str]) -> None:
    past = [episode(number, text) for number, text in enumerate([*first, *then])]
    before = {one.id: group.signature for group in group_episodes(past[: len(first)]) for one in group.episodes}
    after = {one.id: group.signature for group in group_episodes(past) for one in group.episodes}
    assert before.items() <= after.items()


def test_ten_thousand_episodes_are_grouped_quickly() -> None:
    dice = random.Random(1)
    words = [f"{a}{b}on" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "ai", "ei", "ou")]
    past = [episode(number, " ".join(dice.choices(words, k=6))) for number in range(10_000)]
    began = time.thread_time()
    group_episodes(past)
    assert time.thread_time() - began < 6  # a second on an idle machine
