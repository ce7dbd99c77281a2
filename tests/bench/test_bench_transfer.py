"""The simulation of two agents with similar tasks."""

from __future__ import annotations

import pytest

import engram
from engram_bench import transfer


@pytest.mark.slow
def test_sharing_spares_failures_and_a_revocation_takes_that_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in {"LESSONS": 120, "TASKS": 60, "SITUATIONS": 8}.items():
        monkeypatch.setattr(transfer, name, number)
    result = transfer.run(2)
    assert result.failures["shared"].mean < result.failures["alone"].mean
    assert result.failures["file"].mean < result.failures["alone"].mean
    assert result.same_advice == 1.0


def test_much_is_handed_over_as_well() -> None:
    with engram.open(":memory:", embedder="hashing") as here, engram.open(":memory:", embedder="hashing") as there:
        teacher, pupil = here.agent("teacher"), there.agent("pupil")
        teacher.remember([f"lesson {number}" for number in range(1100)])
        transfer._hand_over(teacher.knowledge, pupil.knowledge)
        assert [source.memories for source in pupil.grants.sources()] == [1100]


def test_a_world_is_the_same_every_time() -> None:
    assert transfer.make_world(3) == transfer.make_world(3) != transfer.make_world(4)
