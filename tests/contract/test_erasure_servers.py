"""What is forgotten is gone from the rows of the stores that several machines share."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_erasure import NAME, WAYS, Clock, by_archiving, by_sharing, met

import engram
from engram.engine import Engram
from engram.ports import Copies
from engram.retention import erasure
from support.redis_server import redis_url

pytest_plugins = ["support.postgres_server"]
__all__ = ["redis_url"]
HERE = [way for way in WAYS if way is not by_archiving]


@pytest.fixture(params=["redis", "postgresql"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engram]:
    url = str(request.getfixturevalue("postgres_url"))
    if request.param == "redis":
        url = f"{request.getfixturevalue('redis_url')}?prefix={tmp_path.name}"
    with engram.open(url, embedder="hashing", sources=Clock()) as opened:
        yield opened


def rows_with(brain: Engram, canary: str) -> list[str]:
    """The tables that have it in a row."""
    store, found = brain.store, []
    assert isinstance(store, Copies)
    for table in store.tables():
        last = None
        while rows := store.page(table, last, 500):
            found += [table for row in rows if canary in repr(row)]
            last = rows[-1]
    return found


@pytest.mark.parametrize("number", range(len(HERE)))
def test_no_row_has_what_was_forgotten(shared: Engram, number: int) -> None:
    dice, canary = random.Random(number), f"zq{number:02}canary"
    ids = HERE[number](shared, dice, canary)
    assert rows_with(shared, canary)
    for id in ids:
        shared.agent("alice").forget(id)
    assert rows_with(shared, canary) == []


def test_no_row_has_anything_of_an_agent_that_was_erased(shared: Engram) -> None:
    dice, canary = random.Random(1), "zq1canary"
    for way in HERE:
        way(shared, dice, canary)
    shared.agent("alice").working("open").set("note", canary)
    receipt = erasure.erase(shared, "alice")
    assert receipt.removed["memories"] > 10
    assert rows_with(shared, canary) == []
    assert shared.agents() == ["bob"]
    assert shared.agent("alice").remember("I am new here").ok
    assert by_sharing(shared, dice, "another")


def test_the_name_of_an_erased_agent_is_left_in_the_audit_trail_alone(shared: Engram, tmp_path: Path) -> None:
    met(shared, tmp_path)
    erasure.erase(shared, NAME)
    assert {*rows_with(shared, NAME)} <= {"audit"}


def test_policies_and_holds(shared: Engram) -> None:
    retention, alice = shared.retention, shared.agent("alice")
    alice.remember(["one", "two"], kind="plan")
    alice.remember("three", kind="plan", tags=["legal"])
    hold = retention.hold("lawsuit", tags=["legal"])
    retention.set("plans", kinds=["plan"], action="forget")
    report = retention.run()
    assert ([each.memories for each in report.gone], dict(report.kept)) == ([2], {"held": 1})
    retention.release(hold.id)
    assert [each.memories for each in retention.run().gone] == [1]
