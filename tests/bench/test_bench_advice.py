"""Simulated worlds: how they are made, what is counted, and what the command prints."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from engram.errors import InvalidInput
from engram.model import Clean
from engram_bench.advice import contexts, figures, off_topic
from engram_bench.advice.kinds import WORDINGS, KindOfWork, errands, situation
from engram_bench.advice.simulation import ARMS, ArmRun, ContextEmbedder, default_embedder, run_world
from engram_bench.advice.worlds import BROKEN, RISEN, World, fill_places, kinds
from support.command_line import run_line, value

EVERY = (*kinds(held_out=False), *kinds(held_out=True))


def words(text: str) -> set[str]:
    return {word for word in text.lower().split() if "{" not in word}


def test_at_least_five_kinds_are_held_out_and_marked_so() -> None:
    assert [kind.seen for kind in EVERY].count(False) >= 5
    assert [kind.seen for kind in EVERY].count(True) >= 6


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_a_kind_has_situations_with_many_wordings_and_a_best_action_apart_from_the_habit(kind: KindOfWork) -> None:
    assert 6 <= len(kind.situations) <= 12
    for each in kind.situations:
        assert len(set(each.wordings)) >= WORDINGS
        assert 3 <= len(each.actions) <= 5
        assert 0.85 <= each.actions[each.best] <= 0.95
        assert 0.4 <= each.actions[each.habit] <= 0.6
        assert len(set(each.actions.values())) > 2


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_every_place_in_a_text_has_values_and_actions_have_none(kind: KindOfWork) -> None:
    texts = [*kind.notes, *kind.errors, *(each.context for each in kind.errands)]
    texts += [wording for each in kind.situations for wording in each.wordings]
    for text in texts:
        assert "{" not in fill_places(text, kind, random.Random(0))
    assert not [action for each in kind.situations for action in each.actions if "{" in action]
    assert not [each.action for each in kind.errands if "{" in each.action]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_wordings_of_a_situation_do_not_share_most_of_their_words(kind: KindOfWork) -> None:
    for each in kind.situations:
        sets = [words(wording) for wording in each.wordings]
        alike = [len(a & b) / len(a | b) for i, a in enumerate(sets) for b in sets[:i] if a | b]
        assert np.mean(alike) < 0.2


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_some_actions_work_in_one_situation_and_not_in_another(kind: KindOfWork) -> None:
    often = Counter(action for each in kind.situations for action in each.actions)
    assert max(often.values()) > 1


def test_off_topic_questions_are_many_and_different() -> None:
    assert len(set(off_topic.QUESTIONS)) == len(off_topic.QUESTIONS) >= 90


def test_a_world_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    logs = [list(World(EVERY[0], seed).log(3)) for seed in (1, 1, 2)]
    assert logs[0] == logs[1] != logs[2]


def test_a_change_breaks_the_best_action_and_lifts_another() -> None:
    world = World(EVERY[0], 0)
    name, change = next(iter(world.changes.items()))
    where = next(each for each in world.kind.situations if each.name == name)
    assert world.best(where, change.day - 1) == change.broken
    assert world.best(where, change.day) == change.risen
    assert world.rate(where, change.broken, change.day) == BROKEN
    assert world.rate(where, change.risen, change.day) == RISEN


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_one_change_of_a_world_lifts_the_habit_and_the_others_do_not(kind: KindOfWork) -> None:
    changes = World(kind, 0).changes
    habits = [each.habit for each in kind.situations if each.name in changes and changes[each.name].risen == each.habit]
    assert len(changes) >= 2
    assert len(habits) == 1


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_actions_that_change_have_outcomes_enough_before_and_after(kind: KindOfWork) -> None:
    world = World(kind, 0)
    events = [(day, event) for day in range(world.days) for event in world.log(day) if event.success is not None]
    for name, change in world.changes.items():
        for action in (change.broken, change.risen):
            days = [
                day for day, each in events if each.situation and (each.situation.name, each.action) == (name, action)
            ]
            assert sum(day < change.day for day in days) >= 5
            assert sum(day >= change.day for day in days) >= 5


def test_after_eight_days_habit_is_right_in_about_55_percent_and_an_oracle_in_about_91() -> None:
    habit, best = [], []
    for kind in kinds(held_out=False):
        world = World(kind, 0)
        for day in range(8, world.days):
            habit += [world.rate(each, each.habit, day) for each in kind.situations]
            best += [world.rate(each, world.best(each, day), day) for each in kind.situations]
    assert np.mean(habit) == pytest.approx(0.55, abs=0.02)
    assert np.mean(best) == pytest.approx(0.91, abs=0.02)


def test_a_decision_has_the_vector_of_its_context_and_each_text_is_computed_once() -> None:
    cached = ContextEmbedder(default_embedder("hashing"))
    whole, context, open_end = Clean("pod died\nrestart it → failure"), Clean("pod died"), Clean("pod died\nrestart it")
    rows = cached.embed([whole, context, open_end])
    assert (rows[0] == rows[1]).all()
    assert (rows[1] != rows[2]).any()
    assert cached.embed([]).shape == (0, cached.dim)


def test_the_log_never_uses_the_wordings_that_are_kept_for_questions() -> None:
    world, rng = World(EVERY[0], 0), random.Random(0)
    asked = [world.question(each, rng) for each in world.kind.situations for _ in range(40)]
    share = sum(question.fresh for question in asked) / len(asked)
    assert 0.1 < share < 0.4
    constant = {w for each in world.kind.situations for w in each.wordings if "{" not in w}
    fresh = {question.text for question in asked if question.fresh} & constant
    logged = {event.text for day in range(world.days) for event in world.log(day)}
    assert not fresh & logged


def test_a_description_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="is not an action"):
        situation("x", "a | b | c", "often try it", "words")
    with pytest.raises(ValueError, match="habit"):
        situation("x", "a | b | c", "0.9 try it", "words")
    assert errands("a -> b")[0].action == "b"


def test_an_unknown_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        fill_places("{nowhere}", EVERY[0], random.Random(0))


def test_an_unknown_world_is_refused_and_groups_can_be_named() -> None:
    with pytest.raises(InvalidInput, match="there is no world"):
        figures.choose_kinds(["the moon"])
    assert {kind.seen for kind in figures.choose_kinds(["held out"])} == {False}
    assert {kind.seen for kind in figures.choose_kinds(short=True)} == {True, False}


def test_a_ratio_weighs_runs_by_their_cases_and_has_an_interval_around_it() -> None:
    found = figures.ratio(np.array([[9.0, 10.0], [0.0, 0.0], [10.0, 30.0]]))
    assert found.mean == pytest.approx(19 / 40)
    assert found.low <= found.mean <= found.high
    assert np.isnan(figures.ratio(np.array([[0.0, 0.0]])).mean)


def test_an_interval_never_has_zero_width_where_a_share_is_nothing_or_everything() -> None:
    assert figures.ratio(np.array([[0.0, 40.0]])).high > 0.05
    assert figures.ratio(np.array([[40.0, 40.0]])).low < 0.95


@pytest.mark.slow
def test_the_arms_frame_the_truth() -> None:
    runs = {run.arm: run for run in run_world(EVERY[0], 0, days=10, embedder=default_embedder("hashing"))}
    assert tuple(runs) == ARMS

    def mean(run: ArmRun, name: str) -> float:
        total, cases = run.counts[name]
        return total / cases

    assert mean(runs["oracle"], "regret") == 0
    assert mean(runs["oracle"], "success") > 0.85
    assert mean(runs["habit"], "success") < 0.6
    assert runs["placebo"].counts["foreign"][0] > 0
    assert runs["no memory"].counts["recommended"][0] == 0
    assert {"coverage", "off-topic", "missed blocks"} <= set(runs["engram"].counts)
    assert runs["engram"].counts["recommended"][1] == 2 * len(EVERY[0].situations)
    assert runs["engram"].counts["recommended, all days"][1] == 10 * len(EVERY[0].situations)
    questions = 10 * len(EVERY[0].situations)
    assert len(runs["habit"].rows) == questions
    assert len(runs["engram"].rows) == questions + len(off_topic.QUESTIONS)


@pytest.mark.slow
def test_contexts_are_counted_completely() -> None:
    for row in contexts.run(default_embedder("hashing")):
        assert row["right"] + row["wrong"] + row["foreign"] + row["abstained"] == row["contexts"]


@pytest.mark.slow
def test_the_command_reports_seen_and_held_out_worlds_apart_and_writes_every_answer(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    line = "engram bench advice --short --days 9 --jobs 1 --embedder hashing --json --out"
    report = value(run_line(line, str(file)))
    assert set(report["arms"]) == {"seen", "held out"}
    assert set(report["arms"]["seen"]) == set(ARMS)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {row["arm"] for row in rows} == set(ARMS)


@pytest.mark.slow
def test_the_command_prints_a_table_for_contexts() -> None:
    assert "ABSTAINED" in run_line("engram bench advice --contexts --embedder hashing").stdout
