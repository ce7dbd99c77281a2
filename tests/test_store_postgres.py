"""PostgreSQL keeps every contract that SQLite keeps, and a wall behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from engram.ids import Sources
from engram.testing import DurableStoreContract, MemoryStoreContract

pytest.importorskip("psycopg")

from engram.stores.postgres import PostgresStore

pytest_plugins = ["postgres_server"]


class TestPostgres(MemoryStoreContract):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[PostgresStore]:
        store = PostgresStore(postgres_url, Sources())
        yield store
        store.close()


class TestPostgresReopened(DurableStoreContract):
    @pytest.fixture
    def open_store(self, postgres_url: str) -> Iterator[Callable[[], PostgresStore]]:
        opened: list[PostgresStore] = []

        def open_again() -> PostgresStore:
            opened.append(PostgresStore(postgres_url, Sources()))
            return opened[-1]

        yield open_again
        for store in opened:
            store.close()
