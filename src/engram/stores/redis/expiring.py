"""Values with a time to live in Redis or Valkey."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.ports import Scope
from engram.stores.expiring import from_bytes, milliseconds, to_bytes
from engram.stores.redis.address import parse
from engram.stores.redis.layout import RedisKeys
from engram.stores.redis.server import Server, chunks

_PUT = """
for n = 1, #KEYS do redis.call('PSETEX', KEYS[n], ARGV[1], ARGV[n + 1]) end
"""


class RedisExpiring:
    """An `ExpiringStore` in Redis or Valkey: one key per value, which the server expires."""

    def __init__(self, location: str) -> None:
        self._address = parse(location)
        self._server = Server(self._address)

    def __repr__(self) -> str:
        return f"RedisExpiring({self._address})"

    def put(self, scope: Scope, values: Mapping[str, JsonValue], ttl: float) -> None:
        """Store each value under its key for `ttl` seconds from now, all or none; existing values are replaced."""
        lifetime = milliseconds(ttl)
        names, data = self._names(scope, values), [to_bytes(value) for value in values.values()]
        self._server.guard()
        if names:
            self._server.run(_PUT, names, [lifetime, *data])

    def fetch(self, scope: Scope, keys: Sequence[str]) -> list[JsonValue]:
        """Return one value per key, in order; `None` for a key that does not exist or has expired."""
        self._server.guard()
        commands = [("MGET", *some) for some in chunks(self._names(scope, keys))]
        found = [data for answer in self._server.ask(*commands) for data in answer] if commands else []
        return [None if data is None else from_bytes(data) for data in found]

    def drop(self, scope: Scope, keys: Sequence[str]) -> int:
        """Remove keys; return how many existed."""
        self._server.guard()
        commands = [("DEL", *some) for some in chunks(self._names(scope, keys))]
        return sum(self._server.ask(*commands)) if commands else 0

    def clear(self, scope: Scope) -> int:
        """Remove all values of a scope; return how many there were."""
        (start,) = self._names(scope, [""])
        return self._server.remove(start.decode())

    def close(self) -> None:
        """Close all connections; calling it twice is harmless."""
        self._server.close()

    def _names(self, scope: Scope, keys: Iterable[str]) -> list[bytes]:
        try:
            names = RedisKeys(self._address.prefix, scope)
            return [names.working(key).encode() for key in keys]
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a key must be plain text: {error.reason}; choose another one") from None
