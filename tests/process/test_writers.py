"""Threads that write to one SQLite file: they take turns, and nothing that was shown gets lost between them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engram.clock import Sources
from engram.errors import InvalidInput, StoreBusy
from engram.ports import LoggedRecall, Scope
from engram.stores.fts import fetch
from engram.stores.sqlite import MOST_LEVELS, SqliteStore, merge_words
from engram.stores.vectors.exact import ExactVectors

ALICE = Scope("alice")


@pytest.fixture
def store(path: Path) -> SqliteStore:
    return SqliteStore(path, ExactVectors(), Sources(), durable=False, busy_seconds=0.2)


def seen_elsewhere(store: SqliteStore, id: str) -> LoggedRecall | None:
    found: list[LoggedRecall | None] = []
    thread = threading.Thread(target=lambda: found.append(store.get_recall(ALICE, id)))
    thread.start()
    thread.join()
    return found[0]


def test_what_was_shown_is_known_while_it_is_on_its_way_to_the_database(store: SqliteStore) -> None:
    store.set_setting("x", "1")
    shown = LoggedRecall("r1", Sources().now(), ("m1",), {}, {})
    store.log_recall(ALICE, shown)
    with store._file.write(None) as conn:
        store._file._write_recalls(conn, store._file.pending.begin_recalls())
        assert seen_elsewhere(store, "r1") == shown
    store.close()


def test_what_was_shown_is_written_again_if_it_was_undone(store: SqliteStore) -> None:
    shown = LoggedRecall("r1", Sources().now(), ("m1",), {}, {})
    store.log_recall(ALICE, shown)

    def fails() -> None:
        with store._file.write(None) as conn:
            store._file._write_recalls(conn, store._file.pending.begin_recalls())
            raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        fails()
    assert store.get_recall(ALICE, "r1") == shown
    assert not store._file.pending.writing
    store.close()


def test_who_waits_too_long_for_his_turn_is_told_so(store: SqliteStore) -> None:
    told: list[str] = []

    def write() -> None:
        try:
            store.set_setting("x", "2")
        except StoreBusy as error:
            told.append(str(error))

    with store._file.write(None):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert len(told) == 1
    assert "try again" in told[0]
    store.set_setting("x", "3")
    assert store.setting("x") == "3"
    store.close()


def test_many_threads_write_without_anybody_being_left_out(path: Path) -> None:
    store = SqliteStore(path, ExactVectors(), Sources(), durable=False)
    written: list[int] = []

    def write(number: int) -> None:
        for _ in range(10):
            store.set_setting(f"s{number}", "x")
        written.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(written) == list(range(12))
    store.close()


def test_the_word_index_can_be_merged_as_often_as_something_is_forgotten(store: SqliteStore) -> None:
    with store._file.write(None) as conn:
        for number in range(MOST_LEVELS * 5):
            fetch(conn, "INSERT INTO memory_words (scope, words) VALUES ('s', :word)", {"word": f"word{number} all"})
            merge_words(conn)
        assert fetch(conn, "SELECT count(*) FROM memory_words WHERE memory_words MATCH 'all'", {}) == [(2500,)]
    store.close()
