"""One source cannot outvote many, and a burst of contradicting outcomes raises an alarm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.alarms import AlarmSettings, alarms, capped
from engram.learning.decisions.belief import DecisionEpisode
from engram.learning.decisions.suggestions import suggest

NOW = datetime(2024, 6, 1, tzinfo=UTC)


def told(agent: str, number: int, quality: float, action: str = "retry", **fields: object) -> list[DecisionEpisode]:
    return [
        DecisionEpisode(
            id=f"{agent}-{action}-{quality}-{i}",
            action=action,
            quality=quality,
            at=NOW - timedelta(hours=1),
            context="timeout",
            agent=agent,
            **fields,  # type: ignore[arg-type]
        )
        for i in range(number)
    ]


def spread(agent: str, qualities: list[float], days: int = 60) -> list[DecisionEpisode]:
    """Make old outcomes, evenly spread over time."""
    start, step = NOW - timedelta(days=days), timedelta(days=days - 10) / max(len(qualities), 1)
    return [
        DecisionEpisode(
            id=f"{agent}-old-{i}", action="retry", quality=quality, at=start + i * step, context="timeout", agent=agent
        )
        for i, quality in enumerate(qualities)
    ]


def others(quality: float, action: str = "retry") -> list[DecisionEpisode]:
    return [one for agent in ("ann", "bob", "eve") for one in told(agent, 5, quality, action)]


@given(st.sampled_from([0.0, 1.0]), st.integers(1, 1000), st.floats(0.1, 1))
def test_one_source_never_outweighs_three_with_five_each(lie: float, number: int, trust: float) -> None:
    honest = [one for agent in ("ann", "bob", "eve") for one in told(agent, 5, 1 - lie, trust=trust)]
    suggestion = suggest("timeout", capped([*told("mallory", number, lie, trust=trust), *honest]), now=NOW)
    rate = suggestion.actions[0].success_rate
    assert (rate < 0.5) == (lie == 1.0)
    assert (suggestion.recommended == "retry") <= (lie == 0.0)


def test_without_the_cap_one_source_would() -> None:
    assert suggest("timeout", [*told("mallory", 1000, 1.0), *others(0.0)], now=NOW).recommended == "retry"


def test_one_source_cannot_push_another_action_to_the_front() -> None:
    episodes = [*others(1.0, "retry"), *told("mallory", 1000, 1.0, "wipe"), *told("mallory", 1000, 0.0, "retry")]
    rates = {one.action: one.success_rate for one in suggest("timeout", capped(episodes), now=NOW).actions}
    assert rates["retry"] > 0.5
    mine = told("me", 20, 0.0, "wipe")
    rates = {
        one.action: one.success_rate
        for one in suggest("timeout", capped([*episodes, *mine], own="me"), now=NOW).actions
    }
    assert rates["wipe"] < 0.5


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "X ", "y"]), st.floats(0, 1)), max_size=40),
    st.floats(0.5, 10),
)
def test_a_cap_is_kept_and_never_raises_anything(rows: list[tuple[str, str, float]], limit: float) -> None:
    episodes = [
        DecisionEpisode(id=str(i), action=action, quality=1, at=NOW, context="c", agent=agent, trust=trust)
        for i, (agent, action, trust) in enumerate(rows)
    ]
    kept = capped(episodes, limit)
    assert [one.id for one in kept] == [one.id for one in episodes]
    assert all(after.trust <= before.trust for after, before in zip(kept, episodes, strict=True))
    for agent in "abc":
        for actions in (("x", "X "), ("y",)):
            said = sum(one.trust for one in kept if one.agent == agent and one.action in actions)
            assert said <= limit + 1e-9
    assert capped(episodes, limit, source=lambda one: "all", own="all") == episodes


def test_what_is_under_the_cap_and_ones_own_is_left_alone() -> None:
    episodes = [*told("me", 100, 1.0), *told("ann", 3, 1.0)]
    assert capped(episodes, own="me") == episodes


@pytest.mark.parametrize("usual", [1.0, 0.0])
def test_a_burst_against_what_was_established_is_an_alarm(usual: float) -> None:
    episodes = [*spread("ann", [usual] * 30), *told("mallory", 8, 1 - usual)]
    (alarm,) = alarms(episodes, NOW)
    assert (alarm.context, alarm.action, alarm.attempts, alarm.contradicting) == ("timeout", "retry", 30, 8)
    assert alarm.sources == (("mallory", 8),)
    assert alarm.single_source
    assert alarm.probability < 1e-4
    assert set(alarm.episodes) == {one.id for one in episodes if one.agent == "mallory"}
    assert (alarm.rate > 0.5) == (usual == 1.0)


def test_several_sources_are_named_most_first() -> None:
    (alarm,) = alarms([*spread("ann", [1.0] * 30), *told("bob", 6, 0.0), *told("eve", 3, 0.0)], NOW)
    assert alarm.sources == (("bob", 6), ("eve", 3))
    assert not alarm.single_source


def test_a_source_can_be_something_else_than_the_agent() -> None:
    episodes = [*spread("ann", [1.0] * 30), *told("bob", 6, 0.0)]
    (alarm,) = alarms(episodes, NOW, source=lambda one: f"session of {one.agent}")
    assert alarm.sources == (("session of bob", 6),)


@pytest.mark.parametrize(
    "episodes",
    [
        [],
        spread("ann", [1.0] * 30),
        [*spread("ann", [1.0] * 5), *told("bob", 8, 0.0)],
        [*spread("ann", [1.0] * 30), *told("bob", 3, 0.0)],
        [*spread("ann", [1.0, 0.0] * 20), *told("bob", 6, 0.0)],
        [*spread("ann", [1.0] * 30), *told("bob", 8, 1.0)],
    ],
    ids=["nothing", "no burst", "not established", "too few", "not unlikely", "in agreement"],
)
def test_no_alarm_is_raised_by(episodes: list[DecisionEpisode]) -> None:
    assert alarms(episodes, NOW) == []


def test_what_is_long_past_is_history() -> None:
    episodes = [*spread("ann", [1.0] * 30), *told("mallory", 8, 0.0)]
    assert alarms(episodes, NOW + timedelta(days=40)) == []
    assert alarms(episodes, NOW + timedelta(days=40), settings=AlarmSettings(recent=timedelta(days=60)))


def test_an_episode_listed_twice_counts_once_and_order_does_not_matter() -> None:
    episodes = [*spread("ann", [1.0] * 30), *told("mallory", 8, 0.0)]
    assert alarms([*episodes[::-1], *episodes], NOW) == alarms(episodes, NOW)


def test_false_alarms_are_rare_when_nothing_changes() -> None:
    raised = 0
    for seed in range(200):
        chance = Random(seed)
        rate = chance.choice([0.5, 0.7, 0.9, 0.97])
        episodes = [
            DecisionEpisode(
                id=str(i),
                action="retry",
                quality=float(chance.random() < rate),
                at=NOW - timedelta(hours=2 * (60 - i)),
                context="timeout",
                agent="ann",
            )
            for i in range(60)
        ]
        raised += len(alarms(episodes, NOW))
    assert raised <= 1
