"""An encrypted SQLite database keeps the same contract as a plain one, in both modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from engram.clock import Sources
from engram.privacy.cipher import MasterKey
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import DurableStoreContract, MemoryStoreContract

Open = Callable[..., SqliteStore]
KEY = bytes(range(32))


@pytest.fixture(scope="session", params=["fields", "file"])
def encryption(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory, encryption: str) -> bytes:
    path = tmp_path_factory.mktemp("empty") / "engram.db"
    SqliteStore(path, ExactVectors(), Sources(), cipher=MasterKey(KEY), encryption=encryption).close()
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, empty_database: bytes) -> Path:
    path = tmp_path / "engram.db"
    path.write_bytes(empty_database)
    return path


@pytest.fixture
def open_at(path: Path) -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(where: Path = path, *, durable: bool = False, busy_seconds: float = 30) -> SqliteStore:
            store = SqliteStore(
                where, ExactVectors(), Sources(), durable=durable, busy_seconds=busy_seconds, cipher=MasterKey(KEY)
            )
            return opened.enter_context(closing(store))

        yield open_one


class TestAnEncryptedStoreKeepsTheContract(MemoryStoreContract):
    backend = "SQLite, encrypted"

    @pytest.fixture
    def store(self, open_at: Open) -> SqliteStore:
        return open_at()


class TestAnEncryptedStoreOutlivesItsProcess(DurableStoreContract):
    backend = "SQLite, encrypted"

    @pytest.fixture
    def open_store(self, open_at: Open) -> Open:
        return open_at
