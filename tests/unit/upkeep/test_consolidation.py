"""Many memories become few, nothing is lost, and all of it can be taken back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.clock import Sources
from engram.engine import AgentHandle, Engram
from engram.errors import Conflict, NotFound, Unsupported
from engram.memories.forgetting_curve import ForgettingLimits
from engram.ports import Scope
from engram.upkeep import consolidation
from engram.upkeep.consolidation import FOREVER, MARK, statement, topics
from support.topics import BUILT_BY, JUDGED_BY

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Clock(Sources):
    """A clock that moves on by a second at every look."""

    def __init__(self) -> None:
        super().__init__()
        self.at = START

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@pytest.fixture(params=["file", "memory"])
def brain(request: pytest.FixtureRequest, path: Path) -> Iterator[Engram]:
    where: Path | str = path if request.param == "file" else ":memory:"
    with engram.open(where, embedder="hashing", durable=False, sources=Clock()) as opened:
        yield opened


@pytest.fixture
def alice(brain: Engram) -> AgentHandle:
    return brain.agent("alice")


def stated(agent: AgentHandle, *texts: str, **fields: object) -> list[str]:
    receipts = agent.remember(list(texts), kind="knowledge", **fields)
    return [str(receipt.id) for receipt in receipts]


def found(agent: AgentHandle, query: str) -> list[str]:
    return [hit.memory.text for hit in agent.recall(query, k=20)]


def observed(agent: AgentHandle, text: str, days: int) -> list[str]:
    return [str(agent.remember(text, at=START - timedelta(days=days - day)).id) for day in range(days)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The deploys happen at midnight.", "Deploys occur at midnight"),
        ("The production database is encrypted", "Production DB is encrypted!"),
        ("Large uploads can't be resumed", "big uploads cannot be resumed"),
        ("The build does not need Java", "A build doesn't require Java."),
        ("Please note that the API is rate limited", "the API is rate limited"),
    ],
)
def test_other_words_for_the_same_statement_are_the_same(one: str, other: str) -> None:
    assert statement(one) == statement(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Staging runs PostgreSQL 15", "Staging runs PostgreSQL 16"),
        ("The timeout is -5 seconds", "The timeout is 5 seconds"),
        ("The cache is enabled", "The cache is disabled"),
        ("The cache is not enabled", "The cache is enabled"),
        ("The cache isn't enabled", "The cache is enabled"),
        ("Alice manages Bob", "Bob manages Alice"),
        ("Run the tests before the deploy", "Run the tests after the deploy"),
        ("Carol lives in Rome", "Carol lives in Bern"),
        ("The server was in Rome", "The server is in Rome"),
        ("Only admins can write", "Admins can write"),
        ("The queue is empty?", "The queue is empty"),
        ("Use flag --force", "Use flag --no-force"),
        ("Use version v1.2", "Use version v1.3"),
        ("Uploads won't be kept", "Uploads will be kept"),
        ("The import job is slow", "The important job is slow"),
        ("The node fails on boot", "The nodes fail on boot"),
        ("The news server is up", "The new server is up"),
        ("Just admins can write", "Admins can write"),
        ("Edit the .env file", "Edit the env file"),
        ("It holds <5 users", "It holds >5 users"),
        ("Alice meets Williams", "Alice meets William"),
    ],
)
def test_another_number_name_negation_or_order_is_another_statement(one: str, other: str) -> None:
    assert statement(one) != statement(other)


@given(st.text(max_size=60))
def test_any_text_states_the_same_as_itself_in_other_spacing(text: str) -> None:
    assert statement(text) == statement("  " + text + " ")


def test_statements_that_say_the_same_become_one_with_their_evidence(brain: Engram, alice: AgentHandle) -> None:
    one, other = stated(alice, "The deploys happen at midnight", "Deploys occur at midnight.")
    stated(alice, "Deploys occur at midnight.")
    (change,) = brain.upkeep.consolidate(["alice"])
    assert (change.how, change.sources) == ("merge", (one, other))
    made = alice.get(str(change.id))
    assert made is not None
    assert made.provenance.sources == (one, other)
    assert made.evidence == 3
    assert MARK in made.tags
    assert [hit.id for hit in alice.recall("when do deploys happen?")] == [made.id]
    for id in (one, other):
        source = alice.get(id)
        assert source is not None
        assert source.valid_until is not None
    assert {m.id for m in alice.list(as_of=START + timedelta(seconds=60))} == {made.id}


def test_what_differs_in_context_content_or_owner_stays_apart(brain: Engram, alice: AgentHandle) -> None:
    stated(alice, "The port is open", context="staging")
    stated(alice, "Port is open", context="production")
    stated(alice, "The disk is full", content={"domain": "ops"})
    stated(alice, "Disk is full", content={"domain": "sales"})
    stated(alice, "The gate is green")
    stated(brain.agent("bob"), "Gate is green")
    assert brain.upkeep.consolidate(brain.agents()) == []


def test_running_it_again_makes_nothing_new_and_more_of_the_same_is_more_evidence(
    brain: Engram, alice: AgentHandle
) -> None:
    stated(alice, "The deploys happen at midnight", "Deploys occur at midnight.")
    (change,) = brain.upkeep.consolidate(["alice"])
    before = [memory.model_dump() for memory in alice.list()]
    assert brain.upkeep.consolidate(["alice"]) == []
    assert [memory.model_dump() for memory in alice.list()] == before
    (late,) = stated(alice, "The deploys really happen at midnight!")
    (more,) = brain.upkeep.consolidate(["alice"])
    assert (more.id, more.sources) == (change.id, (late,))
    assert getattr(alice.get(str(change.id)), "evidence", 0) == 3
    assert brain.upkeep.consolidate(["alice"]) == []


def test_a_dry_run_changes_nothing(brain: Engram, alice: AgentHandle) -> None:
    stated(alice, "The deploys happen at midnight", "Deploys occur at midnight.")
    before = [memory.model_dump() for memory in alice.list()]
    (change,) = brain.upkeep.consolidate(["alice"], dry_run=True)
    assert change.id is None
    assert [memory.model_dump() for memory in alice.list()] == before


def test_what_was_made_can_be_taken_back_and_is_not_made_again(brain: Engram, alice: AgentHandle) -> None:
    ids = stated(alice, "The deploys happen at midnight", "Deploys occur at midnight.")
    (change,) = brain.upkeep.consolidate(["alice"])
    late = stated(alice, "The deploys really happen at midnight!")
    brain.upkeep.consolidate(["alice"])
    back = brain.upkeep.undo("alice", str(change.id))
    assert set(back.sources) == {*ids, *late}
    assert alice.get(str(change.id)) is None
    assert {hit.id for hit in alice.recall("when do deploys happen?")} == {*ids, *late}
    assert {getattr(alice.get(id), "valid_until", None) for id in ids} == {FOREVER}
    assert brain.upkeep.consolidate(["alice"]) == []
    with pytest.raises(NotFound, match="no result of a consolidation"):
        brain.upkeep.undo("alice", str(change.id))
    with pytest.raises(NotFound, match="no result of a consolidation"):
        brain.upkeep.undo("alice", ids[0])


@pytest.mark.parametrize("method", ["append", "annotate"])
def test_stopped_anywhere_nothing_is_lost_and_the_next_run_finishes(
    brain: Engram, alice: AgentHandle, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = stated(alice, "The deploys happen at midnight", "Deploys occur at midnight.")

    def killed(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(brain.store, method, killed)
        with pytest.raises(KeyboardInterrupt):
            brain.upkeep.consolidate(["alice"])
    assert "The deploys happen at midnight" in found(alice, "when do deploys happen?")
    assert all(alice.get(id) is not None for id in ids)
    (change,) = brain.upkeep.consolidate(["alice"])
    made = alice.get(str(change.id))
    assert made is not None
    assert made.evidence == 2
    assert len(alice.recall("when do deploys happen?")) == 1
    assert brain.upkeep.consolidate(["alice"]) == []
    assert set(brain.upkeep.undo("alice", made.id).sources) == set(ids)
    assert len(alice.recall("when do deploys happen?")) == 2


def test_what_was_seen_on_three_days_becomes_a_fact_that_names_them(brain: Engram, alice: AgentHandle) -> None:
    ids = observed(alice, "The nightly backup fails on node seven", 3)
    (change,) = brain.upkeep.consolidate(["alice"])
    assert (change.how, change.sources) == ("fact", tuple(ids))
    made = alice.get(str(change.id))
    assert made is not None
    assert made.kind == "knowledge"
    assert made.provenance.sources == tuple(ids)
    assert made.evidence == 3
    assert all(getattr(alice.get(id), "valid_until", "?") is None for id in ids)
    assert brain.upkeep.consolidate(["alice"]) == []
    alice.remember("Nightly backup fails on node seven")
    (more,) = brain.upkeep.consolidate(["alice"])
    assert more.id == change.id
    assert getattr(alice.get(made.id), "evidence", 0) == 4
    brain.upkeep.undo("alice", made.id)
    assert brain.upkeep.consolidate(["alice"]) == []


def test_no_fact_is_made_of_moments_questions_echoes_or_what_is_known(brain: Engram, alice: AgentHandle) -> None:
    observed(alice, "Today, the server is slow", 4)
    observed(alice, "Is the server slow at night?", 4)
    observed(alice, "all good", 4)
    observed(alice, "The printer jams on thick paper", 2)
    for _ in range(4):
        alice.remember("The cellar smells of old paint")
    observed(alice, "Gold is heavier than lead", 4)
    stated(alice, "Gold is heavier than lead.")
    alice.remember("Cats sleep on the warm router", at=START - timedelta(days=9))
    alice.recall("where do cats sleep?")
    for day in range(4):
        alice.remember("Cats sleep on the warm router", at=START - timedelta(days=day))
    assert [each for each in brain.upkeep.consolidate(["alice"]) if each.how == "fact"] == []


def test_a_topic_gets_a_summary_in_its_own_words_that_names_its_sources(brain: Engram, alice: AgentHandle) -> None:
    about = [f"The Lisbon migration moved table {name} to the new cluster" for name in "abcdef"]
    other = ["Lunch was soup", "Frank plays chess", "A bus was late", "Paint dries slowly", "Owls hunt at night"]
    ids = [str(receipt.id) for receipt in alice.remember(about)]
    alice.remember(other)
    (change,) = brain.upkeep.consolidate(["alice"])
    assert change.how == "summary"
    assert set(change.sources) == set(ids)
    made = alice.get(str(change.id))
    assert made is not None
    assert made.kind == "reflection"
    assert set(made.text.splitlines()) <= set(about)
    assert brain.upkeep.consolidate(["alice"]) == []
    brain.upkeep.undo("alice", made.id)
    assert brain.upkeep.consolidate(["alice"]) == []
    alice.remember([f"The Lisbon migration moved table {name} to the new cluster" for name in "ghijk"])
    assert len(brain.upkeep.consolidate(["alice"])) == 1


SAID = st.builds(
    "{} {} {}{}".format,
    st.sampled_from(["The gate", "Gate", "The gates", "Port 7", "Port 8"]),
    st.sampled_from(["is", "isn't", "is not", "was"]),
    st.sampled_from(["open", "closed"]),
    st.sampled_from(["", ".", "!"]),
)


@given(st.lists(SAID, min_size=1, max_size=8))
def test_consolidating_and_taking_all_back_changes_nothing_that_is_believed(texts: list[str]) -> None:
    with engram.open(":memory:", embedder="hashing", sources=Clock()) as brain:
        alice = brain.agent("alice")
        stated(alice, *texts)

        def believed() -> dict[str, int]:
            return {memory.id: memory.evidence for memory in alice.list(as_of=FOREVER - timedelta(days=1))}

        before = believed()
        made = brain.upkeep.consolidate(["alice"])
        assert {statement(memory.text) for memory in alice.list()} == {statement(text) for text in texts}
        assert sum(believed().values()) == sum(before.values()) == len(texts)
        assert len(believed()) == len({statement(text) for text in texts})
        assert brain.upkeep.consolidate(["alice"]) == []
        for change in made:
            brain.upkeep.undo("alice", str(change.id))
        assert believed() == before


def pairs(clusters: list[list[str]]) -> set[frozenset[str]]:
    return {frozenset(pair) for cluster in clusters for pair in combinations(cluster, 2)}


@pytest.mark.parametrize("labelled", [BUILT_BY, JUDGED_BY], ids=["built by", "judged by"])
@pytest.mark.parametrize("embedder", ["hashing", "none"])
def test_observations_of_one_topic_are_summed_up_together_and_others_are_left_alone(
    path: Path, labelled: dict[str, list[str]], embedder: str
) -> None:
    told = [text for texts in labelled.values() for text in texts]
    Random(1).shuffle(told)
    with engram.open(path, embedder=embedder, durable=False, sources=Clock()) as brain:
        alice = brain.agent("alice")
        texts = {str(receipt.id): text for receipt, text in zip(alice.remember(told), told, strict=True)}
        made = [each for each in brain.upkeep.consolidate(["alice"]) if each.how == "summary"]
    found = pairs([[texts[id] for id in each.sources] for each in made])
    wanted = pairs([own for topic, own in labelled.items() if topic])
    assert len(found & wanted) >= 0.95 * len(found), "precision"
    assert len(found & wanted) >= 0.90 * len(wanted), "recall"


@given(st.lists(st.text("abcde ", max_size=12), max_size=30), st.sets(st.integers(0, 29)))
def test_a_text_is_of_one_topic_at_most_and_what_was_used_of_none(texts: list[str], used: set[int]) -> None:
    found = topics(texts, used)
    numbers = [number for cluster in found for number in cluster]
    assert len(numbers) == len(set(numbers))
    assert not used & set(numbers)
    assert all(len(cluster) >= consolidation.MIN_CLUSTER and cluster == sorted(cluster) for cluster in found)


def test_secrets_are_redacted_in_what_is_made(brain: Engram, alice: AgentHandle) -> None:
    stated(alice, "The password=hunter2hunter2 opens the door", "password=hunter2hunter2 opens the door")
    brain.upkeep.consolidate(["alice"])
    assert all("hunter2" not in memory.text for memory in alice.list())


def test_a_store_without_events_says_so(brain: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(brain, "store", object())
        with pytest.raises(Unsupported):
            brain.upkeep.consolidate(["alice"])


def test_the_past_is_read_from_events() -> None:
    assert consolidation.history_of([]) == consolidation.ConsolidationHistory()


AT_ONCE = ForgettingLimits(below=0.99, older_than=timedelta(0))


def test_forgetting_and_restoring_what_was_made_neither_counts_twice_nor_loses_a_source(
    brain: Engram, alice: AgentHandle, tmp_path: Path
) -> None:
    observed(alice, "The nightly build takes forty minutes", 5)
    stated(alice, "The deploys happen at midnight", "Deploys occur at midnight.")
    made = {each.how: str(each.id) for each in brain.upkeep.consolidate(["alice"])}
    archive = tmp_path / "gone.gz"
    gone = [each.id for each in brain.upkeep.forget(["alice"], archive, AT_ONCE).gone]
    assert made["fact"] in gone
    assert made["merge"] in gone
    assert alice.list(kinds="knowledge") == [], "a merge takes what it has ended along"

    assert brain.upkeep.restore(archive) == len(gone)
    assert brain.upkeep.consolidate(["alice"]) == []
    fact, merge = alice.get(made["fact"]), alice.get(made["merge"])
    assert fact is not None
    assert merge is not None
    assert (fact.evidence, merge.evidence) == (5, 2)

    assert len(brain.upkeep.undo("alice", made["fact"]).sources) == 5
    assert len(brain.upkeep.undo("alice", made["merge"]).sources) == 2
    assert {"The deploys happen at midnight", "Deploys occur at midnight."} <= set(found(alice, "when do deploys"))


def test_what_was_made_again_meanwhile_is_not_restored_beside_it(
    brain: Engram, alice: AgentHandle, tmp_path: Path
) -> None:
    observed(alice, "The nightly build takes forty minutes", 4)
    brain.upkeep.consolidate(["alice"])
    brain.upkeep.forget(["alice"], tmp_path / "gone.gz", AT_ONCE)
    (again,) = brain.upkeep.consolidate(["alice"])
    brain.upkeep.restore(tmp_path / "gone.gz")
    assert [(memory.id, memory.evidence) for memory in alice.list(kinds="knowledge")] == [(again.id, 4)]


def test_a_merge_without_events_is_taken_back_by_the_sources_that_it_names(
    brain: Engram, alice: AgentHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated(alice, "The deploys happen at midnight", "Deploys occur at midnight.")
    (made,) = brain.upkeep.consolidate(["alice"])
    monkeypatch.setattr(brain.store, "events_of", lambda *_: [])
    assert set(brain.upkeep.undo("alice", str(made.id)).sources) == set(made.sources)
    assert len(alice.list(kinds="knowledge")) == 2


def test_a_merge_whose_sources_are_gone_is_not_taken_back(brain: Engram, alice: AgentHandle) -> None:
    stated(alice, "The deploys happen at midnight", "Deploys occur at midnight.")
    (made,) = brain.upkeep.consolidate(["alice"])
    brain.store.forget(Scope("alice"), made.sources)
    with pytest.raises(Conflict, match="all sources of"):
        brain.upkeep.undo("alice", str(made.id))
    assert alice.get(str(made.id)) is not None


@pytest.mark.parametrize("origin", ["tool", "imported"])
def test_what_is_made_is_no_more_the_agents_own_word_than_its_sources(
    brain: Engram, alice: AgentHandle, origin: str
) -> None:
    stated(alice, "The deploys happen at midnight", "Deploys occur at midnight", origin=origin)
    for day in range(3):
        alice.remember("The nightly backup fails on node seven", at=START - timedelta(days=day), origin=origin)
    about = [f"The Lisbon migration moved table {name} to the new cluster" for name in "abcdef"]
    alice.remember([*about[:5]])
    alice.remember(about[5], origin=origin)
    made = [alice.get(str(change.id)) for change in brain.upkeep.consolidate(["alice"])]
    assert [memory.kind for memory in made if memory] == ["knowledge", "knowledge", "reflection"]
    trust = 0.5 if origin == "tool" else 0.3
    assert [(memory.provenance.origin, memory.trust) for memory in made if memory] == [(origin, trust)] * 3


def test_a_statement_that_the_agent_made_itself_stays_its_own_when_others_say_the_same(
    brain: Engram, alice: AgentHandle
) -> None:
    stated(alice, "The deploys happen at midnight", origin="tool")
    stated(alice, "Deploys occur at midnight")
    (change,) = brain.upkeep.consolidate(["alice"])
    made = alice.get(str(change.id))
    assert made is not None
    assert (made.text, made.provenance.origin, made.trust) == ("Deploys occur at midnight", "self", 1.0)
    assert made.evidence == 2
