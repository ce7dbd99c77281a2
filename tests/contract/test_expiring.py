from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from engram.ports import Scope
from engram.stores.expiring import InProcessExpiring
from engram.testing import FixedSources
from engram.testing.expiring import ExpiringStoreContract

ALICE = Scope("alice")


@pytest.fixture
def sources() -> FixedSources:
    return FixedSources()


@pytest.fixture
def expiring(sources: FixedSources) -> InProcessExpiring:
    return InProcessExpiring(sources)


class TestInProcessExpiringKeepsTheContract(ExpiringStoreContract):
    backend = "in this process"

    @pytest.fixture
    def pass_time(self, sources: FixedSources) -> Callable[[float], None]:
        return lambda seconds: sources.advance(timedelta(seconds=seconds))


def test_a_value_lives_to_the_last_microsecond_and_no_longer(
    expiring: InProcessExpiring, sources: FixedSources
) -> None:
    expiring.put(ALICE, {"k": 1}, 10)
    sources.advance(timedelta(seconds=10, microseconds=-1))
    assert expiring.fetch(ALICE, ["k"]) == [1]
    sources.advance(timedelta(microseconds=1))
    assert expiring.fetch(ALICE, ["k"]) == [None]


def test_what_expired_does_not_pile_up_though_nobody_asks_for_it(
    expiring: InProcessExpiring, sources: FixedSources
) -> None:
    for i in range(5000):
        expiring.put(ALICE, {f"k{i}": i}, 10)
        sources.advance(timedelta(seconds=1))
    assert len(expiring) == 9
    assert len(expiring._ends) <= 100


def test_what_was_replaced_does_not_pile_up_though_it_lives_long(expiring: InProcessExpiring) -> None:
    for i in range(5000):
        expiring.put(ALICE, {"k": i}, 10**6)
    assert len(expiring._ends) <= 100
    assert expiring.fetch(ALICE, ["k"]) == [4999]


def test_a_clock_that_jumps_back_loses_nothing(expiring: InProcessExpiring, sources: FixedSources) -> None:
    expiring.put(ALICE, {"k": 1}, 10)
    sources.advance(timedelta(days=-1))
    assert expiring.fetch(ALICE, ["k"]) == [1]


def test_many_threads_can_use_it(expiring: InProcessExpiring, sources: FixedSources) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        for i in range(300):
            expiring.put(ALICE, {f"{number}": i, "shared": i}, 100)
            found = expiring.fetch(ALICE, [f"{number}"])
            if found != [i]:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(expiring) == 9
