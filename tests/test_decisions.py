"""What past decisions say about the next one."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.ids import Sources
from engram.learn.decisions import weigh
from engram.model import Clean, DecisionContent, Memory, MemoryType, Provenance

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


episodes = st.lists(
    st.builds(decision, st.sampled_from(["retry", "wait", "give up"]), st.sampled_from([0.0, 0.5, 1.0, None])),
    max_size=25,
)


def test_nothing_tried_is_an_abstention() -> None:
    suggestion = weigh("c", [])
    assert (suggestion.recommended, suggestion.abstained) == (None, True)
    assert "nothing has been tried" in suggestion.reason


def test_one_attempt_is_too_little() -> None:
    assert "only 1 attempt" in weigh("c", [decision("retry", 1.0)]).reason


def test_rates_are_posterior_means_with_their_interval_and_episodes() -> None:
    good = [decision("retry", 1.0, hours) for hours in range(3)]
    bad = decision("wait", 0.0, 9)
    suggestion = weigh("c", [*good, bad])
    retry, wait = suggestion.actions
    assert [(record.action, record.attempts) for record in (retry, wait)] == [("retry", 3), ("wait", 1)]
    assert [retry.success_rate, wait.success_rate] == pytest.approx([0.8, 1 / 3])
    assert retry.interval[0] < 0.8 < retry.interval[1]
    assert retry.last_used == START + timedelta(hours=2)
    assert set(retry.episodes_for) == {memory.id for memory in good}
    assert wait.episodes_against == (bad.id,)
    assert suggestion.recommended == "retry"
    assert set(suggestion.evidence) == {memory.id for memory in (*good, bad)}


def test_two_that_did_equally_well_are_too_close_to_call() -> None:
    suggestion = weigh("c", [decision(action, 1.0) for action in ("retry", "wait") for _ in range(5)])
    assert suggestion.abstained
    assert "too close to call between" in suggestion.reason


def test_nothing_is_recommended_when_everything_failed() -> None:
    suggestion = weigh("c", [decision("retry", 0.0), decision("wait", 0.0), decision("wait", 0.0)])
    assert suggestion.abstained
    assert "more often than it failed" in suggestion.reason


def test_the_same_action_in_other_letters_is_one_action() -> None:
    (record,) = weigh("c", [decision("Retry", 1.0), decision("retry ", 1.0)]).actions
    assert record.attempts == 2


def test_given_actions_narrow_and_add_candidates() -> None:
    past = [decision("retry", 1.0)] * 3 + [decision("wait", 1.0)] * 9
    suggestion = weigh("c", past, actions=["retry", "restart"])
    assert {record.action: record.attempts for record in suggestion.actions} == {"retry": 3, "restart": 0}
    assert suggestion.recommended == "retry"


def test_an_untried_action_is_never_recommended_without_exploring() -> None:
    suggestion = weigh("c", [decision("wait", 0.0)] * 4, actions=["wait", "restart"])
    assert suggestion.recommended is None
    drawn = [weigh("c", [decision("wait", 0.0)] * 4, ["wait", "restart"], random.Random(n)) for n in range(50)]
    assert sum(one.recommended == "restart" for one in drawn) > 35


@given(episodes)
def test_an_abstention_never_comes_with_a_recommendation(past: list[Memory]) -> None:
    suggestion = weigh("c", past)
    assert suggestion.abstained == (suggestion.recommended is None)
    assert suggestion.reason


@given(episodes, st.randoms())
def test_the_order_of_recording_does_not_change_the_rates(past: list[Memory], dice: random.Random) -> None:
    shuffled = list(past)
    dice.shuffle(shuffled)
    rates = [{r.action: r.success_rate for r in weigh("c", p).actions} for p in (past, shuffled)]
    assert rates[0] == pytest.approx(rates[1])


@given(episodes)
def test_no_episode_is_counted_twice(past: list[Memory]) -> None:
    evidence = weigh("c", past).evidence
    assert len(evidence) == len(set(evidence)) == sum(m.success_rate is not None or _known(m) for m in past)


def _known(memory: Memory) -> bool:
    return isinstance(memory.content, DecisionContent) and memory.content.outcome_quality is not None
