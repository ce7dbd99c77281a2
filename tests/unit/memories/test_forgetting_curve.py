"""What is used stays, what faded goes, and only after it has been archived."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.engine import AgentHandle, Engram
from engram.errors import Conflict, InvalidInput
from engram.memories.forgetting_curve import ForgettingLimits, credits_by_memory, fade, strength
from engram.model import Memory
from engram.ports import Credit
from engram.testing import FixedSources
from engram.upkeep import maintenance

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def clock() -> FixedSources:
    return FixedSources(START)


@pytest.fixture(params=["file", "memory"])
def brain(request: pytest.FixtureRequest, path: Path, clock: FixedSources) -> Iterator[Engram]:
    where: Path | str = path if request.param == "file" else ":memory:"
    with engram.open(where, embedder="hashing", durable=False, sources=clock) as opened:
        yield opened


@pytest.fixture
def alice(brain: Engram) -> AgentHandle:
    return brain.agent("alice")


@pytest.fixture
def some(alice: AgentHandle) -> Memory:
    memory = alice.get(str(alice.remember("The river rose by a metre").id))
    assert memory is not None
    return memory


def value(memory: Memory, told: list[tuple[datetime, float]], days: float) -> float:
    return strength(memory, told, START + days * DAY).value


def test_strength_begins_at_the_importance_and_fades(some: Memory) -> None:
    values = [value(some, [], days) for days in (0, 1, 10, 100, 300, 1000)]
    assert values[0] == 0.5
    assert values == sorted(values, reverse=True)
    assert value(some, [], 200) > 0.05 > value(some, [], 365)


@pytest.mark.parametrize(("importance", "months"), [(0.5, 9), (0.9, 19)])
def test_what_is_never_used_goes_when_the_documentation_says(
    some: Memory, alice: AgentHandle, importance: float, months: int
) -> None:
    memory = alice.annotate(some.id, importance=importance)
    assert value(memory, [], (months - 0.7) * 30.4) > 0.05 > value(memory, [], (months + 0.7) * 30.4)


def test_what_hardly_matters_goes_when_it_is_old_enough(some: Memory, alice: AgentHandle) -> None:
    assert value(alice.annotate(some.id, importance=0.1), [], 90) < 0.05


def test_helping_strengthens_more_than_a_recall_and_hindering_weakens(some: Memory) -> None:
    recalled = some.model_copy(update={"access_count": 1, "last_accessed": START + 10 * DAY})
    helped, hindered = [(START + 10 * DAY, 1.0)], [(START + 10 * DAY, 0.0)]
    order = [value(some, hindered, 100), value(recalled, [], 100), value(some, helped, 100)]
    assert value(some, [], 100) < order[1]
    assert order == sorted(order)
    assert len(set(order)) == 3


def test_a_credited_recall_counts_once(some: Memory) -> None:
    recalled = some.model_copy(update={"access_count": 1, "last_accessed": START + 10 * DAY})
    assert strength(recalled, [(START + 10 * DAY, 1.0)], START + 20 * DAY).reviews == 2
    assert strength(recalled, [], START + 20 * DAY).reviews == 2
    busy = recalled.model_copy(update={"access_count": 1_000_000})
    assert strength(busy, [], START + 20 * DAY).reviews == 65


@given(
    st.lists(st.tuples(st.integers(0, 400), st.floats(0, 1)), max_size=8),
    st.integers(0, 10),
    st.integers(1, 500),
    st.floats(0, 1),
)
def test_strength_is_a_share_and_the_same_for_the_same_history(
    told: list[tuple[int, float]], accesses: int, days: int, importance: float
) -> None:
    with engram.open(":memory:", embedder="hashing", sources=FixedSources(START)) as brain:
        alice = brain.agent("alice")
        memory = alice.get(str(alice.remember("one", importance=importance).id))
    assert memory is not None
    memory = memory.model_copy(update={"access_count": accesses, "last_accessed": START + 3 * DAY})
    credits = sorted((START + day * DAY, share) for day, share in told)
    first, second = (strength(memory, credits, START + days * DAY) for _ in range(2))
    assert first == second
    assert 0 <= first.value <= importance


def test_what_is_told_of_a_memory_comes_from_the_credits_it_shares() -> None:
    whole = Credit("b", START + DAY, ("x", "y"), frozenset({"y"}))
    shared = Credit("a", START, ("x",), frozenset(), shares={"x": (0.3, 0.1)})
    told = credits_by_memory([whole, shared])
    assert told == {"x": [(START, pytest.approx(0.75)), (START + DAY, 0.0)], "y": [(START + DAY, 1.0)]}


def test_what_is_used_pinned_cited_or_learned_from_stays_and_the_rest_goes(
    brain: Engram, alice: AgentHandle, clock: FixedSources
) -> None:
    gone = str(alice.remember("A bus was late").id)
    low = str(alice.remember("Somebody coughed", importance=0.1).id)
    alice.remember("The vault opens on Mondays", tags=["Pinned"])
    alice.remember("Never touch the red lever", importance=1.0)
    cited = str(alice.remember("The first draft was blue").id)
    alice.remember("The draft was blue, later green", kind="reflection", sources=[cited], importance=0.9)
    alice.remember("How to reset the router: hold the button", kind="procedure")
    decided = alice.record_decision(context="rain", action="take an umbrella", outcome="success")
    alice.learn_from_failure("TimeoutError: no answer", action="call")
    clock.moment = START + 300 * DAY
    used = str(alice.remember("fresh news").id)
    found = brain.upkeep.fading(["alice"])
    assert [each.id for each in found.gone] == [low, gone]
    assert found.kept == {
        "cited": 1,
        "learned from": 2,
        "pinned": 2,
        "procedures": 1,
        "recently stored or used": 1,
        "strong enough": 1,
    }
    assert "is below 0.05; neither stored nor used for 300 days" in found.gone[0].reason
    assert all(alice.get(id) for id in (gone, low, used, str(decided.id)))


def test_a_recall_keeps_a_memory_alive(brain: Engram, alice: AgentHandle, clock: FixedSources, tmp_path: Path) -> None:
    id = str(alice.remember("The bridge is closed on Sundays").id)
    clock.moment = START + 280 * DAY
    alice.recall("when is the bridge closed?")
    clock.moment = START + 380 * DAY
    assert brain.upkeep.forget(["alice"], tmp_path / "gone.gz").gone == ()
    assert [each.id for each in brain.upkeep.fading(["alice"], ForgettingLimits(below=0.5)).gone] == [id]


def test_a_fact_that_is_asked_for_is_kept_alive(
    brain: Engram, alice: AgentHandle, clock: FixedSources, tmp_path: Path
) -> None:
    alice.semantic.learn("Staging", "runs on", "Ubuntu")
    alice.semantic.learn("The harbour", "runs on", "steam")
    for days in (100, 200, 300, 380):
        clock.moment = START + days * DAY
        answer = alice.semantic.ask("Staging", "runs on")
        assert answer is not None
    gone = brain.upkeep.forget(["alice"], tmp_path / "gone.gz").gone
    assert [each.text for each in gone] == ["The harbour runs on steam"]


def test_what_helped_in_a_decision_stays(brain: Engram, alice: AgentHandle, clock: FixedSources) -> None:
    alice.remember("The bridge is closed on Sundays", importance=0.1)
    hits = alice.recall("when is the bridge closed?")
    alice.record_decision(context="sunday", action="take the ferry", outcome="success", informed_by=[hits.id])
    alice.outcome(hits.id, "success")
    clock.moment = START + 3000 * DAY
    assert brain.upkeep.fading(["alice"]).kept == {"cited": 1, "learned from": 1}


def test_what_goes_is_archived_first_and_can_come_back(
    brain: Engram, alice: AgentHandle, clock: FixedSources, tmp_path: Path
) -> None:
    alice.remember(["A bus was late", "Somebody coughed"], tags=["noise"])
    brain.agent("bob").remember("A cat slept", kind="knowledge")
    before = {memory.id: memory for name in brain.agents() for memory in brain.agent(name).list()}
    clock.moment = START + 400 * DAY
    archive = tmp_path / "gone.jsonl.gz"
    found = brain.upkeep.forget(brain.agents(), archive)
    assert {each.id for each in found.gone} == set(before)
    assert found.archive == str(archive)
    assert alice.list() == []
    with gzip.open(archive, "rt", encoding="utf-8") as lines:
        kept = [json.loads(line) for line in lines]
    assert {line["memory"]["id"] for line in kept} == set(before)
    assert all(line["reason"] for line in kept)
    with pytest.raises(Conflict, match="already"):
        brain.upkeep.forget(brain.agents(), archive)
    assert brain.upkeep.restore(archive) == 3
    assert {memory.id: memory for name in brain.agents() for memory in brain.agent(name).list()} == before
    assert alice.recall("which bus was late?")
    assert brain.upkeep.restore(archive) == 0


def test_nothing_is_forgotten_if_it_cannot_be_archived(
    brain: Engram, alice: AgentHandle, clock: FixedSources, tmp_path: Path
) -> None:
    alice.remember("A bus was late")
    clock.moment = START + 400 * DAY
    with pytest.raises(OSError, match="No such file"):
        brain.upkeep.forget(["alice"], tmp_path / "nowhere" / "gone.gz")
    assert len(alice.list()) == 1


def test_what_is_used_while_others_go_stays(
    brain: Engram, alice: AgentHandle, clock: FixedSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = str(alice.remember("A bus was late").id)
    clock.moment = START + 400 * DAY
    write = maintenance.write_archive

    def slowly(path: Path, gone: list[tuple[object, Memory]], *more: Any) -> None:
        write(path, gone, *more)  # type: ignore[arg-type]
        alice.annotate(id, importance=0.9)

    monkeypatch.setattr(maintenance, "write_archive", slowly)
    assert brain.upkeep.forget(["alice"], tmp_path / "gone.gz").gone == ()
    assert alice.get(id) is not None


def test_without_anything_to_forget_there_is_no_archive(brain: Engram, alice: AgentHandle, tmp_path: Path) -> None:
    alice.remember("A bus was late")
    assert brain.upkeep.forget(["alice"], tmp_path / "gone.gz").archive is None
    assert not (tmp_path / "gone.gz").exists()


def test_an_archive_that_is_none_or_was_tampered_with_is_refused(
    brain: Engram, alice: AgentHandle, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gz"
    broken.write_bytes(b"no gzip at all")
    with pytest.raises(InvalidInput, match="no archive"):
        brain.upkeep.restore(broken)
    memory = alice.get(str(alice.remember("a door").id))
    assert memory is not None
    with gzip.open(tmp_path / "secret.gz", "wt", encoding="utf-8") as file:
        changed = memory.model_dump(mode="json") | {"text": "password=hunter2hunter2 opens it"}
        file.write(json.dumps({"memory": changed}) + "\n")
    with pytest.raises(InvalidInput, match="secrets"):
        brain.upkeep.restore(tmp_path / "secret.gz")
    for name in ("\x1fledger", "group:team"):
        with gzip.open(tmp_path / "named.gz", "wt", encoding="utf-8") as file:
            file.write(json.dumps({"memory": memory.model_dump(mode="json") | {"agent": name}}) + "\n")
        with pytest.raises(InvalidInput, match="agent"):
            brain.upkeep.restore(tmp_path / "named.gz")
    assert brain.agents() == ["alice"]


def test_the_sources_of_a_consolidation_stay_as_long_as_it_does(
    brain: Engram, alice: AgentHandle, clock: FixedSources
) -> None:
    alice.remember(["The deploys happen at midnight", "Deploys occur at midnight"], kind="knowledge")
    clock.moment = START + DAY
    (made,) = brain.upkeep.consolidate(["alice"])
    clock.moment = START + 3000 * DAY
    assert {each.id for each in brain.upkeep.fading(["alice"]).gone} == {made.id, *made.sources}


def test_no_memories_fade_from_an_empty_mind() -> None:
    assert fade([], [], START, ForgettingLimits()).gone == ()
