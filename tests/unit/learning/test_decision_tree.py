"""Decision trees over the features of a situation."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.errors import InvalidInput
from engram.learning.decisions.belief import DecisionEpisode
from engram.learning.decisions.beta import Beta
from engram.learning.patterns.decision_tree import DEPTH, HISTORY, LEAF, decision_template, rate_interval, render
from engram.model import DecisionBranch, DecisionTemplate

START = datetime(2026, 1, 1, tzinfo=UTC)


def episode(
    number: int, action: str, quality: float, features: frozenset[str] = frozenset(), context: str = "the build fails"
) -> DecisionEpisode:
    return DecisionEpisode(
        f"{number:05}", action, quality, START + timedelta(minutes=number), context, features=features
    )


def tree(episodes: list[DecisionEpisode], threshold: float = 0.75) -> DecisionTemplate:
    template = decision_template(episodes, "the build fails", confidence_threshold=threshold)
    assert template is not None
    return template


def noise(seed: int, episodes: int, features: int) -> list[DecisionEpisode]:
    """Make outcomes that depend on the action alone."""
    dice = random.Random(seed)
    rates = {"retry": 0.3, "wait": 0.5, "use the cache": 0.8}
    made = []
    for number in range(episodes):
        action = dice.choice(list(rates))
        some = frozenset(f"x={n}" for n in range(features) if dice.random() < 0.3)
        made.append(episode(number, action, float(dice.random() < rates[action]), some))
    return made


def crossed(seed: int, episodes: int) -> list[DecisionEpisode]:
    """Make outcomes where in CI the cache helps, and elsewhere waiting; ten features are irrelevant."""
    dice = random.Random(seed)
    made = []
    for number in range(episodes):
        in_ci, action = dice.random() < 0.5, dice.choice(["use the cache", "wait"])
        rate = 0.85 if in_ci == (action == "use the cache") else 0.2
        some = {f"x={n}" for n in range(10) if dice.random() < 0.3} | ({"env=ci"} if in_ci else set())
        made.append(episode(number, action, float(dice.random() < rate), frozenset(some)))
    return made


def test_without_features_and_words_there_is_nothing_to_ask() -> None:
    (branch,) = tree([episode(n, "retry", 1.0, context="") for n in range(12)]).decision_tree
    assert branch.recommended == "retry"
    assert branch.actions[0].weight == 12


def test_nothing_tried_gives_no_template() -> None:
    assert decision_template([], "c") is None


@pytest.mark.parametrize(("episodes", "features"), [(40, 10), (100, 200), (400, 30)])
def test_noise_gives_a_single_branch(episodes: int, features: int) -> None:
    trees = [tree(noise(seed, episodes, features)) for seed in range(40)]
    assert sum(len(one.decision_tree) > 1 for one in trees) <= 2


def test_what_turns_the_choice_around_is_asked() -> None:
    right = 0
    for seed in range(20):
        template = tree(crossed(seed, 100))
        first = template.decision_tree[0].conditions
        right += bool(first) and first[0].feature == "env=ci"
    assert right >= 19


def test_the_branch_a_situation_falls_into_says_what_did_best_there() -> None:
    template = tree(crossed(1, 200))
    branch = template.decide({"env=ci", "x=3"})
    assert branch.recommended == branch.action == "use the cache"
    assert branch.interval[0] < branch.success_rate < branch.interval[1]
    assert branch.attempts == len(branch.actions[0].episodes_for) + len(branch.actions[0].episodes_against)
    assert template.decide(frozenset()).recommended == "wait"


def test_few_but_clear_episodes_are_enough_for_a_question() -> None:
    past = [
        episode(n, ("retry", "wait")[n % 2], float((n % 2 == 0) == (n < 12)), frozenset({"env=ci"} if n < 12 else ()))
        for n in range(24)
    ]
    assert tree(past).decide({"env=ci"}).recommended == "retry"
    assert tree(past).decide(set()).recommended == "wait"


def test_the_words_of_the_context_are_features_too() -> None:
    past = [
        episode(n, ("retry", "wait")[n % 2], float((n % 2 == 0) == (n < 20)), context=f"{place} build fails")
        for n in range(40)
        for place in ["nightly" if n < 20 else "local"]
    ]
    template = tree(past)
    assert {c.feature for branch in template.decision_tree for c in branch.conditions} <= {"word=local", "word=nightly"}
    assert template.decide({"word=nightly", "word=build"}).recommended == "retry"


def test_a_feature_speaks_for_the_word_that_says_the_same() -> None:
    past = [
        replace(one, context=f"the build fails {'ci' if 'env=ci' in one.features else 'here'}", features=features)
        for one in crossed(1, 100)
        for features in [one.features & {"env=ci"} | {f"a={one.id}"}]
    ]
    assert [c.feature for c in tree(past).decision_tree[0].conditions] == ["env=ci"]


def test_a_template_with_a_hole_says_so() -> None:
    template = tree(crossed(1, 100))
    torn = template.model_copy(update={"decision_tree": template.decision_tree[:1]})
    with pytest.raises(InvalidInput, match="rebuild"):
        torn.decide(frozenset())


def test_a_question_whose_answers_come_to_the_same_is_not_asked() -> None:
    dice = random.Random(1)
    past = []
    for number in range(400):
        hard, action = number % 2 == 0, dice.choice(["retry", "wait"])
        rate = (0.65 if hard else 0.95) if action == "retry" else (0.2 if hard else 0.5)
        past.append(episode(number, action, float(dice.random() < rate), frozenset({"load=high"} if hard else ())))
    (branch,) = tree(past).decision_tree
    assert branch.recommended == "retry"


def test_where_the_only_known_action_fails_the_tree_says_so() -> None:
    past = [
        episode(n, "retry", float(n % 2 == 1 or n == 8), frozenset({"env=ci"} if n % 2 == 0 else ())) for n in range(40)
    ]
    assert tree(past).decide({"env=ci"}).recommended is None
    assert tree(past).decide(set()).recommended == "retry"


def test_what_turns_the_choice_comes_before_what_makes_everything_harder() -> None:
    dice = random.Random(2)
    past = []
    for number in range(600):
        hard, in_ci, action = dice.random() < 0.5, dice.random() < 0.5, dice.choice(["retry", "wait"])
        rate = (0.9 if in_ci == (action == "retry") else 0.55) * (0.35 if hard else 1)
        features = {name for name, has in (("load=high", hard), ("env=ci", in_ci)) if has}
        past.append(episode(number, action, float(dice.random() < rate), frozenset(features)))
    assert tree(past).decision_tree[0].conditions[0].feature == "env=ci"


def test_with_many_actions_a_lucky_one_does_not_replace_the_usual_one() -> None:
    """Everything is harder in CI, and of eight actions tried little there some look good by chance."""
    kept = asked = 0
    for seed in range(30):
        dice = random.Random(seed)
        past = []
        for number in range(300):
            in_ci, which = dice.random() < 0.3, dice.randrange(9)
            rate = (0.85 if which == 0 else 0.6) * (0.3 if in_ci else 1)
            past.append(
                episode(number, f"way {which}", float(dice.random() < rate), frozenset({"env=ci"} if in_ci else ()))
            )
        template = tree(past)
        if len(template.decision_tree) > 1:
            asked += 1
            kept += template.decide({"env=ci"}).action == template.decide(set()).action
    assert asked >= 20
    assert kept >= 0.85 * asked


def test_two_actions_that_are_equally_good_are_no_reason_to_abstain() -> None:
    equal = [episode(n, ("retry", "wait")[n % 2], 1.0) for n in range(12)]
    branch = tree(equal).decide(set())
    assert branch.recommended == "retry"
    assert branch.reason == "either this or wait: both worked about as well here"


def test_a_branch_that_could_cost_much_abstains_and_says_why() -> None:
    close = [episode(n, ("retry", "wait")[n % 2], 1.0) for n in range(2)]
    branch = tree(close).decide(set())
    assert branch.recommended is None
    assert "too close to call between retry and wait" in branch.reason
    better = [episode(n, ("retry", "wait")[n % 2], float(n % 2 == 0 or n > 8)) for n in range(12)]
    assert tree(better, threshold=0.75).decide(set()).recommended == "retry"
    assert tree(better, threshold=0.999).decide(set()).recommended is None
    assert "only 1 attempt" in tree([episode(0, "retry", 1.0)]).decide(set()).reason
    failed = [episode(n, "retry", 0.0) for n in range(5)]
    assert "more likely to work than to fail" in tree(failed).decide(set()).reason


def test_a_tree_reads_as_sentences() -> None:
    past = [
        episode(n, ("use the cache", "wait")[n % 2], float((n % 2 == 0) == (n < 20)), frozenset({f"env={place}"}))
        for n in range(40)
        for place in ["ci" if n < 20 else "laptop"]
    ]
    assert render(tree(past)) == "if env=ci: use the cache (92%, 10 attempts)\notherwise: wait (92%, 10 attempts)"
    assert render(tree(past[:20])) == "in the build fails: use the cache (92%, 10 attempts)"
    assert render(tree(past[:1])).startswith("in the build fails: undecided, too little evidence")


def test_deeper_questions_are_indented() -> None:
    past = []
    for number in range(160):
        features = {name for bit, name in ((1, "env=ci"), (2, "tool=npm")) if number & bit}
        best = {0: "wait", 1: "retry", 2: "wait", 3: "clean"}[number & 3]
        for place, action in enumerate(("wait", "retry", "clean")):
            past.append(episode(3 * number + place, action, float(action == best), frozenset(features)))
    lines = render(tree(past)).split("\n")
    assert lines[0] == "if env=ci:"
    assert lines[1].startswith("  if tool=npm: clean (")
    assert lines[2].startswith("  otherwise: retry (")
    assert lines[3].startswith("otherwise: wait (")


def test_a_distrusted_agent_changes_the_rates_less() -> None:
    good = [episode(n, "retry", 1.0) for n in range(6)]
    bad = [episode(10 + n, "retry", 0.0) for n in range(6)]
    doubted = [replace(one, agent="mallory", trust=0.1) for one in bad]
    assert tree([*good, *bad]).decide(set()).success_rate == pytest.approx(0.5)
    assert tree([*good, *doubted]).decide(set()).success_rate == pytest.approx(7 / 8.6)


def test_the_history_holds_the_newest_outcomes() -> None:
    template = tree(noise(1, HISTORY + 20, 1))
    assert len(template.success_history) == HISTORY
    assert template.success_history[0].at == START + timedelta(minutes=HISTORY + 19)
    assert template.attempts == HISTORY + 20


def test_a_template_keeps_its_id_when_evidence_is_added() -> None:
    past = crossed(2, 60)
    assert tree(past[:20]).pattern_id == tree(past).pattern_id
    assert tree(past).pattern_id != decision_template(past, "another context").pattern_id  # type: ignore[union-attr]


episodes = st.lists(
    st.builds(
        episode,
        st.integers(0, 500),
        st.sampled_from(["retry", "wait", "Retry", "clean"]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.frozensets(st.sampled_from(["env=ci", "tool=npm", "os=linux"])),
    ),
    min_size=1,
    max_size=60,
    unique_by=lambda one: one.id,
)


@given(episodes, st.randoms())
def test_the_order_of_the_evidence_and_repeats_do_not_matter(past: list[DecisionEpisode], dice: random.Random) -> None:
    shuffled = [*past, *past[:3]]
    dice.shuffle(shuffled)
    assert tree(shuffled) == tree(past)


@given(st.integers(0, 30), st.frozensets(st.sampled_from(["env=ci", "x=1", "x=2", "x=3", "other"])))
@settings(max_examples=40)
def test_every_situation_falls_into_exactly_one_branch(seed: int, features: frozenset[str]) -> None:
    template = tree(crossed(seed, 120))
    holding = [b for b in template.decision_tree if all(c.holds(features) for c in b.conditions)]
    assert holding == [template.decide(features)]
    for branch in template.decision_tree:
        assert len(branch.conditions) <= DEPTH
        assert branch.abstained == (branch.recommended is None)
        assert sum(record.attempts for record in branch.actions) >= LEAF


@given(episodes)
def test_a_template_survives_json(past: list[DecisionEpisode]) -> None:
    template = tree(past)
    assert DecisionTemplate.model_validate_json(template.model_dump_json()) == template
    assert all(isinstance(branch, DecisionBranch) for branch in template.decision_tree)


def test_an_interval_holds_its_rate() -> None:
    low, high = rate_interval(Beta(4, 1))
    assert 0 < low < 0.8 < high < 1
