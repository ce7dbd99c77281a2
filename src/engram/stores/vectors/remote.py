"""Code shared by all external vector databases: addresses, names, batches, filters and errors.

An adapter implements the protocol `Database` with its client; `RemoteVectors` makes it a `VectorStore`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from engram.errors import EngramError, InvalidInput, MissingExtra, StoreClosed, StoreError
from engram.ports import Match, Matrix, Scope, Vector, VectorSpace
from engram.system import batched

T = TypeVar("T")

CONNECT_TIMEOUT = 5.0
"""Seconds after which a server that does not answer the first call counts as unavailable."""

TIMEOUT = 30
"""Seconds after which a call without an answer fails."""

_POINTS = uuid.UUID("6f2a1c9e-8b0d-5c37-9a44-2d1e7f3b5a60")  # the namespace of all point UUIDs: never change it
_DETAIL = 300
_PATIENCE = 3.0  # seconds to wait for another process that creates the collection


@dataclass(frozen=True, slots=True)
class VectorAddress:
    """The address of a vector database, from its URL; `str` and `repr` show no credentials."""

    transport: str
    """`http`, `https`, or empty for a database in this process."""
    host: str
    port: int | None
    path: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        """The API key, which stands alone before the `@`."""
        return self.password or self.user

    @property
    def space(self) -> str:
        """The prefix that separates the vectors of two Engram databases on one server."""
        return self.options.get("space", "")

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{self.transport}://{self.host}{port}" if self.transport else self.path


def parse(url: str, kind: str, options: Iterable[str] = (), api_key: str | None = None) -> VectorAddress:
    """Parse `kind:PATH`, `kind://HOST` or `kind+http(s)://…`; a key in the URL takes precedence over `api_key`.

    Raises `InvalidInput` for anything else and for unknown options; no message shows the URL.
    """
    try:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        port = parts.port
    except ValueError:
        raise InvalidInput(f"the URL of this {kind} database cannot be read; see docs/vector-databases.md") from None
    name, _, transport = parts.scheme.partition("+")
    if name != kind or transport not in {"", "http", "https"} or (transport and not parts.hostname):
        raise InvalidInput(f"this is not the URL of a {kind} database; see docs/vector-databases.md")
    allowed = {"space", *options}
    if unknown := sorted(given.keys() - allowed):
        known = ", ".join(sorted(allowed))
        raise InvalidInput(f"a {kind} URL has no option called {unknown[0]!r}; there are: {known}")
    return VectorAddress(
        transport=transport,
        host=parts.hostname or "",
        port=port,
        path=unquote(parts.path),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or "") or ("" if parts.username else api_key or ""),
        options=given,
    )


def folder(address: VectorAddress, kind: str, example: str) -> Path:
    """Return the folder of an in-process database; its parent is created. Raises `InvalidInput`."""
    if address.host or not address.path.strip("/"):
        raise InvalidInput(f"a {kind} URL names a path or a server, such as {example} or {kind}+http://127.0.0.1:8000")
    path = Path(address.path).expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def require(module: str, extra: str) -> None:
    """Raise `MissingExtra` unless the client is installed; it is imported when it is needed."""
    if importlib.util.find_spec(module) is None:
        raise _missing(module, extra)


def load(module: str, extra: str) -> Any:
    """Import the client's module. Raises `MissingExtra` if that fails."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(module, extra) from error


def _missing(module: str, extra: str) -> MissingExtra:
    package = module.partition(".")[0]
    return MissingExtra(f'{extra} needs the package {package}: pip install "engram-learning[{extra}]"')


def collection_name(prefix: str, space: VectorSpace) -> str:
    """Return the collection name of a space: only letters, digits and `_`, which every database accepts."""
    return f"Engram_{_digest(prefix, space.namespace, space.embedder)}"


def scope_name(scope: Scope) -> str:
    """Return the name of a scope in filters: hexadecimal, so that it needs no escaping and no case is folded."""
    return _digest(scope.agent)


def point_key(scope: Scope, id: str) -> str:
    """Return the primary key of an id in a scope: a UUID, always the same, and different in other scopes."""
    return str(uuid.uuid5(_POINTS, json.dumps([scope.agent, id])))


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Point(NamedTuple):
    """One vector to be stored in a database."""

    key: str
    id: str
    vector: list[float]


class Database(Protocol):
    """The operations of an adapter; `RemoteVectors` translates any exception."""

    batch: int
    """The most points or keys in one call."""
    most: int
    """The most hits of one call."""

    def dimension(self, name: str) -> int | None:
        """Read the dimensions of a collection's vectors; `None` if there is no such collection."""
        ...

    def create(self, name: str, dim: int) -> None:
        """Create a collection for cosine similarity; may raise if another process was faster."""
        ...

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        """Add or replace points, whose keys are distinct."""
        ...

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        """Return the k nearest of this scope, with their cosine, in any order; only these keys if given."""
        ...

    def drop(self, name: str, scope: str, keys: list[str]) -> None:
        """Remove these keys of this scope; unknown ones are ignored."""
        ...

    def clear(self, name: str, scope: str) -> None:
        """Remove everything of this scope."""
        ...

    def close(self) -> None:
        """Release the connection."""
        ...


class RemoteVectors:
    """A `VectorStore` in an external database: connects at the first call, and again after an error.

    Every failure of the database or its client is a `StoreError`; any number of threads may use it.
    """

    few = 200
    """The most ids in one filter; with more, hits are fetched first and filtered here."""

    def __init__(self, connect: Callable[[], Database], address: VectorAddress) -> None:
        self._connect, self._address = connect, address
        self._database: Database | None = None
        self._dimensions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __repr__(self) -> str:
        return f"<RemoteVectors at {self._address}>"

    def add(self, space: VectorSpace, ids: Sequence[str], vectors: Matrix) -> None:
        """Add vectors; those of existing ids are replaced."""
        if len(ids) == 0:
            return
        points = {
            id: Point(point_key(space.scope, id), id, vector.tolist())
            for id, vector in zip(ids, vectors, strict=True)  # of an id that occurs twice, the last counts
        }
        with self._talking() as database:
            name = self._collection(database, space, vectors.shape[1])
            for batch in batched(points.values(), database.batch):
                database.put(name, scope_name(space.scope), batch)

    def search(self, space: VectorSpace, vector: Vector, k: int, among: frozenset[str] | None = None) -> list[Match]:
        """Return the k most similar, best first, with similarities in [0, 1]; only `among` these ids if given.

        Without `among`, the result is limited to one answer of the database (10,000 or more).
        """
        if k <= 0 or among == frozenset():
            return []
        with self._talking() as database:
            name = self._known(database, space, len(vector))
            if name is None:
                return []
            scope, wanted = scope_name(space.scope), vector.tolist()

            def ask(count: int, ids: list[str] | None = None) -> list[Match]:
                keys = None if ids is None else [point_key(space.scope, id) for id in ids]
                return database.nearest(name, scope, wanted, min(count, database.most), keys)

            found = ask(k) if among is None else self._ask_among(ask, k, among, database.most)
            return _best(found, k)

    def _ask_among(self, ask: Callable[..., list[Match]], k: int, among: frozenset[str], most: int) -> Iterable[Match]:
        """Return at least the k best `among` the ids: from the best of all or, if these are too few, searched by id."""
        count = 4 * k
        while len(among) > self.few and k < len(among) and count <= most:
            seen = ask(count)
            found = [match for match in seen if match.id in among]
            if len(found) >= k:
                return found
            if len(seen) < count:
                break
            count *= 4
        return [match for some in batched(sorted(among), self.few) for match in ask(k, some)]

    def remove(self, space: VectorSpace, ids: Sequence[str]) -> None:
        """Remove vectors; unknown ids are ignored."""
        if len(ids) == 0:
            return
        keys = [point_key(space.scope, id) for id in dict.fromkeys(ids)]
        with self._talking() as database:
            if name := self._known(database, space):
                for batch in batched(keys, min(self.few, database.batch)):
                    database.drop(name, scope_name(space.scope), batch)

    def clear(self, space: VectorSpace) -> None:
        """Remove a whole space; it can be filled again from the store."""
        with self._talking() as database:
            if name := self._known(database, space):
                database.clear(name, scope_name(space.scope))

    def close(self) -> None:
        """Release the connection; calling it twice is harmless, any other call then raises `StoreClosed`."""
        with self._lock:
            self._closed = True
            database, self._database = self._database, None
        if database is not None:
            with self._translated():
                database.close()

    @contextmanager
    def _talking(self) -> Iterator[Database]:
        """Provide the connected database; after an error, drop what is cached about collections."""
        with self._translated():
            with self._lock:
                if self._closed:
                    raise StoreClosed("the vector database was closed; open it again")
                if self._database is None:
                    self._database = self._connect()
            yield self._database

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except EngramError:
            raise
        except Exception as error:  # noqa: BLE001 - a border: clients raise what their HTTP, gRPC and SQL libraries raise
            self._dimensions.clear()
            said = self._masked(f"{type(error).__name__}: {error}")
            raise StoreError(
                f"the vector database at {self._address} cannot be used ({said}); is it running, and is the URL right?"
            ) from None  # the client's error may quote the request with a key

    def _masked(self, text: str) -> str:
        if self._address.key:
            text = text.replace(self._address.key, "***")
        line = " ".join(text.split())
        return line if len(line) <= _DETAIL else line[:_DETAIL] + "…"

    def _known(self, database: Database, space: VectorSpace, dim: int | None = None) -> str | None:
        """Return the collection of a space, or `None`. Raises `InvalidInput` if it is not for `dim`."""
        name = collection_name(self._address.space, space)
        known = self._dimensions.get(name)
        if known is None:
            known = database.dimension(name)
            if known is None:
                return None
            self._dimensions[name] = known
        if dim is not None and dim != known:
            raise InvalidInput(f"vectors of {dim} dimensions cannot join a collection of {known}")
        return name

    def _collection(self, database: Database, space: VectorSpace, dim: int) -> str:
        """Return the collection of a space, created if it does not exist yet."""
        if name := self._known(database, space, dim):
            return name
        failure: Exception = StoreError(f"the vector database at {self._address} does not show what it made")
        try:
            database.create(collection_name(self._address.space, space), dim)
        except Exception as error:  # noqa: BLE001 - as above; or another process is making it at this moment
            failure = error
        end = time.monotonic() + _PATIENCE
        while not (name := self._known(database, space, dim)):
            if time.monotonic() > end:
                raise failure
            time.sleep(_PATIENCE / 20)
        return name


def _best(matches: Iterable[Match], k: int) -> list[Match]:
    """Return the k best, best first, each cosine converted to a similarity in [0, 1]."""
    similar = [Match(match.id, min(1.0, max(0.0, match.score))) for match in matches]
    return sorted(similar, key=lambda match: match.score, reverse=True)[:k]
