"""The simulation of two agents with tasks alike."""

from __future__ import annotations

import pytest

from engram.bench import transfer


@pytest.mark.slow
def test_sharing_spares_failures_and_a_revocation_takes_that_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in {"LESSONS": 120, "TASKS": 60, "SITUATIONS": 8}.items():
        monkeypatch.setattr(transfer, name, number)
    result = transfer.run(2)
    assert result.failures["shared"].mean < result.failures["alone"].mean
    assert result.failures["file"].mean < result.failures["alone"].mean
    assert result.same_advice == 1.0


def test_a_world_is_the_same_every_time() -> None:
    assert transfer.world(3) == transfer.world(3) != transfer.world(4)
