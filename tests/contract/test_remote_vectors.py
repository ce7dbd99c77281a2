"""A vector database beside the store: used when it is there, missed by nobody when it is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import engram
from engram.clock import Sources
from engram.engine import Engram
from engram.errors import StoreError, Unsupported
from engram.ports import Entry, Match, Matrix, Query, Scope, Vector, VectorSpace
from engram.privacy import SecretRedactor
from engram.stores.sqlite import SqliteStore, VectorMemoryStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import FixedSources, Maker, MemoryStoreContract
from engram.testing.factories import placed


class Outside(ExactVectors):
    """A vector database of its own that can be away, and that counts what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.given = 0
        self.asked = 0

    def _here(self) -> None:
        if self.away:
            raise StoreError("the vector database does not answer; start it")

    def add(self, space: VectorSpace, ids: Sequence[str], vectors: Matrix) -> None:
        self._here()
        self.given += len(ids)
        super().add(space, ids, vectors)

    def search(self, space: VectorSpace, vector: Vector, k: int, among: frozenset[str] | None = None) -> list[Match]:
        self._here()
        self.asked += 1
        return super().search(space, vector, k, among)

    def remove(self, space: VectorSpace, ids: Sequence[str]) -> None:
        self._here()
        super().remove(space, ids)

    def clear(self, space: VectorSpace) -> None:
        self._here()
        super().clear(space)


class TestVectorMemoryStore(MemoryStoreContract):
    backend = "SQLite with a vector database"
    verified = "an in-process vector database"

    @pytest.fixture
    def store(self, path: Path) -> Iterator[VectorMemoryStore]:
        store = VectorMemoryStore(path, Outside(), ExactVectors(), Sources())
        yield store
        store.close()


Open = Callable[[], Engram]


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def open_brain(path: Path, outside: Outside) -> Iterator[Open]:
    opened: list[Engram] = []

    def open_again() -> Engram:
        store = SqliteStore(path, ExactVectors(), Sources(), remote=outside)
        with engram.open(":memory:", embedder="hashing") as other:
            embedder = other.embedder
        opened.append(
            Engram(
                store, embedder=lambda: embedder, redactor=SecretRedactor(), sources=Sources(), say=lambda line: None
            )
        )
        return opened[-1]

    yield open_again
    for brain in opened:
        brain.close()


def test_what_is_stored_is_found_through_it_and_handed_over_once(open_brain: Open, outside: Outside) -> None:
    alice = open_brain().agent("alice")
    alice.remember([f"comet number {n}" for n in range(50)])
    assert alice.recall("comet number 7", k=1)[0].memory.text == "comet number 7"
    assert (outside.given, outside.asked) == (50, 1)
    open_brain().agent("alice").recall("comet number 7")
    assert (outside.given, outside.asked) == (50, 2)


def test_when_it_is_away_the_mirror_answers_and_says_so(open_brain: Open, outside: Outside) -> None:
    alice = open_brain().agent("alice")
    alice.remember("the first")
    outside.away = True
    assert alice.remember("the second").status == "stored"
    hits = alice.recall("the second")
    assert {hit.memory.text for hit in hits} == {"the first", "the second"}
    assert all("away" in str(hit.why["vectors"]) for hit in hits)
    outside.away = False
    assert "vectors" not in alice.recall("the second")[0].why
    assert outside.given == 2


def test_what_is_forgotten_leaves_it_at_once_or_with_the_next_sync(open_brain: Open, outside: Outside) -> None:
    brain = open_brain()
    alice = brain.agent("alice")
    first, second, _ = (str(alice.remember(text).id) for text in ("one thing", "another thing", "a third thing"))
    alice.recall("thing")
    alice.forget(first)
    (rows,) = outside._vector_spaces.values()
    assert first not in rows._position
    outside.away = True
    assert alice.forget(second).forgotten
    assert second in rows._position
    outside.away = False
    brain.upkeep.sync()
    assert second not in rows._position


def test_every_passage_of_a_long_text_is_handed_over_and_leaves_with_it(open_brain: Open, outside: Outside) -> None:
    brain = open_brain()
    alice = brain.agent("alice")
    alice.remember("short")
    long = str(alice.remember(" ".join(f"Sentence {n} of the report." for n in range(300))).id)
    (place,) = alice.indexes(long)
    assert place.passages > 5
    assert brain.upkeep.sync() == 1 + place.passages
    (rows,) = outside._vector_spaces.values()
    assert len(rows._position) == 1 + place.passages
    store = brain.store
    assert isinstance(store, SqliteStore)
    (vectors,) = brain._parts.embeddings.vectors_of(
        [memory for memory in store.get(Scope("alice"), [long]) if memory is not None]
    )
    store.place([(Scope("alice"), long, vector) for vector in vectors[:3]])
    brain.upkeep.sync()
    (rows,) = outside._vector_spaces.values()
    assert len(rows._position) == 1 + 3
    alice.forget(long)
    assert len(rows._position) == 1


def test_one_that_lost_everything_is_filled_anew(open_brain: Open, outside: Outside) -> None:
    brain = open_brain()
    brain.agent("alice").remember([f"note {n}" for n in range(30)])
    brain.agent("bob").remember([f"note {n}" for n in range(20)])
    assert brain.upkeep.sync() == 50
    assert brain.upkeep.sync() == 0
    outside._vector_spaces.clear()
    assert brain.upkeep.sync(anew=True) == 50
    assert len(outside.search(next(iter(outside._vector_spaces)), brain.embedder.embed([])[:0].sum(0), 99)) in {20, 30}


def test_one_that_was_emptied_is_noticed_and_repaired_by_a_plain_sync(open_brain: Open, outside: Outside) -> None:
    brain = open_brain()
    alice = brain.agent("alice")
    alice.remember([f"note {n}" for n in range(30)])
    alice.recall("note 3")
    outside._vector_spaces.clear()
    hits = alice.recall("note 3")
    assert hits[0].memory.text == "note 3"
    assert "mirror" in str(hits[0].why["vectors"])
    assert brain.upkeep.sync() == 30
    assert "vectors" not in alice.recall("note 3")[0].why
    assert brain.upkeep.sync() == 0


def test_a_sync_with_one_that_is_away_is_an_error_also_when_nothing_is_new(open_brain: Open, outside: Outside) -> None:
    brain = open_brain()
    brain.agent("alice").remember("one thing")
    brain.upkeep.sync()
    outside.away = True
    with pytest.raises(StoreError, match="does not answer"):
        brain.upkeep.sync()


def test_a_store_that_does_not_use_it_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    engram.open(":memory:", vectors=f"qdrant:{tmp_path / 'q'}", say=said.append).close()
    assert "`vectors` is ignored" in said[0]


def test_filters_never_starve_the_answer(open_brain: Open) -> None:
    alice = open_brain().agent("alice")
    alice.remember([f"the deploy number {n}" for n in range(900)])
    alice.remember("something else entirely", tags=["rare"])
    assert [hit.memory.tags for hit in alice.recall("the deploy number 7", tags="rare")] == [("rare",)]


def test_agents_do_not_meet_there(open_brain: Open) -> None:
    brain = open_brain()
    brain.agent("alice").remember("alice keeps this")
    assert brain.agent("bob").recall("alice keeps this") == []


def test_two_databases_on_one_server_do_not_meet(tmp_path: Path, outside: Outside) -> None:
    alice, home = Scope("alice"), placed(1, 0)
    with ExitStack() as stack:
        for number, name in enumerate(("one", "two"), start=1):
            store = stack.enter_context(
                closing(SqliteStore(tmp_path / f"{name}.db", ExactVectors(), Sources(), remote=outside))
            )
            memory = Maker(sources=FixedSources(seed=number)).memory(f"said in {name}")
            store.add(alice, [Entry(memory, vectors=(home,))])
            assert [match.id for match in store.search(alice, Query(near=home))] == [memory.id]
            assert len(outside._vector_spaces) == number


def test_without_one_there_is_nothing_to_sync(brain: Engram) -> None:
    with pytest.raises(Unsupported, match="setting `vectors`"):
        brain.upkeep.sync()
