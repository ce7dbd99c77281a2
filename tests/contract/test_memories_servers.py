"""Semantic and procedural memory, consolidation and forgetting on the stores that several machines share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import engram
from engram.engine import Engram
from engram.testing import FixedSources
from engram.upkeep.consolidation import FOREVER, MARK
from support.redis_server import redis_url

pytest_plugins = ["support.postgres_server"]
__all__ = ["redis_url"]

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
EXPLAIN = """
name: explain
description: Explain something in three steps
triggers: [explain]
parameters: {topic: {required: true}}
steps: ["Say what {{ topic }} is.", "Show {{ topic }} at work.", "Name one mistake."]
"""


@pytest.fixture
def clock() -> FixedSources:
    return FixedSources(START, timedelta(seconds=1))


@pytest.fixture(params=["redis", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return f"{request.getfixturevalue('redis_url')}?prefix={tmp_path.name}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def shared(url: str, clock: FixedSources) -> Iterator[Engram]:
    with engram.open(url, embedder="hashing", sources=clock) as opened:
        yield opened


def test_facts_supersede_each_other_and_join_to_a_graph(shared: Engram) -> None:
    known = shared.agent("alice").semantic
    known.learn("Staging", "runs on", "Ubuntu 22.04", valid_from="2024-01-01")
    ended = known.learn("staging", "runs on", "Ubuntu 24.04", valid_from="2025-03-01").superseded
    assert [fact.object for fact in ended] == ["Ubuntu 22.04"]
    now, then = known.ask("Staging", "runs on"), known.ask("Staging", "runs on", as_of="2024-06-01")
    assert now is not None
    assert then is not None
    assert (now.object, then.object) == ("Ubuntu 24.04", "Ubuntu 22.04")
    known.tell("Dana works on Billing. Billing depends on Ledger. The API does not use Java.")
    assert [path.names for path in known.paths("Dana", "Ledger")] == [("Dana", "Billing", "Ledger")]
    known.learn("The build", "is", "green")
    known.learn("The build", "is not", "green")
    assert [pair.reason for pair in known.contradictions("build")] == ["denied"]
    assert shared.agent("bob").semantic.facts() == []


def test_skills_have_versions_matches_and_rates(shared: Engram) -> None:
    skills = shared.agent("alice").procedural
    skills.add(EXPLAIN)
    for outcome in ("success", "success", "failure"):
        assert skills.used("explain", outcome).ok
    changed = skills.add(EXPLAIN.replace("one mistake", "two mistakes"))
    assert (changed.version, changed.attempts) == (2, 0)
    first, second = skills.history("explain")
    assert (first.attempts, first.success_rate) == (3, (1 + 2) / (2 + 3))
    assert second.interval is not None
    assert second.success_rate is not None
    assert second.interval[0] < second.success_rate < second.interval[1]
    assert skills.match("please explain it")[0].skill.version == 2
    assert skills.render("explain", {"topic": "Redis"})[1] == "Show Redis at work."


def test_statements_are_merged_observations_become_facts_and_both_are_taken_back(
    shared: Engram, clock: FixedSources
) -> None:
    alice = shared.agent("alice")
    stated = alice.remember(["The deploys happen at midnight", "Deploys occur at midnight."], kind="knowledge")
    for day in range(3):
        alice.remember("The nightly backup fails on node seven", at=START - (3 - day) * DAY)
    made = {change.how: change for change in shared.upkeep.consolidate(["alice"])}
    assert set(made) == {"merge", "fact"}
    assert set(made["merge"].sources) == {receipt.id for receipt in stated}
    merged = alice.get(str(made["merge"].id))
    assert merged is not None
    assert (merged.evidence, MARK in merged.tags) == (2, True)
    assert [hit.id for hit in alice.recall("when do deploys happen?", kinds="knowledge", k=1)] == [merged.id]
    assert shared.upkeep.consolidate(["alice"]) == []
    for change in made.values():
        shared.upkeep.undo("alice", str(change.id))
        assert alice.get(str(change.id)) is None
    assert {getattr(alice.get(str(receipt.id)), "valid_until", None) for receipt in stated} == {FOREVER}
    assert shared.upkeep.consolidate(["alice"]) == []


def test_taking_back_that_was_stopped_is_finished_by_the_next_consolidation(
    shared: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = shared.agent("alice")
    alice.remember(["The deploys happen at midnight", "Deploys occur at midnight."], kind="knowledge")
    (change,) = shared.upkeep.consolidate(["alice"])

    def killed(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shared.store, "forget", killed)
        with pytest.raises(KeyboardInterrupt):
            shared.upkeep.undo("alice", str(change.id))
    assert alice.get(str(change.id)) is not None
    assert shared.upkeep.consolidate(["alice"]) == []
    assert alice.get(str(change.id)) is None
    assert len(alice.recall("when do deploys happen?")) == 2


def test_what_faded_is_archived_goes_and_comes_back(shared: Engram, clock: FixedSources, tmp_path: Path) -> None:
    alice = shared.agent("alice")
    alice.remember(["A bus was late", "Somebody coughed"])
    alice.remember("The vault opens with two keys", tags=["pinned"])
    before = {memory.id: memory for memory in alice.list()}
    clock.advance(400 * DAY)
    assert len(shared.upkeep.fading(["alice"]).gone) == 2
    assert len(alice.list()) == 3
    found = shared.upkeep.forget(["alice"], tmp_path / "gone.jsonl.gz")
    assert sorted(each.text for each in found.gone) == ["A bus was late", "Somebody coughed"]
    assert [memory.text for memory in alice.list()] == ["The vault opens with two keys"]
    assert shared.upkeep.restore(tmp_path / "gone.jsonl.gz") == 2
    assert {memory.id: memory for memory in alice.list()} == before
