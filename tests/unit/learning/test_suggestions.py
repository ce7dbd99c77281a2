"""Suggestions and predictions from past decisions."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.clock import Sources
from engram.errors import InvalidInput
from engram.learning.decisions import suggestions
from engram.learning.decisions.belief import (
    EVERYTHING,
    NO_GROUPS,
    BeliefSettings,
    DecisionEpisode,
    Groups,
    GroupTotals,
    closeness,
)
from engram.learning.decisions.suggestions import DecisionEvaluator, episodes_of, predict
from engram.model import ActionRecord, Clean, DecisionContent, Memory, MemoryType, Provenance, Suggestion

START = datetime(2026, 1, 1, tzinfo=UTC)
_sources = Sources()


def decision(action: str, quality: float | None, hours: int = 0) -> Memory:
    at = START + timedelta(hours=hours)
    return Memory(
        id=_sources.new_id(),
        agent="alice",
        kind=MemoryType.DECISION,
        text=Clean(action),
        content=DecisionContent(chosen_action=Clean(action), outcome_quality=quality),
        provenance=Provenance(author=Clean("alice")),
        created_at=at,
        happened_at=at,
        valid_from=at,
    )


def episode(action: str, quality: float, similarity: float = 1.0, **fields: object) -> DecisionEpisode:
    given = {"id": _sources.new_id(), "at": START, "context": "c" if similarity == 1 else f"like {similarity}"}
    return DecisionEpisode(action=action, quality=quality, similarity=similarity, **{**given, **fields})  # type: ignore[arg-type]


def weigh(
    past: Iterable[Memory | DecisionEpisode],
    actions: Sequence[str] | None = None,
    explore: random.Random | None = None,
    groups: Groups = NO_GROUPS,
    features: Iterable[str] = (),
    now: datetime = START,
) -> Suggestion:
    known = [one if isinstance(one, DecisionEpisode) else None for one in past]
    found = [one for one in known if one is not None]
    found += episodes_of(one for one in past if isinstance(one, Memory))
    return suggestions.suggest(
        "c", found, now=now, groups=groups, features=frozenset(features), actions=actions, explore=explore
    )


def records(suggestion: Suggestion) -> dict[str, ActionRecord]:
    return {record.action: record for record in suggestion.actions}


def everything(past: Iterable[DecisionEpisode], more: Groups = NO_GROUPS) -> Groups:
    """Return the totals that a store would report: all episodes, the listed ones included."""
    tallies: dict[str, GroupTotals] = dict(more.get(EVERYTHING, {}))
    for one in past:
        known = tallies.get(one.action, GroupTotals(0, 0))
        tallies[one.action] = GroupTotals(known.attempts + 1, known.quality + one.quality)
    return {EVERYTHING: tallies}


memories = st.lists(
    st.builds(decision, st.sampled_from(["retry", "wait", "give up"]), st.sampled_from([0.0, 0.5, 1.0, None])),
    max_size=25,
)
episodes = st.lists(
    st.builds(
        episode,
        st.sampled_from(["retry", "wait", "give up"]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from([0.1, 0.6, 0.7, 0.9, 1.0]),
        at=st.sampled_from([START, START - timedelta(days=90)]),
        features=st.sampled_from([frozenset(), frozenset({"tool=npm"}), frozenset({"tool=npm", "env=ci"})]),
        trust=st.sampled_from([1.0, 0.4]),
    ),
    max_size=25,
)


def test_nothing_tried_is_an_abstention() -> None:
    suggestion = weigh([])
    assert (suggestion.recommended, suggestion.abstained) == (None, True)
    assert "nothing has been tried" in suggestion.reason


def test_one_attempt_is_too_little() -> None:
    assert "only 1 attempt" in weigh([decision("retry", 1.0)]).reason


def test_rates_are_posterior_means_with_their_interval_and_episodes() -> None:
    good = [decision("retry", 1.0, hours) for hours in range(3)]
    bad = decision("wait", 0.0, 9)
    suggestion = weigh([*good, bad])
    retry, wait = suggestion.actions
    assert [(record.action, record.attempts) for record in (retry, wait)] == [("retry", 3), ("wait", 1)]
    assert [retry.success_rate, wait.success_rate] == pytest.approx([0.8, 1 / 3], abs=0.01)
    assert retry.interval[0] < 0.8 < retry.interval[1]
    assert retry.last_used == START + timedelta(hours=2)
    assert set(retry.episodes_for) == {memory.id for memory in good}
    assert wait.episodes_against == (bad.id,)
    assert suggestion.recommended == "retry"
    assert set(suggestion.evidence) == {memory.id for memory in (*good, bad)}


def test_of_two_that_did_equally_well_either_is_recommended() -> None:
    suggestion = weigh([decision(action, 1.0) for action in ("retry", "wait") for _ in range(5)])
    assert suggestion.recommended in ("retry", "wait")
    assert suggestion.reason.startswith("either this or ")


def test_of_two_that_did_equally_well_the_one_tried_more_often_is_recommended() -> None:
    past = [decision("retry", 1.0) for _ in range(5)] + [decision("wait", 1.0) for _ in range(9)]
    suggestion = weigh(past)
    assert suggestion.recommended == "wait"
    assert "this one was tried more often" in suggestion.reason


def test_it_abstains_where_following_the_best_known_could_cost_much() -> None:
    suggestion = weigh([decision("retry", 1.0), decision("wait", 1.0)])
    assert suggestion.abstained
    assert "too little evidence to choose between" in suggestion.reason
    assert len(suggestion.actions) == 2


def test_nothing_is_recommended_when_everything_failed() -> None:
    suggestion = weigh([decision("retry", 0.0), decision("wait", 0.0), decision("wait", 0.0)])
    assert suggestion.abstained
    assert "more likely to work than to fail" in suggestion.reason


def test_the_same_action_in_other_letters_is_one_action() -> None:
    (record,) = weigh([decision("Retry", 1.0), decision("retry ", 1.0)]).actions
    assert record.attempts == 2


def test_given_actions_narrow_and_add_candidates() -> None:
    past = [decision(action, 1.0) for action in ["retry"] * 3 + ["wait"] * 9]
    suggestion = weigh(past, actions=["retry", "restart"])
    assert {record.action: record.attempts for record in suggestion.actions} == {"retry": 3, "restart": 0}
    assert suggestion.recommended == "retry"


def test_an_untried_action_is_never_recommended_without_exploring() -> None:
    past = [decision("wait", 0.0) for _ in range(4)]
    assert weigh(past, actions=["wait", "restart"]).recommended is None
    drawn = [weigh(past, ["wait", "restart"], random.Random(n)) for n in range(50)]
    assert sum(one.recommended == "restart" for one in drawn) > 35


def test_similar_contexts_lend_evidence_as_far_as_they_are_alike() -> None:
    unrelated = [episode("wait", 0.5, 0.3) for _ in range(40)]
    close = weigh([*unrelated, *(episode("retry", 1.0, 0.95) for _ in range(6))])
    far = weigh([*unrelated, *(episode("retry", 1.0, 0.4) for _ in range(6))])
    near, hardly = records(close)["retry"], records(far)["retry"]
    assert (near.attempts, near.similar, len(near.near)) == (0, 6, 6)
    assert near.success_rate > hardly.success_rate > 0.5
    assert near.weight > hardly.weight
    assert close.recommended == "retry"
    assert "in similar contexts" in close.reason


def test_the_far_echo_of_a_success_does_not_stand_before_what_was_tried_here() -> None:
    here = [episode("retry", float(number % 5 > 0)) for number in range(20)]
    far = [episode("look", 1.0, 0.75), episode("look", 1.0, 0.7)]
    groups = everything([*here, *far], {"*": {"look": GroupTotals(2, 2)}})
    suggestion = weigh([*here, *far], groups=groups)
    assert suggestion.recommended == "retry"
    assert [record.action for record in suggestion.actions] == ["retry", "look"]
    assert 0 < suggestion.actions[1].weight < 1
    assert suggestion.actions[1].success_rate > suggestion.actions[0].success_rate


def test_a_handful_of_attempts_here_outweigh_many_elsewhere() -> None:
    near = [episode("retry", 1.0, 0.9) for _ in range(60)] + [episode("wait", 0.5, 0.5) for _ in range(60)]
    here = [episode("retry", 0.0) for _ in range(5)]
    assert records(weigh([*near, *here]))["retry"].success_rate < 0.35


def test_the_wider_group_is_what_an_unknown_context_starts_from() -> None:
    groups = {EVERYTHING: {"retry": GroupTotals(100, 90), "wait": GroupTotals(100, 20)}}
    found = records(weigh([], actions=["retry", "wait", "new"], groups=groups))
    assert found["retry"].success_rate == pytest.approx(0.9, abs=0.02)
    assert found["wait"].success_rate == pytest.approx(0.2, abs=0.02)
    assert found["new"].success_rate == pytest.approx(0.55, abs=0.02)
    assert found["retry"].interval[1] - found["retry"].interval[0] > 0.3, "this context may be another"
    assert weigh([], actions=["retry", "wait"], groups=groups).abstained


def test_a_group_that_shares_a_feature_says_more_than_everything_else() -> None:
    groups = {EVERYTHING: {"retry": GroupTotals(100, 80)}, "tool=npm": {"retry": GroupTotals(30, 3)}}
    plain = predict("c", "retry", [], now=START, groups=groups).probability
    with_npm = predict("c", "retry", [], now=START, groups=groups, features=frozenset({"tool=npm"})).probability
    assert with_npm < 0.4 < plain


def test_what_was_never_tried_does_not_stand_in_the_way_of_what_worked() -> None:
    groups = {EVERYTHING: {"other": GroupTotals(8, 7), "retry": GroupTotals(2, 2)}}
    past = [episode("retry", 1.0) for _ in range(2)]
    suggestion = suggestions.suggest("c", past, now=START, groups=groups, actions=["retry", "other", "third"])
    assert suggestion.recommended in {"retry", None}
    assert "is more likely to work than to fail" not in suggestion.reason


def test_other_features_make_an_episode_count_less() -> None:
    past = [episode("retry", 1.0, features=frozenset({"env=ci"})) for _ in range(4)]
    same, other = (records(weigh(past, features=[name]))["retry"] for name in ("env=ci", "env=prod"))
    assert same.weight == pytest.approx(4)
    assert other.weight == pytest.approx(0.4)
    assert same.success_rate > other.success_rate
    tagged = records(weigh(past, features=["tag=db"]))["retry"]
    assert tagged.weight == pytest.approx(2)


def test_evidence_fades_by_its_half_life() -> None:
    old = [episode("retry", 1.0, at=START - timedelta(days=BeliefSettings().half_life_days)) for _ in range(4)]
    record = records(weigh(old))["retry"]
    assert record.weight == pytest.approx(2)
    assert record.success_rate == pytest.approx(0.75)
    assert record.attempts == 4


def test_an_agent_that_is_trusted_half_counts_half() -> None:
    assert records(weigh([episode("retry", 1.0, trust=0.5, agent="bob") for _ in range(4)]))[
        "retry"
    ].success_rate == pytest.approx(0.75)


def test_an_episode_that_is_in_the_tallies_too_counts_once() -> None:
    past = [episode("retry", 1.0), episode("retry", 1.0), episode("wait", 0.0)]
    alone, tallied = (weigh(past, groups=groups) for groups in (NO_GROUPS, everything(past)))
    rates = [{one.action: one.success_rate for one in told.actions} for told in (alone, tallied)]
    assert rates[0] == pytest.approx(rates[1])


def test_neighbours_that_agree_with_everything_else_leave_rates_there() -> None:
    dice = random.Random(1)
    rates = {"retry": 0.7, "wait": 0.3}
    past = [
        episode(name, float(dice.random() < rate), dice.uniform(0.6, 0.9))
        for name, rate in rates.items()
        for _ in range(120)
    ]
    more = {EVERYTHING: {name: GroupTotals(1000, 1000 * rate) for name, rate in rates.items()}}
    for name, record in records(weigh(past, groups=everything(past, more))).items():
        assert record.success_rate == pytest.approx(rates[name], abs=0.06)


def test_a_prediction_is_the_rate_that_a_suggestion_gives() -> None:
    past = [episode("retry", 1.0), episode("retry", 0.0, 0.9), episode("wait", 0.0), episode("wait", 1.0, 0.5)]
    suggestion = records(weigh(past))
    for name in ("retry", "wait"):
        told = predict("c", name, past, now=START)
        assert told.probability == pytest.approx(suggestion[name].success_rate)
        assert told.interval == pytest.approx(suggestion[name].interval)
        assert (told.attempts, told.similar) == (suggestion[name].attempts, suggestion[name].similar)
    assert predict("c", "never tried", past, now=START).attempts == 0


def test_closeness_is_measured_from_what_is_usual() -> None:
    many = np.linspace(0.6, 0.9, 500)
    assert closeness(many)[0] == pytest.approx(0, abs=0.05)
    assert closeness(np.array([0.95]))[0] > 0.8
    assert closeness(np.array([0.65]))[0] == 0
    assert len(closeness(np.zeros(0))) == 0


def test_the_evaluator_holds_settings_and_judges_outcomes() -> None:
    strict = DecisionEvaluator(BeliefSettings(enough_attempts=5))
    past = [episode("retry", 1.0) for _ in range(4)]
    assert [strict.evaluate_outcome(one) for one in ("success", "partial", "failure", 0.3)] == [1, 0.5, 0, 0.3]
    with pytest.raises(InvalidInput):
        strict.evaluate_outcome("perhaps")
    assert strict.suggest("c", past, now=START).abstained
    assert not DecisionEvaluator().suggest("c", past, now=START).abstained
    assert strict.predict("c", "retry", past, now=START).probability == pytest.approx(5 / 6)


def test_exploring_tries_everything_and_comes_to_prefer_what_works() -> None:
    chance, past = random.Random(3), list[DecisionEpisode]()
    rates = {"good": 0.9, "fair": 0.5, "bad": 0.1}
    for _ in range(200):
        chosen = weigh(past, list(rates), chance, everything(past)).recommended
        assert chosen is not None
        past.append(episode(chosen, float(chance.random() < rates[chosen])))
    tried = [one.action for one in past]
    assert set(tried) == set(rates)
    assert tried[100:].count("good") > 75


@given(episodes)
def test_an_abstention_never_comes_with_a_recommendation(past: list[DecisionEpisode]) -> None:
    suggestion = weigh(past, groups=everything(past), features=["tool=npm"])
    assert suggestion.abstained == (suggestion.recommended is None)
    assert suggestion.reason


@given(episodes, st.randoms())
def test_the_order_of_recording_does_not_change_the_rates(past: list[DecisionEpisode], dice: random.Random) -> None:
    shuffled = list(past)
    dice.shuffle(shuffled)
    rates = [{r.action: r.success_rate for r in weigh(p, groups=everything(p)).actions} for p in (past, shuffled)]
    assert rates[0] == pytest.approx(rates[1])


@given(episodes, st.sampled_from(["retry", "wait", "give up"]))
def test_one_more_success_here_never_lowers_a_rate_and_a_failure_never_raises_it(
    past: list[DecisionEpisode], action: str
) -> None:
    def rate(more: list[DecisionEpisode]) -> float:
        return predict("c", action, [*past, *more], now=START, groups=everything([*past, *more])).probability

    before, better, worse = rate([]), rate([episode(action, 1.0)]), rate([episode(action, 0.0)])
    assert worse < better
    assert worse <= before + 1e-9
    assert before <= better + 1e-9


@given(memories)
def test_no_episode_is_counted_twice(past: list[Memory]) -> None:
    known = episodes_of(past)
    evidence = weigh([*known, *known]).evidence
    assert len(evidence) == len(set(evidence)) == len(known) == sum(_known(memory) for memory in past)


@given(episodes)
def test_listing_an_episode_twice_changes_nothing(past: list[DecisionEpisode]) -> None:
    assert weigh([*past, *past], groups=everything(past)) == weigh(past, groups=everything(past))


@given(episodes)
def test_rates_lie_in_their_intervals(past: list[DecisionEpisode]) -> None:
    for record in weigh(past, ["retry", "new"], groups=everything(past)).actions:
        assert 0 <= record.interval[0] <= record.success_rate <= record.interval[1] <= 1


def test_the_newest_use_is_shown_even_of_a_similar_context() -> None:
    late = replace(episode("retry", 1.0, 0.95), at=START + timedelta(days=1))
    assert records(weigh([episode("retry", 1.0), late, episode("wait", 1.0, 0.2)]))["retry"].last_used == late.at


def _known(memory: Memory) -> bool:
    return isinstance(memory.content, DecisionContent) and memory.content.outcome_quality is not None
