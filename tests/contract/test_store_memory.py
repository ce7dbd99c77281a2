from __future__ import annotations

from collections.abc import Iterator

import pytest

from engram.errors import Conflict
from engram.ports import Query, Scope
from engram.stores.memory import InMemoryStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import Maker, MemoryStoreContract


class TestInMemoryStoreKeepsTheContract(MemoryStoreContract):
    backend = "in memory"

    @pytest.fixture
    def store(self) -> Iterator[InMemoryStore]:
        store = InMemoryStore(ExactVectors())
        yield store
        store.close()


def test_two_stores_share_nothing() -> None:
    one, two = InMemoryStore(ExactVectors()), InMemoryStore(ExactVectors())
    one.add(Scope("alice"), [Maker("alice").event()])
    assert two.search(Scope("alice"), Query()) == []
    assert two.agents() == []


def test_a_failed_batch_leaves_the_agent_unknown() -> None:
    store = InMemoryStore(ExactVectors())
    entry = Maker("alice").event()
    with pytest.raises(Conflict):
        store.add(Scope("alice"), [entry, entry])
    assert store.agents() == []
