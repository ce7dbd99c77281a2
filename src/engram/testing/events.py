"""Contract tests of events; part of the contract of every store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from engram.errors import Conflict, StoreClosed
from engram.ports import (
    FORGOTTEN,
    Credit,
    CreditsRecalls,
    Entry,
    Event,
    KeepsEvents,
    LoggedRecall,
    LogsRecalls,
    MemoryStore,
    ReadsNeighbours,
    Scope,
)
from engram.testing.factories import START, Maker

ALICE, BOB = Scope("alice"), Scope("bob")


def event(name: str, subject: str = "m1", topic: str = "t", day: int = 0, **body: object) -> Event:
    """Make an event whose body has its name."""
    said: dict[str, object] = {"name": name, "é": [1, 2.5, None, True], **body}
    return Event(name, "decision", START + timedelta(days=day), subject, topic, said)  # type: ignore[arg-type]


def keeper(store: MemoryStore) -> KeepsEvents:
    """Return the store if it keeps events; otherwise skip the test."""
    if not isinstance(store, KeepsEvents):
        pytest.skip("the store does not have the ability KeepsEvents")
    return store


def names(events: list[Event]) -> list[str]:
    """Return the ids of events, in order."""
    return [one.id for one in events]


def _plain(events: list[Event]) -> list[tuple[object, ...]]:
    """Return events without the number that the store gave."""
    return [(e.id, e.kind, e.at, e.subject, e.topic, e.body) for e in events]


class EventsContract:
    """A part of the contract of every store, with its fixture `store`."""

    def test_events_come_back_as_they_were_in_the_order_of_recording(self, store: MemoryStore) -> None:
        kept, given = keeper(store), [event("c", day=3), event("a", day=1), event("b", day=2)]
        assert kept.append(ALICE, given[:2]) == [True, True]
        assert kept.append(ALICE, given[2:]) == [True]
        found = kept.events_after(ALICE, 0, 10)
        assert _plain(found) == _plain(given)
        assert [one.seq for one in found] == sorted({one.seq for one in found})
        assert found[0].seq > 0

    def test_a_reader_who_goes_on_misses_nothing_and_sees_nothing_twice(self, store: MemoryStore) -> None:
        kept, seen, after = keeper(store), list[str](), 0
        for round in range(3):
            kept.append(ALICE, [event(f"{round}{i}") for i in range(5)])
            while some := kept.events_after(ALICE, after, 2):
                seen, after = seen + names(some), some[-1].seq
        assert seen == [f"{round}{i}" for round in range(3) for i in range(5)]
        assert kept.events_after(ALICE, after, 9) == []

    def test_an_event_whose_id_is_known_changes_nothing(self, store: MemoryStore) -> None:
        kept = keeper(store)
        first = event("a")
        assert kept.append(ALICE, [first, event("a", day=9), event("b")]) == [True, False, True]
        assert kept.append(ALICE, [event("a", topic="other")]) == [False]
        assert _plain(kept.events_after(ALICE, 0, 9)) == _plain([first, event("b")])

    def test_events_are_found_by_topic_the_newest_of_them(self, store: MemoryStore) -> None:
        kept = keeper(store)
        kept.append(ALICE, [event(f"e{i}", topic=f"t{i % 2}") for i in range(6)])
        assert names(kept.events_by_topic(ALICE, "t0", 9)) == ["e0", "e2", "e4"]
        assert names(kept.events_by_topic(ALICE, "t0", 2)) == ["e2", "e4"]
        assert kept.events_by_topic(ALICE, "t", 9) == []

    def test_events_are_found_by_subject(self, store: MemoryStore) -> None:
        kept = keeper(store)
        kept.append(ALICE, [event(f"e{i}", subject=f"m{i % 3}") for i in range(6)])
        assert names(kept.events_of(ALICE, ["m2", "m0", "nobody"])) == ["e0", "e2", "e3", "e5"]
        assert kept.events_of(ALICE, []) == []
        assert kept.events_of(ALICE, ["\x00", "m"]) == []

    def test_events_stay_in_their_scope(self, store: MemoryStore) -> None:
        kept = keeper(store)
        kept.append(ALICE, [event("a")])
        assert kept.append(BOB, [event("a", day=5)]) == [True]
        assert kept.events_after(BOB, 0, 9)[0].at == START + timedelta(days=5)
        for scope in (Scope("Alice"), Scope("alic"), Scope("alice%")):
            assert (
                kept.events_after(scope, 0, 9),
                kept.events_by_topic(scope, "t", 9),
                kept.events_of(scope, ["m1"]),
            ) == ([], [], [])

    def test_a_new_memory_brings_its_events(self, store: MemoryStore, make: Maker) -> None:
        kept = keeper(store)
        entry = make.event("deploy the cluster", key="k1")
        with_event = _with(entry, event("a", subject=entry.memory.id))
        store.add(ALICE, [with_event])
        assert names(kept.events_of(ALICE, [entry.memory.id])) == ["a"]
        again = make.event("deploy the cluster", key="k1")
        store.add(ALICE, [_with(again, event("b", subject=again.memory.id))])
        assert names(kept.events_after(ALICE, 0, 9)) == ["a"]

    def test_what_is_refused_leaves_no_events(self, store: MemoryStore, make: Maker) -> None:
        kept = keeper(store)
        entry = make.event("one")
        store.add(ALICE, [entry])
        with pytest.raises(Conflict):
            store.add(ALICE, [_with(make.event("two"), event("a")), entry])
        assert kept.events_after(ALICE, 0, 9) == []

    def test_forgetting_takes_the_events_along_and_says_so(self, store: MemoryStore, make: Maker) -> None:
        kept = keeper(store)
        one, two = make.event("one"), make.event("two")
        store.add(ALICE, [_with(one, event("a", subject=one.memory.id)), two])
        kept.append(ALICE, [event("b", subject=one.memory.id), event("c", subject="elsewhere")])
        after = kept.events_after(ALICE, 0, 9)[-1].seq
        gone, plain = store.forget(ALICE, [one.memory.id, two.memory.id])
        assert (gone.removed["events"], "events" in plain.removed) == (2, False)
        assert names(kept.events_after(ALICE, 0, 1)) == ["c"]
        (news,) = kept.events_after(ALICE, after, 9)
        assert (news.kind, news.body) == (FORGOTTEN, {"id": one.memory.id})

    def test_writers_at_once_lose_no_event(self, store: MemoryStore) -> None:
        kept = keeper(store)
        seen, reading = list[str](), threading.Event()

        def write(name: str) -> None:
            for i in range(20):
                kept.append(ALICE, [event(f"{name}{i}")])

        def read() -> None:
            after = 0
            while True:
                last = reading.is_set()
                while some := kept.events_after(ALICE, after, 7):
                    seen.extend(names(some))
                    after = some[-1].seq
                if last:
                    return

        writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
        reader = threading.Thread(target=read)
        for thread in (*writers, reader):
            thread.start()
        for thread in writers:
            thread.join()
        reading.set()
        reader.join()
        assert sorted(seen) == sorted(f"{name}{i}" for name in "abc" for i in range(20))

    def test_what_was_shown_is_there_until_its_outcome_is_told_and_after(self, store: MemoryStore, make: Maker) -> None:
        if not isinstance(store, LogsRecalls):
            pytest.skip("the store does not have the ability LogsRecalls")
        entry = make.event("one")
        store.add(ALICE, [entry])
        seen = LoggedRecall(
            "r1", datetime.now(UTC), (entry.memory.id, "gone"), {"gone": {"words": 0.5}}, {"action": "é"}
        )
        store.log_recall(ALICE, seen)
        assert store.get_recall(ALICE, "r1") == seen
        store.add(ALICE, [make.event("the next write")])
        assert store.get_recall(ALICE, "r1") == seen
        assert store.get_recall(BOB, "r1") is None
        assert store.get_recall(ALICE, "\x00") is None
        if isinstance(store, CreditsRecalls):
            assert store.credits(ALICE, 9) == []
            credit = Credit("r1", START, (entry.memory.id,), frozenset(), shares={entry.memory.id: (0.25, 0.75)})
            assert store.credit(ALICE, credit)
            assert not store.credit(ALICE, credit)
            told = store.get_recall(ALICE, "r1")
            assert told is not None
            assert told.told
            assert store.credits(ALICE, 9) == [credit]

    def test_one_credit_can_be_shared(self, store: MemoryStore, make: Maker) -> None:
        if not isinstance(store, CreditsRecalls) or not isinstance(store, ReadsNeighbours):
            pytest.skip("the store does not have the abilities CreditsRecalls and ReadsNeighbours")
        one, two = make.event("one"), make.event("two")
        store.add(ALICE, [one, two])
        shares = {one.memory.id: (0.5, 0.0), two.memory.id: (0.0, 0.5)}
        store.credit(ALICE, Credit("r1", START, tuple(shares), frozenset(), shares=shares))
        seen = {row.id: row.usefulness for row in store.neighbours(ALICE, list(shares), 0, [])}
        assert seen == pytest.approx({one.memory.id: 1.5 / 2.5, two.memory.id: 1 / 2.5})

    def test_a_closed_store_keeps_no_events(self, store: MemoryStore) -> None:
        kept = keeper(store)
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: kept.append(ALICE, [event("a")]),
            lambda: kept.events_after(ALICE, 0, 1),
            lambda: kept.events_by_topic(ALICE, "t", 1),
            lambda: kept.events_of(ALICE, ["m1"]),
        ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()


def _with(entry: Entry, *events: Event) -> Entry:
    return replace(entry, events=events)
