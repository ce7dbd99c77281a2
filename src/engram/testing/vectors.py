"""Contract tests of vector stores: subclass `VectorStoreContract` and provide the fixture `vectors`."""

from __future__ import annotations

import numpy as np
import pytest

from engram.errors import InvalidInput
from engram.ports import Matrix, Scope, Vector, VectorSpace, VectorStore
from engram.testing.factories import unit

_HOME = VectorSpace(Scope("alice"), "long-term", "fixed@1")
_OTHER_SHELVES = {
    "scope": VectorSpace(Scope("bob"), "long-term", "fixed@1"),
    "scope that differs in case": VectorSpace(Scope("Alice"), "long-term", "fixed@1"),
    "scope that is longer": VectorSpace(Scope("alice2"), "long-term", "fixed@1"),
    "namespace": VectorSpace(Scope("alice"), "working", "fixed@1"),
    "embedder": VectorSpace(Scope("alice"), "long-term", "fixed@2"),
}


class VectorStoreContract:
    """Contract tests of vector stores."""

    slack = 1e-5
    """The most that a similarity may differ from the exact one."""

    def test_is_a_vector_store(self, vectors: VectorStore) -> None:
        assert isinstance(vectors, VectorStore)

    def test_the_same_direction_is_1_a_right_angle_0_and_the_opposite_0_too(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["same", "right", "opposite"], _rows(unit(1, 0), unit(0, 1), unit(-1, 0)))
        found = {match.id: match.score for match in vectors.search(_HOME, unit(1, 0), 3)}
        assert found == pytest.approx({"same": 1, "right": 0, "opposite": 0}, abs=self.slack)

    def test_the_similarity_is_the_cosine(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["half"], _rows(unit(1, 3**0.5)))
        assert vectors.search(_HOME, unit(1, 0), 1)[0].score == pytest.approx(0.5, abs=self.slack)

    def test_the_best_comes_first(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["far", "near", "between"], _rows(unit(1, 9), unit(9, 1), unit(1, 1)))
        assert [match.id for match in vectors.search(_HOME, unit(1, 0), 3)] == ["near", "between", "far"]

    def test_no_more_than_k_are_given(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["far", "near", "between"], _rows(unit(1, 9), unit(9, 1), unit(1, 1)))
        assert [match.id for match in vectors.search(_HOME, unit(1, 0), 2)] == ["near", "between"]
        assert vectors.search(_HOME, unit(1, 0), 0) == []

    def test_a_k_larger_than_the_shelf_gives_all_there_is(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["one", "two"], _rows(unit(1, 0), unit(0, 1)))
        assert len(vectors.search(_HOME, unit(1, 0), 1000)) == 2

    def test_an_unknown_shelf_is_empty(self, vectors: VectorStore) -> None:
        assert vectors.search(_HOME, unit(1, 0), 5) == []
        vectors.remove(_HOME, ["nobody"])
        vectors.clear(_HOME)
        assert vectors.search(_HOME, unit(1, 0), 5) == []

    def test_adding_nothing_changes_nothing(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, [], np.empty((0, 2), dtype=np.float32))
        assert vectors.search(_HOME, unit(1, 0), 5) == []

    def test_only_these_are_looked_at_and_before_k_is_applied(self, vectors: VectorStore) -> None:
        ids = [f"m{i}" for i in range(50)]
        vectors.add(_HOME, ids, _rows(*(unit(50, i) for i in range(50))))
        found = vectors.search(_HOME, unit(1, 0), 2, frozenset({"m40", "m45", "m49", "stranger"}))
        assert [match.id for match in found] == ["m40", "m45"]
        assert vectors.search(_HOME, unit(1, 0), 2, frozenset()) == []

    def test_an_id_that_is_there_already_is_replaced(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["one", "two"], _rows(unit(1, 0), unit(1, 1)))
        vectors.add(_HOME, ["one"], _rows(unit(0, 1)))
        found = vectors.search(_HOME, unit(0, 1), 5)
        assert [match.id for match in found] == ["one", "two"]
        assert found[0].score == pytest.approx(1, abs=self.slack)

    def test_what_was_removed_is_not_found_and_the_others_are(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["one", "two", "three"], _rows(unit(1, 0), unit(9, 1), unit(1, 1)))
        vectors.remove(_HOME, ["one", "stranger"])
        vectors.remove(_HOME, ["one"])
        assert [match.id for match in vectors.search(_HOME, unit(1, 0), 5)] == ["two", "three"]
        assert vectors.search(_HOME, unit(1, 0), 5, frozenset({"one"})) == []

    def test_what_was_removed_can_come_back(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["one"], _rows(unit(1, 0)))
        vectors.remove(_HOME, ["one"])
        vectors.add(_HOME, ["one"], _rows(unit(0, 1)))
        assert vectors.search(_HOME, unit(0, 1), 5)[0].score == pytest.approx(1, abs=self.slack)

    def test_a_cleared_shelf_is_empty_and_can_be_filled_again(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["one", "two"], _rows(unit(1, 0), unit(0, 1)))
        vectors.clear(_HOME)
        assert vectors.search(_HOME, unit(1, 0), 5) == []
        vectors.add(_HOME, ["two"], _rows(unit(0, 1)))
        assert [match.id for match in vectors.search(_HOME, unit(1, 0), 5)] == ["two"]

    @pytest.mark.parametrize("other", _OTHER_SHELVES.values(), ids=_OTHER_SHELVES.keys())
    def test_shelves_do_not_mix(self, vectors: VectorStore, other: VectorSpace) -> None:
        vectors.add(_HOME, ["shared", "mine"], _rows(unit(1, 0), unit(1, 1)))
        vectors.add(other, ["shared", "yours"], _rows(unit(0, 1), unit(1, 1)))
        assert {match.id for match in vectors.search(_HOME, unit(1, 0), 9)} == {"shared", "mine"}
        assert vectors.search(_HOME, unit(1, 0), 9, frozenset({"yours"})) == []
        vectors.remove(other, ["shared", "mine"])
        assert vectors.search(_HOME, unit(1, 0), 1)[0].score == pytest.approx(1, abs=self.slack)
        vectors.clear(other)
        assert len(vectors.search(_HOME, unit(1, 0), 9)) == 2

    def test_vectors_of_another_length_are_refused_and_change_nothing(self, vectors: VectorStore) -> None:
        vectors.add(_HOME, ["one"], _rows(unit(1, 0)))
        with pytest.raises(InvalidInput):
            vectors.add(_HOME, ["two"], _rows(unit(1, 0, 0)))
        with pytest.raises(InvalidInput):
            vectors.search(_HOME, unit(1, 0, 0), 5)
        assert [match.id for match in vectors.search(_HOME, unit(1, 0), 5)] == ["one"]

    def test_the_vectors_given_can_change_afterwards(self, vectors: VectorStore) -> None:
        rows = _rows(unit(1, 0))
        vectors.add(_HOME, ["one"], rows)
        rows[0] = unit(0, 1)
        assert vectors.search(_HOME, unit(1, 0), 1)[0].score == pytest.approx(1, abs=self.slack)

    @pytest.mark.parametrize("seed", range(20))
    def test_after_any_history_the_answer_is_that_of_comparing_with_each(self, vectors: VectorStore, seed: int) -> None:
        chance = np.random.default_rng(seed)
        kept: dict[str, Vector] = {}
        for _ in range(60):
            some = [f"m{n}" for n in chance.integers(0, 200, size=chance.integers(1, 12))]
            if chance.random() < 0.3:
                vectors.remove(_HOME, some)
                kept = {id: vector for id, vector in kept.items() if id not in some}
            else:
                rows = _rows(*(unit(*chance.normal(size=8)) for _ in some))
                vectors.add(_HOME, some, rows)
                kept |= dict(zip(some, rows, strict=True))
        query = unit(*chance.normal(size=8))
        among = frozenset(f"m{n}" for n in chance.integers(0, 200, size=60)) if seed % 2 else None
        exact = {id: max(0.0, float(v @ query)) for id, v in kept.items() if among is None or id in among}
        for k in (1, 7, 500):
            found = vectors.search(_HOME, query, k, among)
            best = sorted(exact.values(), reverse=True)[:k]
            assert [match.score for match in found] == pytest.approx(best, abs=self.slack)
            assert len({match.id for match in found}) == len(found)
            assert all(match.score == pytest.approx(exact[match.id], abs=self.slack) for match in found)


def _rows(*vectors: Vector) -> Matrix:
    return np.stack(vectors)
