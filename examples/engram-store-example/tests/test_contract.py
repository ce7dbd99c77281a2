"""The store keeps Engram's contracts: these tests are Engram's, only the fixtures are ours."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from engram_store_example import JsonLinesStore

from engram.ports import MemoryStore, Query, Scope
from engram.testing import DurableStoreContract, Maker, MemoryStoreContract


class TestJsonLines(MemoryStoreContract, DurableStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Iterator[Callable[[], MemoryStore]]:
        with ExitStack() as stack:
            yield lambda: stack.enter_context(closing(JsonLinesStore(f"jsonl://{tmp_path}/memories.jsonl")))

    @pytest.fixture
    def store(self, open_store: Callable[[], MemoryStore]) -> MemoryStore:
        return open_store()

    def test_an_unfinished_line_never_began(self, open_store: Callable[[], MemoryStore], tmp_path: Path) -> None:
        alice, make, store = Scope("alice"), Maker("alice"), open_store()
        store.add(alice, [make.event("one")])
        with (tmp_path / "memories.jsonl").open("ab") as file:
            file.write(b'["alice", "add", [[{"id')  # and here the writer was killed
        store.add(alice, [make.event("two")])
        assert len(open_store().search(alice, Query())) == 2
