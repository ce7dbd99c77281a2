"""Contract tests of deleting events, recalls and scopes; part of the contract of every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from engram.ports import (
    FORGOTTEN,
    DeletesEvents,
    DeletesRecalls,
    DeletesScopes,
    Entry,
    FindsDerived,
    KeepsSettings,
    ListsAgents,
    LoggedRecall,
    LogsRecalls,
    MemoryStore,
    Query,
)
from engram.testing.events import ALICE, BOB, event, keeper, names
from engram.testing.factories import Maker
from engram.text.terms import digest


def having(store: object, ability: Any) -> Any:
    """Return the store if it has an ability; otherwise skip the test."""
    if not isinstance(store, ability):
        pytest.skip(f"the store does not have the ability {ability.__name__}")
    return store


class ErasingContract:
    """A part of the contract of every store, with its fixture `store`."""

    def test_events_go_by_their_ids_and_whoever_learned_from_them_is_told(self, store: MemoryStore) -> None:
        kept, erases = keeper(store), having(store, DeletesEvents)
        kept.append(ALICE, [event("a", subject=""), event("b", subject=""), event("c")])
        kept.append(BOB, [event("a", subject="")])
        assert erases.delete_events(ALICE, ["a", "c", "a", "nobody"]) == 2
        assert names(kept.events_of(ALICE, ["", "m1"]))[:1] == ["b"]
        told = [one for one in kept.events_after(ALICE, 0, 100) if one.kind == FORGOTTEN]
        assert [one.body for one in told] == [{"id": "a"}, {"id": "c"}]
        assert names(kept.events_by_topic(ALICE, "t", 100)) == ["b"]
        assert names(kept.events_after(BOB, 0, 100)) == ["a"]
        assert erases.delete_events(ALICE, ["a"]) == erases.delete_events(ALICE, []) == 0
        assert kept.append(ALICE, [event("a", subject="")]) == [True]

    def test_what_was_shown_goes_if_it_is_chosen_and_not_told(self, store: MemoryStore) -> None:
        shows, erases = having(store, LogsRecalls), having(store, DeletesRecalls)
        make, now = Maker(), datetime.now(UTC)
        store.add(ALICE, [make.event("x")])
        for name, scope in (("a", ALICE), ("b", ALICE), ("c", BOB)):
            shows.log_recall(scope, LoggedRecall(name, now, (), about={"context": name}))
        store.add(ALICE, [make.event("y")])  # a commit, which writes pending ones
        shows.log_recall(ALICE, LoggedRecall("d", now, (), about={"context": "a"}))
        assert erases.delete_recalls(ALICE, lambda shown: shown.about.get("context") == "a") == 2
        found = {name: shows.get_recall(ALICE, name) is not None for name in ("a", "b", "d")}
        assert found == {"a": False, "b": True, "d": False}
        assert erases.delete_recalls(ALICE, lambda shown: False) == 0

    def test_what_names_a_source_is_found_in_every_scope(self, store: MemoryStore) -> None:
        finds = having(store, FindsDerived)
        make = Maker()
        first = make.event("first")
        store.add(ALICE, [first, make.event("other")])
        citing = [_citing(make.event("second"), first.memory.id), _citing(Maker("bob").event("third"), "x%")]
        store.add(ALICE, citing[:1])
        store.add(BOB, citing[1:])
        assert finds.derived([first.memory.id]) == [(ALICE, citing[0].memory.id)]
        assert finds.derived(["x%", first.memory.id, "nobody"]) in (
            [(ALICE, citing[0].memory.id), (BOB, citing[1].memory.id)],
            [(BOB, citing[1].memory.id), (ALICE, citing[0].memory.id)],
        )
        assert finds.derived(["x", "%", "second"]) == finds.derived([]) == []

    def test_a_scope_that_is_given_up_is_as_if_it_had_never_been(self, store: MemoryStore) -> None:
        vacates, kept = having(store, DeletesScopes), keeper(store)
        make = Maker()
        store.add(ALICE, [make.event(f"memory {number}") for number in range(3)])
        store.add(BOB, [Maker("bob").event("memory 1")])
        kept.append(ALICE, [event("a", subject=""), event("b")])
        kept.append(BOB, [event("a", subject="")])
        if isinstance(store, KeepsSettings):
            store.set_setting("learned:" + digest("alice"), "x")
            store.set_setting("learned:" + digest("bob"), "y")
        gone = vacates.delete_scope(ALICE)
        assert (gone["memories"], gone["events"]) == (3, 2)
        assert (store.search(ALICE, Query()), kept.events_after(ALICE, 0, 10)) == ([], [])
        assert (len(store.search(BOB, Query())), names(kept.events_after(BOB, 0, 10))) == (1, ["a"])
        if isinstance(store, ListsAgents):
            assert store.agents() == ["bob"]
        if isinstance(store, KeepsSettings):
            assert not store.setting("learned:" + digest("alice"))
            assert store.setting("learned:" + digest("bob")) == "y"
        assert not any(vacates.delete_scope(ALICE).values())
        assert store.add(ALICE, [make.event("anew")])[0].status == "stored"
        assert kept.append(ALICE, [event("a", subject="")]) == [True]


def _citing(entry: Entry, source: str) -> Entry:
    provenance = entry.memory.provenance.model_copy(update={"sources": (source,)})
    return replace(entry, memory=entry.memory.model_copy(update={"provenance": provenance}))
