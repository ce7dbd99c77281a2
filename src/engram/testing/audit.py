"""Contract tests of stores with an audit trail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from engram import audit
from engram.errors import Conflict, InvalidInput, NotFound
from engram.model import AuditEntry, Checkpoint, Clean
from engram.model.audit import GENESIS
from engram.ports import (
    LONG_TERM,
    Annotates,
    AuditAction,
    Changes,
    CountsAccess,
    Credit,
    CreditsRecalls,
    Entry,
    Event,
    KeepsAudit,
    KeepsEvents,
    KeepsSettings,
    LoggedRecall,
    LogsRecalls,
    MemoryStore,
    MirrorsVectors,
    Scope,
    acting,
    as_agents,
    principal,
)
from engram.testing.factories import START, Maker, placed

ALICE, BOB = Scope("alice"), Scope("bob")
SECRET = "rosebud"  # noqa: S105 - what must not be found in the trail


def trail(store: MemoryStore) -> KeepsAudit:
    """Return the store, typed as one with an audit trail."""
    assert isinstance(store, KeepsAudit)
    return store


def since(store: MemoryStore, work: Callable[[], object]) -> list[AuditEntry]:
    """Run work, and return the entries that it adds."""
    before = trail(store).head()
    work()
    return trail(store).trail(before.seq if before else 0)


def _event(name: str, subject: str = "m1") -> Event:
    return Event(name, "decision", START, subject, "t", {"said": SECRET})


def calls(store: MemoryStore, maker: Maker, known: Entry) -> dict[str, Callable[[], object]]:
    """Return a call for each kind of change, by the action of its entry; `known` is an entry of Alice's."""
    annotates, credits = cast("Annotates", store), cast("CreditsRecalls", store)
    settings, mirror = cast("KeepsSettings", store), cast("MirrorsVectors", store)
    id = known.memory.id
    credit = Credit("r1", START, (id,), frozenset({id}), about={"said": SECRET})
    return {
        "write": lambda: store.add(ALICE, [maker.event(SECRET, tags=[SECRET], key=SECRET)]),
        "annotate": lambda: annotates.annotate(ALICE, id, Changes(tags=(Clean(SECRET),), importance=0.9), None),
        "event": lambda: cast("KeepsEvents", store).append(ALICE, [_event("e1", id), _event("e2", id)]),
        "credit": lambda: credits.credit(ALICE, credit),
        "setting": lambda: settings.set_setting("policy", SECRET),
        "embed": lambda: mirror.place([(ALICE, id, placed(1, 0, 0, embedder="other@1"))]),
        "unembed": lambda: mirror.discard_vectors(LONG_TERM, "other@1"),
        "forget": lambda: store.forget(ALICE, [id]),
    }


class AuditContract:
    """Contract tests of the audit trail. Provide the fixture `store`: a new, empty one for each test."""

    def test_a_trail_begins_with_the_same_entry_everywhere(self, store: MemoryStore) -> None:
        (genesis, *_) = trail(store).trail()
        assert (genesis.seq, genesis.action, genesis.prev) == (1, GENESIS, "")
        assert genesis.hash == "a4be51ba02a05db4c9c4df9c1a78896db1ce559d41b794be97ab66357f899220"

    def test_every_call_that_changes_something_adds_one_entry(self, store: MemoryStore) -> None:
        maker = Maker("alice")
        known = replace(maker.event("a memory"), vectors=(placed(1, 0, 0),))
        store.add(ALICE, [known])
        for action, call in calls(store, maker, known).items():
            (entry,) = since(store, call)
            assert entry.action == action
            assert entry.count >= 1, action
        assert audit.AuditTrail(trail(store)).verify().ok

    def test_no_content_is_put_on_record(self, store: MemoryStore) -> None:
        maker = Maker("alice")
        known = maker.event("a memory")
        store.add(ALICE, [known])
        for call in calls(store, maker, known).values():
            call()
        assert SECRET not in "".join(audit.AuditTrail(trail(store)).export())

    def test_housekeeping_adds_none(self, store: MemoryStore) -> None:
        maker = Maker("alice")
        known = maker.event("a memory")
        store.add(ALICE, [known])

        def work() -> None:
            if isinstance(store, CountsAccess):
                store.touch(ALICE, [known.memory.id], START)
            if isinstance(store, LogsRecalls):
                store.log_recall(ALICE, LoggedRecall("r", START, (known.memory.id,)))
            if isinstance(store, KeepsSettings):
                store.set_setting("learned:x", "{}")
                store.set_setting("pushed:x", "1")
            store.add(ALICE, [])
            store.forget(ALICE, [])
            cast("KeepsEvents", store).append(ALICE, [])
            trail(store).note([])

        assert since(store, work) == []

    def test_a_call_that_fails_adds_none(self, store: MemoryStore) -> None:
        known = Maker("alice").event("a memory")
        store.add(ALICE, [known])

        def work() -> None:
            with pytest.raises(Conflict):
                store.add(ALICE, [known])
            with pytest.raises(NotFound):
                cast("Annotates", store).annotate(ALICE, "nobody", Changes(importance=1), None)

        assert since(store, work) == []

    def test_a_write_says_what_became_of_each(self, store: MemoryStore) -> None:
        maker = Maker("alice")
        store.add(ALICE, [maker.fact("known"), maker.event("one", key="k")])
        (entry,) = since(
            store, lambda: store.add(ALICE, [maker.fact("known"), maker.event("two", key="k"), maker.event("three")])
        )
        assert (entry.actor, entry.agent, entry.count, entry.target) == ("alice", "alice", 3, "")
        assert {name: entry.detail[name] for name in ("stored", "merged", "rejected")} == {
            "stored": 1,
            "merged": 1,
            "rejected": 1,
        }

    def test_a_repeated_write_is_on_record_as_a_replay(self, store: MemoryStore) -> None:
        first, again, other = Maker("alice"), Maker("alice"), Maker("alice")
        store.add(ALICE, [first.event("one", key="k")])
        (entry,) = since(store, lambda: store.add(ALICE, [again.event("one", key="k")]))
        assert (entry.action, entry.count, entry.detail) == ("replay", 1, {"replayed": 1})
        (entry,) = since(store, lambda: store.add(ALICE, [other.event("one", key="k"), other.event("two")]))
        assert (entry.action, entry.detail["replayed"], entry.detail["stored"]) == ("write", 1, 1)

    def test_who_acts_is_the_actor_whosever_memory_it_is(self, store: MemoryStore) -> None:
        def work() -> None:
            with acting("bob", grant="g1"):
                store.add(ALICE, [Maker("alice").event("one")])
                with acting("carol", "renamed"):
                    store.forget(ALICE, ["nobody"])
                    with as_agents():
                        store.forget(ALICE, ["nobody"])
            with acting(""):
                store.forget(ALICE, ["nobody"])

        told = [(entry.action, entry.actor, entry.agent, entry.grant) for entry in since(store, work)]
        assert told == [
            ("write", "bob", "alice", "g1"),
            ("renamed", "bob", "alice", "g1"),
            ("forget", "alice", "alice", ""),
            ("forget", "", "alice", ""),
        ]

    def test_names_that_only_engram_knows_are_not_on_record(self, store: MemoryStore) -> None:
        apart, maker = Scope("\x1fannex:1"), Maker("\x1fannex:1")

        def work() -> None:
            store.add(apart, [maker.event("one")])
            with acting("bob", agent="bob"):
                store.add(apart, [maker.event("two")])
                cast("KeepsEvents", store).append(apart, [_event("e", "\x1fannex:1")])

        told = [(entry.actor, entry.agent, entry.detail["in"]) for entry in since(store, work)]
        assert told == [("", "", "annex"), ("bob", "bob", "annex"), ("bob", "bob", "annex")]
        assert "\\u001f" not in "".join(audit.AuditTrail(trail(store)).export())

    def test_one_memory_is_named_many_are_told_by_their_hash(self, store: MemoryStore) -> None:
        maker = Maker("alice")
        (one,) = since(store, lambda: store.add(ALICE, [maker.event("one")]))
        assert one.target
        (many,) = since(store, lambda: store.add(ALICE, [maker.event(f"note {n}") for n in range(100)]))
        assert (many.target, many.count) == ("", 100)
        assert len(str(many.detail["ids_sha256"])) == 64

    def test_what_changes_nothing_is_counted_as_nothing(self, store: MemoryStore) -> None:
        store.add(ALICE, [Maker("alice").event("a memory")])
        (entry,) = since(store, lambda: store.forget(ALICE, ["unknown"]))
        assert entry.detail["forgotten"] == 0
        kept = cast("KeepsEvents", store)
        kept.append(ALICE, [_event("e")])
        (entry,) = since(store, lambda: kept.append(ALICE, [_event("e")]))
        assert entry.count == 0

    def test_deeds_are_put_on_record_in_order_on_behalf_of_the_principal(self, store: MemoryStore) -> None:
        actions = [
            AuditAction("read", "bob", "alice", "m1", "g1", 3, {"k": [1, "é", None]}),
            AuditAction("export", "alice", "alice"),
        ]
        token = principal.set("key:7")
        try:
            first, second = since(store, lambda: trail(store).note(actions))
        finally:
            principal.reset(token)
        assert (first.action, first.actor, first.agent, first.target, first.grant, first.count) == (
            "read",
            "bob",
            "alice",
            "m1",
            "g1",
            3,
        )
        assert (first.detail, first.principal) == ({"k": [1, "é", None]}, "key:7")
        assert (second.prev, second.seq) == (first.hash, first.seq + 1)
        assert (first.hash, second.hash) == (first.expected_hash, second.expected_hash)

    def test_what_no_database_can_keep_is_refused(self, store: MemoryStore) -> None:
        with pytest.raises(InvalidInput):
            trail(store).note([AuditAction("read", "al\x00ice")])
        assert since(store, lambda: None) == []

    def test_a_trail_is_read_from_a_number_by_agent_grant_and_time(self, store: MemoryStore) -> None:
        kept = trail(store)
        start = kept.head()
        assert start is not None
        kept.note([AuditAction("use", "bob", "alice", grant="g1"), AuditAction("use", "bob", "carol", grant="g2")])
        kept.note([AuditAction("use", "bob", "alice", grant="g2")])
        assert [entry.agent for entry in kept.trail(start.seq)] == ["alice", "carol", "alice"]
        assert [entry.seq for entry in kept.trail(start.seq, agent="alice")] == [start.seq + 1, start.seq + 3]
        assert [entry.seq for entry in kept.trail(start.seq, grant="g2")] == [start.seq + 2, start.seq + 3]
        assert [entry.seq for entry in kept.trail(start.seq, 1)] == [start.seq + 1]
        assert [entry.seq for entry in kept.trail(start.seq, 2, newest=True)] == [start.seq + 2, start.seq + 3]
        head = kept.head()
        assert head is not None
        assert kept.trail(start.seq, since=head.at + timedelta(days=1)) == []
        assert head in kept.trail(start.seq, since=head.at)
        assert kept.trail(start.seq, agent="a%") == []

    def test_checkpoints_are_kept_once_and_noted(self, store: MemoryStore) -> None:
        kept = trail(store)
        head = kept.head()
        assert head is not None
        made = Checkpoint(seq=head.seq, at=START, hash=head.hash, key_id="k", signature="00")
        before = kept.checkpoints()
        (entry,) = since(store, lambda: kept.checkpoint(made))
        assert (entry.action, entry.target) == ("checkpoint", str(head.seq))
        assert [known for known in kept.checkpoints() if known not in before] == [made]
        assert not kept.checkpoint(made)
        assert audit.AuditTrail(kept).verify().ok

    def test_a_trail_is_pruned_up_to_a_checkpoint_and_still_verified(self, store: MemoryStore) -> None:
        kept = trail(store)
        kept.note([AuditAction("use", count=n) for n in range(5)])
        head = kept.head()
        assert head is not None
        with pytest.raises(NotFound):
            kept.prune(head.seq)
        kept.checkpoint(Checkpoint(seq=head.seq, at=START, hash=head.hash))
        kept.note([AuditAction("use")])
        gone = kept.prune(head.seq)
        assert gone >= 5
        left = kept.trail()
        assert [entry.action for entry in left] == ["checkpoint", "use", "prune"]
        assert (left[-1].target, left[-1].count) == (str(head.seq), gone)
        assert audit.AuditTrail(kept).verify().ok
        store.add(ALICE, [Maker("alice").event("it goes on")])
        assert audit.AuditTrail(kept).verify().ok

    def test_agents_have_one_trail(self, store: MemoryStore) -> None:
        makers: Sequence[Maker] = [Maker("alice"), Maker("bob")]
        added = since(store, lambda: [store.add(Scope(m.agent), [m.event(f"{n}")]) for n in range(3) for m in makers])
        assert [entry.agent for entry in added] == ["alice", "bob"] * 3
        assert audit.AuditTrail(trail(store)).verify().ok
