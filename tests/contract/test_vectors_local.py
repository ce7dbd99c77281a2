"""Beyond a size, neighbours are found by bit codes: almost always the same ones, at once after any change."""

from __future__ import annotations

import numpy as np
import pytest

from engram.ports import Match, Matrix, Scope, VectorSpace
from engram.stores.vectors.exact import ExactVectors
from engram.stores.vectors.local import LocalVectors
from engram.testing import VectorStoreContract

SHELF = VectorSpace(Scope("alice"), "long-term", "fixed@1")
DIM = 64


class TestLocalVectorsKeepTheContract(VectorStoreContract):
    backend = "local (built in)"

    @pytest.fixture
    def vectors(self) -> LocalVectors:
        return LocalVectors()


def topics(count: int, seed: int) -> Matrix:
    """Vectors as models make them: around topics, and all of them far from the origin."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(40, DIM))
    rows = centres[chance.integers(0, 40, count)] + 1.2 * chance.normal(size=(count, DIM)) + 0.5
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def names(count: int, first: int = 0) -> list[str]:
    return [f"m{n}" for n in range(first, first + count)]


def ids(matches: list[Match]) -> set[str]:
    return {match.id for match in matches}


@pytest.fixture(params=[10**6, 1000], ids=["all bits at once", "half of the bits first"])
def pair(request: pytest.FixtureRequest) -> tuple[LocalVectors, ExactVectors]:
    local, exact = LocalVectors(many=100, compared=400, very_many=request.param), ExactVectors()
    for vectors in (local, exact):
        vectors.add(SHELF, names(4000), topics(4000, 1))
    return local, exact


def share(local: LocalVectors, exact: ExactVectors, among: frozenset[str] | None = None) -> float:
    """How many of the ten nearest are found, on average."""
    found = [
        len(ids(local.search(SHELF, query, 10, among)) & ids(exact.search(SHELF, query, 10, among))) / 10
        for query in topics(60, 2)
    ]
    return sum(found) / len(found)


def test_almost_all_neighbours_are_found_with_their_exact_similarity(pair: tuple[LocalVectors, ExactVectors]) -> None:
    local, exact = pair
    assert share(local, exact) >= 0.98
    query = topics(1, 3)[0]
    true = {match.id: match.score for match in exact.search(SHELF, query, 4000)}
    found = local.search(SHELF, query, 10)
    assert [match.score for match in found] == pytest.approx([true[match.id] for match in found], abs=1e-6)
    assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)


def test_a_filter_never_starves_the_answer(pair: tuple[LocalVectors, ExactVectors]) -> None:
    local, exact = pair
    assert share(local, exact, frozenset(names(2000, first=1000))) >= 0.98
    few = frozenset(names(12, first=7))
    assert ids(local.search(SHELF, topics(1, 3)[0], 10, few)) == ids(exact.search(SHELF, topics(1, 3)[0], 10, few))


def test_what_is_added_is_there_and_what_is_removed_is_gone(pair: tuple[LocalVectors, ExactVectors]) -> None:
    local, exact = pair
    share(local, exact)  # everything has its code now
    news = topics(900, 4)
    for vectors in pair:
        vectors.add(SHELF, names(900, first=3900), news)
        vectors.remove(SHELF, names(4000)[::2])
    assert ids(local.search(SHELF, news[400], 1)) == {"m4300"}
    query = topics(1, 1)[0]
    assert ids(local.search(SHELF, query, 500)).isdisjoint(names(3900)[::2])
    assert share(local, exact) >= 0.98


def test_a_shelf_that_grows_a_lot_keeps_its_quality(pair: tuple[LocalVectors, ExactVectors]) -> None:
    local, exact = pair
    share(local, exact)
    for vectors in pair:
        vectors.add(SHELF, names(14_000, first=4000), topics(14_000, 5))
    assert share(local, exact) >= 0.98


def test_the_same_history_gives_the_same_answer() -> None:
    answers = []
    for _ in range(2):
        local = LocalVectors(many=100, compared=400)
        local.add(SHELF, names(3000), topics(3000, 6))
        answers.append([local.search(SHELF, query, 5) for query in topics(5, 7)])
    assert answers[0] == answers[1]
