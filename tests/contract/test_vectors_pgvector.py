"""pgvector as a vector database of its own, on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from test_vectors_remote import HOME, Opener, RemoteVectorsContract, fan

from engram.errors import InvalidInput, StoreError
from engram.ports import Scope, VectorSpace
from engram.stores.vectors import pgvector
from engram.stores.vectors.remote import RemoteVectors
from engram.testing.factories import unit

pytest_plugins = ["support.postgres_server"]


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url.replace("postgresql://", "pgvector://", 1)


class TestPgVectorKeepsTheContract(RemoteVectorsContract):
    backend = "pgvector"
    verified = "a real server from a package"

    @pytest.fixture
    def open_another(self, url: str, request: pytest.FixtureRequest) -> Iterator[Opener]:
        opened: list[RemoteVectors] = []

        def another() -> RemoteVectors:
            opened.append(pgvector.open_vectors(f"{url}?space={request.node.name}"))
            return opened[-1]

        yield another
        for vectors in opened:
            vectors.close()

    def test_a_scope_among_many_others_is_found_whole(self, vectors: RemoteVectors) -> None:
        ids, rows = fan(300)
        for n in range(5):
            vectors.add(VectorSpace(Scope(f"other {n}"), HOME.namespace, HOME.embedder), ids, rows)
        vectors.add(HOME, ["far"], np.stack([unit(0, 1)]))
        assert [match.id for match in vectors.search(HOME, unit(1, 0), 5)] == ["far"]

    def test_everything_is_there_for_whoever_connects_later(self, open_another: Opener) -> None:
        ids, rows = fan(50)
        open_another().add(HOME, ids, rows)
        open_another().remove(HOME, ids[:3])
        assert [match.id for match in open_another().search(HOME, unit(1, 0), 2)] == ids[3:5]


def test_a_server_that_is_away_is_a_clear_error_that_shows_no_password() -> None:
    vectors = pgvector.open_vectors("pgvector://careful@127.0.0.1:1/none", api_key="nobody may see this")
    with pytest.raises(StoreError, match="cannot be used") as caught:
        vectors.search(HOME, unit(1, 0), 1)
    assert "nobody" not in str(caught.value)


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no option called 'ssl'"):
        pgvector.open_vectors("pgvector://host/db?ssl=yes")
