from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from engram.clock import Sources
from engram.embed.hashing import HashingEmbedder
from engram.engine import Engram
from engram.errors import Conflict, InvalidInput, NewerSchema, NotAnEngramDatabase, StoreBusy, StoreCorrupt, StoreError
from engram.model import Clean
from engram.ports import LONG_TERM, Changes, Entry, Filter, Query, Scope
from engram.privacy import SecretRedactor
from engram.stores.schema import REVISION
from engram.stores.sqlite import SqliteStore, open_store, restore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import DurableStoreContract, FixedSources, Maker, MemoryStoreContract
from engram.testing.factories import EMBEDDER, START, passages, placed

ALICE = Scope("alice")
NOBODY = 65534
DEPLOY = Query(words=Clean("deploy"), limit=10_000)
NEAR = Query(near=placed(1, 0, 0), limit=10_000)
NEWEST = Query(limit=10_000)

Open = Callable[..., SqliteStore]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a database without memories: quicker to copy than to make."""
    path = tmp_path_factory.mktemp("empty") / "engram.db"
    SqliteStore(path, ExactVectors(), Sources()).close()
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, empty_database: bytes) -> Path:
    path = tmp_path / "engram.db"
    path.write_bytes(empty_database)
    return path


@pytest.fixture
def open_at(path: Path) -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(where: Path = path, *, durable: bool = False, busy_seconds: float = 30) -> SqliteStore:
            store = SqliteStore(where, ExactVectors(), Sources(), durable=durable, busy_seconds=busy_seconds)
            return opened.enter_context(closing(store))

        yield open_one


class TestSqliteStoreKeepsTheContract(MemoryStoreContract):
    backend = "SQLite"

    @pytest.fixture
    def store(self, open_at: Open) -> SqliteStore:
        return open_at()


class TestSqliteStoreOutlivesItsProcess(DurableStoreContract):
    backend = "SQLite"

    @pytest.fixture
    def open_store(self, open_at: Open) -> Open:
        return open_at


def events(count: int, make: Maker | None = None) -> list[Entry]:
    make = make or Maker("alice", FixedSources())
    return [replace(make.event(f"deploy number {i}", tags=["x"]), vectors=(placed(9, i, 1),)) for i in range(count)]


def answers(store: SqliteStore) -> list[object]:
    return [store.search(ALICE, query) for query in (NEWEST, DEPLOY, NEAR)]


def raw(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """What the last statement gives, run past the store."""
    with closing(sqlite3.connect(path)) as conn:
        rows: list[tuple[object, ...]] = []
        for statement in statements:
            rows = conn.execute(statement).fetchall()
        conn.commit()
        return rows


# Opening -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"just some notes\n", b"SQLite format 2\x00", b"\x00" * 4096, b"x"], ids=["text", "old", "zeros", "x"]
)
def test_a_file_that_is_not_sqlite_is_refused_and_not_touched(tmp_path: Path, open_at: Open, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(NotAnEngramDatabase, match=r"notes\.txt"):
        open_at(path)
    assert path.read_bytes() == content
    assert not list(tmp_path.glob("notes.txt?*"))


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_another_programs_database_is_refused_and_not_touched(tmp_path: Path, open_at: Open, mode: str) -> None:
    path = tmp_path / "other.db"
    raw(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE memories (id)", "INSERT INTO memories VALUES (1)")
    before = path.read_bytes()
    with pytest.raises(NotAnEngramDatabase, match="not touched"):
        open_at(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("other.db?*"))


def test_a_folder_is_refused(tmp_path: Path, open_at: Open) -> None:
    with pytest.raises(InvalidInput, match="is a folder"):
        open_at(tmp_path)


def test_a_missing_folder_is_refused_and_not_made(tmp_path: Path, open_at: Open) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        open_at(tmp_path / "missing" / "engram.db")
    assert not (tmp_path / "missing").exists()


def test_no_location_is_refused() -> None:
    with pytest.raises(InvalidInput, match="needs a path"):
        open_store("", ExactVectors(), Sources(), {})


@pytest.mark.parametrize("name", ["new.db", "with space & ? # %41.db", "ünïcödé-🚀.db", "a:b.db"])
def test_a_new_or_empty_file_becomes_a_database_whatever_its_name(tmp_path: Path, open_at: Open, name: str) -> None:
    path = tmp_path / name
    for existing in (False, True):
        if existing:
            path.unlink()
            path.touch()
        store = open_at(path)
        store.add(ALICE, events(1))
        store.close()
        assert len(open_at(path).search(ALICE, NEWEST)) == 1
        assert path.stat().st_size > 0


def test_a_newer_schema_is_refused_and_not_touched(path: Path, open_at: Open) -> None:
    raw(path, "UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match=r"9999.*upgrade"):
        open_at()
    assert path.read_bytes() == before


def test_a_failed_open_leaves_no_connection_behind(path: Path, open_at: Open) -> None:
    raw(path, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(NewerSchema):
        open_at()
    assert not path.with_name(path.name + "-wal").exists()


@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 1)], ids=["durable", "relaxed"])
def test_every_connection_has_the_promised_settings(open_at: Open, durable: bool, synchronous: int) -> None:
    store = open_at(durable=durable)
    expected = {
        "journal_mode": "wal",
        "synchronous": synchronous,
        "foreign_keys": 1,
        "secure_delete": 1,
        "trusted_schema": 0,
        "busy_timeout": 30_000,
    }
    with closing(store._file._connect()) as conn:
        assert {name: conn.execute(f"PRAGMA {name}").fetchone()[0] for name in expected} == expected


def test_facts_about_the_database(path: Path, open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, events(3))
    info = store.info()
    assert (info["path"], info["memories"], info["agents"], info["memory_index"]) == (str(path), 3, 1, 3)
    assert (info["schema"], info["durable"], info["read_only"]) == (REVISION, "no", "no")


# Reading only --------------------------------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can look into."""
    folder = Path(tempfile.mkdtemp(prefix="engram-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_nobody(work: Callable[[], object]) -> str:
    """What `work` returns or raises, as text, when a user without rights does it."""
    if os.geteuid() != 0:
        return _told(work)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process may have threads; none has a lock of ours
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(write, _told(work).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read().decode()
    os.waitpid(child, 0)
    return told


def _told(work: Callable[[], object]) -> str:
    try:
        return str(work())
    except StoreError as error:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - the parent shows it
        return traceback.format_exc()


@pytest.fixture
def shown(open_folder: Path, empty_database: bytes, open_at: Open) -> Path:
    """A closed database with three memories, where everybody can see it."""
    path = open_folder / "engram.db"
    path.write_bytes(empty_database)
    store = open_at(path)
    store.add(ALICE, events(3))
    store.close()
    return path


def reads(path: Path) -> Callable[[], object]:
    def work() -> object:
        with closing(SqliteStore(path, ExactVectors(), Sources(), busy_seconds=1)) as store:
            found = [len(store.search(ALICE, query)) for query in (NEWEST, DEPLOY, NEAR)]
            id = store.search(ALICE, NEWEST)[0].id
            memory = store.get(ALICE, [id])[0]
            store.touch(ALICE, [id], START)
            return found, memory is not None, store.check(), store.info()["read_only"]

    return work


def writes(path: Path) -> Callable[[], object]:
    def work() -> object:
        with closing(SqliteStore(path, ExactVectors(), Sources(), busy_seconds=1)) as store:
            return store.add(ALICE, [Maker("alice", FixedSources(START + timedelta(1))).event("new")])

    return work


WELL = "([3, 3, 3], True, [], 'yes')"


@pytest.mark.parametrize("closed", ["file", "folder", "both"])
def test_a_file_without_write_permission_can_be_read_and_a_write_says_why_not(shown: Path, closed: str) -> None:
    if os.geteuid() == 0:
        shown.parent.chmod(0o755 if closed != "file" else 0o777)
        shown.chmod(0o644 if closed != "folder" else 0o666)
    else:
        shown.chmod(0o444 if closed != "folder" else 0o644)
        shown.parent.chmod(0o555 if closed != "file" else 0o755)
    before = shown.read_bytes()
    assert as_nobody(reads(shown)) == WELL
    assert as_nobody(writes(shown)).startswith("StoreReadOnly")
    assert shown.read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_reader_without_rights_sees_what_a_writer_does_meanwhile(shown: Path, open_at: Open) -> None:
    store = open_at(shown)
    store.add(ALICE, events(2, Maker("alice", FixedSources(START + timedelta(1)))))
    assert as_nobody(lambda: len(reads_of(shown, NEWEST))) == "5"
    assert as_nobody(lambda: len(reads_of(shown, NEAR))) == "5"


def reads_of(path: Path, query: Query) -> list[str]:
    with closing(SqliteStore(path, ExactVectors(), Sources())) as store:
        return [match.id for match in store.search(ALICE, query)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_reader_that_stays_open_sees_what_is_written_later(shown: Path, open_at: Open) -> None:
    asked, told = os.pipe()
    begun, ready = os.pipe()

    def work() -> object:
        with closing(SqliteStore(shown, ExactVectors(), Sources())) as store:
            before = len(store.search(ALICE, NEWEST))
            os.write(ready, b".")
            os.read(asked, 1)
            return before, len(store.search(ALICE, NEWEST)), len(store.search(ALICE, NEAR))

    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(as_nobody(work)))
    thread.start()
    os.read(begun, 1)
    store = open_at(shown)
    store.add(ALICE, events(200, Maker("alice", FixedSources(START + timedelta(1)))))
    os.write(told, b".")
    thread.join()
    for pipe in (asked, told, begun, ready):
        os.close(pipe)
    assert results == ["(3, 203, 203)"]


def test_a_new_file_in_a_folder_without_write_permission_says_so(open_folder: Path) -> None:
    if os.geteuid() != 0:
        open_folder.chmod(0o555)
    assert as_nobody(reads(open_folder / "new.db")).startswith("StoreReadOnly")
    assert not (open_folder / "new.db").exists()


def test_a_file_that_cannot_be_read_says_so(shown: Path) -> None:
    shown.chmod(0o000)
    assert "check its permissions" in as_nobody(reads(shown))


def test_a_read_only_file_system_can_be_read_and_a_write_says_why_not(open_folder: Path, empty_database: bytes) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", str(open_folder)]
    try:
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            pytest.skip("this user cannot mount a file system")
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    try:
        path = open_folder / "engram.db"
        path.write_bytes(empty_database)
        with closing(SqliteStore(path, ExactVectors(), Sources())) as store:
            store.add(ALICE, events(3))
        subprocess.run(["mount", "-o", "remount,ro", str(open_folder)], capture_output=True, check=True)
        before = path.read_bytes()
        assert _told(reads(path)) == WELL
        assert _told(writes(path)).startswith("StoreReadOnly")
        assert path.read_bytes() == before
    finally:
        subprocess.run(["umount", str(open_folder)], capture_output=True, check=True)


# Damage --------------------------------------------------------------------------------------------------


def test_a_sound_database_has_no_problems(open_at: Open) -> None:
    store = open_at()
    assert store.check() == []
    make = Maker("alice")
    store.add(ALICE, [*events(20, make), make.fact("The sky is blue", tags=["a"]), make.fact("The sky is blue")])
    id = store.search(ALICE, NEWEST)[3].id
    store.forget(ALICE, [id])
    assert store.check() == []


@pytest.mark.parametrize(
    "damage",
    [
        "text = replace(text, 'number 1', 'number 2')",
        "metadata = '{\"a\":1}'",
        "happened_at = happened_at + 1",
        "tags = '[]'",
        "evidence = 7",
        "session = ''",
        "digest = ''",
    ],
)
def test_a_damaged_row_is_never_returned_and_the_check_names_it(path: Path, open_at: Open, damage: str) -> None:
    store = open_at()
    entries = events(3)
    ids = [entry.memory.id for entry in entries]
    store.add(ALICE, entries)
    raw(path, f"UPDATE memories SET {damage} WHERE id = '{ids[1]}'")
    with pytest.raises(StoreCorrupt, match=ids[1]):
        store.get(ALICE, ids)
    assert store.get(ALICE, ids[::2]) == [entry.memory for entry in entries[::2]]
    assert [problem for problem in store.check() if problem.where == "memories" and ids[1] in problem.what]


def test_flipped_bits_in_the_text_on_disk_are_noticed(path: Path, open_at: Open) -> None:
    store = open_at()
    entry = Maker("alice").event("unmistakable words that stand in the file")
    store.add(ALICE, [entry])
    store.close()
    content = path.read_bytes()
    assert b"unmistakable words" in content
    path.write_bytes(content.replace(b"unmistakable words", b"unmistakeable word"))
    again = open_at()
    with pytest.raises(StoreCorrupt):
        again.get(ALICE, [entry.memory.id])
    assert again.check()


def test_a_file_full_of_holes_is_reported_and_not_a_crash(path: Path, open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, events(300))
    store.close()
    content = bytearray(path.read_bytes())
    for page in range(3, len(content) // 4096, 2):
        content[page * 4096 : page * 4096 + 2000] = b"\xff" * 2000
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError):  # noqa: PT012 - wherever it is noticed first
        broken = open_at()
        assert broken.check()
        broken.get(ALICE, [match.id for match in broken.search(ALICE, NEWEST)])


@pytest.mark.parametrize(
    "damage",
    [
        ["DELETE FROM memory_words WHERE rowid % 2"],
        ["DELETE FROM memory_words"],
        ["UPDATE memory_words SET words = 'something else'"],
        ["INSERT INTO memory_words (rowid, scope, words) VALUES (9999, 's', 'left over')"],
        ["UPDATE memory_words_data SET block = zeroblob(20) WHERE id > 10"],
        ["DELETE FROM memory_words_data WHERE id > 10"],
        ["DELETE FROM memory_words_content"],
        ["DELETE FROM memory_words_docsize"],
        ["DELETE FROM memory_tags"],
        ["UPDATE memory_tags SET tag = 'other'"],
    ],
    ids=lambda statements: statements[0],
)
def test_a_lost_or_damaged_word_index_is_reported_and_rebuilt(path: Path, open_at: Open, damage: list[str]) -> None:
    store = open_at()
    store.add(ALICE, events(20))
    before = answers(store)
    store.close()
    raw(path, *damage)
    store = open_at()
    assert store.check()
    seen: list[tuple[int, int]] = []
    assert store.rebuild(lambda done, total: seen.append((done, total))) == {"words": 20, "tags": 20}
    assert seen == [(20, 20)]
    assert store.check() == []
    assert answers(store) == before


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM memory_index",
        "UPDATE memory_index SET vector = zeroblob(1024)",
        "UPDATE memory_index SET vector = substr(vector, 1, 100)",
        "UPDATE memory_index SET vector = randomblob(1024)",
        "UPDATE memory_index SET dim = 7",
    ],
)
def test_lost_or_damaged_vectors_never_crash_a_search_and_are_made_again(
    path: Path, open_at: Open, damage: str
) -> None:
    brain = brain_of(open_at())
    alice = brain.agent("alice")
    for i in range(20):
        alice.remember(f"deployed cluster {i} to region {i % 3}")
    before = [hit.id for hit in alice.recall("which region has cluster 7?", k=10)]
    brain.close()
    raw(path, damage)
    store = open_at()
    brain = brain_of(store)
    alice = brain.agent("alice")
    assert len(alice.recall("which region has cluster 7?", k=10)) == 10
    if not damage.startswith("DELETE"):
        assert {problem.where for problem in store.check()} == {"memory_index"}
    store.rebuild()
    assert brain.upkeep.reembed() == 20
    assert store.check() == []
    assert [hit.id for hit in alice.recall("which region has cluster 7?", k=10)] == before


def test_a_damaged_vector_does_not_take_a_sound_one_of_another_agent_with_it(path: Path, open_at: Open) -> None:
    store = open_at()
    for name in ("alice", "bob"):
        store.add(Scope(name), [replace(Maker(name).event(), vectors=(placed(1, 0, 0),))])
    raw(path, "UPDATE memory_index SET dim = 7 WHERE agent = 'bob'")
    store.rebuild()
    assert [len(store.search(Scope(name), NEAR)) for name in ("alice", "bob")] == [1, 0]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM memory_index WHERE passage = 1", "lacks the vector of a passage"),
        ("UPDATE memory_index SET vector = zeroblob(12) WHERE passage = 2", "is damaged (passage 2)"),
    ],
    ids=["lost", "damaged"],
)
def test_a_memory_of_which_one_passage_is_wrong_loses_all_its_vectors_when_rebuilt(
    path: Path, open_at: Open, damage: str, said: str
) -> None:
    store, make = open_at(), Maker("alice")
    long, short = make.event("long"), replace(make.event("short"), vectors=(placed(1, 0, 0),))
    store.add(ALICE, [replace(long, vectors=passages((0, 1, 0), (0, 0, 1), (1, 0, 0))), short])
    raw(path, damage)
    (problem,) = store.check()
    assert problem.what.endswith(said)
    assert long.memory.id in problem.what
    store.rebuild()
    assert store.check() == []
    assert [match.id for match in store.search(ALICE, NEAR)] == [short.memory.id]
    assert store.unembedded(LONG_TERM, EMBEDDER, 9) == [long.memory]


def brain_of(store: SqliteStore) -> Engram:
    return Engram(store, embedder=HashingEmbedder, redactor=SecretRedactor(), sources=Sources(), say=print)


# Backups -------------------------------------------------------------------------------------------------


def test_a_backup_is_a_database_of_its_own(tmp_path: Path, open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, events(5))
    seen: list[tuple[int, int]] = []
    store.backup(tmp_path / "copy.db", lambda done, total: seen.append((done, total)))
    store.add(ALICE, [Maker("alice", FixedSources(START + timedelta(1))).event("later")])
    copy = open_at(tmp_path / "copy.db")
    assert len(copy.search(ALICE, NEWEST)) == 5
    assert copy.check() == []
    assert seen[-1][0] == seen[-1][1] > 0
    assert not list(tmp_path.glob("*.partial*"))


def test_a_backup_made_during_writes_is_consistent(tmp_path: Path, open_at: Open) -> None:
    store, other = open_at(), open_at()
    stop = threading.Event()
    written: list[str] = []

    def write() -> None:
        make = Maker("alice")
        while not stop.is_set():
            written.extend(receipt.id or "" for receipt in other.add(ALICE, events(7, make)))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for i in range(5):
            known = len(written)
            store.backup(tmp_path / f"copy{i}.db")
            copy = open_at(tmp_path / f"copy{i}.db")
            found = {match.id for match in copy.search(ALICE, replace(NEWEST, limit=100_000))}
            assert copy.check() == []
            assert found >= set(written[:known])
            assert len(found) % 7 == 0
            copy.close()
    finally:
        stop.set()
        thread.join()


def test_a_backup_comes_to_an_end_even_if_others_write_all_the_time(tmp_path: Path, open_at: Open) -> None:
    store, other, make = open_at(), open_at(), Maker("alice")
    for _ in range(14):
        store.add(ALICE, [make.event("large", metadata={"filling": "x" * 1_000_000})])
    steps: list[int] = []

    def write_meanwhile(done: int, total: int) -> None:
        steps.append(done)
        assert len(steps) < 100, "the copy starts again with every write"
        other.add(ALICE, [make.event("meanwhile")])

    store.backup(tmp_path / "copy.db", write_meanwhile)
    copy = open_at(tmp_path / "copy.db")
    assert len(steps) > 2
    assert len(copy.search(ALICE, NEWEST)) == 14
    assert copy.check() == []


def test_a_backup_replaces_an_older_backup(tmp_path: Path, open_at: Open) -> None:
    store = open_at()
    store.backup(tmp_path / "copy.db")
    store.add(ALICE, events(2))
    store.backup(tmp_path / "copy.db")
    assert len(open_at(tmp_path / "copy.db").search(ALICE, NEWEST)) == 2


def test_a_backup_never_overwrites_something_else(path: Path, tmp_path: Path, open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, events(2))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "link.db").symlink_to(path)
    live = open_at(tmp_path / "live.db")
    live.add(ALICE, events(1))
    for target in (path, tmp_path / "link.db", tmp_path / "live.db", tmp_path, tmp_path / "missing" / "copy.db"):
        with pytest.raises(InvalidInput):
            store.backup(target)
    with pytest.raises(NotAnEngramDatabase):
        store.backup(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert len(live.search(ALICE, NEWEST)) == 1
    assert len(store.search(ALICE, NEWEST)) == 2
    assert store.check() == []


def test_a_restored_backup_is_seen_by_whoever_has_the_database_open(path: Path, tmp_path: Path, open_at: Open) -> None:
    store, other, make = open_at(), open_at(), Maker("alice")
    first = events(5, make)
    store.add(ALICE, first)
    before = answers(store)
    store.backup(tmp_path / "copy.db")
    store.forget(ALICE, [first[0].memory.id, first[1].memory.id])
    store.add(ALICE, events(7, make))
    assert len(other.search(ALICE, NEAR)) == 10
    restore(tmp_path / "copy.db", path, Sources())
    assert answers(other) == before
    assert answers(store) == before
    later = events(9, make)
    other.add(ALICE, later)
    assert {match.id for match in store.search(ALICE, NEAR)} == {e.memory.id for e in (*first, *later)}
    assert store.check() == []
    assert sorted(p.name for p in tmp_path.iterdir() if "restoring" in p.name) == []


def test_a_backup_can_be_restored_to_a_new_place(tmp_path: Path, open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, events(5))
    store.backup(tmp_path / "copy.db")
    restore(tmp_path / "copy.db", tmp_path / "new.db", Sources())
    assert answers(open_at(tmp_path / "new.db")) == answers(store)


def test_what_is_no_sound_backup_is_not_restored(path: Path, tmp_path: Path, open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, events(300))
    store.backup(tmp_path / "copy.db")
    before = answers(store)
    content = (tmp_path / "copy.db").read_bytes()
    (tmp_path / "empty.db").touch()
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "cut.db").write_bytes(content[: len(content) // 2])
    (tmp_path / "newer.db").write_bytes(content)
    raw(tmp_path / "newer.db", "UPDATE alembic_version SET version_num = '9999'")
    refusals = {
        "empty.db": NotAnEngramDatabase,
        "notes.txt": NotAnEngramDatabase,
        "missing.db": StoreError,
        "cut.db": StoreCorrupt,
        "newer.db": NewerSchema,
    }
    for name, refusal in refusals.items():
        with pytest.raises(refusal):
            restore(tmp_path / name, path, Sources())
    (tmp_path / "other.txt").write_text("mine")
    with pytest.raises(NotAnEngramDatabase):
        restore(tmp_path / "copy.db", tmp_path / "other.txt", Sources())
    assert (tmp_path / "other.txt").read_text() == "mine"
    assert answers(store) == before


# Many at once --------------------------------------------------------------------------------------------


def test_threads_lose_nothing(open_at: Open) -> None:
    store, sources = open_at(), Sources()
    failures: list[str] = []

    def work(name: str) -> None:
        make = Maker("alice", FixedSources())
        try:
            for i in range(50):
                memory = make.memory(f"deploy {name} {i}").model_copy(update={"id": sources.new_id()})
                store.add(ALICE, [Entry(memory, vectors=(placed(1, i, 1),))])
                assert memory.id in {match.id for match in store.search(ALICE, NEAR)}
        except BaseException:  # noqa: BLE001 - told to the main thread
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(f"thread{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for query in (NEWEST, DEPLOY, NEAR):
        assert len({match.id for match in store.search(ALICE, query)}) == 400
    assert store.check() == []


def test_a_forked_child_and_its_parent_go_on_writing_and_lose_nothing(open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, events(5))
    store.touch(ALICE, [store.search(ALICE, NEAR)[0].id], START)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    make = Maker("alice", FixedSources(START + timedelta(days=1 if child else 2)))
    if child == 0:
        try:
            for entry in events(20, make):
                store.add(ALICE, [entry])
            found = len(store.search(ALICE, NEAR)), store.search(ALICE, DEPLOY)
            os._exit(0 if found[0] >= 25 and len(found[1]) >= 25 else 1)
        finally:
            os._exit(2)
    for entry in events(20, make):
        store.add(ALICE, [entry])
    assert os.waitpid(child, 0)[1] == 0
    for query in (NEWEST, DEPLOY, NEAR):
        assert len(store.search(ALICE, query)) == 45
    oldest = store.get(ALICE, [store.search(ALICE, NEWEST)[-1].id])[0]
    counted = sum(m.access_count for m in store.get(ALICE, [x.id for x in store.search(ALICE, NEWEST)]) if m)
    assert oldest is not None
    assert counted == 1
    assert store.check() == []


def test_a_lock_that_is_kept_too_long_is_named_and_nothing_is_stored(path: Path, open_at: Open) -> None:
    store = open_at(busy_seconds=0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="busy_seconds"):
            store.add(ALICE, events(1))
        assert store.search(ALICE, NEWEST) == []
        other.execute("ROLLBACK")
    assert store.add(ALICE, events(1))[0].status == "stored"


def test_an_exception_inside_a_batch_leaves_nothing(path: Path, open_at: Open) -> None:
    store = open_at()
    make = Maker("alice")
    entries = events(20, make)
    with pytest.raises(Conflict):
        store.add(ALICE, [*entries, make.fact("new", key="k"), entries[7]])
    assert answers(store) == [[], [], []]
    assert store.agents() == []
    tables = ("agents", "memories", "memory_tags", "memory_keys", "memory_index", "memory_words")
    assert [raw(path, f"SELECT count(*) FROM {name}")[0][0] for name in tables] == [0] * len(tables)
    assert store.check() == []


def test_the_log_does_not_grow_without_bound(path: Path, open_at: Open) -> None:
    store, make = open_at(), Maker("alice")
    log, largest = path.with_name(path.name + "-wal"), 0
    for i in range(60):
        store.add(ALICE, [make.event(f"large {i}", metadata={"filling": "x" * 300_000})])
        largest = max(largest, log.stat().st_size)
    assert path.stat().st_size > 15_000_000
    assert largest < 8_000_000


def test_the_log_is_not_carried_over_while_another_process_writes(path: Path, open_at: Open) -> None:
    store, log = open_at(), path.with_name(path.name + "-wal")
    store.add(ALICE, events(5))
    before = path.read_bytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not store._file._empty_log(0.05)
        assert path.read_bytes() == before
        other.execute("ROLLBACK")
    assert store._file._empty_log(0.05)
    assert b"deploy" in path.read_bytes()
    assert b"deploy" not in log.read_bytes()
    assert len(store.search(ALICE, DEPLOY)) == 5


def test_whoever_reads_for_a_moment_holds_the_log_up_for_a_moment(path: Path, open_at: Open) -> None:
    store, log, make = open_at(), path.with_name(path.name + "-wal"), Maker("alice")
    store.add(ALICE, events(5, make))
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM memories").fetchall()
        store.add(ALICE, [make.event("another deploy")])
        assert not store._file._empty_log(0.02)
        waiting = threading.Timer(0.1, other.execute, ["ROLLBACK"])
        waiting.start()
        assert store._file._empty_log(20.0)
        waiting.join()
    assert b"deploy" not in log.read_bytes()


def test_scrubs_that_are_asked_for_meanwhile_are_done_together(
    path: Path, open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, begun, go, done = open_at(), threading.Event(), threading.Event(), list[bool]()

    def slowly() -> bool:
        done.append(begun.is_set())
        begun.set()
        return go.wait(30)

    monkeypatch.setattr(store._file, "_scrub_all", slowly)
    threads = [threading.Thread(target=store.scrub) for _ in range(5)]
    threads[0].start()
    assert begun.wait(30)
    for thread in threads[1:]:
        thread.start()
    while store._file._scrubs_asked < len(threads):
        threading.Event().wait(0.01)
    go.set()
    for thread in threads:
        thread.join()
    assert done == [False, True]


def test_after_closing_there_is_one_file_with_everything_in_it(path: Path, tmp_path: Path, open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, events(5))
    store.close()
    assert not [p.name for p in tmp_path.iterdir() if p.name.endswith(("-wal", "-shm"))]
    shutil.copyfile(path, tmp_path / "moved.db")
    assert len(open_at(tmp_path / "moved.db").search(ALICE, NEAR)) == 5


def test_what_a_snapshot_has_shown_is_asked_anew_for_another_moment(open_at: Open) -> None:
    store, make = open_at(), Maker()
    entry = replace(
        make.event("deploy", session="s", valid_until=START + timedelta(days=2)), vectors=(placed(1, 0, 0),)
    )
    store.add(ALICE, [entry])
    queries = (DEPLOY, NEAR, replace(NEAR, among=frozenset({entry.memory.id})))
    with store.snapshot(ALICE):
        for _ in range(2):
            for days, there in ((1, True), (2, False), (3, False)):
                where = Filter(current=START + timedelta(days=days))
                for query in queries:
                    assert [match.id for match in store.search(ALICE, replace(query, where=where))] == (
                        [entry.memory.id] if there else []
                    )
            assert [seen.id for seen in store.neighbours(ALICE, [entry.memory.id], 2, ["deploy"])] == [entry.memory.id]


def test_a_snapshot_is_of_one_moment_and_the_next_shows_what_others_changed(open_at: Open) -> None:
    mine, other, make = open_at(), open_at(), Maker()
    entries = [replace(make.event("deploy"), vectors=(placed(1, 0, 0),)) for _ in range(3)]
    mine.add(ALICE, entries)
    ids = [entry.memory.id for entry in entries]
    current = Filter(current=START + timedelta(days=9))

    def found() -> list[set[str]]:
        with mine.snapshot(ALICE):
            before = [{m.id for m in mine.search(ALICE, replace(query, where=current))} for query in (DEPLOY, NEAR)]
            if len(before[0]) == 3:
                other.forget(ALICE, ids[:1])
                other.annotate(ALICE, ids[1], Changes(valid_until=START + timedelta(days=5)), None)
            again = [{m.id for m in mine.search(ALICE, replace(query, where=current))} for query in (DEPLOY, NEAR)]
            assert again == before
        return before

    assert found() == [set(ids)] * 2
    assert found() == [{ids[2]}] * 2


def test_the_best_that_ended_make_room_for_the_next(open_at: Open) -> None:
    store, make = open_at(), Maker()
    ended = START + timedelta(days=1)
    past = [replace(make.event("deploy", valid_until=ended), vectors=(placed(1, 0, 0),)) for _ in range(9)]
    kept = [replace(make.event("deploy the other one"), vectors=(placed(1, 0.1, 0),)) for _ in range(3)]
    store.add(ALICE, [*past, *kept])
    where = Filter(current=START + timedelta(days=2))
    for query in (DEPLOY, NEAR):
        for limit in (1, 2, 3, 6, 9, 20):
            found = store.search(ALICE, replace(query, where=where, limit=limit))
            assert len(found) == min(limit, 3)
            assert {match.id for match in found} <= {entry.memory.id for entry in kept}


def test_an_error_of_the_driver_is_told_in_our_words(path: Path, open_at: Open) -> None:
    store = open_at()
    store.add(ALICE, [Maker().event("deploy")])
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE memory_words")
    with pytest.raises(StoreError, match="could not be used"):
        store.search(ALICE, DEPLOY)
