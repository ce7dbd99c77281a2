"""Memories and expiring values in Redis or Valkey: shared by many processes, each entry with a time to live.

Every key of a scope carries the scope as its hash tag, so that a scope lies in one slot of a Redis Cluster and
everything a call writes is one script: all of it or nothing.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import os
import re
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import count as counting
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import numpy as np
from pydantic import JsonValue

from engram.errors import (
    Conflict,
    EngramError,
    InvalidInput,
    MissingExtra,
    NotFound,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from engram.ids import Sources, from_micros, micros
from engram.model import ForgetReceipt, Memory, MemoryIndex, MemoryType, Provenance, Receipt
from engram.ports import Changes, Entry, Filter, Match, Placed, Query, Scope, Shelf, Vector, VectorStore
from engram.stores.expiring import from_bytes, milliseconds, to_bytes
from engram.stores.rows import Row, to_json, to_memory, to_row
from engram.stores.rules import (
    MERGED,
    accepts,
    annotated,
    fingerprint,
    key_receipt,
    memory_terms,
    merged,
    refuse_foreign,
    superseded,
)
from engram.words import digest, query_terms

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
Place = tuple[str, str]

CHUNK = 500
LOG_LENGTH = 10_000  # how many changed vectors are remembered; who is further behind reads the shelf anew
PATIENCE = 30.0
GRACE_MS = 60_000  # an index outlives the last memory in it, so that it never goes first
ENOUGH = 4  # how many times the wanted number of neighbours is looked at before filters are applied exactly
K1, B = 1.2, 0.75

_LOOK = """
local meta = redis.call('HMGET', KEYS[1], 'clock', 'length', 'floor')
local time = redis.call('TIME')
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return {meta[1], meta[2], meta[3], time[1], time[2], first[2] or false, redis.call('PTTL', KEYS[1])}
"""

# ARGV: the clock that was read, the types of the keys, how long the indexes are kept, a token, the log's length, and
# the writes: command, number of the key, number of arguments, arguments. A script is not undone when it fails half way,
# hence every key is looked at before the first write.
_COMMIT = """
if (redis.call('HGET', KEYS[1], 'clock') or '0') ~= ARGV[1] then return 0 end
local names = {h = 'hash', z = 'zset', s = 'set', l = 'list', b = 'string'}
for n = 1, #KEYS do
  local found = redis.call('TYPE', KEYS[n]).ok
  if found ~= 'none' and found ~= names[ARGV[2]:sub(n, n)] then
    return redis.error_reply('WRONGTYPE a key holds a ' .. found)
  end
end
local i = 6
while i <= #ARGV do
  local count = tonumber(ARGV[i + 2])
  redis.call(ARGV[i], KEYS[tonumber(ARGV[i + 1])], unpack(ARGV, i + 3, i + 2 + count))
  i = i + 3 + count
end
redis.call('LPUSH', KEYS[3], ARGV[4])
redis.call('LTRIM', KEYS[3], 0, 255)
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[5])
if over > 0 then
  local last = redis.call('ZRANGE', KEYS[2], over - 1, over - 1, 'WITHSCORES')
  redis.call('HSET', KEYS[1], 'floor', last[2])
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, over - 1)
end
local keep = tonumber(ARGV[3])
for n = 1, #KEYS do
  if ARGV[2]:sub(n, n) ~= 'b' then
    if keep < 0 then redis.call('PERSIST', KEYS[n]) else redis.call('PEXPIRE', KEYS[n], keep) end
  end
end
return 1
"""

_TOUCH = """
for i = 2, #ARGV do
  if redis.call('HEXISTS', KEYS[2], ARGV[i]) == 1 then
    redis.call('HINCRBY', KEYS[3], ARGV[i], 1)
    local seen = redis.call('HGET', KEYS[4], ARGV[i])
    if not seen or tonumber(seen) < tonumber(ARGV[1]) then redis.call('HSET', KEYS[4], ARGV[i], ARGV[1]) end
  end
end
local left = redis.call('PTTL', KEYS[1])
for n = 3, 4 do
  if left < 0 then redis.call('PERSIST', KEYS[n]) else redis.call('PEXPIRE', KEYS[n], left) end
end
"""

_PUT = """
for n = 1, #KEYS do redis.call('PSETEX', KEYS[n], ARGV[1], ARGV[n + 1]) end
"""


# Where it is ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """A Redis URL, taken apart; shown without its password."""

    host: str
    port: int
    db: int = 0
    tls: bool = False
    ca: str | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    prefix: str = "engram"
    ttl_ms: int | None = None
    timeout: float = 5.0
    cluster: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


SCHEMES = {"redis": False, "valkey": False, "rediss": True, "valkeys": True}
_OPTIONS = ("ca", "cluster", "prefix", "timeout", "ttl")


def parse(url: str) -> Address:
    """The address in a URL such as `redis://user:password@host:6379/0?ttl=3600&prefix=engram`.

    Raises `InvalidInput` without repeating the URL, which may hold a password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 6379
        user, password = parts.username, parts.password
        db = int(parts.path.strip("/") or "0")
    except ValueError:
        host = None
    if host is None or parts.scheme not in SCHEMES or db < 0:
        raise InvalidInput("a Redis URL looks like redis://[user:password@]host[:6379][/0][?ttl=3600]; check yours")
    options = _options(parts)
    address = Address(
        host=host,
        port=port,
        db=db,
        tls=SCHEMES[parts.scheme],
        ca=options.get("ca"),
        user=unquote(user) if user else None,
        password=unquote(password) if password else None,
        prefix=options.get("prefix", "engram"),
        ttl_ms=milliseconds(_number("ttl", options["ttl"])) if "ttl" in options else None,
        timeout=_number("timeout", options.get("timeout", "5")),
        cluster=_truth("cluster", options.get("cluster", "no")),
    )
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,100}", address.prefix):
        raise InvalidInput("a Redis prefix has letters, digits and . : _ - only; choose another one")
    if not 0 < address.timeout <= 3600:
        raise InvalidInput("the timeout of a Redis URL is a number of seconds above 0, up to 3600")
    if address.cluster and db:
        raise InvalidInput("a Redis Cluster has only database 0; leave the number out of the URL")
    return address


def _options(parts: SplitResult) -> dict[str, str]:
    given = parse_qsl(parts.query, keep_blank_values=True)
    for name, _ in given:
        if name not in _OPTIONS:
            raise InvalidInput(f"a Redis URL has no option {name!r}; there are: {', '.join(_OPTIONS)}")
    return dict(given)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{name} in a Redis URL is a number of seconds, not {text!r}") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in {"yes", "no", "true", "false", "1", "0"}:
        raise InvalidInput(f"{name} in a Redis URL is yes or no, not {text!r}")
    return text.lower() in {"yes", "true", "1"}


# The connection ------------------------------------------------------------------------------------------


class Server:
    """A pool of connections whose errors are ours; it reconnects once when a connection was lost."""

    def __init__(self, address: Address) -> None:
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
        """The answers to some commands, in order, sent together."""
        self.guard()
        with self._translated():
            if len(commands) == 1:
                return [self._client.execute_command(*commands[0])]
            with self._client.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return list(pipe.execute())

    def run(self, script: str, keys: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """The answer of a script, which the server keeps after the first time."""
        self.guard()
        sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        with self._translated():
            try:
                return self._client.execute_command("EVALSHA", sha, len(keys), *keys, *arguments)
            except redis.exceptions.NoScriptError:
                return self._client.execute_command("EVAL", script, len(keys), *keys, *arguments)

    def guard(self) -> None:
        """Raise `StoreClosed` after `close`."""
        if self._closed:
            raise StoreClosed("this memory was closed; open it again with engram.open(...)")

    def close(self) -> None:
        """Let go of all connections; calling it twice is harmless."""
        if not self._closed:
            self._closed = True
            self._client.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, RedisClusterException, OSError) as error:
            raise _translate(self._address, error) from error


def _translate(address: Address, error: Exception) -> EngramError:
    """The driver's error in our words; its own text is not repeated, since it can hold what was sent."""
    where, kind = f"Redis at {address}", redis.exceptions
    # The driver takes the first word off an error that it knows; older servers put others before it.
    signs: list[tuple[type[Exception], str, EngramError]] = [
        (
            kind.OutOfMemoryError,
            "OOM ",
            StoreFull(f"{where} has no memory left; raise its maxmemory, or forget something"),
        ),
        (kind.ReadOnlyError, "READONLY", StoreReadOnly(f"{where} is a replica; give the address of the primary")),
        (_Never, "MISCONF", StoreReadOnly(f"{where} takes no writes because it cannot save to its disk; see its log")),
        (_Never, "WRONGTYPE", StoreCorrupt(f"{where} has something else at a key of ours; use a prefix of its own")),
        (kind.MovedError, "MOVED", StoreError(f"{where} belongs to a cluster; add cluster=yes to the URL")),
        (_Never, "NOAUTH", StoreError(f"{where} asks for a password; put it into the URL: redis://:password@host")),
        (kind.AuthenticationError, "WRONGPASS", StoreError(f"{where} refuses this user; check name and password")),
        (
            kind.NoPermissionError,
            "no permissions",
            StoreError(f"{where} does not let this user do that; see its ACL"),
        ),
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
        return StoreBusy(f"{where} does not answer; start it, or check the address")
    return StoreError(f"{where} could not be used ({type(error).__name__}); see its log")


class _Never(Exception):
    """An error that nobody raises: the driver has no class for it."""


# What is kept under which key ----------------------------------------------------------------------------


class Keys:
    """The names of everything in a scope. Quoting keeps what is in a name from ending the hash tag or the key."""

    def __init__(self, prefix: str, scope: Scope) -> None:
        self._start = f"{prefix}:{{{quote(scope.agent, safe='')}}}:"
        self.meta = self._start + "meta"
        """Hash: the number of the last write, the number of terms, since when the log is complete."""
        self.log = self._start + "log"
        """Sorted set: the ids whose vectors changed, by the number of the write."""
        self.done = self._start + "done"
        """List: the tokens of the last writes."""
        self.cards = self._start + "cards"
        """Hash: id to what a filter looks at."""
        self.traces = self._start + "traces"
        """Hash: id to everywhere a memory left something."""
        self.newest = self._start + "newest"
        """Sorted set: when it happened, the number and the id, as text in this order."""
        self.age = self._start + "age"
        """Sorted set: ids by their number."""
        self.expiry = self._start + "expiry"
        """Sorted set: ids by the time when they expire."""
        self.keys = self._start + "keys"
        """Hash: idempotency key to id and fingerprint."""
        self.merges = self._start + "merges"
        """Hash: digest of a statement to its id."""
        self.shelves = self._start + "shelves"
        """Hash: namespace and embedder to the length and the number of the vectors."""
        self.counts = self._start + "counts"
        """Hash: id to how often it was recalled."""
        self.seen = self._start + "seen"
        """Hash: id to when it was last recalled."""

    def memory(self, id: str) -> str:
        """String: the memory itself, as JSON."""
        return f"{self._start}memory:{id}"

    def word(self, term: str) -> str:
        """Hash: id to how often it has the term, its length and its number."""
        return f"{self._start}word:{term}"

    def group(self, name: str) -> str:
        """Set: the ids that have a kind, a tag, a session or a context in common."""
        return f"{self._start}group:{name}"

    def vectors(self, place: Place) -> str:
        """Hash: id to its vector, as 32-bit floats."""
        return f"{self._start}vectors:{quote(place[0], safe='')}:{place[1]}"


class Posting(NamedTuple):
    """How often a memory has a term, how many terms it has in all, and its number."""

    times: int
    length: int
    seq: int

    def score(self, weight: float, mean: float) -> float:
        """What the term gives to the memory: less than its weight times K1 + 1."""
        return weight * self.times * (K1 + 1) / (self.times + K1 * (1 - B + B * self.length / mean))


class Card(NamedTuple):
    """What a filter looks at."""

    seq: int
    kind: str
    tags: list[str]
    happened: int
    created: int
    valid_from: int
    valid_until: int | None
    session: str | None
    context_key: str
    expires: int | None

    def passes(self, where: Filter, now: int) -> bool:
        """Whether the memory has not expired and passes the filter."""
        if self.expires is not None and self.expires <= now:
            return False
        if where == Filter():
            return True
        memory = Memory.model_construct(
            kind=MemoryType(self.kind),
            tags=tuple(self.tags),
            happened_at=from_micros(self.happened),
            created_at=from_micros(self.created),
            valid_from=from_micros(self.valid_from),
            valid_until=None if self.valid_until is None else from_micros(self.valid_until),
            provenance=Provenance.model_construct(session=self.session),
        )
        return accepts(where, memory, self.context_key)


@dataclass(slots=True)
class Trace:
    """Everywhere a memory left something: enough to remove it after its text has expired."""

    newest: str = ""
    length: int = 0
    evidence: int = 0
    merge: str | None = None
    keys: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Pending:
    """A memory as it will be after the batch, and what it left so far."""

    memory: Memory
    seq: int
    merge_key: str | None
    before: Trace = field(default_factory=Trace)
    keys: dict[str, str] = field(default_factory=dict)
    vectors: dict[Place, Vector] = field(default_factory=dict)
    changed: bool = True


@dataclass(frozen=True, slots=True)
class State:
    """A scope at one moment: the number of its last write, the length of all texts, and what the clocks say."""

    clock: int
    length: int
    floor: int
    now: int
    first_expiry: float | None
    left: int

    @property
    def now_ms(self) -> int:
        """The time of the server, in milliseconds."""
        return self.now // 1000

    @property
    def expired(self) -> bool:
        """Whether something expired that still is in the indexes."""
        return self.first_expiry is not None and self.first_expiry <= self.now_ms


class Batch:
    """The writes of one call, collected by command and key, in the order of their first use."""

    def __init__(self, keys: Keys, state: State, shelves: dict[Place, tuple[int, int]]) -> None:
        self.state = state
        self.length = state.length
        self.shelves = shelves
        # Numbers follow the clock of the server, so that those of different scopes can be compared.
        self.first = self.last = max(state.clock, state.now) + 1
        self._keys = keys
        self._numbers = {keys.meta: 1, keys.log: 2, keys.done: 3}
        self._types = ["h", "z", "l"]
        self._writes: dict[tuple[str, str], list[list[Any]]] = {}

    def __bool__(self) -> bool:
        return bool(self._writes)

    def number(self) -> int:
        """A number of its own for a new memory, above all that were given in this scope."""
        self.last += 1
        return self.last

    def put(self, type: str, command: str, key: str, *arguments: Any) -> None:
        """Add to a write; `type` is h for a hash, z a sorted set, s a set, b for a memory itself."""
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self._types.append(type)
        portions = self._writes.setdefault((command, key), [[]])
        if len(portions[-1]) >= 2 * CHUNK:  # Lua takes some thousand arguments at once
            portions.append([])
        portions[-1].extend(arguments)

    def shelve(self, place: Place, dim: int, *, new: bool) -> None:
        """Note that a vector comes. Raises `InvalidInput` if it is not as long as those already there."""
        known, count = self.shelves.get(place, (dim, 0))
        if count and known != dim:
            raise InvalidInput(f"vectors of {dim} dimensions cannot join a shelf of {known}")
        self.shelves[place] = (dim, count + new)

    def unshelve(self, place: Place) -> None:
        """Note that a vector goes."""
        dim, count = self.shelves.get(place, (0, 0))
        self.shelves[place] = (dim, count - 1)

    def call(self, keep: int, token: str) -> tuple[list[str], list[Any]]:
        """The keys and the arguments of the script that writes it all."""
        for place, (dim, count) in self.shelves.items():
            name = json.dumps(place)
            if count > 0:
                self.put("h", "HSET", self._keys.shelves, name, f"{dim} {count}")
            else:
                self.put("h", "HDEL", self._keys.shelves, name)
        self.put("h", "HSET", self._keys.meta, "clock", self.last, "length", self.length)
        if self.state.clock == 0:
            self.put("h", "HSET", self._keys.meta, "floor", self.first)
        arguments = [self.state.clock, "".join(self._types), keep, token, LOG_LENGTH]
        for (command, key), portions in self._writes.items():
            for portion in portions:
                arguments += [command, self._numbers[key], len(portion), *portion]
        return list(self._numbers), arguments


# The store -----------------------------------------------------------------------------------------------


class RedisStore:
    """A `MemoryStore` in Redis or Valkey that many processes can use at once; with `ttl`, memories expire.

    What was acknowledged is as durable as Redis is configured to be.
    """

    def __init__(self, location: str, vectors: VectorStore, sources: Sources) -> None:
        self._address = parse(location)
        self._vectors = vectors
        self._sources = sources
        self._marks: dict[Shelf, int] = {}
        self._make_locks()
        self._server = Server(self._address)

    def __repr__(self) -> str:
        return f"RedisStore({self._address})"

    def _make_locks(self) -> None:
        self._pid = os.getpid()
        self._syncing = threading.Lock()
        # Threads that write to one scope would only make each other try again.
        self._writing = [threading.RLock() for _ in range(16)]

    def _keys(self, scope: Scope) -> Keys:
        self._server.guard()
        if self._pid != os.getpid():  # a forked child must not wait for its parent's threads
            self._make_locks()
        return Keys(self._address.prefix, scope)

    def close(self) -> None:
        """Let go of all connections; calling it twice is harmless."""
        self._server.close()

    # Reading -----------------------------------------------------------------------------------------

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """One answer per id, in order; `None` for an id that is not in this scope, or has expired."""
        keys = self._keys(scope)
        found: dict[str, Memory] = {}
        for some in _chunks(list(dict.fromkeys(ids))):
            found.update({id: memory for id, (memory, _) in self._bodies(keys, some).items()})
        return [found.get(id) for id in ids]

    def _bodies(self, keys: Keys, ids: Sequence[str]) -> dict[str, tuple[Memory, Row]]:
        """The memories that are there, each with the row that keeps it."""
        bodies, counts, seen = self._server.ask(
            ("MGET", *(keys.memory(id) for id in ids)), ("HMGET", keys.counts, *ids), ("HMGET", keys.seen, *ids)
        )
        rows = {
            id: _row(body) | {"access_count": int(count or 0), "last_accessed": None if at is None else int(at)}
            for id, body, count, at in zip(ids, bodies, counts, seen, strict=True)
            if body is not None
        }
        return {id: (to_memory(row), row) for id, row in rows.items()}

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first, or newest first without words and vector; filtered before the limit is applied."""
        self._server.guard()
        if query.words is not None:
            terms = query_terms(query.words)
            return self._by_words(scope, terms, query) if terms else []
        if query.near is not None:
            return self._by_vector(scope, query.near, query)
        return self._by_time(scope, query)

    def _by_words(self, scope: Scope, terms: list[str], query: Query) -> list[Match]:
        keys, wanted = self._keys(scope), query.offset + query.limit
        reads = [("HLEN", keys.cards), *(("HLEN", keys.word(term)) for term in terms)]
        state, (total, *holders) = self._fresh(scope, *reads)
        weights = {term: _weight(total, held) for term, held in zip(terms, holders, strict=True) if held}
        mean = max(1, state.length) / max(1, total)
        # How many of the best pass the filter shows only when they are known; if too few, all are looked at.
        for enough in (wanted if query.where == Filter() else wanted * ENOUGH, sys.maxsize):
            scores, best = _ranked(weights, self._postings(keys, weights, mean, enough), mean)
            kept = self._allowed(keys, state, (id.decode() for id in best[:enough]), query.where, wanted)
            if len(kept) == wanted or len(best) < enough:
                break
        return [Match(id, scores[id.encode()]) for id in kept[query.offset :]]

    def _postings(
        self, keys: Keys, weights: Mapping[str, float], mean: float, enough: int
    ) -> dict[str, dict[bytes, Posting]]:
        """Term by term, the memories that have it, without those that cannot be among the `enough` best.

        The rarest term counts most and comes first. Once as many memories as are wanted have more than all the
        other terms together can give, the long lists of these terms need not be read.
        """
        found: dict[str, dict[bytes, Posting]] = {}
        sums: defaultdict[bytes, float] = defaultdict(float)
        rest = sorted(weights, key=lambda term: weights[term], reverse=True)
        while rest:
            most, least = (K1 + 1 + 1e-9) * sum(weights[term] for term in rest), 0.0
            if 0 < enough <= len(sums):
                least = heapq.nlargest(enough, sums.values())[-1]
            if least > most:
                hopeful = [id for id, score in sums.items() if score + most >= least]
                found |= {term: self._postings_of(keys, term, hopeful) for term in rest}
                return {term: {id: each[id] for id in hopeful if id in each} for term, each in found.items()}
            term = rest.pop(0)
            (answer,) = self._server.ask(("HGETALL", keys.word(term)))
            found[term] = {id: Posting(*map(int, value.split())) for id, value in answer.items()}
            for id, posting in found[term].items():
                sums[id] += posting.score(weights[term], mean)
        return found

    def _postings_of(self, keys: Keys, term: str, ids: Sequence[bytes]) -> dict[bytes, Posting]:
        found: dict[bytes, Posting] = {}
        for some in _chunks(ids):
            (answer,) = self._server.ask(("HMGET", keys.word(term), *some))
            pairs = zip(some, answer, strict=True)
            found.update({id: Posting(*map(int, value.split())) for id, value in pairs if value is not None})
        return found

    def _by_time(self, scope: Scope, query: Query) -> list[Match]:
        keys, where, wanted = self._keys(scope), query.where, query.offset + query.limit
        state, (total,) = self._fresh(scope, ("HLEN", keys.cards))
        group = self._smallest_group(keys, where)
        if group is not None and group[0] ** 2 < wanted * total:
            passing = list(self._passing(keys, state, self._members(group[1]), where, group[0]))
            passing.sort(key=lambda pair: (pair[1].happened, pair[1].seq), reverse=True)
            found = [id for id, _ in passing]
        else:
            found = self._allowed(keys, state, self._newest(keys, where, wanted), where, wanted)
        return [Match(id, 0.0) for id in found[query.offset : wanted]]

    def _newest(self, keys: Keys, where: Filter, wanted: int) -> Iterator[str]:
        """The ids of a span of time, newest first, read bit by bit."""
        low = "-" if where.since is None else "[" + _moment(micros(where.since))
        high = "+" if where.until is None else "(" + _moment(micros(where.until))
        size = min(max(wanted, 50), CHUNK)
        while True:
            (members,) = self._server.ask(("ZREVRANGEBYLEX", keys.newest, high, low, "LIMIT", 0, size))
            yield from (member.decode()[ID_AT:] for member in members)
            if len(members) < size:
                return
            high, size = "(" + members[-1].decode(), CHUNK

    def _smallest_group(self, keys: Keys, where: Filter) -> tuple[int, list[str]] | None:
        """The fewest ids that can hold all that pass: how many they are, and the sets to unite."""
        unions = [[keys.group(name)] for name in _groups((), where.tags, where.session, where.context_key)]
        if where.kinds:
            unions.append([keys.group(name) for name in _groups(where.kinds)])
        if not unions:
            return None
        sizes = iter(self._server.ask(*(("SCARD", key) for union in unions for key in union)))
        return min((sum(next(sizes) for _ in union), union) for union in unions)

    def _members(self, union: list[str]) -> list[str]:
        return [id.decode() for ids in self._server.ask(*(("SMEMBERS", key) for key in union)) for id in ids]

    def _allowed(self, keys: Keys, state: State, ids: Iterable[str], where: Filter, wanted: int) -> list[str]:
        """The first `wanted` of these ids that pass, in order."""
        if where == Filter() and state.first_expiry is None:
            return list(islice(ids, wanted))
        return [id for id, _ in self._passing(keys, state, ids, where, wanted)]

    def _passing(
        self, keys: Keys, state: State, ids: Iterable[str], where: Filter, wanted: int
    ) -> Iterator[tuple[str, Card]]:
        """The first `wanted` of these ids that pass, in order, with their cards."""
        size, rest = min(max(wanted, 50), CHUNK), iter(ids)
        while wanted > 0 and (some := list(islice(rest, size))):
            (found,) = self._server.ask(("HMGET", keys.cards, *some))
            for id, text in zip(some, found, strict=True):
                if text is None or not (card := Card(*json.loads(text))).passes(where, state.now_ms):
                    continue
                yield id, card
                wanted -= 1
                if wanted == 0:
                    return

    def _by_vector(self, scope: Scope, near: Placed, query: Query) -> list[Match]:
        keys, where, wanted = self._keys(scope), query.where, query.offset + query.limit
        shelf = Shelf(scope, near.namespace, near.embedder)
        with self._syncing:
            state, _ = self._fresh(scope)
            self._sync(keys, shelf, state)
            found = self._vectors.search(shelf, near.vector, wanted * ENOUGH)
        allowed = set(self._allowed(keys, state, [match.id for match in found], where, len(found)))
        kept = [match for match in found if match.id in allowed]
        if len(kept) < wanted and len(found) == wanted * ENOUGH:
            group = self._smallest_group(keys, where)
            ids = self._newest(keys, where, CHUNK) if group is None else self._members(group[1])
            among = frozenset(self._allowed(keys, state, ids, where, sys.maxsize))
            kept = self._vectors.search(shelf, near.vector, wanted, among)
        return kept[query.offset : wanted]

    def _sync(self, keys: Keys, shelf: Shelf, state: State) -> None:
        """Take over what this and other processes wrote since the shelf was last looked at."""
        mark, place = self._marks.get(shelf, 0), (shelf.namespace, shelf.embedder)
        if mark == state.clock:
            return
        self._marks[shelf] = 0
        if mark == 0 or not state.floor <= mark <= state.clock:
            self._vectors.clear(shelf)
            for found in self._scan(keys.vectors(place)):
                self._take(shelf, found)
        else:
            (changed,) = self._server.ask(("ZRANGEBYSCORE", keys.log, f"({mark}", "+inf"))
            for some in _chunks(changed):
                (found,) = self._server.ask(("HMGET", keys.vectors(place), *some))
                self._take(shelf, dict(zip(some, found, strict=True)))
        self._marks[shelf] = state.clock

    def _take(self, shelf: Shelf, found: Mapping[bytes, bytes | None]) -> None:
        """Put vectors into the index of this process, and take out those that are gone."""
        self._vectors.remove(shelf, [id.decode() for id, vector in found.items() if vector is None])
        present = {id.decode(): vector for id, vector in found.items() if vector is not None}
        if len({len(vector) for vector in present.values()}) > 1:
            raise StoreCorrupt(f"vectors of {shelf.embedder} differ in length; `engram upkeep reembed` makes them anew")
        if present:
            matrix = np.frombuffer(b"".join(present.values()), dtype="<f4").reshape(len(present), -1)
            self._vectors.add(shelf, list(present), matrix)

    def _scan(self, key: str) -> Iterator[dict[bytes, bytes]]:
        """A hash in portions; what is in it all the while is in one of them."""
        cursor = None
        while cursor != 0:
            ((cursor, found),) = self._server.ask(("HSCAN", key, cursor or 0, "COUNT", CHUNK))
            yield found

    def agents(self) -> list[str]:
        """Every agent that ever stored something, by name."""
        (names,) = self._server.ask(("SMEMBERS", f"{self._address.prefix}:agents"))
        return sorted(name.decode() for name in names)

    # One moment of a scope ---------------------------------------------------------------------------

    def _look(self, scope: Scope, *reads: Command) -> tuple[State, list[Any]]:
        """The scope as it is, with the answers to some commands that are sent along."""
        keys = self._keys(scope)
        head, *answers = self._server.ask(("EVAL", _LOOK, 2, keys.meta, keys.expiry), *reads)
        clock, length, floor, seconds, rest, first, left = head
        now = int(seconds) * 1_000_000 + int(rest)
        expiry = None if first is None else float(first)
        return State(int(clock or 0), int(length or 0), int(floor or 0), now, expiry, int(left)), answers

    def _fresh(self, scope: Scope, *reads: Command) -> tuple[State, list[Any]]:
        """The same after everything that has expired left the indexes."""
        state, answers = self._look(scope, *reads)
        while state.expired:
            try:
                self._purge(scope)
            except StoreReadOnly:
                break  # a card says when it expires, so that nothing expired is found anyway
            state, answers = self._look(scope, *reads)
        return state, answers

    def _purge(self, scope: Scope) -> None:
        """Take what expired out of the indexes, as much as fits into one write."""
        keys = self._keys(scope)

        def plan(batch: Batch, answers: list[Any]) -> None:
            expired = [id.decode() for id, at in _scored(answers[0]) if at <= batch.state.now_ms]
            self._erase(keys, batch, self._traces(keys, expired))
            for id in expired:
                batch.put("z", "ZREM", keys.expiry, id)

        self._write(scope, [("ZRANGE", keys.expiry, 0, CHUNK - 1, "WITHSCORES")], plan, purge=False)

    def _traces(self, keys: Keys, ids: Sequence[str]) -> dict[str, Trace]:
        """What each of these memories left, in order; without those that are not there."""
        traces = {}
        for some in _chunks(list(dict.fromkeys(ids))):
            (found,) = self._server.ask(("HMGET", keys.traces, *some))
            traces.update({id: _trace(text) for id, text in zip(some, found, strict=True) if text is not None})
        return traces

    # Writing -----------------------------------------------------------------------------------------

    def _write(
        self,
        scope: Scope,
        reads: Sequence[Command],
        plan: Callable[[Batch, list[Any]], T],
        *,
        purge: bool = True,
        renews: bool = False,
    ) -> T:
        """Plan on what was read and write it all at once; again from the start if somebody else wrote meanwhile.

        `renews` says that memories are written, whose time to live the indexes must outlast.
        """
        keys, until = self._keys(scope), time.monotonic() + PATIENCE
        look = self._fresh if purge else self._look
        with self._writing[hash(scope) % len(self._writing)]:
            for attempt in counting():
                state, (shelves, *answers) = look(scope, ("HGETALL", keys.shelves), *reads)
                batch = Batch(keys, state, {_place(name): _pair(value) for name, value in shelves.items()})
                answer = plan(batch, answers)
                if not batch or self._commit(keys, batch, renews):
                    break
                if time.monotonic() > until:
                    raise StoreBusy(f"too many writers use the memory of {scope.agent!r} at once; try again")
                time.sleep(self._sources.random.random() * min(0.05, 0.001 * 2**attempt))
        return answer

    def _commit(self, keys: Keys, batch: Batch, renews: bool) -> bool:
        """Whether the batch was written: not if there was another write since the state was looked at."""
        token = uuid.uuid4().hex  # not from the sources: two stores that draw the same ids must still differ
        if self._server.run(_COMMIT, *batch.call(self._keep(batch.state, renews), token)):
            return True
        # The connection may have broken after the first of two tries had come through.
        (done,) = self._server.ask(("LRANGE", keys.done, 0, -1))
        return token.encode() in done

    def _keep(self, state: State, renews: bool) -> int:
        """For how many milliseconds the indexes are kept: as long as anything in them, -1 for ever."""
        ttl = self._address.ttl_ms
        if not renews or state.left == -1:
            return max(state.left, -1)
        return -1 if ttl is None else max(state.left, ttl + GRACE_MS)

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one write, all or nothing; one receipt per entry, in order."""
        keys = self._keys(scope)
        if not entries:
            return []
        refuse_foreign(scope, entries)
        ids = [entry.memory.id for entry in entries]
        known = [str(entry.key) for entry in entries if entry.key is not None]
        said = [digest(entry.merge_key) for entry in entries if entry.merge_key is not None]
        hashes = ((keys.cards, ids), (keys.keys, known), (keys.merges, said))
        reads = [("HMGET", key, *fields) for key, fields in hashes if fields]

        def plan(batch: Batch, answers: list[Any]) -> list[Receipt]:
            rest = iter(answers)
            cards, owners, twins = (_found(fields, next(rest)) if fields else {} for _, fields in hashes)
            pending, lost = self._pending(keys, [id.decode() for id in twins.values()])
            self._erase(keys, batch, lost)
            adding = Adding(
                batch,
                pending,
                taken=set(cards) - set(lost),
                owners={key: owner for key, owner in _decoded(owners).items() if owner[0] not in lost},
                twins={statement: id.decode() for statement, id in twins.items() if id.decode() not in lost},
            )
            receipts = [adding.decide(entry) for entry in entries]
            for each in pending.values():
                if each.changed:
                    self._store(keys, batch, each)
            if batch and batch.state.clock == 0:  # before the memories: an agent without any does no harm
                self._server.ask(("SADD", f"{self._address.prefix}:agents", scope.agent))
            return receipts

        return self._write(scope, reads, plan, renews=True)

    def _pending(self, keys: Keys, ids: Sequence[str]) -> tuple[dict[str, Pending], dict[str, Trace]]:
        """Memories as they are, and the traces of those whose text is gone: expired just now, or evicted."""
        pending, traces = {}, self._traces(keys, ids)
        for some in _chunks(list(traces)):
            for id, (memory, row) in self._bodies(keys, some).items():
                pending[id] = Pending(memory, row["seq"], row["merge_key"], traces.pop(id), changed=False)
        return pending, traces

    def _store(self, keys: Keys, batch: Batch, each: Pending) -> None:
        """Write a memory and everything by which it is found, and take away by what it was found before."""
        memory, id, before, ttl = each.memory, each.memory.id, each.before, self._address.ttl_ms
        row = to_row(memory, each.seq, each.merge_key)
        terms = Counter(memory_terms(memory))
        trace = Trace(
            newest=_moment(row["happened_at"]) + f"{each.seq:017d}" + id,
            length=sum(terms.values()),
            evidence=memory.evidence - 1,
            merge=None if each.merge_key is None else digest(each.merge_key),
            keys=[*before.keys, *each.keys],
            places=list(dict.fromkeys((*before.places, *each.vectors))),
            groups=_groups([memory.kind], memory.tags, memory.session, row["context_key"]),
            terms=list(terms),
        )
        expires = None if ttl is None else batch.state.now_ms + ttl
        batch.put("b", "SET", keys.memory(id), to_json(row), *(() if ttl is None else ("PX", ttl)))
        batch.put("h", "HSET", keys.cards, id, to_json(_card(row, memory, expires)))
        batch.put("h", "HSET", keys.traces, id, to_json(asdict(trace)))
        batch.put("z", "ZADD", keys.newest, 0, trace.newest)
        batch.put("z", "ZADD", keys.age, each.seq, id)
        batch.put("z", *(("ZREM", keys.expiry, id) if expires is None else ("ZADD", keys.expiry, expires, id)))
        for key, print_ in each.keys.items():
            batch.put("h", "HSET", keys.keys, key, to_json([id, print_]))
        if trace.merge is not None:
            batch.put("h", "HSET", keys.merges, trace.merge, id)
        for place, vector in each.vectors.items():
            self._place(keys, batch, id, place, vector, new=place not in before.places)
        self._reindex(keys, batch, id, before, trace, {t: f"{n} {trace.length} {each.seq}" for t, n in terms.items()})

    def _reindex(
        self, keys: Keys, batch: Batch, id: str, before: Trace, after: Trace, postings: Mapping[str, str]
    ) -> None:
        for term, posting in postings.items():
            batch.put("h", "HSET", keys.word(term), id, posting)
        for group in after.groups:
            batch.put("s", "SADD", keys.group(group), id)
        for term in set(before.terms) - set(after.terms):
            batch.put("h", "HDEL", keys.word(term), id)
        for group in set(before.groups) - set(after.groups):
            batch.put("s", "SREM", keys.group(group), id)
        batch.length += after.length - before.length

    def _place(self, keys: Keys, batch: Batch, id: str, place: Place, vector: Vector, *, new: bool) -> None:
        batch.shelve(place, len(vector), new=new)
        batch.put("h", "HSET", keys.vectors(place), id, np.asarray(vector, dtype="<f4").tobytes())
        batch.put("z", "ZADD", keys.log, batch.first, id)

    def _erase(self, keys: Keys, batch: Batch, traces: Mapping[str, Trace]) -> None:
        """Remove memories and everything they left; deletions come first, since a full server takes nothing else."""
        for id, trace in traces.items():
            batch.put("b", "DEL", keys.memory(id))
            for key in (keys.cards, keys.traces, keys.counts, keys.seen):
                batch.put("h", "HDEL", key, id)
            batch.put("z", "ZREM", keys.newest, trace.newest)
            batch.put("z", "ZREM", keys.age, id)
            batch.put("z", "ZREM", keys.expiry, id)
            if trace.keys:
                batch.put("h", "HDEL", keys.keys, *trace.keys)
            if trace.merge is not None:
                batch.put("h", "HDEL", keys.merges, trace.merge)
            for place in trace.places:
                batch.put("h", "HDEL", keys.vectors(place), id)
                batch.put("z", "ZADD", keys.log, batch.first, id)
                batch.unshelve(place)
            self._reindex(keys, batch, id, trace, Trace(), {})

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Remove memories and all that belongs to them in one write; unknown ids say so."""
        keys = self._keys(scope)

        def plan(batch: Batch, _: list[Any]) -> dict[str, Trace]:
            traces = self._traces(keys, ids)
            self._erase(keys, batch, traces)
            return traces

        gone = self._write(scope, [], plan)
        receipts = []
        for id in ids:
            trace = gone.pop(id, None)
            removed = {} if trace is None else _belongings(trace)
            receipts.append(ForgetReceipt(id=id, forgotten=trace is not None, removed=removed))
        return receipts

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """The changed memory, one version on. Raises `NotFound`, or `Conflict` if the version differs."""
        keys = self._keys(scope)
        update = {name: getattr(changes, name) for name in changes.__slots__}
        update = {name: value for name, value in update.items() if value is not None}

        def plan(batch: Batch, answers: list[Any]) -> Memory:
            pending, _ = self._pending(keys, [id])
            if id not in pending:
                raise NotFound(f"there is no memory {id}; `engram memory list` shows what there is")
            known = pending[id].memory
            if expected_version is not None and expected_version != known.version:
                raise Conflict(f"memory {id} is at version {known.version}, not {expected_version}; read it again")
            changed = annotated(known, update)
            self._store(keys, batch, replace(pending[id], memory=changed))
            return changed

        return self._write(scope, [], plan, renews=True)

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Note that these memories were recalled; a server that takes no writes keeps no count."""
        keys = self._keys(scope)
        try:
            for some in _chunks(ids):
                names = [keys.meta, keys.cards, keys.counts, keys.seen]
                self._server.run(_TOUCH, names, [micros(at), *some])
        except (StoreReadOnly, StoreFull):
            return  # a statistic is not worth a failed recall

    # The mirrored vectors ----------------------------------------------------------------------------

    def embedder(self) -> str | None:
        """The identity of the embedder this store was last embedded with, if any."""
        (identity,) = self._server.ask(("HGET", f"{self._address.prefix}:settings", "embedder"))
        return None if identity is None else str(identity.decode())

    def set_embedder(self, identity: str) -> None:
        """Remember the embedder in use."""
        self._server.ask(("HSET", f"{self._address.prefix}:settings", "embedder", identity))

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """How many memories have no vector of this embedder."""
        scopes = [Scope(name) for name in self.agents()]
        return sum(self._missing(scope, (namespace, embedder)) for scope in scopes)

    def _missing(self, scope: Scope, place: Place) -> int:
        keys = self._keys(scope)
        _, (total, shelf) = self._fresh(scope, ("HLEN", keys.cards), ("HGET", keys.shelves, json.dumps(place)))
        return int(total) - (0 if shelf is None else _pair(shelf)[1])

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Memories of any agent without a vector of this embedder, oldest first."""
        place, found = (namespace, embedder), []
        for scope in [Scope(name) for name in self.agents()]:
            missing = min(limit, self._missing(scope, place))
            found += [(seq, scope, id) for seq, id in islice(self._without(scope, place), missing)]
        found.sort(key=lambda each: each[0])
        memories = [self.get(scope, [id])[0] for _, scope, id in found[:limit]]
        return [memory for memory in memories if memory is not None]

    def _without(self, scope: Scope, place: Place) -> Iterator[tuple[float, str]]:
        """The numbers and ids of the memories without a vector there, oldest first."""
        keys = self._keys(scope)
        for start in counting(0, CHUNK):
            (flat,) = self._server.ask(("ZRANGE", keys.age, start, start + CHUNK - 1, "WITHSCORES"))
            if not (some := _scored(flat)):
                return
            (vectors,) = self._server.ask(("HMGET", keys.vectors(place), *(id for id, _ in some)))
            yield from ((seq, id.decode()) for (id, seq), vector in zip(some, vectors, strict=True) if vector is None)

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """Every vector of a memory, by namespace and embedder; none if it is not in this scope."""
        keys = self._keys(scope)
        _, (text, shelves) = self._fresh(scope, ("HGET", keys.traces, id), ("HGETALL", keys.shelves))
        places = [] if text is None else sorted(_trace(text).places)
        dims = {_place(name): _pair(value)[0] for name, value in shelves.items()}
        return [MemoryIndex(memory_id=id, namespace=ns, embedder=by, dim=dims[ns, by]) for ns, by in places]

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Add vectors to memories that still exist, one write for each scope; how many were added."""
        self._server.guard()
        by_scope: defaultdict[Scope, list[tuple[str, Placed]]] = defaultdict(list)
        for scope, id, placed in vectors:
            by_scope[scope].append((id, placed))
        return sum(self._place_all(scope, pairs) for scope, pairs in by_scope.items())

    def _place_all(self, scope: Scope, pairs: Sequence[tuple[str, Placed]]) -> int:
        keys = self._keys(scope)

        def plan(batch: Batch, _: list[Any]) -> int:
            traces = self._traces(keys, [id for id, _ in pairs])
            living = [(id, placed) for id, placed in pairs if id in traces]
            for id, placed in living:
                place, trace = (placed.namespace, placed.embedder), traces[id]
                self._place(keys, batch, id, place, placed.vector, new=place not in trace.places)
                trace.places = list(dict.fromkeys((*trace.places, place)))
            for id in dict.fromkeys(id for id, _ in living):
                batch.put("h", "HSET", keys.traces, id, to_json(asdict(traces[id])))
            return len(living)

        return self._write(scope, [], plan)

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Drop the vectors of every other embedder, a portion at a time; how many went."""
        gone = 0
        for scope in [Scope(name) for name in self.agents()]:
            keys = self._keys(scope)
            (shelves,) = self._server.ask(("HKEYS", keys.shelves))
            for place in [_place(name) for name in shelves]:
                if place[0] == namespace and place[1] != keep:
                    for found in self._scan(keys.vectors(place)):
                        gone += self._discard(scope, place, [id.decode() for id in found])
        return gone

    def _discard(self, scope: Scope, place: Place, ids: Sequence[str]) -> int:
        keys = self._keys(scope)

        def plan(batch: Batch, _: list[Any]) -> int:
            traces = {id: trace for id, trace in self._traces(keys, ids).items() if place in trace.places}
            for id, trace in traces.items():
                trace.places.remove(place)
                batch.put("h", "HDEL", keys.vectors(place), id)
                batch.put("h", "HSET", keys.traces, id, to_json(asdict(trace)))
                batch.put("z", "ZADD", keys.log, batch.first, id)
                batch.unshelve(place)
            return len(traces)

        return self._write(scope, [], plan)


@dataclass(slots=True)
class Adding:
    """What a batch of entries becomes, one after the other: each sees what those before it did."""

    batch: Batch
    pending: dict[str, Pending]
    taken: set[str]
    owners: dict[str, tuple[str, str]]
    twins: dict[str, str]

    def decide(self, entry: Entry) -> Receipt:
        """What becomes of one entry. Raises `Conflict` if its id is taken."""
        memory, said = entry.memory, None if entry.merge_key is None else digest(entry.merge_key)
        if entry.key is not None and entry.key in self.owners:
            return key_receipt(entry, *self.owners[entry.key])
        if said is not None and said in self.twins and superseded(self.pending[self.twins[said]].memory, memory):
            ended = self.pending[self.twins.pop(said)]  # it gives up its place to the one that says it again
            ended.merge_key, ended.changed = None, True
        if said is not None and said in self.twins:
            each = self.pending[self.twins[said]]
            each.memory, each.changed = merged(each.memory, memory), True
            receipt = Receipt(id=each.memory.id, status="merged", reason=MERGED)
        else:
            if memory.id in self.taken:
                raise Conflict(f"there is a memory {memory.id} already; nothing was stored. Use a new id")
            self.taken.add(memory.id)
            each = self.pending[memory.id] = Pending(memory, self.batch.number(), entry.merge_key)
            each.vectors = {(placed.namespace, placed.embedder): placed.vector for placed in entry.vectors}
            if said is not None:
                self.twins[said] = memory.id
            receipt = Receipt(id=memory.id, status="stored")
        if entry.key is not None:
            each.keys[entry.key] = fingerprint(entry)
            self.owners[entry.key] = (each.memory.id, each.keys[entry.key])
        return receipt


# Working memory ------------------------------------------------------------------------------------------


class RedisExpiring:
    """An `ExpiringStore` in Redis or Valkey: one key per value, which the server itself lets expire."""

    def __init__(self, location: str) -> None:
        self._address = parse(location)
        self._server = Server(self._address)

    def __repr__(self) -> str:
        return f"RedisExpiring({self._address})"

    def put(self, scope: Scope, values: Mapping[str, JsonValue], ttl: float) -> None:
        """Keep each value under its key for `ttl` seconds from now, all or none; what was there is replaced."""
        lifetime = milliseconds(ttl)
        pairs = [(self._key(scope, key), to_bytes(value)) for key, value in values.items()]
        self._server.guard()
        if pairs:
            keys, data = [key for key, _ in pairs], [value for _, value in pairs]
            self._server.run(_PUT, keys, [lifetime, *data])

    def fetch(self, scope: Scope, keys: Sequence[str]) -> list[JsonValue]:
        """One answer per key, in order; `None` for a key that is not there, or no longer."""
        self._server.guard()
        commands = [("MGET", *(self._key(scope, key) for key in some)) for some in _chunks(keys)]
        found = [data for answer in self._server.ask(*commands) for data in answer] if commands else []
        return [None if data is None else from_bytes(data) for data in found]

    def drop(self, scope: Scope, keys: Sequence[str]) -> int:
        """Remove keys; how many were there."""
        self._server.guard()
        commands = [("DEL", *(self._key(scope, key) for key in some)) for some in _chunks(keys)]
        return sum(self._server.ask(*commands)) if commands else 0

    def close(self) -> None:
        """Let go of all connections; calling it twice is harmless."""
        self._server.close()

    def _key(self, scope: Scope, key: str) -> bytes:
        try:
            return f"{self._address.prefix}:{{{quote(scope.agent, safe='')}}}:working:{key}".encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a key must be plain text: {error.reason}; choose another one") from None


def open_store(location: str, vectors: VectorStore, sources: Sources, options: Mapping[str, Any]) -> RedisStore:
    """The store that a Redis URL names; options of other stores, such as `durable`, have no meaning here."""
    return RedisStore(location, vectors, sources)


# Between memories and what is kept -----------------------------------------------------------------------

MOMENT_ZERO = 10**17  # makes every datetime a positive number of 18 digits
ID_AT = 18 + 17


def _moment(happened: int) -> str:
    """A time as text that sorts as the time does."""
    return f"{happened + MOMENT_ZERO:018d}"


def _ranked(
    weights: Mapping[str, float], postings: Mapping[str, Mapping[bytes, Posting]], mean: float
) -> tuple[dict[bytes, float], list[bytes]]:
    """The score of each memory, and all of them, best first."""
    scores: defaultdict[bytes, float] = defaultdict(float)
    numbers: dict[bytes, int] = {}
    for term, weight in weights.items():  # added up in the order of the query, as the specification does
        for id, posting in postings[term].items():
            scores[id] += posting.score(weight, mean)
            numbers[id] = posting.seq
    return scores, sorted(scores, key=lambda id: (scores[id], numbers[id]), reverse=True)


def _weight(total: int, holders: int) -> float:
    """How much a term tells: the fewer have it, the more. Others may write between two counts."""
    return max(1e-6, math.log((max(total, holders) - holders + 0.5) / (holders + 0.5)))


def _row(body: bytes) -> Row:
    try:
        row = json.loads(body)
    except ValueError:
        row = None
    if not isinstance(row, dict) or "digest" not in row:
        raise StoreCorrupt("a key of ours holds something that is no memory; use a prefix of its own")
    return row


def _card(row: Mapping[str, Any], memory: Memory, expires: int | None) -> Card:
    return Card(
        seq=row["seq"],
        kind=row["kind"],
        tags=list(memory.tags),
        happened=row["happened_at"],
        created=row["created_at"],
        valid_from=row["valid_from"],
        valid_until=row["valid_until"],
        session=row["session"],
        context_key=row["context_key"],
        expires=expires,
    )


def _trace(text: bytes) -> Trace:
    fields = json.loads(text)
    return Trace(**fields | {"places": [(namespace, embedder) for namespace, embedder in fields["places"]]})


def _belongings(trace: Trace) -> dict[str, int]:
    return {
        "memories": 1,
        "evidence": trace.evidence,
        "keys": len(trace.keys),
        "vectors": len(trace.places),
        "words": 1,
    }


def _groups(
    kinds: Iterable[str], tags: Iterable[str] = (), session: str | None = None, context_key: str | None = None
) -> list[str]:
    """The names of the sets that a memory is in. Names are digests: a session may be as long as a text."""
    groups = [f"kind:{kind}" for kind in kinds] + [f"tag:{digest(tag)}" for tag in dict.fromkeys(tags)]
    groups += [] if session is None else [f"session:{digest(session)}"]
    return groups + ([f"context:{digest(context_key)}"] if context_key else [])


def _place(name: bytes) -> Place:
    namespace, embedder = json.loads(name)
    return namespace, embedder


def _pair(value: bytes) -> tuple[int, int]:
    dim, number = value.split()
    return int(dim), int(number)


def _scored(flat: Sequence[bytes]) -> list[tuple[bytes, float]]:
    """Members and scores, as the server sends them: one after the other."""
    return [(flat[i], float(flat[i + 1])) for i in range(0, len(flat), 2)]


def _found(fields: Sequence[str], answers: Sequence[bytes | None]) -> dict[str, bytes]:
    return {name: answer for name, answer in zip(fields, answers, strict=True) if answer is not None}


def _decoded(owners: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
    return {key: (id, print_) for key, (id, print_) in ((key, json.loads(text)) for key, text in owners.items())}


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[i : i + CHUNK] for i in range(0, len(items), CHUNK))
