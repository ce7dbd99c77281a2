"""The code that all external vector databases share: addresses, names, batches, filters and errors.

An adapter writes the few sentences of `Database` in its client's words; `RemoteVectors` makes a `VectorStore` of it.
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
"""Seconds until a server that does not answer the first call counts as away."""

TIMEOUT = 30
"""Seconds until a call without an answer is given up."""

_POINTS = uuid.UUID("6f2a1c9e-8b0d-5c37-9a44-2d1e7f3b5a60")  # the root of all keys: never change it
_DETAIL = 300
_PATIENCE = 3.0  # seconds in which another process finishes the collection it is making


@dataclass(frozen=True, slots=True)
class VectorAddress:
    """The address of a vector database, from its URL; its text shows no credentials."""

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
        """The name that keeps the vectors of two Engram databases apart on one server."""
        return self.options.get("space", "")

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{self.transport}://{self.host}{port}" if self.transport else self.path


def parse(url: str, kind: str, options: Iterable[str] = (), api_key: str | None = None) -> VectorAddress:
    """The parts of `kind:PATH`, `kind://HOST` or `kind+http(s)://…`; a key in the URL goes before `api_key`.

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
    """The client's module. Raises `MissingExtra` if it cannot be imported."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(module, extra) from error


def _missing(module: str, extra: str) -> MissingExtra:
    package = module.partition(".")[0]
    return MissingExtra(f'{extra} needs the package {package}: pip install "engram-learning[{extra}]"')


def collection_name(prefix: str, space: VectorSpace) -> str:
    """The collection of a space: letters, digits and `_`, accepted by every database, whatever the space is called."""
    return f"Engram_{_digest(prefix, space.namespace, space.embedder)}"


def scope_name(scope: Scope) -> str:
    """Return the name of a scope in filters: hexadecimal, so that it needs no escaping and no case is folded."""
    return _digest(scope.agent)


def point_key(scope: Scope, id: str) -> str:
    """The primary key of an id in a scope: a UUID, always the same, and another one in another scope."""
    return str(uuid.uuid5(_POINTS, json.dumps([scope.agent, id])))


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Point(NamedTuple):
    """One vector on its way into a database."""

    key: str
    id: str
    vector: list[float]


class Database(Protocol):
    """The operations of an adapter; it may raise anything, `RemoteVectors` translates."""

    batch: int
    """How many points or keys may go into one call."""
    most: int
    """How many hits one call may ask for."""

    def dimension(self, name: str) -> int | None:
        """The length of a collection's vectors, asked anew; `None` if there is no such collection."""
        ...

    def create(self, name: str, dim: int) -> None:
        """Make a collection for cosine similarity; may raise if another process was faster."""
        ...

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        """Add or replace; no key comes twice."""
        ...

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        """The k nearest of this scope, with their cosine, in any order; only these keys if given."""
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
    """A `VectorStore` in another database: connects at the first call, and again after an error.

    Every failure of the database or its client is a `StoreError`; any number of threads may use it.
    """

    few = 200
    """How many ids go into one filter; with more, hits are fetched and sorted out first."""

    def __init__(self, connect: Callable[[], Database], address: VectorAddress) -> None:
        self._connect, self._address = connect, address
        self._database: Database | None = None
        self._dimensions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __repr__(self) -> str:
        return f"<RemoteVectors at {self._address}>"

    def add(self, space: VectorSpace, ids: Sequence[str], vectors: Matrix) -> None:
        """Put vectors in; an id that is there already is replaced."""
        if len(ids) == 0:
            return
        points = {
            id: Point(point_key(space.scope, id), id, vector.tolist())
            for id, vector in zip(ids, vectors, strict=True)  # the last one of an id that comes twice
        }
        with self._talking() as database:
            name = self._collection(database, space, vectors.shape[1])
            for batch in batched(points.values(), database.batch):
                database.put(name, scope_name(space.scope), batch)

    def search(self, space: VectorSpace, vector: Vector, k: int, among: frozenset[str] | None = None) -> list[Match]:
        """The k most similar, best first, similarity in [0, 1]; only `among` these ids if given.

        Without `among`, no more are given than the database gives in one answer (10,000 or more).
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
        """At least the k best `among` the ids: taken from the best of all, or, if too few, asked for by id."""
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
        """Take vectors out; unknown ids are ignored."""
        if len(ids) == 0:
            return
        keys = [point_key(space.scope, id) for id in dict.fromkeys(ids)]
        with self._talking() as database:
            if name := self._known(database, space):
                for batch in batched(keys, min(self.few, database.batch)):
                    database.drop(name, scope_name(space.scope), batch)

    def clear(self, space: VectorSpace) -> None:
        """Forget a whole space; it can be filled again from the mirrored vectors."""
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
        """The database, connected; what goes wrong makes it forget what it knew about collections."""
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
            ) from None  # the client's own error may show the request, and with it a key

    def _masked(self, text: str) -> str:
        if self._address.key:
            text = text.replace(self._address.key, "***")
        line = " ".join(text.split())
        return line if len(line) <= _DETAIL else line[:_DETAIL] + "…"

    def _known(self, database: Database, space: VectorSpace, dim: int | None = None) -> str | None:
        """The collection of a space, or `None` if there is none. Raises `InvalidInput` if it is not for `dim`."""
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
        """The collection of a space, made if it is not there yet."""
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
    """The k best, best first, each cosine as a similarity in [0, 1]."""
    similar = [Match(match.id, min(1.0, max(0.0, match.score))) for match in matches]
    return sorted(similar, key=lambda match: match.score, reverse=True)[:k]
