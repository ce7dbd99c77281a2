"""The connection to a Redis server: send commands and scripts, and translate errors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from engram.errors import (
    EngramError,
    MissingExtra,
    StoreAway,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from engram.stores.redis.address import RedisAddress
from engram.system import batched

try:
    import redis
    from redis.backoff import ExponentialBackoff
    from redis.cluster import RedisCluster
    from redis.exceptions import RedisClusterException
    from redis.retry import Retry
except ImportError as missing:
    raise MissingExtra("Redis needs the package redis; `pip install 'engram-learning[redis]'` brings it") from missing

T = TypeVar("T")
Command = tuple[Any, ...]

_GLOB = re.compile(r"[*?\[\]^\\-]")
CHUNK = 500  # items read or written by one command


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Split items into batches for one command each."""
    return batched(items, CHUNK)


class Server:
    """A connection pool that raises `engram.errors`, and reconnects once when a connection is lost."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._closed = False
        settings: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "username": address.user,
            "password": address.password,
            "socket_timeout": address.timeout,
            "socket_connect_timeout": address.timeout,
            "protocol": 2,
            "retry": Retry(ExponentialBackoff(cap=0.5, base=0.1), 1, (redis.ConnectionError,)),
        }
        if address.tls:
            settings |= {"ssl": True, "ssl_ca_certs": address.ca}
        with self._translated():
            if address.cluster:
                self._client: Any = RedisCluster(**settings)
            else:
                self._client = redis.Redis(db=address.db, **settings)
            self._client.ping()

    def ask(self, *commands: Command) -> list[Any]:
        """Send commands together, and return the answers in order."""
        self.guard()
        with self._translated():
            if len(commands) == 1:
                return [self._client.execute_command(*commands[0])]
            with self._client.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return list(pipe.execute())

    def run(self, script: str, keys: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """Run a script, which the server caches, and return its answer."""
        self.guard()
        sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        with self._translated():
            try:
                return self._client.execute_command("EVALSHA", sha, len(keys), *keys, *arguments)
            except redis.exceptions.NoScriptError:
                return self._client.execute_command("EVAL", script, len(keys), *keys, *arguments)

    def scan(self, key: str) -> Iterator[dict[bytes, bytes]]:
        """Yield a hash in pages; every field that exists throughout is in one of them."""
        cursor = None
        while cursor != 0:
            ((cursor, found),) = self.ask(("HSCAN", key, cursor or 0, "COUNT", CHUNK))
            yield found

    def remove(self, start: str) -> int:
        """Delete every key with a prefix; return how many."""
        self.guard()
        with self._translated():
            names = list(self._client.scan_iter(match=_GLOB.sub(r"\\\g<0>", start) + "*", count=CHUNK))
        return sum(self.ask(*(("DEL", *some) for some in chunks(names)))) if names else 0

    def guard(self) -> None:
        """Raise `StoreClosed` after `close`."""
        if self._closed:
            raise StoreClosed("this memory was closed; open it again with engram.open(...)")

    def close(self) -> None:
        """Close all connections; calling it twice is harmless."""
        if not self._closed:
            self._closed = True
            self._client.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, RedisClusterException, OSError) as error:
            raise _translate(self._address, error) from error


def _translate(address: RedisAddress, error: Exception) -> EngramError:
    """Translate an error of the driver; its message is not repeated, since it can contain data that was sent."""
    where, kind = f"Redis at {address}", redis.exceptions
    if isinstance(error, RedisClusterException) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the reason why the cluster could not be discovered
    away = StoreAway(f"{where} does not answer; start it, or check the address")
    # The driver removes the first word of errors that it knows; older servers add others before it.
    signs: list[tuple[type[Exception], str, EngramError]] = [
        (
            kind.OutOfMemoryError,
            "OOM ",
            StoreFull(f"{where} has no memory left; raise its maxmemory, or forget something"),
        ),
        (kind.ReadOnlyError, "READONLY", StoreReadOnly(f"{where} is a replica; give the address of the primary")),
        (_Never, "MISCONF", StoreReadOnly(f"{where} takes no writes because it cannot save to its disk; see its log")),
        (_Never, "WRONGTYPE", StoreCorrupt(f"{where} has other data at a key; use another prefix for Engram")),
        (kind.MovedError, "MOVED", StoreError(f"{where} belongs to a cluster; add cluster=yes to the URL")),
        (_Never, "Cluster mode is not", StoreError(f"{where} is no cluster; take cluster=yes out of the URL")),
        (
            _Never,
            "Authentication required",
            StoreAway(f"{where} asks for a password; put it into the URL: redis://:password@host"),
        ),
        (kind.AuthenticationError, "WRONGPASS", StoreAway(f"{where} refuses this user; check name and password")),
        (
            kind.NoPermissionError,
            "no permissions",
            StoreAway(f"{where} does not let this user do that; give it more rights with ACL SETUSER"),
        ),
        (
            _Never,
            "max number of clients",
            StoreBusy(f"{where} takes no more connections; close some, or raise its maxclients"),
        ),
        (_Never, "Timeout connecting", away),
        (kind.BusyLoadingError, "LOADING", StoreBusy(f"{where} is still loading its data; try again soon")),
        (
            kind.TimeoutError,
            "BUSY ",
            StoreBusy(f"{where} did not answer within {address.timeout:g} s; try again, or give timeout= in the URL"),
        ),
    ]
    for known, sign, ours in signs:
        if isinstance(error, known) or sign in str(error):
            return ours
    if isinstance(error, kind.ConnectionError | kind.ClusterError | kind.AskError | RedisClusterException | OSError):
        return away
    return StoreError(f"{where} could not be used ({type(error).__name__}); see its log")


class _Never(Exception):
    """A placeholder for a class of errors that the driver does not have."""
