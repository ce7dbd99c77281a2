"""The meaning of closeness of contexts is learned from what is done in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import engram
from engram.learning.situations.nearness import DEFAULT_NEARNESS, Habits, Nearness, Sample, learn_nearness
from engram.learning.state import NEARNESS, _name
from engram.ports import KeepsSettings, Scope

WORK = ("pack the boxes", "paint the fence", "call the plumber", "sort the mail")
UNRELATED = 0.5
HABITS = Habits(same=0.5, chance=0.1)


def samples(share: float, number: int = 40) -> list[Sample]:
    """Make contexts whose nearest neighbours, from far to close, take the same action so often."""
    closest = [UNRELATED + 0.5 * place / number for place in range(number)]
    return [Sample(near, ((near, share), (near - 0.02, share), (near - 0.25, HABITS.chance))) for near in closest]


def test_where_the_nearest_contexts_call_for_the_same_they_are_of_one_kind() -> None:
    known = learn_nearness(samples(HABITS.same), HABITS, UNRELATED)
    assert known.worth(0.7) > 0.9
    near, behind, far = known.related(np.array([0.7, 0.6, 0.44]))
    assert near > 0.85
    assert near > behind > far
    assert far < 0.3


@pytest.mark.parametrize("share", [HABITS.chance, 0.25])
def test_where_they_call_for_other_things_they_count_nothing(share: float) -> None:
    known = learn_nearness(samples(share), HABITS, UNRELATED)
    assert known.worth(0.9) < 0.6
    assert known.related(np.array([0.9, 0.8])).max() < 0.05


def test_nothing_is_learned_from_texts_that_may_have_nothing_in_common() -> None:
    known = learn_nearness(samples(HABITS.same), HABITS, UNRELATED)
    assert known.worth(0.49) == 0
    assert known.related(np.array([0.49, 0.3])).max() == 0
    far = [Sample(0.3, ((0.3, HABITS.same),)) for _ in range(40)]
    assert learn_nearness(far, HABITS, UNRELATED) == Nearness(typical=0.3)


def test_actions_that_are_taken_alike_everywhere_tell_nothing() -> None:
    assert learn_nearness(samples(0.5), Habits(same=0.5, chance=0.48), UNRELATED).nearest == ()
    assert learn_nearness([], HABITS, UNRELATED) == DEFAULT_NEARNESS


def test_few_contexts_prove_little() -> None:
    few, many = (learn_nearness(samples(HABITS.same, number), HABITS, UNRELATED) for number in (2, 40))
    assert few.worth(0.7) < 0.7 < many.worth(0.7)


def test_it_is_kept_as_it_is() -> None:
    known = learn_nearness(samples(HABITS.same), HABITS, UNRELATED)
    assert Nearness.load(known.dump()) == known


def test_it_is_kept_for_other_processes_until_something_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "engram.db"
    with engram.open(path, embedder="hashing") as brain:
        agent = brain.agent("ann")
        for number in range(40):
            agent.record_decision(context=f"{WORK[number % 4]}, take {number}", action="do it", outcome="success")
        agent.suggest("pack the boxes for the move")
    with engram.open(path, embedder="hashing") as brain:
        assert isinstance(brain.store, KeepsSettings)
        kept = brain.store.setting(_name(Scope("ann"), NEARNESS))
        assert kept
        assert brain._parts.experience.nearness(Scope("ann"), json.loads(kept)["state"]) is not None
        assert brain._parts.experience.nearness(Scope("ann"), "another state") is None
        brain.agent("ann").forget(brain.agent("ann").list(limit=1)[0].id)
        assert not brain.store.setting(_name(Scope("ann"), NEARNESS))
