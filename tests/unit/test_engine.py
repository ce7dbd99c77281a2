"""The two sentences of the product, end to end, on a real file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import engram
from engram.clock import Sources
from engram.embed.hashing import HashingEmbedder
from engram.engine import Engram
from engram.errors import Conflict, InvalidInput, ModelError, NotFound, StoreClosed
from engram.learning import events
from engram.model import Clean
from engram.ports import Event, Matrix, Purpose, Query, Scope
from engram.privacy import SecretRedactor
from engram.stores.memory import InMemoryStore
from engram.stores.vectors.exact import ExactVectors


class Broken:
    """An embedder whose model is away, until it is mended."""

    identity, dim = "broken@1", 4
    away = True

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        if self.away:
            raise ModelError("the model is away")
        matrix = np.array([[len(text), 1, 2, 3] for text in texts], dtype=np.float32).reshape(len(texts), 4)
        unit: Matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        return unit


def test_what_is_remembered_is_recalled_after_the_file_was_closed_and_opened(path: Path) -> None:
    with engram.open(path) as brain:
        receipt = brain.agent("alice").remember("Staging runs PostgreSQL 15", tags=["db"])
        assert (receipt.status, receipt.reason) == ("stored", None)
    with engram.open(f"sqlite:///{path}") as brain:
        (hit,) = brain.agent("alice").recall("which database is in staging?")
        assert (hit.id, hit.memory.text, hit.memory.tags) == (receipt.id, "Staging runs PostgreSQL 15", ("db",))
        assert 0 < hit.score <= 1
        assert (hit.why["found_by"], set(hit.why) & {"words", "vector"}) == ("both", set())
        assert 0 < float(hit.why["similarity"]) <= 1


def test_a_batch_keeps_its_order_and_rejects_only_what_cannot_be_kept(brain: Engram) -> None:
    receipts = brain.agent("alice").remember(["one", "", "t\x00wo", engram.Draft("three"), "\ud800", "x" * 10_000_000])
    assert [receipt.status for receipt in receipts] == [
        "stored", "rejected", "rejected", "stored", "rejected", "rejected",
    ]  # fmt: skip
    reasons = [receipt.reason or "" for receipt in receipts]
    assert "empty" in reasons[1]
    assert "NUL" in reasons[2]
    assert "surrogate" in reasons[4]
    assert "10,000,000" in reasons[5]
    assert [memory.text for memory in brain.agent("alice").list()] == ["three", "one"]


def test_an_unknown_field_or_kind_is_an_error_and_stores_nothing(brain: Engram) -> None:
    alice = brain.agent("alice")
    with pytest.raises(InvalidInput, match="observation"):
        alice.remember("x", kind="rumour")
    with pytest.raises(InvalidInput, match="importnace"):
        alice.remember(["x", "y"], importnace=1)
    with pytest.raises(InvalidInput, match="only text and drafts"):
        alice.remember([7])  # type: ignore[list-item]
    assert alice.list() == []


def test_fields_given_with_a_draft_add_to_it(brain: Engram) -> None:
    alice = brain.agent("alice")
    alice.remember([engram.Draft("x", tags=("own",), importance=0.9)], session="s1")
    (memory,) = alice.list()
    assert (memory.tags, memory.importance, memory.session) == (("own",), 0.9, "s1")


def test_events_are_never_merged_and_statements_are(brain: Engram) -> None:
    alice = brain.agent("alice")
    first, second = alice.remember(["The build broke", "The build broke"])
    assert first.id != second.id
    known, again, other, negated = (
        alice.remember(text, kind="knowledge")
        for text in ("Port is 5432", "port  is 5432.", "Port is 5433", "Port is not 5432")
    )
    assert (again.status, again.id) == ("merged", known.id)
    assert len({known.id, other.id, negated.id}) == 3
    memory = alice.get(str(known.id))
    assert memory is not None
    assert (memory.evidence, memory.version) == (2, 2)


def test_a_key_makes_a_write_happen_once(brain: Engram) -> None:
    alice = brain.agent("alice")
    first = alice.remember("deployed", key="deploy-7")
    again = alice.remember("deployed", key="deploy-7")
    assert (again.id, again.status) == (first.id, "stored")
    refused = alice.remember("rolled back", key="deploy-7")
    assert (refused.status, refused.code) == ("rejected", "conflict")
    assert len(alice.list()) == 1
    assert brain.agent("bob").remember("mine", key="deploy-7").status == "stored"


def test_a_memory_is_not_lost_to_a_model_and_upkeep_fills_the_vector_in() -> None:
    embedder, said = Broken(), list[str]()
    brain = Engram(
        InMemoryStore(ExactVectors()),
        embedder=lambda: embedder,
        redactor=SecretRedactor(),
        sources=Sources(),
        say=said.append,
    )
    alice = brain.agent("alice")
    receipt = alice.remember("the cache was cold")
    assert receipt.status == "stored"
    assert "without a vector" in (receipt.reason or "")
    assert receipt.hint is not None
    assert receipt.hint.command == "upkeep reembed"
    (hit,) = alice.recall("cold cache")
    assert (hit.id, hit.why["found_by"]) == (receipt.id, "words")
    assert any("words only" in line for line in said)
    embedder.away = False
    assert brain.upkeep.reembed() == 1
    assert alice.recall("cold cache")[0].why["found_by"] == "both"


def test_a_long_text_is_embedded_in_passages_and_a_short_one_as_it_is(path: Path) -> None:
    with engram.open(path, embedder="hashing") as brain:
        alice = brain.agent("alice")
        report = " ".join(f"Line {n} is about the weather in the mountains." for n in range(200))
        receipts = alice.remember(["Snow is cold", report + " Marmots whistle.", "Rain is wet"], context="the journal")
        counts = [alice.indexes(str(receipt.id))[0].passages for receipt in receipts]
        assert counts[0] == counts[2] == 1
        assert counts[1] > 5
        near = brain.near(Clean("Marmots whistle."))
        best = brain.store.search(Scope("alice"), Query(near=near, limit=9))
        assert (best[0].id, best[0].passage) == (receipts[1].id, counts[1] - 1)
        assert sorted(match.id for match in best) == sorted(str(receipt.id) for receipt in receipts)
    with engram.open(path, embedder="hashing:64") as brain:
        assert brain.upkeep.reembed(drop_old=True) == 3
        assert [brain.agent("alice").indexes(str(receipt.id))[0].passages for receipt in receipts] == counts


def test_a_secret_reaches_neither_the_store_nor_the_file(path: Path) -> None:
    secret = "ghp_" + "aB3dE6gH9j" * 4
    with engram.open(path) as brain:
        alice = brain.agent("alice")
        receipt = alice.remember(f"use {secret}", tags=[secret], metadata={"token": secret}, context=secret)
        assert receipt.redacted
        alice.recall(f"where is {secret}?")
        alice.record_decision(context=f"login with {secret}", action=secret, outcome="success")
        assert alice.suggest(context=f"login with {secret}").actions[0].attempts == 1
    data = b"".join(file.read_bytes() for file in path.parent.glob("team.db*"))
    assert secret.encode() not in data
    assert b"[secret:" in data


def test_another_agents_memory_answers_as_if_it_did_not_exist(brain: Engram) -> None:
    secret = brain.agent("alice").remember("alice keeps this to herself")
    bob = brain.agent("bob")
    assert bob.get(str(secret.id)) is None
    assert bob.recall("alice keeps this to herself") == []
    assert bob.forget(str(secret.id)).forgotten is False
    with pytest.raises(NotFound):
        bob.annotate(str(secret.id), importance=1)
    assert brain.agent("alice").get(str(secret.id)) is not None


def test_a_suggestion_changes_with_the_outcomes(brain: Engram) -> None:
    alice = brain.agent("alice")
    assert alice.suggest(context="api-auth-timeout").abstained
    alice.record_decision(context="api-auth-timeout", action="increase-timeout", outcome="failure")
    assert alice.suggest(context="api-auth-timeout").abstained
    alice.record_decision(context="API-auth-timeout", action="retry-with-backoff", outcome="success")
    suggestion = alice.suggest(context="api-auth-timeout")
    assert suggestion.recommended == "retry-with-backoff"
    assert [record.attempts for record in suggestion.actions] == [1, 1]
    assert len(suggestion.evidence) == 2
    assert brain.agent("bob").suggest(context="api-auth-timeout").abstained


@pytest.mark.parametrize("outcome", ["good", 1.5, -0.1, float("nan"), ""])
def test_an_outcome_is_a_word_or_a_number_from_0_to_1(brain: Engram, outcome: str | float) -> None:
    with pytest.raises(InvalidInput, match="success, failure, partial"):
        brain.agent("alice").record_decision(context="c", action="a", outcome=outcome)
    assert brain.agent("alice").list() == []


def test_filters_are_applied_before_the_best_are_taken(brain: Engram) -> None:
    alice = brain.agent("alice")
    alice.remember([f"the deploy number {n} went well" for n in range(300)])
    alice.remember("the deploy went well at night", kind="reflection", tags=["night", "ops"], session="s9")
    for filters in (
        {"kinds": "reflection"},
        {"kinds": ["reflection", "plan"]},
        {"tags": ["night", "ops"]},
        {"session": "s9"},
    ):
        hits = alice.recall("the deploy went well", k=5, **filters)
        assert [hit.memory.session for hit in hits] == ["s9"], filters


def test_time_limits_are_about_when_it_happened(brain: Engram) -> None:
    alice = brain.agent("alice")
    for day in (1, 2, 3):
        alice.remember(f"note of day {day}", at=datetime(2026, 3, day, tzinfo=UTC))
    alice.remember("naive times are taken as UTC", at=datetime(2026, 3, 4))
    found = alice.recall("note", since="2026-03-02", until="2026-03-03")
    assert [hit.memory.text for hit in found] == ["note of day 2"]
    assert [memory.at.day for memory in alice.list(since="2026-03-02")] == [4, 3, 2]
    with pytest.raises(InvalidInput, match="2026-01-31"):
        alice.list(since="last week")


def test_only_what_is_valid_is_recalled_and_as_of_asks_about_another_time(brain: Engram) -> None:
    alice = brain.agent("alice")
    alice.remember("the host is alpha", at="2026-01-01", valid_until="2026-02-01")
    alice.remember("the host is beta", at="2026-02-01")
    assert [hit.memory.text for hit in alice.recall("which host?")] == ["the host is beta"]
    assert [hit.memory.text for hit in alice.recall("which host?", as_of="2026-01-15")] == ["the host is alpha"]


def test_grouping_keeps_the_best_of_each_session_and_a_budget_limits_the_text(brain: Engram) -> None:
    alice = brain.agent("alice")
    for session in ("s1", "s2", "s3"):
        alice.remember([f"the migration of {session} step {n}" for n in range(20)], session=session)
    hits = alice.recall("migration step", k=3, group_by="session")
    assert {hit.session for hit in hits} == {"s1", "s2", "s3"}
    assert len(alice.recall("migration step", k=50, budget_tokens=14)) == 2
    with pytest.raises(InvalidInput, match="group_by"):
        alice.recall("x", group_by="day")  # type: ignore[arg-type]


def test_recalled_memories_are_counted(path: Path) -> None:
    with engram.open(path) as brain:
        alice = brain.agent("alice")
        id = str(alice.remember("counted").id)
        alice.recall("counted")
        alice.recall("counted")
    with engram.open(path) as brain:
        memory = brain.agent("alice").get(id)
        assert memory is not None
        assert memory.access_count == 2
        assert memory.last_accessed is not None


def test_annotations_carry_a_version_and_a_stale_one_is_refused(brain: Engram) -> None:
    alice = brain.agent("alice")
    id = str(alice.remember("tag me", tags=["a"]).id)
    changed = alice.annotate(id, tags=["b", "b"], importance=1, expected_version=1)
    assert (changed.tags, changed.importance, changed.version, changed.text) == (("b",), 1, 2, "tag me")
    with pytest.raises(Conflict, match="version 2"):
        alice.annotate(id, importance=0, expected_version=1)
    assert [hit.id for hit in alice.recall("b", tags="b")] == [id]
    with pytest.raises(Conflict, match="version 2, not at version 1"):
        alice.forget(id, expected_version=1)
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        alice.annotate(id, importance=7)
    assert alice.forget(id, expected_version=2).forgotten
    with pytest.raises(Conflict, match="gone"):
        alice.forget(id, expected_version=2)


def test_a_forgotten_memory_is_gone_from_every_search(brain: Engram) -> None:
    alice = brain.agent("alice")
    id = str(alice.remember("the unicorn project", tags=["u"], key="k").id)
    receipt = alice.forget(id)
    assert receipt.forgotten
    assert receipt.removed == {"memories": 1, "evidence": 0, "keys": 1, "vectors": 1, "words": 1}
    assert alice.get(id) is None
    assert alice.list() == []
    assert alice.recall("unicorn") == []
    assert alice.forget(id).forgotten is False
    assert alice.remember("the unicorn project", key="k").status == "stored"


@pytest.mark.parametrize("query", ["", "   ", "a\x00b", "\udcff", None])
def test_a_query_that_cannot_be_used_is_a_clear_error(brain: Engram, query: str) -> None:
    with pytest.raises(InvalidInput, match="query"):
        brain.agent("alice").recall(query)


@pytest.mark.parametrize("query", ["???", '"', "a AND NOT b*", "NEAR(x y)", "';--", "words : x", "the of and", "🦄"])
def test_no_query_is_taken_for_search_syntax(brain: Engram, query: str) -> None:
    alice = brain.agent("alice")
    alice.remember("something else")
    assert isinstance(alice.recall(query), list)


@pytest.mark.parametrize("k", [0, -1, 1001, 2.5, True, "5"])
def test_k_is_a_sensible_number(brain: Engram, k: int) -> None:
    with pytest.raises(InvalidInput, match="k must be"):
        brain.agent("alice").recall("x", k=k)


def test_an_agent_needs_a_name(brain: Engram) -> None:
    for name in ("", "  ", "x" * 256, "a\x00", "\ud800"):
        with pytest.raises(InvalidInput, match="agent"):
            brain.agent(name)


def test_agents_are_listed_from_their_first_memory_on(brain: Engram) -> None:
    brain.agent("zoe").list()
    assert brain.agents() == []
    brain.agent("zoe").remember("x")
    brain.agent("bob").remember("x")
    assert brain.agents() == ["bob", "zoe"]


def test_a_closed_memory_says_so(brain: Engram) -> None:
    brain.close()
    brain.close()
    with pytest.raises(StoreClosed, match="open it again"):
        brain.agent("alice").list()


def test_no_lock_is_held_while_a_model_thinks(path: Path) -> None:
    """The embedder itself writes to the same file: with a lock held it would wait for ever."""

    class Writer(Broken):
        away = False

        def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
            with engram.open(path, busy_seconds=1) as other:
                assert other.agent("bob").remember("meanwhile").status == "stored"
            return super().embed(texts, purpose)

    with engram.open(path) as opened:
        brain = Engram(
            opened.store, embedder=Writer, redactor=SecretRedactor(), sources=Sources(), say=lambda line: None
        )
        alice = brain.agent("alice")
        assert alice.remember("slow thought").reason is None
        assert alice.recall("slow thought")
        assert len(brain.agent("bob").list()) >= 2


def test_an_id_that_no_memory_can_have_is_not_found_and_harms_no_other(brain: Engram) -> None:
    alice = brain.agent("alice")
    id = str(alice.remember("still here").id)
    for nasty in (f"{id}\x00x", "\ud800", "", f"{id}%", None, 7):
        assert alice.get(nasty) is None  # type: ignore[arg-type]
        assert alice.forget(nasty).forgotten is False  # type: ignore[arg-type]
        assert alice.indexes(nasty) == ()  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            alice.annotate(nasty, importance=1)  # type: ignore[arg-type]
    assert alice.get(id) is not None


def test_what_was_just_stored_is_recalled_whatever_the_clocks_say(brain: Engram) -> None:
    alice = brain.agent("alice")
    alice.remember("the meeting is planned", at=datetime(2100, 1, 1, tzinfo=UTC))
    assert alice.recall("meeting")
    alice.remember("the new price applies", valid_from="2100-01-01")
    assert [hit.memory.text for hit in alice.recall("price")] == ["the meeting is planned"]


def test_a_statement_that_had_ended_can_be_made_again(brain: Engram) -> None:
    alice = brain.agent("alice")
    first = alice.remember("the port is 5432", kind="knowledge", valid_from="2026-01-01")
    alice.annotate(str(first.id), valid_until="2026-02-01")
    again = alice.remember("the port is 5432", kind="knowledge")
    assert (again.status, again.id == first.id) == ("stored", False)
    assert [hit.id for hit in alice.recall("port")] == [again.id]
    assert alice.remember("the port is 5432", kind="knowledge").id == again.id
    with pytest.raises(InvalidInput, match="valid_until"):
        alice.annotate(str(again.id), valid_until="2020-01-01")


def test_a_statement_can_end_and_be_made_again_in_one_batch(brain: Engram) -> None:
    drafts = [
        engram.Draft("the port is 5432", kind="knowledge", valid_from="2026-01-01", valid_until="2026-02-01"),
        engram.Draft("the port is 5432", kind="knowledge"),
    ]
    receipts = brain.agent("alice").remember(drafts)
    assert [receipt.status for receipt in receipts] == ["stored", "stored"]
    assert [hit.id for hit in brain.agent("alice").recall("port")] == [receipts[1].id]


def test_sessions_and_keys_with_secrets_stay_apart(brain: Engram) -> None:
    alice, one, other = brain.agent("alice"), "ghp_" + "aB3dE6gH9j" * 4, "ghp_" + "kL3mN6pQ9r" * 4
    assert alice.remember("first", key=one, session=one).id != alice.remember("first", key=other, session=other).id
    assert [memory.text for memory in alice.list(session=one)] == ["first"]
    assert alice.remember("first", key=one, session=one).code == "replayed"


@pytest.mark.parametrize(
    "answer",
    [np.zeros((0, 4)), np.full((1, 4), np.nan), np.ones((1, 3)), np.ones((1, 4)), np.zeros((1, 4))],
    ids=["too few", "not a number", "too short", "too long", "no direction"],
)
def test_a_model_that_answers_nonsense_costs_the_vector_and_not_the_memory(answer: Matrix) -> None:
    class Confused(Broken):
        def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
            return answer.astype(np.float32)

    store = InMemoryStore(ExactVectors())
    brain = Engram(store, embedder=Confused, redactor=SecretRedactor(), sources=Sources(), say=lambda line: None)
    alice = brain.agent("alice")
    assert alice.remember("kept").status == "stored"
    assert alice.recall("kept")[0].why["found_by"] == "words"


def test_a_draft_can_be_a_dictionary_and_the_text_a_keyword(brain: Engram) -> None:
    alice = brain.agent("alice")
    alice.remember({"text": "from a dictionary", "tags": ["a"]}, tags=["b"])
    alice.remember(text="by keyword")
    assert [(memory.text, memory.tags) for memory in alice.list()] == [
        ("by keyword", ()),
        ("from a dictionary", ("a", "b")),
    ]
    with pytest.raises(InvalidInput, match="needs a text"):
        alice.remember({"kind": "plan"})


def test_wrong_types_are_clear_errors(brain: Engram) -> None:
    alice = brain.agent("alice")
    id = str(alice.remember("x").id)
    wrong: list[Callable[[], object]] = [
        lambda: alice.remember(None),  # type: ignore[call-overload]
        lambda: alice.record_decision(context="c", action="a", outcome=[]),  # type: ignore[arg-type]
        lambda: alice.record_decision(context=None, action="a", outcome=1),  # type: ignore[arg-type]
        lambda: alice.record_decision(context="c", action="a", outcome=1, content={}),
        lambda: alice.suggest(context="c", actions=[5]),  # type: ignore[list-item]
        lambda: alice.recall("x", kinds=5),  # type: ignore[arg-type]
        lambda: alice.recall("x", min_score="0.5"),  # type: ignore[arg-type]
        lambda: alice.recall("x", min_score=float("nan")),
        lambda: alice.recall("x", budget_tokens=-5),
        lambda: alice.list(offset="1"),  # type: ignore[arg-type]
        lambda: alice.annotate(id, importance="high"),  # type: ignore[arg-type]
        lambda: alice.annotate(id, tags=["t" * 5000]),
        lambda: brain.agent("ghp_" + "aB3dE6gH9j" * 4),
    ]
    for call in wrong:
        with pytest.raises(InvalidInput):
            call()


def test_the_actions_that_are_asked_about_are_redacted_too(brain: Engram) -> None:
    alice, secret = brain.agent("alice"), "ghp_" + "aB3dE6gH9j" * 4
    alice.record_decision(context="login", action=f"use {secret}", outcome="success")
    suggestion = alice.suggest(context="login", actions=[f"use {secret}"])
    assert suggestion.actions[0].attempts == 1
    assert secret not in suggestion.model_dump_json()


class Counting(HashingEmbedder):
    """Counts what it is asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        self.asked += texts
        return super().embed(texts, purpose)


class Watched(InMemoryStore):
    """Counts whose decisions are looked up."""

    looked: Counter[str]

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        if topic == events.topic(Clean("deploy the api")):
            self.looked[scope.agent] += 1
        return super().events_by_topic(scope, topic, limit)


@pytest.mark.parametrize("ask", ["suggest", "predict"])
def test_a_context_is_embedded_once_and_each_lender_is_asked_once(ask: str) -> None:
    embedder, store = Counting(), Watched(ExactVectors(), Sources())
    store.looked = Counter()
    with Engram(
        store, embedder=lambda: embedder, redactor=SecretRedactor(), sources=Sources(), say=lambda _: None
    ) as brain:
        for name in ("alice", "carol", "dave"):
            for _ in range(3):
                brain.agent(name).record_decision(context="deploy the api", action="rolling", outcome="success")
            brain.agent(name).grants.share("bob", everything=True)
        bob = brain.agent("bob")
        bob.record_decision(context="deploy the api", action="rolling", outcome="success")
        bob.suggest(context="cook dinner")  # the first question has the everyday texts embedded, once and for all
        embedder.asked.clear()
        store.looked.clear()
        if ask == "suggest":
            assert {len(record.episodes_for) for record in bob.suggest(context="deploy the api").actions} == {10}
        else:
            assert bob.predict(context="deploy the api", action="rolling").attempts > 1
        assert embedder.asked in ([], ["deploy the api"])
        assert store.looked == {"alice": 1, "bob": 1, "carol": 1, "dave": 1}
