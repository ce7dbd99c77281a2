from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_vectors_remote import HOME, Opener, RemoteVectorsContract, fan, missing, quickly_away

from engram.errors import InvalidInput
from engram.stores.vectors import milvus
from engram.stores.vectors.remote import RemoteVectors
from engram.testing.factories import unit
from support.ports import nobody_listens


@pytest.mark.slow
class TestMilvusInThisProcessKeepsTheContract(RemoteVectorsContract):
    backend = "Milvus Lite"

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        pytest.importorskip("pymilvus")
        pytest.importorskip("milvus_lite")
        return f"milvus:{tmp_path}/new/vectors.db"

    @pytest.fixture
    def open_another(self, url: str) -> Iterator[Opener]:
        made: list[RemoteVectors] = []

        def open_one() -> RemoteVectors:
            made.append(milvus.open_vectors(url))
            return made[-1]

        yield open_one
        for store in made:
            store.close()

    def test_everything_is_there_after_reopening(self, open_another: Opener) -> None:
        ids, rows = fan(50)
        first = open_another()
        first.add(HOME, ids, rows)
        first.remove(HOME, ids[:3])
        first.close()
        assert [match.id for match in open_another().search(HOME, unit(1, 0), 2)] == ids[3:5]

    def test_closing_one_leaves_the_other_usable(self, open_another: Opener) -> None:
        first, second = open_another(), open_another()
        first.add(HOME, ["m1"], np.stack([unit(1, 0)]))
        assert len(second.search(HOME, unit(1, 0), 1)) == 1
        first.close()
        assert len(second.search(HOME, unit(1, 0), 1)) == 1

    def test_a_path_that_another_process_uses_is_a_clear_error_and_nothing_is_printed(
        self, open_another: Opener, url: str
    ) -> None:
        open_another().add(HOME, ["m1"], np.stack([unit(1, 0)]))
        code = (
            "from engram.errors import StoreError\nfrom engram.stores.vectors import milvus\n"
            "from engram.testing.factories import unit\nfrom test_vectors_remote import HOME\n"
            f"try: milvus.open_vectors({url!r}).search(HOME, unit(1, 0), 1)\nexcept StoreError: print('refused')"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True, timeout=120
        )
        assert (done.stdout, done.stderr) == ("refused\n", "")


def test_without_the_client_the_extra_is_named() -> None:
    assert 'pip install "engram-learning[milvus]"' in missing("milvus", "pymilvus", "milvus:x.db")


def test_a_server_that_is_away_is_an_error_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pymilvus")
    monkeypatch.setattr(milvus, "CONNECT_TIMEOUT", 1)
    with nobody_listens() as port:
        quickly_away(milvus.open_vectors(f"milvus+http://user:KEY-7@127.0.0.1:{port}"), "KEY-7")


@pytest.mark.parametrize("url", ["milvus:", "milvus:///", "milvus:vectors", "milvus://host/x.db", "chroma:x"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        milvus.open_vectors(url)
