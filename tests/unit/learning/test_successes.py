"""Success patterns: what worked repeatedly, and how to repeat it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.learning.decisions.belief import DecisionEpisode
from engram.learning.patterns.successes import patterns_in_groups, replication_steps, slug
from engram.learning.situations.similar_contexts import group_episodes
from engram.model import SuccessPattern

START = datetime(2026, 1, 1, tzinfo=UTC)


def episode(
    number: int,
    action: str = "retry with backoff",
    quality: float = 1.0,
    context: str = "api auth timeout",
    features: frozenset[str] = frozenset(),
) -> DecisionEpisode:
    return DecisionEpisode(
        f"{number:05}", action, quality, START + timedelta(minutes=number), context, features=features, agent="alice"
    )


def run(number: int, steps: str, ok: bool = True) -> list[DecisionEpisode]:
    """Make one task: each letter is a step, a failed one in capitals; the last one has the outcome of the task."""
    made = [
        episode(1000 * number + place, f"step {letter.lower()}", float(letter.islower()))
        for place, letter in enumerate(steps)
    ]
    return [*made[:-1], replace(made[-1], quality=float(ok))]


def success_patterns(
    episodes: Iterable[DecisionEpisode], runs: Sequence[Sequence[DecisionEpisode]] = ()
) -> tuple[SuccessPattern, ...]:
    return patterns_in_groups(group_episodes([*episodes, *(one for run in runs for one in run)]), runs)


def steps_of(*runs: list[DecisionEpisode]) -> str:
    return "".join(step.action.removeprefix("step ") for step in replication_steps(runs))


def test_three_good_outcomes_in_similar_contexts_are_a_pattern() -> None:
    past = [episode(n, context=f"api auth timeout on {place}") for n, place in enumerate(("ci", "prod", "prod"))]
    (pattern,) = success_patterns(past)
    assert pattern.name == "retry-with-backoff"
    assert (pattern.context_signature, pattern.successful_approach) == ("api auth timeout on ci", "retry with backoff")
    assert pattern.success_rate == pytest.approx(0.8)
    assert pattern.interval[0] < 0.8 < pattern.interval[1]
    assert (pattern.attempts, pattern.episodes) == (3, ("00000", "00001", "00002"))
    assert (pattern.last_seen, pattern.agents) == (START + timedelta(minutes=2), ("alice",))
    assert pattern.replication_steps == ("retry with backoff",)


@pytest.mark.parametrize("qualities", [(), (1.0, 1.0), (1.0, 0.0, 1.0, 0.0), (0.5, 0.5, 0.5), (0.0, 0.0, 0.0)])
def test_what_was_not_repeated_or_did_not_work_is_no_pattern(qualities: tuple[float, ...]) -> None:
    assert success_patterns(episode(n, quality=quality) for n, quality in enumerate(qualities)) == ()


def test_a_pattern_is_held_against_its_failures_and_against_what_else_was_tried() -> None:
    good = [episode(n) for n in range(8)]
    bad = [episode(20), episode(21, quality=0.0)]
    others = [episode(30 + n, "increase timeout", float(n == 0)) for n in range(6)]
    (pattern,) = success_patterns([*good, *bad, *others])
    assert pattern.contrast.failures == ("00021",)
    assert pattern.contrast.other_attempts == 6
    assert pattern.contrast.other_rate == pytest.approx(0.25)
    assert pattern.contrast.advantage is not None
    assert pattern.contrast.advantage > 0.98


def test_key_factors_tell_when_it_works_and_risk_factors_when_not() -> None:
    past = [
        episode(n, quality=float(n % 3 < 2), features=frozenset({"cache=warm"} if n % 3 < 2 else {"load=high", "x=1"}))
        for n in range(45)
    ]
    (pattern,) = success_patterns(past)
    assert [factor.feature for factor in pattern.key_factors] == ["cache=warm"]
    busy = [
        episode(n, quality=float(n % 3 < 2), features=frozenset({"load=high"} if n % 3 == 2 else ())) for n in range(45)
    ]
    (pattern,) = success_patterns(busy)
    assert pattern.key_factors == ()
    assert [factor.feature for factor in pattern.contrast.risk_factors] == ["load=high"]


def test_a_feature_of_every_episode_is_no_key_factor() -> None:
    past = [episode(n, quality=float(n % 5 > 0), features=frozenset({"tool=npm"})) for n in range(40)]
    (pattern,) = success_patterns(past)
    assert pattern.key_factors == ()


def test_new_evidence_keeps_the_id_and_the_name() -> None:
    past = [episode(n) for n in range(3)]
    (before,) = success_patterns(past)
    later = [episode(50, context="api auth timeout again"), episode(60, "Retry with backoff."), episode(61, "wait")]
    other = [episode(70 + n, context="the queue is full") for n in range(3)]
    after, second = sorted(success_patterns([*past, *later, *other]), key=lambda pattern: pattern.name)
    assert (after.pattern_id, after.name, after.attempts) == (before.pattern_id, before.name, 5)
    assert second.name == "retry-with-backoff-in-the-queue-is-full"
    assert second.pattern_id != before.pattern_id


def test_the_evidence_of_a_distrusted_agent_makes_no_pattern() -> None:
    assert success_patterns(replace(episode(n), agent="mallory", trust=0.1) for n in range(5)) == ()


def test_the_steps_most_good_runs_share_are_kept_in_order() -> None:
    assert steps_of(run(1, "abcd"), run(2, "abxcd"), run(3, "abd")) == "abcd"


def test_each_run_may_leave_out_another_step() -> None:
    assert steps_of(run(1, "bcdef"), run(2, "acdef"), run(3, "abdef"), run(4, "abcef")) == "abcdef"


def test_steps_that_went_wrong_on_the_way_are_left_out() -> None:
    assert steps_of(run(1, "aBbc"), run(2, "aBbc")) == "abc"


def test_a_step_that_is_done_twice_is_there_twice() -> None:
    assert steps_of(run(1, "tftg"), run(2, "tftg"), run(3, "tfg")) == "tftg"


def test_neighbours_stand_as_most_runs_have_them() -> None:
    assert steps_of(run(1, "abcz"), run(2, "acbz"), run(3, "acbz")) == "acbz"


def test_steps_the_failed_runs_went_without_are_pointed_out() -> None:
    runs = [run(1, "abc"), run(2, "abc"), run(3, "ac", ok=False), run(4, "ac", ok=False), run(5, "abc", ok=False)]
    steps = {step.action: step for step in replication_steps(runs)}
    assert steps["step b"].in_failed == pytest.approx(1 / 3)
    assert [name for name, step in steps.items() if step.missing_in_failed] == ["step b"]
    assert steps["step a"].support == 1.0


def test_without_a_good_run_there_is_nothing_to_repeat() -> None:
    assert replication_steps([run(1, "ab", ok=False), []]) == ()


def test_a_pattern_of_runs_says_all_the_steps_and_what_was_missing_in_the_failed_ones() -> None:
    context = "rollback of a migration"
    good = [[replace(one, context=context) for one in run(n, "abc")] for n in range(1, 5)]
    failed = [[replace(one, context=context) for one in run(n, "ac", ok=False)] for n in range(5, 7)]
    patterns = {pattern.successful_approach: pattern for pattern in success_patterns([], [*good, *failed])}
    assert patterns["step a"].replication_steps == ("step a", "step b", "step c")
    assert patterns["step a"].contrast.missing_steps == ("step b",)


def test_names_are_words_with_hyphens() -> None:
    assert slug("Retry, with exponential_backoff!") == "retry-with-exponential-backoff"
    assert slug("重试 请求") == "重试-请求"
    assert len(slug("word " * 50)) <= 60
    assert not slug("word " * 50).endswith("-")
    assert [pattern.name for pattern in success_patterns(episode(n, "?!") for n in range(3))] == ["pattern"]


letters = st.text("abcde", min_size=1, max_size=6)


def test_a_single_session_gives_no_steps_and_every_step_is_in_two_good_ones() -> None:
    assert steps_of(run(0, "abc")) == ""
    assert steps_of(run(0, "abc"), run(1, "xyz", ok=False)) == ""
    assert steps_of(run(0, "abc"), run(1, "ac")) == "ac"


def test_a_pattern_says_how_many_sessions_agree_on_its_steps() -> None:
    (alone,) = success_patterns(
        [episode(n, "step b") for n in range(4)], [[episode(0, "step a"), episode(1, "step b")]]
    )
    assert (alone.replication_steps, alone.step_runs) == (("step b",), 0)
    found = {one.successful_approach: one for one in success_patterns([], [run(n, "ab") for n in range(3)])}
    assert (found["step b"].replication_steps, found["step b"].step_runs) == (("step a", "step b"), 3)


@given(st.lists(letters, min_size=1, max_size=6), st.randoms())
def test_steps_do_not_depend_on_the_order_of_the_runs(written: list[str], dice: random.Random) -> None:
    runs = [run(number, steps) for number, steps in enumerate(written)]
    shuffled = list(runs)
    dice.shuffle(shuffled)
    steps = replication_steps(runs)
    assert replication_steps(shuffled) == steps
    assert all(step.support >= 0.6 for step in steps)


@given(letters, st.integers(2, 4))
def test_what_all_runs_did_is_what_to_do(written: str, times: int) -> None:
    assert steps_of(*(run(number, written) for number in range(times))) == written


episodes = st.lists(
    st.builds(
        episode,
        st.integers(0, 300),
        st.sampled_from(["retry", "wait"]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from(["api auth timeout", "api auth timeout on ci", "disk full"]),
        st.frozensets(st.sampled_from(["env=ci", "tool=npm"])),
    ),
    max_size=40,
    unique_by=lambda one: one.id,
)


@settings(max_examples=60)
@given(episodes, st.randoms())
def test_patterns_depend_on_the_set_of_episodes_alone(past: list[DecisionEpisode], dice: random.Random) -> None:
    shuffled = [*past, *past[:2]]
    dice.shuffle(shuffled)
    patterns = success_patterns(past)
    assert success_patterns(shuffled) == patterns
    assert len({pattern.pattern_id for pattern in patterns}) == len({p.name for p in patterns}) == len(patterns)
    for pattern in patterns:
        assert pattern.success_rate > 0.5
        assert len(pattern.episodes) + len(pattern.contrast.failures) == pattern.attempts
        assert SuccessPattern.model_validate_json(pattern.model_dump_json()) == pattern
