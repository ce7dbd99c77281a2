from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from test_vectors_remote import HOME, Opener, RemoteVectorsContract, fan, missing, quickly_away

from engram.errors import InvalidInput, StoreError
from engram.stores.vectors import chroma
from engram.stores.vectors.remote import RemoteVectors
from engram.testing.factories import unit
from support.ports import free_ports, nobody_listens

SPACES = count()


@pytest.fixture
def opened() -> Iterator[list[RemoteVectors]]:
    """All stores a test opens; they are closed after it."""
    made: list[RemoteVectors] = []
    yield made
    for store in made:
        store.close()


@pytest.mark.slow
class TestChromaInThisProcessKeepsTheContract(RemoteVectorsContract):
    backend = "Chroma, in this process"

    @pytest.fixture
    def open_another(self, tmp_path: Path, opened: list[RemoteVectors]) -> Opener:
        pytest.importorskip("chromadb")

        def open_one() -> RemoteVectors:
            opened.append(chroma.open_vectors(f"chroma:{tmp_path}/vectors"))
            return opened[-1]

        return open_one

    def test_everything_is_there_after_reopening(self, open_another: Opener) -> None:
        ids, rows = fan(1500)
        first = open_another()
        first.add(HOME, ids, rows)
        first.remove(HOME, ids[:3])
        first.close()
        again = open_another()
        assert [match.id for match in again.search(HOME, unit(1, 0), 2)] == ids[3:5]

    def test_two_processes_that_write_at_once_lose_nothing(self, open_another: Opener, tmp_path: Path) -> None:
        code = (
            "import sys\n"
            "from engram.testing.factories import unit\nfrom engram.stores.vectors import chroma\n"
            "from test_vectors_remote import HOME\nimport numpy as np\n"
            f"vectors = chroma.open_vectors('chroma:{tmp_path}/vectors')\n"
            "for i in range(60): vectors.add(HOME, [f'{sys.argv[1]}{i}'], np.stack([unit(1, i)]))\n"
            "vectors.close()\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        writers = [subprocess.Popen([sys.executable, "-c", code, name], env=environment) for name in "ab"]
        assert [writer.wait(120) for writer in writers] == [0, 0]
        found = open_another().search(HOME, unit(1, 0), 500)
        assert {match.id for match in found} == {f"{name}{i}" for name in "ab" for i in range(60)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Chroma server of its own on this machine."""
    pytest.importorskip("chromadb")
    program, folder = Path(sys.executable).with_name("chroma"), tmp_path_factory.mktemp("chroma")
    (port,) = free_ports()
    command = [str(program), "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        wait_for(port)
        yield f"chroma+http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(120)


@pytest.mark.slow
class TestAChromaServerKeepsTheContract(RemoteVectorsContract):
    backend = "Chroma server"
    verified = "a real server"

    @pytest.fixture
    def open_another(self, server: str, opened: list[RemoteVectors]) -> Opener:
        space = next(SPACES)

        def open_one() -> RemoteVectors:
            opened.append(chroma.open_vectors(f"{server}?space={space}"))
            return opened[-1]

        return open_one

    def test_a_database_that_is_not_there_is_a_clear_error_and_leaves_no_connection(self, server: str) -> None:
        before = _connections(urlsplit(server).port)
        vectors = chroma.open_vectors(f"{server}?tenant=nobody&database=nothing")
        with pytest.raises(StoreError):
            vectors.search(HOME, unit(1, 0), 1)
        assert [one for one in _connections(urlsplit(server).port) if one not in before] == []

    def test_a_key_is_sent_and_never_shown(self, server: str, opened: list[RemoteVectors]) -> None:
        vectors = chroma.open_vectors(server.replace("//", "//KEY-7@"), api_key="other")
        opened.append(vectors)
        assert vectors.search(HOME, unit(1, 0), 1) == []
        assert "KEY-7" not in repr(vectors)


def _connections(port: int | None) -> list[socket.socket]:
    """What this process has open to a port, whoever opened it."""
    return [one for one in gc.get_objects() if type(one) is socket.socket and _port_of(one) == port]


def _port_of(connection: socket.socket) -> int | None:
    """The port that a connection goes to, if it is open and has one (a local socket has none)."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        return int(connection.getpeername()[1])
    except OSError:
        return None


def test_without_the_client_the_extra_is_named() -> None:
    assert 'pip install "engram-learning[chroma]"' in missing("chroma", "chromadb", "chroma:x")


def test_a_server_that_is_away_is_an_error_within_seconds() -> None:
    pytest.importorskip("chromadb")
    with nobody_listens() as port:
        quickly_away(chroma.open_vectors(f"chroma+http://KEY-7@127.0.0.1:{port}"), "KEY-7")


def test_a_server_that_says_nothing_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("chromadb")
    monkeypatch.setattr(chroma, "CONNECT_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        quickly_away(chroma.open_vectors(f"chroma+http://127.0.0.1:{silent.getsockname()[1]}"))


@pytest.mark.slow
def test_a_server_that_falls_silent_later_is_an_error_in_time(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chroma, "TIMEOUT", 2.0)
    with Relay(int(server.rpartition(":")[2])) as relay:
        vectors = chroma.open_vectors(f"chroma+http://127.0.0.1:{relay.port}?space={next(SPACES)}")
        vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
        relay.silent = True
        quickly_away(vectors)


@pytest.mark.parametrize("url", ["chroma:", "chroma:///", "chroma://host/path", "chroma+http:path", "qdrant:x"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        chroma.open_vectors(url)


def test_the_connection_ignores_settings_files_and_sends_no_telemetry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("chromadb")
    (tmp_path / ".env").write_text("ANONYMIZED_TELEMETRY=True\nCHROMA_SERVER_HOST=elsewhere\n")
    monkeypatch.chdir(tmp_path)
    settings = chroma._settings(chroma_server_host="here")
    assert (settings.anonymized_telemetry, settings.chroma_server_host) == (False, "here")


class Relay:
    """Passes bytes between a client and a server until it is told to be silent."""

    def __init__(self, target: int) -> None:
        self._target, self.silent = target, False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with source, sink:
            try:
                while data := source.recv(65536):
                    if not self.silent:
                        sink.sendall(data)
            except OSError:
                return


def wait_for(port: int, seconds: float = 60) -> None:
    """Until somebody listens there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the server did not start")
