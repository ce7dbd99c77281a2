from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.engine import Engram
from engram.learning import state
from engram.learning.state import Experience, Learned
from engram.ports import KeepsEvents, KeepsSettings, Scope
from engram.testing import FixedSources

ALICE = Scope("alice")


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[Engram]:
    with engram.open(tmp_path / "engram.db", embedder="hashing", durable=False, sources=FixedSources()) as brain:
        yield brain


def act(brain: Engram, seed: int, steps: int) -> None:
    """Simulate an agent: decisions, late and corrected outcomes, failures, checks, and a deletion."""
    alice, chance = brain.agent("alice"), random.Random(seed)
    ids: list[str] = []
    for _ in range(steps):
        context, action = chance.choice(["deploy", "build in ci"]), chance.choice(["npm install", "make", "retry"])
        match chance.randrange(6):
            case 0 | 1:
                result: str | float = chance.choice(["success", "failure", "0.3"])
                receipt = alice.record_decision(context=context, action=action, outcome=result, environment="ci")
                ids.append(str(receipt.id))
            case 2:
                late = str(alice.record_decision(context=context, action=action, tags=["late"]).id)
                alice.outcome(late, chance.choice(["success", "failure"]))
                ids.append(late)
            case 3:
                error = f"TimeoutError: host {chance.randrange(9)} timed out after {chance.randrange(99)}s"
                pattern = alice.learn_from_failure(error, "wait", action=action, context=context)
                ids.append(pattern.episodes[0])
            case 4 if ids:
                alice.check(action=action, context=context)
            case 5 if ids:
                if chance.random() < 0.3:
                    alice.forget(ids.pop(chance.randrange(len(ids))))
                elif (known := alice.outcomes(ids[-1])) and known[-1].quality != 1.0:
                    alice.outcome(ids[-1], "success", correct=True)


def dumped(brain: Engram) -> object:
    with brain._parts.experience.of(ALICE) as learned:
        return learned.dump()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 25))
def test_folding_again_gives_what_was_learned_step_by_step(seed: int, steps: int) -> None:
    with engram.open(":memory:", embedder="hashing", sources=FixedSources()) as brain:
        for step in range(3):
            act(brain, seed + step, steps)
            dumped(brain)
        brain._parts.experience.flush()
        before = dumped(brain)
        brain._parts.experience.anew(ALICE)
        assert dumped(brain) == before


def test_a_snapshot_goes_on_as_if_nothing_had_happened(brain: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    act(brain, 1, 25)
    brain._parts.experience.flush()
    before = dumped(brain)
    monkeypatch.setattr(state, "WORTH_KEEPING", 1)
    brain._parts.experience.anew(ALICE)
    assert isinstance(brain.store, KeepsSettings)
    kept = brain.store.setting(state._name(ALICE))
    assert kept
    other = Experience(brain.store)
    with other.of(ALICE) as learned:
        assert learned.dump() == before
    act(brain, 2, 25)
    brain._parts.experience.flush()
    with other.of(ALICE) as learned:
        assert learned.dump() == dumped(brain)


def test_a_snapshot_of_another_form_is_not_used(brain: Engram) -> None:
    act(brain, 1, 10)
    assert isinstance(brain.store, KeepsSettings)
    brain.store.set_setting(state._name(ALICE), '{"form": 0, "seq": 10000}')
    with Experience(brain.store).of(ALICE) as learned:
        assert learned.dump() == dumped(brain)


def test_what_another_process_recorded_is_seen_at_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "engram.db"
    with engram.open(path, embedder="hashing") as one, engram.open(path, embedder="hashing") as two:
        assert two.agent("alice").learning.failures() == []
        one.agent("alice").learn_from_failure("ValueError: no such channel", "create it")
        (pattern,) = two.agent("alice").learning.failures()
        assert pattern.known_solutions[0].text == "create it"
        one.agent("alice").forget(pattern.episodes[0])
        assert two.agent("alice").learning.failures() == []


def test_nothing_of_what_was_forgotten_stays_in_what_was_learned(brain: Engram) -> None:
    alice = brain.agent("alice")
    alice.learn_from_failure("KeyError: 'zanzibar'", "add zanzibar", action="load zanzibar")
    receipt = alice.record_decision(context="zanzibar", action="sail to zanzibar", outcome="failure")
    assert "zanzibar" in str(dumped(brain))
    for memory in alice.list():
        alice.forget(memory.id)
    assert receipt.id is not None
    assert "zanzibar" not in str(dumped(brain))
    assert isinstance(brain.store, KeepsEvents)
    assert "zanzibar" not in str(brain.store.events_after(ALICE, 0, 100))


def test_agents_learn_apart(brain: Engram) -> None:
    brain.agent("alice").learn_from_failure("ValueError: x", "y")
    assert brain.agent("bob").learning.failures() == []
    with brain._parts.experience.of(Scope("bob")) as learned:
        assert learned.dump() == Learned("bob").dump()
