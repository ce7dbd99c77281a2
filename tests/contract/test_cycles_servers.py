"""Cycles on the stores that several machines share: the same indexes, the same endings."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import engram
from engram.agents.cycles import Life
from engram.errors import Conflict
from engram.model.agent import AgentCycle
from support.redis_server import redis_url

pytest_plugins = ["support.postgres_server"]
__all__ = ["redis_url"]


@pytest.fixture(params=["redis", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return f"{request.getfixturevalue('redis_url')}?prefix={tmp_path.name}"
    return str(request.getfixturevalue("postgres_url"))


def test_two_who_live_one_life_share_its_indexes_and_one_of_them_retries(url: str) -> None:
    with engram.open(url) as first, engram.open(url) as second:
        lives = [Life(b.agent("alice"), b.store, b.redactor, b.sources) for b in (first, second)]

        def live(number: int) -> None:
            for step in range(8):
                cycle = lives[number].propose(tool="work", arguments={"who": number, "step": step})
                lives[number].result(cycle, output=[number, step])

        both(live)
        assert [cycle.index for cycle in lives[0].cycles()] == list(range(16, 0, -1))
        assert all(cycle.status == "done" for cycle in lives[1].cycles())
        begun, retries = lives[0].propose(tool="deploy"), list[AgentCycle]()

        def retry(number: int) -> None:
            try:
                retries.append(lives[number].resolve(begun, "retry"))
            except Conflict:
                return

        both(retry)
        (retried,) = retries
        assert lives[1].resume().unfinished == (retried,)
        assert (retried.proposal.retry_of, lives[0].result(retried, output="ok").status) == (17, "done")
        found = lives[0].recall("work", k=3)
        assert found[0].cycle is not None


def both(target: object) -> None:
    threads = [threading.Thread(target=target, args=(number,)) for number in range(2)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
