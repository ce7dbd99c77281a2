from __future__ import annotations

import threading

import numpy as np
import pytest

from engram.ports import Scope, VectorSpace
from engram.stores.vectors.exact import ExactVectors
from engram.testing import VectorStoreContract
from engram.testing.factories import unit

SHELF = VectorSpace(Scope("alice"), "long-term", "fixed@1")


class TestExactVectorsKeepTheContract(VectorStoreContract):
    backend = "exact (built in)"

    @pytest.fixture
    def vectors(self) -> ExactVectors:
        return ExactVectors()


def test_many_vectors_are_found_after_the_matrix_has_grown() -> None:
    vectors = ExactVectors()
    rows = np.stack([unit(i, 1000 - i) for i in range(1000)])
    for start in range(0, 1000, 7):
        vectors.add(SHELF, [f"m{i}" for i in range(start, min(1000, start + 7))], rows[start : start + 7])
    assert [match.id for match in vectors.search(SHELF, unit(1, 0), 3)] == ["m999", "m998", "m997"]


def test_threads_that_add_remove_and_search_at_once_lose_nothing() -> None:
    vectors = ExactVectors()
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for i in range(100):
                vectors.add(SHELF, [f"{name}{i}", f"{name}-gone"], np.stack([unit(1, i), unit(0, 1)]))
                vectors.remove(SHELF, [f"{name}-gone"])
                assert len(vectors.search(SHELF, unit(1, 0), 5)) >= 1
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {match.id for match in vectors.search(SHELF, unit(1, 0), 10_000)} == {
        f"{name}{i}" for name in "abcdef" for i in range(100)
    }
