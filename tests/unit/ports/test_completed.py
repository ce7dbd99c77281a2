"""A plugin of five methods, or of some more, becomes a whole store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from engram.clock import Sources
from engram.embed.hashing import HashingEmbedder
from engram.engine import AgentHandle, Engram
from engram.errors import Unsupported
from engram.model import ForgetReceipt, Memory, Receipt
from engram.ports import (
    Annotates,
    Changes,
    Credit,
    CreditsRecalls,
    Entry,
    Event,
    Filter,
    KeepsEvents,
    KeepsSettings,
    ListsAgents,
    Maintains,
    Match,
    MemoryStore,
    Query,
    Scope,
    Store,
)
from engram.ports.completed import ABILITIES, Completed, can, complete, require
from engram.privacy import SecretRedactor
from engram.stores.memory import InMemoryStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import Maker

ALICE = Scope("alice")
EVENT = Event("e1", "decision", Sources().now(), "m1")


class Plugin:
    """A store with the five required methods and no other ability."""

    def __init__(self, store: InMemoryStore) -> None:
        self.store = store

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        return self.store.add(scope, entries)

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        return self.store.get(scope, ids)

    def search(self, scope: Scope, query: Query) -> list[Match]:
        return self.store.search(scope, query)

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        return self.store.forget(scope, ids)

    def close(self) -> None:
        self.store.close()


class KeepingSettings(Plugin):
    """A plugin with one more ability, and one that only some stores have."""

    def setting(self, name: str) -> str | None:
        return self.store.setting(name)

    def set_setting(self, name: str, value: str) -> None:
        self.store.set_setting(name, value)

    def info(self) -> Mapping[str, str]:
        return {"path": "here"}

    check = backup = rebuild = info


@pytest.fixture
def inner() -> Iterator[InMemoryStore]:
    store = InMemoryStore(ExactVectors())
    yield store
    store.close()


def test_a_whole_store_stays_as_it_is(inner: InMemoryStore) -> None:
    assert complete(inner) is inner
    assert all(can(inner, ability) for ability in ABILITIES)


def test_five_methods_make_a_store(inner: InMemoryStore) -> None:
    plugin: MemoryStore = Plugin(inner)
    assert not isinstance(plugin, Store)
    store = complete(plugin)
    assert isinstance(store, Store)
    assert not any(can(store, ability) for ability in ABILITIES)
    assert complete(store) is store


def test_reads_find_nothing_and_statistics_are_dropped(inner: InMemoryStore) -> None:
    store, at = Completed(Plugin(inner)), Sources().now()
    (receipt,) = store.add(ALICE, [Maker("alice").event("hello")])
    id = str(receipt.id)
    store.touch(ALICE, [id], at)
    store.set_setting("x", "1")
    store.set_embedder("a@1")
    assert (store.setting("x"), store.embedder(), store.agents(), store.credits(ALICE, 9)) == (None, None, [], [])
    assert (store.events_after(ALICE, 0, 9), store.events_of(ALICE, [id]), store.append(ALICE, [])) == ([], [], [])
    assert (store.events_by_topic(ALICE, "t", 9), store.delete_events(ALICE, ["e1"])) == ([], 0)
    assert (store.unembedded("n", "e", 9), store.count_unembedded("n", "e"), store.indexes(ALICE, id)) == ([], 0, [])
    assert (store.place([]), store.discard_vectors("n", "e")) == (0, 0)


def test_other_writes_say_what_is_needed(inner: InMemoryStore) -> None:
    store = Completed(Plugin(inner))
    with pytest.raises(Unsupported, match="needs a store that keeps events; use SQLite"):
        store.append(ALICE, [EVENT])
    with pytest.raises(Unsupported, match="changing a memory needs a store that annotates"):
        store.annotate(ALICE, "m1", Changes(), None)
    with pytest.raises(Unsupported, match="the outcomes of recalls"):
        store.credit(ALICE, Credit("r1", Sources().now(), (), frozenset()))


def test_versions_previews_and_deleting_a_scope_are_derived_from_the_five(inner: InMemoryStore) -> None:
    store, make = Completed(Plugin(inner)), Maker("alice")
    ids = [str(receipt.id) for receipt in store.add(ALICE, [make.event(f"text {n}") for n in range(3)])]
    assert store.versions(ALICE, Filter()) == dict.fromkeys(ids, 1)
    assert [receipt.status for receipt in store.preview_add(ALICE, [make.event("new")])] == ["stored"]
    assert store.delete_scope(ALICE) == {"memories": 3, "events": 0}
    assert store.search(ALICE, Query()) == []


def test_what_a_plugin_can_do_itself_is_used(inner: InMemoryStore) -> None:
    store = Completed(KeepingSettings(inner))
    store.set_setting("x", "1")
    assert store.setting("x") == inner.setting("x") == "1"
    assert can(store, KeepsSettings)
    assert not can(store, KeepsEvents)
    assert isinstance(store, Maintains)
    assert store.info() == {"path": "here"}


def test_a_feature_can_require_an_ability(inner: InMemoryStore) -> None:
    require(inner, Annotates, "changing a memory")
    with pytest.raises(Unsupported, match="grants needs a store that keeps events"):
        require(Completed(Plugin(inner)), KeepsEvents, "grants")
    with pytest.raises(Unsupported):
        require(object(), ListsAgents, "listing the agents")


@pytest.fixture
def alice(inner: InMemoryStore) -> AgentHandle:
    brain = Engram(
        Plugin(inner), embedder=HashingEmbedder, redactor=SecretRedactor(), sources=Sources(), say=lambda line: None
    )
    return brain.agent("alice")


def test_the_engine_works_on_a_plugin(alice: AgentHandle) -> None:
    alice.remember("Staging runs PostgreSQL 15")
    for _ in range(3):
        decided = alice.record_decision(context="deploy the web", action="blue green", outcome="success")
    assert alice.recall("which database is in staging?")[0].memory.text == "Staging runs PostgreSQL 15"
    assert alice.suggest("deploy the web").recommended == "blue green"
    assert alice.check("rm -rf /", context="x").decision == "allow"
    assert alice.forget(str(decided.id)).forgotten


def test_the_engine_says_what_a_plugin_cannot(alice: AgentHandle) -> None:
    id = str(alice.remember("hello").id)
    hits = alice.recall("hello")
    calls: list[Callable[[], object]] = [
        lambda: alice.annotate(id, tags=["x"]),
        lambda: alice.outcome(id, "success"),
        lambda: alice.credit(hits, hits[0]),
        alice.learning.harmful,
    ]
    for call in calls:
        with pytest.raises(Unsupported, match="needs a store that"):
            call()


def test_abilities_have_words_for_messages() -> None:
    assert all(words and words[0].islower() for words in ABILITIES.values())
    assert CreditsRecalls in ABILITIES
