"""What is encrypted is nowhere to be read, opens only with its key, and survives being interrupted."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import engram
from engram import wiring
from engram.clock import Sources
from engram.config import Settings, load
from engram.engine import Engram
from engram.errors import (
    ConfigError,
    Conflict,
    InvalidInput,
    MissingExtra,
    NotAnEngramDatabase,
    NotFound,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    Unsupported,
)
from engram.model import Clean
from engram.ports import Filter, Query, Scope
from engram.privacy import keys
from engram.privacy.cipher import MasterKey, new_key
from engram.stores.sqlite import SqliteStore, restore
from engram.stores.vectors.exact import ExactVectors
from engram.upkeep import copying

ALICE, BOB = Scope("alice"), Scope("bob")
MODES = ("fields", "file")
CANARIES = {
    "text": "zqtextvorm",
    "context": "zqcontextvorm",
    "tag": "zqtagvorm",
    "metadata": "zqmetavorm",
    "session": "zqsessionvorm",
    "speaker": "zqspeakervorm",
    "key": "zqkeyvorm",
    "content": "zqcontentvorm",
    "action": "zqactionvorm",
    "error": "zqerrorvorm",
    "solution": "zqsolutionvorm",
    "query": "zqqueryvorm",
    "setting": "zqsettingvorm",
    "annotation": "zqnotevorm",
    "evidence": "zqagainvorm",
}
"""For each way into the database a word that must not be found in its files."""
COUNTED = {"last_accessed", "access_count"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "engram.db"


@pytest.fixture
def key(tmp_path: Path) -> str:
    place = str(tmp_path / "engram.key")
    keys.make(place)
    return place


@pytest.fixture
def open_it(path: Path, key: str) -> Callable[..., Engram]:
    def opened(encryption: str = "none", **settings: Any) -> Engram:
        given: dict[str, Any] = {
            "embedder": "hashing",
            "durable": False,
            "key_file": key,
            "encryption": encryption,
            **settings,
        }
        return engram.open(path, **given)

    return opened


def write_everything(brain: Engram) -> None:
    """Put every canary in, through every door."""
    c = CANARIES
    alice = brain.agent("alice")
    said = {"tags": [c["tag"]], "session": c["session"], "speaker": c["speaker"], "metadata": {"m": c["metadata"]}}
    receipt = alice.remember(f"{c['text']} in staging", context=c["context"], key=c["key"], **said)
    alice.remember(f"{c['evidence']} holds", kind="knowledge", metadata={"x": c["metadata"]})
    alice.remember(f"{c['evidence']} holds", kind="knowledge", metadata={"y": c["evidence"]})
    alice.remember("a failure", kind="failure", content={"root_cause": c["content"]})
    assert receipt.id
    alice.annotate(receipt.id, tags=[c["tag"], c["annotation"]])
    decision = alice.record_decision(context=c["context"], action=c["action"], outcome="failure", error=c["error"])
    assert decision.id
    alice.outcome(decision.id, 0.5, error=c["error"], correct=True)
    alice.learn_from_failure(f"{c['error']}: timeout", solution=c["solution"], helped=True, action=c["action"])
    hits = alice.recall(c["text"])
    alice.outcome(hits.id, "success")
    alice.recall(f"{c['query']} {c['text']}")
    alice.suggest(context=c["context"], actions=[c["action"], "wait"])
    alice.check(action=c["action"], context=c["context"])
    passing = alice.remember("what is soon forgotten")
    assert passing.id
    alice.forget(passing.id)
    store = brain.store
    assert isinstance(store, SqliteStore)
    store.set_setting("learned:something", c["setting"])
    brain.agent("bob").remember(f"{c['text']} of bob")
    brain._parts.experience.flush()


def found_in(folder: Path) -> dict[str, set[str]]:
    """Which canaries each file has; their beginnings, too, since an index may keep the rest elsewhere."""
    seen: dict[str, set[str]] = {}
    for file in folder.rglob("*"):
        data = file.read_bytes().lower() if file.is_file() else b""
        if names := {name for name, word in CANARIES.items() if word[:-3].encode() in data}:
            seen[file.name] = names
    return seen


# Nothing can be read -------------------------------------------------------------------------------------


def test_the_scan_finds_every_canary_in_a_plain_database(path: Path, open_it: Callable[..., Engram]) -> None:
    with open_it() as brain:
        write_everything(brain)
        found = set[str]().union(*found_in(path.parent).values())
        assert found == CANARIES.keys() - {"query"} or found == CANARIES.keys()


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_readable_in_the_files_the_log_or_a_backup(
    path: Path, open_it: Callable[..., Engram], mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with open_it(mode) as brain:
        write_everything(brain)
        assert found_in(path.parent) == {}
        assert (path.parent / "engram.db-wal").stat().st_size > 0
        brain.upkeep.database.backup(path.parent / "backup.db")
        assert brain.upkeep.database.check() == []
    with open_it() as brain:
        assert CANARIES["text"] in brain.agent("alice").recall(CANARIES["text"])[0].memory.text
        brain.upkeep.rebuild()
        assert brain.upkeep.database.check() == []
    assert found_in(path.parent) == {}
    assert not [word for word in CANARIES.values() if word in caplog.text]


@pytest.mark.parametrize("mode", MODES)
def test_a_plain_database_is_encrypted_and_nothing_of_it_stays(
    path: Path, key: str, open_it: Callable[..., Engram], mode: str
) -> None:
    with open_it(key_file="") as brain:
        write_everything(brain)
        before = everything(brain)
    assert found_in(path.parent)
    settings = Settings(db=str(path), key_file=key, durable=False)
    wiring.encrypt(settings, mode)
    assert found_in(path.parent) == {}
    with open_it() as brain:
        assert everything(brain) == before
        assert brain.upkeep.database.check() == []
        assert brain.upkeep.database.info()["encryption"] == mode
    with pytest.raises(Conflict, match="already"):
        wiring.encrypt(settings, "file" if mode == "fields" else "fields")


def everything(brain: Engram) -> list[object]:
    """All that can be asked of what `write_everything` wrote."""
    c, store = CANARIES, brain.store
    assert isinstance(store, SqliteStore)
    alice = brain.agent("alice")
    queries = (
        Query(),
        Query(words=Clean(c["text"])),
        Query(words=Clean(f"{c['content']} holds staging")),
        Query(where=Filter(tags=frozenset({c["tag"]}))),
        Query(where=Filter(session=c["session"])),
        Query(where=Filter(context_key=c["context"])),
        Query(near=brain.near(Clean("in staging"))),
    )
    found = [[match.id for match in store.search(ALICE, query)] for query in queries]
    assert all(found)
    return [
        found,
        [memory and memory.model_dump(exclude=COUNTED) for memory in store.get(ALICE, sorted(found[0]))],
        store.events_after(ALICE, 0, 1000),
        store.speakers(ALICE),
        store.setting("learned:something"),
        [hit.id for hit in alice.recall(f"{c['text']} staging")],
        store.credits(ALICE, 10),
        [match.id for match in store.search(BOB, Query(words=Clean(c["text"])))],
        alice.remember(f"{c['text']} in staging", context=c["context"], key=c["key"]).code,
    ]


# The key -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_without_the_key_it_does_not_open_and_is_not_touched(
    path: Path, tmp_path: Path, open_it: Callable[..., Engram], mode: str
) -> None:
    with open_it(mode) as brain:
        brain.agent("alice").remember("hello")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="key_file"):
        open_it(key_file="")
    other = str(tmp_path / "other.key")
    keys.make(other)
    with pytest.raises(StoreError, match="another key"):
        open_it(key_file=other)
    assert path.read_bytes() == before


def test_encryption_needs_a_key(open_it: Callable[..., Engram]) -> None:
    for mode in MODES:
        with pytest.raises(StoreError, match="crypt init"):
            open_it(mode, key_file="")


def test_only_known_ways_can_be_set(open_it: Callable[..., Engram]) -> None:
    with pytest.raises(ConfigError, match="none, fields or file"):
        open_it("rot13")


def test_a_plain_database_is_not_mixed_with_sealed_rows(path: Path, open_it: Callable[..., Engram]) -> None:
    with open_it() as brain:
        brain.agent("alice").remember("hello")
    for mode in MODES:
        with pytest.raises(StoreError, match="not encrypted"):
            open_it(mode)
    with open_it() as brain:
        assert brain.upkeep.database.info()["encryption"] == "none"


@pytest.mark.parametrize("db", ["redis://localhost:1", ":memory:"])
def test_other_stores_say_that_they_cannot(key: str, db: str) -> None:
    with pytest.raises(Unsupported, match="SQLite or PostgreSQL"):
        engram.open(db, embedder="hashing", encryption="fields", key_file=key)
    with pytest.raises(Unsupported, match="as a whole"):
        engram.open("postgresql://localhost:1/x", encryption="file", key_file=key)


def test_a_key_of_another_database_does_no_harm(key: str) -> None:
    with engram.open(":memory:", embedder="hashing", key_file=key) as brain:
        assert brain.agent("alice").remember("hello").id


def test_a_vector_database_would_give_the_vectors_away(open_it: Callable[..., Engram]) -> None:
    with pytest.raises(StoreError, match="vector database"):
        open_it("fields", vectors="qdrant+http://localhost:1")


def test_the_key_is_never_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(key).read_text().strip()
    monkeypatch.setenv("ENGRAM_KEY", text)
    settings = load()
    assert settings.key == text
    assert text not in repr(settings)


def test_without_sqlcipher_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, open_it: Callable[..., Engram]) -> None:
    monkeypatch.setitem(sys.modules, "sqlcipher3", None)
    with pytest.raises(MissingExtra, match="sqlcipher"):
        open_it("file")


# Tampering -----------------------------------------------------------------------------------------------


def sealed_store(path: Path, key: str) -> SqliteStore:
    store = wiring.open_store(Settings(db=str(path), key_file=key, durable=False), Sources())
    assert isinstance(store, SqliteStore)
    return store


INDEX_KEYS = 3
"""Of alice, of bob and of the settings."""

SWAPS = {
    "texts of two memories": "UPDATE memories SET text = (SELECT text FROM memories m WHERE m.seq <> memories.seq "
    "AND m.agent = memories.agent LIMIT 1) WHERE agent = 'alice'",
    "two columns": "UPDATE memories SET text = content WHERE agent = 'alice'",
    "two agents": "UPDATE memories SET text = (SELECT text FROM memories m WHERE m.agent = 'bob'), "
    "content = (SELECT content FROM memories m WHERE m.agent = 'bob') WHERE agent = 'alice'",
    "sessions": "UPDATE memories SET session = speaker WHERE agent = 'alice'",
    "trust": "UPDATE memories SET trust = 1.0, importance = 1.0 WHERE agent = 'alice'",
    "until when it is valid": "UPDATE memories SET valid_until = 1 WHERE agent = 'alice'",
    "a plain text": "UPDATE memories SET text = 'v1.d1.aGVsbG8' WHERE agent = 'alice'",
    "an old format": "UPDATE memories SET text = 'v0' || substr(text, 3) WHERE agent = 'alice'",
}


@pytest.fixture
def sealed(path: Path, key: str, open_it: Callable[..., Engram]) -> Path:
    with open_it("fields") as brain:
        for name in ("alice", "bob"):
            for number in range(1 + (name == "alice")):
                text = f"{name} says {number}"
                brain.agent(name).remember(text, session="s", speaker="who", importance=0.3, origin="self")
        brain.agent("alice").record_decision(context="c", action="a", outcome="success")
        brain.agent("bob").record_decision(context="c", action="a", outcome="success")
    return path


def raw(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(statement)
        conn.commit()


@pytest.mark.parametrize("swap", SWAPS)
def test_what_was_moved_or_changed_is_refused_and_found(sealed: Path, key: str, swap: str) -> None:
    raw(sealed, SWAPS[swap])
    with closing(sealed_store(sealed, key)) as store:
        ids = [match.id for match in store.search(ALICE, Query())]
        with pytest.raises(StoreCorrupt):
            store.get(ALICE, ids)
        assert {problem.where for problem in store.check()} == {"memories"}
        assert store.get(BOB, [match.id for match in store.search(BOB, Query())])


@pytest.mark.parametrize(
    "swap",
    [
        "UPDATE events SET body = (SELECT body FROM events e WHERE e.agent = 'bob') WHERE agent = 'alice'",
        "UPDATE events SET topic = 'x' WHERE agent = 'alice'",
        "UPDATE events SET at = 1 WHERE agent = 'alice'",
    ],
)
def test_changed_events_are_refused_and_found(sealed: Path, key: str, swap: str) -> None:
    raw(sealed, swap)
    with closing(sealed_store(sealed, key)) as store:
        with pytest.raises(StoreCorrupt):
            store.events_after(ALICE, 0, 10)
        assert {problem.where for problem in store.check()} == {"events"}


def test_a_moved_vector_is_no_vector(sealed: Path, key: str) -> None:
    raw(sealed, "UPDATE memory_index SET vector = (SELECT vector FROM memory_index v WHERE v.agent = 'bob' LIMIT 1)")
    with closing(sealed_store(sealed, key)) as store:
        assert {problem.where for problem in store.check()} == {"memory_index"}
        store.rebuild()
        assert store.check() == []


def test_the_keys_of_two_agents_cannot_be_exchanged(sealed: Path, key: str) -> None:
    raw(sealed, "UPDATE agent_keys SET wrapped = (SELECT wrapped FROM agent_keys k WHERE k.agent = 'bob' LIMIT 1)")
    with closing(sealed_store(sealed, key)) as store, pytest.raises(StoreCorrupt, match="wrapped"):
        store.search(ALICE, Query(words=Clean("says")))


def test_a_program_that_does_not_know_of_it_cannot_add_plain_rows(sealed: Path, path: Path) -> None:
    for table, column in {"memories": "content", "events": "body"}.items():
        with pytest.raises(sqlite3.IntegrityError, match="encrypted"):
            raw(sealed, f"UPDATE {table} SET {column} = '{{}}' WHERE agent = 'alice'")


def test_who_has_it_open_when_it_is_encrypted_cannot_write_and_is_told(
    path: Path, key: str, open_it: Callable[..., Engram]
) -> None:
    with open_it(key_file="") as before:
        before.agent("alice").remember("hello")
        wiring.encrypt(Settings(db=str(path), key_file=key, durable=False), "fields")
        with pytest.raises(StoreError, match="encrypted meanwhile"):
            before.agent("alice").remember("in plain")
    assert found_in(path.parent) == {}


# Keys change ---------------------------------------------------------------------------------------------


def memories(store: SqliteStore, scope: Scope = ALICE) -> list[str]:
    ids = [match.id for match in store.search(scope, Query(limit=10_000))]
    return sorted(memory.text for memory in store.get(scope, ids) if memory is not None)


@pytest.mark.parametrize("index", [False, True])
def test_new_data_keys_leave_everything_as_it_was(
    path: Path, key: str, open_it: Callable[..., Engram], index: bool
) -> None:
    with open_it("fields") as brain:
        write_everything(brain)
        before, store = everything(brain), brain.store
        assert isinstance(store, SqliteStore)
        old = cells(path)
        store.rekey(index=index)
        assert len(old & cells(path)) == (0 if index else INDEX_KEYS)
        assert everything(brain) == before
        assert store.check() == []
        assert store.encryption()["unfinished"] == 0
    assert found_in(path.parent) == {}


def cells(path: Path) -> set[str]:
    """Everything sealed, and the keys."""
    with closing(sqlite3.connect(path)) as conn:
        columns = {"memories": "content", "events": "body", "agent_keys": "wrapped"}
        return {cell for t, column in columns.items() for (cell,) in conn.execute(f"SELECT {column} FROM {t}")}


def test_one_agent_alone_can_get_new_keys(sealed: Path, key: str) -> None:
    with closing(sealed_store(sealed, key)) as store:
        store.rekey("alice")
        assert keys_of(sealed) == {("alice", "d2"), ("alice", "x1"), ("bob", "d1"), ("bob", "x1")}
        assert len(memories(store)) == 3
        with pytest.raises(NotFound, match="has no key"):
            store.rekey("carol")
        with pytest.raises(InvalidInput):
            store.rekey(" ")


def keys_of(path: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as conn:
        return set(conn.execute("SELECT agent, key_id FROM agent_keys"))


class Killed(Exception):
    """Stands for the end of the process."""


@contextmanager
def killed_after(store: SqliteStore, transactions: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process ends after so many transactions, in the midst of the next one."""
    write, left = store._file.write, [transactions]

    @contextmanager
    def counted(scope: Scope | None) -> Iterator[object]:
        with write(scope) as conn:
            yield conn
            if not left[0]:
                raise Killed
            left[0] -= 1

    monkeypatch.setattr(store._file, "write", counted)
    with pytest.raises(Killed):
        yield


@pytest.mark.parametrize("transactions", range(0, 12, 2))
def test_an_interrupted_change_of_keys_goes_on_and_all_can_be_read_meanwhile(
    sealed: Path, key: str, monkeypatch: pytest.MonkeyPatch, transactions: int
) -> None:
    with closing(sealed_store(sealed, key)) as store:
        before = memories(store)
        with monkeypatch.context() as patch, killed_after(store, transactions, patch):
            store.rekey()
    with closing(sealed_store(sealed, key)) as store:
        assert memories(store) == before
        assert store.check() == []
        store.rekey()
        assert memories(store) == before
        assert store.check() == []
        assert store.encryption()["unfinished"] == 0
        assert {id for _, id in keys_of(sealed)} <= {"d2", "d3", "x1"}


@pytest.mark.parametrize("transactions", range(0, 18, 3))
def test_an_interrupted_encryption_goes_on_and_is_not_used_before(
    path: Path, key: str, open_it: Callable[..., Engram], monkeypatch: pytest.MonkeyPatch, transactions: int
) -> None:
    with open_it(key_file="") as brain:
        write_everything(brain)
        before = everything(brain)
    settings = Settings(db=str(path), key_file=key, durable=False)
    with closing(wiring.open_store(replace(settings, encryption="converting"), Sources())) as store:
        assert isinstance(store, SqliteStore)
        with monkeypatch.context() as patch, killed_after(store, transactions, patch):
            store.encrypt()
    if transactions:
        with pytest.raises(StoreError, match="crypt init"):
            open_it()
    wiring.encrypt(settings, "fields")
    with open_it() as brain:
        assert everything(brain) == before
        assert brain.upkeep.database.check() == []
    assert found_in(path.parent) == {}


def test_the_master_key_can_be_changed_without_touching_the_rows(sealed: Path, key: str, tmp_path: Path) -> None:
    new, before = MasterKey(new_key()), cells(sealed)
    with closing(sealed_store(sealed, key)) as store, closing(sealed_store(sealed, key)) as other:
        assert len(memories(store)) == 3
        assert store.rotate(new) == len(keys_of(sealed)) == 4
        assert len(memories(store)) == 3
        with pytest.raises(StoreError, match="master key of this database was changed"):
            memories(other)
    assert len(before & cells(sealed)) == len(before) - 4
    with pytest.raises(StoreError, match="another key"):
        sealed_store(sealed, key)
    with closing(SqliteStore(sealed, ExactVectors(), Sources(), cipher=new)) as store:
        assert len(memories(store)) == 3
        assert store.check() == []


def test_another_process_takes_up_new_keys(sealed: Path, key: str) -> None:
    with closing(sealed_store(sealed, key)) as one, closing(sealed_store(sealed, key)) as other:
        before = memories(other)
        one.rekey(index=True)
        assert memories(other) == before
        assert other.search(ALICE, Query(words=Clean("says")))
        other.set_setting("learned:x", "y")
        assert one.setting("learned:x") == "y"
        assert one.check() == []


def test_keys_of_a_transaction_that_was_undone_are_not_used(
    path: Path, key: str, open_it: Callable[..., Engram]
) -> None:
    with open_it("fields") as brain:
        store, alice = brain.store, brain.agent("alice")
        assert isinstance(store, SqliteStore)

        def undone(conn: sa.Connection) -> None:
            sealer = store._encryption.codec().sealer
            sealer.keys(conn, "alice", make=True)
            sealer.keys(conn, "alice")
            raise Killed

        with pytest.raises(Killed):
            store._file.transact(ALICE, undone)
        assert not keys_of(path)
        alice.remember("hello")
        assert ("alice", "d1") in keys_of(path)
    with open_it() as brain:
        assert brain.agent("alice").recall("hello")[0].memory.text == "hello"


# Destroying ----------------------------------------------------------------------------------------------


def test_an_agents_memories_go_with_its_keys_and_others_stay(path: Path, open_it: Callable[..., Engram]) -> None:
    with open_it("fields") as brain:
        write_everything(brain)
        store = brain.store
        assert isinstance(store, SqliteStore)
        brain.agent("alice").recall(CANARIES["text"])
        gone = store.destroy(ALICE)
        assert gone["agent_keys"] == 2
        assert gone["memories"] > 1
        assert brain.agents() == ["bob"]
        assert memories(store) == []
        assert len(memories(store, BOB)) == 1
        assert store.search(ALICE, Query(words=Clean(CANARIES["text"]))) == []
        assert store.check() == []
        assert keys_of(path) >= {("bob", "d1"), ("bob", "x1")}
        brain.agent("alice").remember("a new life")
        assert memories(store) == ["a new life"]
    with open_it() as brain:
        assert len(brain.agent("alice").list()) == 1


def test_a_plain_database_has_no_keys_to_change(path: Path, open_it: Callable[..., Engram]) -> None:
    with open_it(key_file="") as brain:
        store = brain.store
        assert isinstance(store, SqliteStore)
        assert store.encryption() == {"mode": "none"}
        for change in (store.rekey, lambda: store.destroy(ALICE), lambda: store.rotate(MasterKey(bytes(32)))):
            with pytest.raises(StoreError, match="crypt init"):
                change()
        with pytest.raises(StoreError, match="encryption needs a key"):
            store.encrypt()


# Copies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"), [("fields", "none"), ("none", "fields"), ("file", "fields"), ("fields", "file")]
)
def test_everything_can_be_copied_from_one_way_to_another(
    path: Path, key: str, open_it: Callable[..., Engram], source: str, target: str
) -> None:
    with open_it(source) as brain:
        write_everything(brain)
        before = everything(brain)
        settings = Settings(db=str(path.with_name("copy.db")), encryption=target, key_file=key, durable=False)
        with closing(wiring.open_store(settings, Sources())) as copy:
            copying.copy(brain.store, copy, "it")
    with engram.open(path.with_name("copy.db"), embedder="hashing", key_file=key) as brain:
        assert everything(brain)[:5] == before[:5]
        assert brain.upkeep.database.check() == []
        assert brain.upkeep.database.info()["encryption"] == target


@pytest.mark.parametrize("mode", MODES)
def test_a_backup_is_restored_with_its_key(path: Path, key: str, open_it: Callable[..., Engram], mode: str) -> None:
    backup, cipher = path.with_name("backup.db"), keys.find("", key)
    with open_it(mode) as brain:
        brain.agent("alice").remember("before")
        brain.upkeep.database.backup(backup)
        brain.agent("alice").remember("after")
    restore(backup, path, Sources(), cipher=cipher)
    with open_it() as brain:
        assert [memory.text for memory in brain.agent("alice").list()] == ["before"]
        assert brain.upkeep.database.check() == []
    path.unlink()
    restore(backup, path, Sources(), cipher=cipher)
    with open_it() as brain:
        assert [memory.text for memory in brain.agent("alice").list()] == ["before"]


def test_a_whole_file_is_not_restored_over_a_plain_one(path: Path, key: str, open_it: Callable[..., Engram]) -> None:
    backup, cipher = path.with_name("backup.db"), keys.find("", key)
    with open_it("file") as brain:
        brain.upkeep.database.backup(backup)
    path.unlink()
    with open_it() as brain:
        brain.agent("alice").remember("plain")
    with pytest.raises(Conflict, match="not encrypted like"):
        restore(backup, path, Sources(), cipher=cipher)
    with pytest.raises(NotAnEngramDatabase, match="key_file"):
        restore(backup, path, Sources())


def test_a_file_that_somebody_uses_is_not_recoded(path: Path, key: str, open_it: Callable[..., Engram]) -> None:
    settings = Settings(db=str(path), key_file=key, durable=False)
    with open_it() as brain:
        brain.agent("alice").remember("hello")
    use = (
        "import engram, sys; b = engram.open(sys.argv[1], embedder='hashing'); b.agents(); print('open', flush=True); "
    )
    use += "input(); b.agent('alice').remember('still here'); b.close()"
    with subprocess.Popen(
        [sys.executable, "-c", use, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreBusy, match="close it"):
            wiring.encrypt(settings, "file")
        other.communicate("\n", timeout=60)
    assert other.returncode == 0
    wiring.encrypt(settings, "file")
    with open_it() as brain:
        assert len(brain.agent("alice").list()) == 2
    assert sorted(file.name for file in path.parent.iterdir()) == ["engram.db", "engram.db-reserve"]


@pytest.mark.skipif(os.name != "posix", reason="there are no such rights")
@pytest.mark.parametrize("rights", [0o600, 0o640])
@pytest.mark.parametrize("mode", MODES)
def test_an_encrypted_file_is_open_to_no_more_than_the_plain_one_was(
    path: Path, tmp_path: Path, key: str, open_it: Callable[..., Engram], mode: str, rights: int
) -> None:
    with open_it() as brain:
        brain.agent("alice").remember("hello")
    path.chmod(rights)
    before, settings = os.umask(0o022), Settings(db=str(path), key_file=key, durable=False)
    try:
        wiring.encrypt(settings, mode)
        assert stat.S_IMODE(path.stat().st_mode) == rights
        if mode == "file":
            keys.make(str(tmp_path / "other.key"))
            wiring.recode(settings, replace(settings, key_file=str(tmp_path / "other.key")))
            assert stat.S_IMODE(path.stat().st_mode) == rights
    finally:
        os.umask(before)


def test_a_damaged_whole_file_is_found(path: Path, key: str, open_it: Callable[..., Engram]) -> None:
    with open_it("file") as brain:
        brain.agent("alice").remember("hello")
    shutil.copy(path, path.with_name("whole.db"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with open_it() as brain:
        assert {problem.where for problem in brain.upkeep.database.check()} == {"file"}
    with engram.open(path.with_name("whole.db"), embedder="hashing", key_file=key) as brain:
        assert brain.upkeep.database.check() == []
