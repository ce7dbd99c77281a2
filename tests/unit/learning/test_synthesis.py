"""Knowledge pooled from several agents."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.learning.decisions.belief import DecisionEpisode
from engram.learning.patterns.successes import patterns_in_groups
from engram.learning.patterns.synthesis import KnowledgeSynthesizer, agent_weights
from engram.learning.situations.similar_contexts import ContextGroup, group_episodes
from engram.model import Synthesis

START = datetime(2026, 1, 1, tzinfo=UTC)
SITUATIONS = ["api auth timeout", "disk is full", "flaky login test", "slow nightly build", "schema migration fails"]
synthesizer = KnowledgeSynthesizer()


def episode(number: int, agent: str, action: str, quality: float, context: str = "api auth timeout") -> DecisionEpisode:
    return DecisionEpisode(
        f"{agent}{number:05}", action, quality, START + timedelta(minutes=number), context, agent=agent
    )


def life(agent: str, seed: int, *, turned: bool = False, episodes: int = 300) -> list[DecisionEpisode]:
    """Make an agent's outcomes in a world where every second situation needs another action."""
    dice = random.Random(seed)
    made = []
    for number in range(episodes):
        where, action = dice.randrange(len(SITUATIONS)), dice.choice(["retry", "clean up"])
        works = ((where % 2 == 0) == (action == "retry")) != turned
        made.append(episode(number, agent, action, float(dice.random() < (0.9 if works else 0.15)), SITUATIONS[where]))
    return made


def test_nothing_gives_nothing() -> None:
    assert synthesizer.synthesize([]) == Synthesis()


def test_a_single_agent_counts_fully() -> None:
    knowledge = synthesizer.synthesize([episode(n, "alice", "retry", 1.0) for n in range(4)])
    assert knowledge.weights == {"alice": 1.0}
    (rate,) = knowledge.rates
    assert (rate.context_signature, rate.action, rate.attempts) == ("api auth timeout", "retry", 4)
    assert rate.success_rate == pytest.approx(5 / 6, abs=0.01)
    assert [pattern.name for pattern in knowledge.patterns] == ["retry"]
    (template,) = knowledge.templates
    assert template.decide(frozenset()).recommended == "retry"


def test_agents_whose_outcomes_agree_lend_each_other_more() -> None:
    past = [*life("alice", 1), *life("bob", 2), *life("mallory", 3, turned=True)]
    weights = synthesizer.synthesize(past, own="alice").weights
    assert weights["alice"] == 1.0
    assert weights["bob"] > 0.7
    assert weights["mallory"] < 0.3
    crowd = agent_weights(group_episodes([*past, *life("carol", 4)]))
    assert min(crowd[name] for name in ("alice", "bob", "carol")) > crowd["mallory"]


def test_a_stranger_counts_as_far_as_it_is_trusted() -> None:
    past = [episode(1, "alice", "retry", 1.0), replace(episode(2, "bob", "wait", 1.0), trust=0.6)]
    knowledge = synthesizer.synthesize(past, own="alice")
    assert knowledge.weights["bob"] == pytest.approx(1.0)
    waiting = next(rate for rate in knowledge.rates if rate.action == "wait")
    assert waiting.contributions[0].agent == "bob"
    assert waiting.contributions[0].weight == pytest.approx(0.6)
    assert waiting.success_rate == pytest.approx(1.6 / 2.6)


@pytest.mark.parametrize("own", [None, "alice", "bob"])
def test_what_another_agent_records_elsewhere_changes_no_rate(own: str | None) -> None:
    past = [episode(n, "alice", "retry", 1.0) for n in range(10)]
    alone = synthesizer.synthesize(past, own=own).rates
    beside = synthesizer.synthesize([*past, episode(1, "bob", "water the plants", 1.0, "office garden")], own=own).rates
    assert [rate for rate in beside if rate.action == "retry"] == list(alone)


def test_an_agent_with_other_outcomes_does_not_turn_the_decision() -> None:
    past = [*life("alice", 1, episodes=150), *life("mallory", 3, turned=True, episodes=400)]
    knowledge = synthesizer.synthesize(past, own="alice")
    chosen = {template.context_signature: template.decide(frozenset()).action for template in knowledge.templates}
    assert chosen == {text: ("retry", "clean up")[number % 2] for number, text in enumerate(SITUATIONS)}


def test_there_is_one_template_for_each_situation_and_none_for_all() -> None:
    knowledge = synthesizer.synthesize(life("alice", 1, episodes=600))
    assert sorted(template.context_signature for template in knowledge.templates) == sorted(SITUATIONS)
    assert [template.title for template in knowledge.templates] == [t.context_signature for t in knowledge.templates]


def test_a_template_and_a_pattern_have_the_title_of_their_situation() -> None:
    named = ContextGroup("api auth timeout", (), "Sign-in is slow")
    assert named.display_name == "Sign-in is slow"
    past = tuple(episode(n, "alice", "retry", 1.0) for n in range(5))
    (pattern,) = patterns_in_groups([replace(named, episodes=past)])
    assert (pattern.title, pattern.context_signature) == ("Sign-in is slow", "api auth timeout")


def test_the_threshold_is_the_synthesizers() -> None:
    past = [episode(n, "alice", ("retry", "wait")[n % 2], float(n != 1)) for n in range(12)]
    (sure,) = KnowledgeSynthesizer(confidence_threshold=0.99).synthesize(past).templates
    (bold,) = KnowledgeSynthesizer(confidence_threshold=0.6).synthesize(past).templates
    assert (sure.decide(frozenset()).recommended, bold.decide(frozenset()).recommended) == (None, "retry")


def test_runs_give_their_steps_and_their_episodes() -> None:
    runs = [
        [episode(10 * n + place, "alice", action, 1.0) for place, action in enumerate(("back up", "migrate"))]
        for n in range(3)
    ]
    knowledge = synthesizer.synthesize([], runs=runs)
    assert {pattern.replication_steps for pattern in knowledge.patterns} == {("back up", "migrate")}
    assert sum(rate.attempts for rate in knowledge.rates) == 6


episodes = st.lists(
    st.builds(
        episode,
        st.integers(0, 200),
        st.sampled_from(["alice", "bob"]),
        st.sampled_from(["retry", "wait"]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from(SITUATIONS),
    ),
    max_size=30,
    unique_by=lambda one: one.id,
)


@settings(max_examples=40)
@given(episodes, st.randoms(), st.sampled_from([None, "alice", "carol"]))
def test_the_result_depends_on_the_set_of_episodes_alone(
    past: list[DecisionEpisode], dice: random.Random, own: str | None
) -> None:
    shuffled = [*past, *past[:4]]
    dice.shuffle(shuffled)
    knowledge = synthesizer.synthesize(past, own=own)
    assert synthesizer.synthesize(shuffled, own=own) == knowledge
    assert sum(rate.attempts for rate in knowledge.rates) == len(past)
    assert Synthesis.model_validate_json(knowledge.model_dump_json()) == knowledge


def test_ten_thousand_episodes_are_worked_through_quickly() -> None:
    past = life("alice", 1, episodes=10_000)
    began = time.thread_time()
    synthesizer.synthesize(past)
    assert time.thread_time() - began < 10  # two seconds on an idle machine
