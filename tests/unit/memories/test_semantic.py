"""Facts are never overwritten: newer ones end older ones, and a time can be asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.clock import Sources
from engram.engine import AgentHandle
from engram.errors import InvalidInput, NotFound
from engram.memories.facts import timeline
from engram.memories.facts.predicates import FUNCTIONAL, canonical, sentence
from engram.memories.semantic import SemanticMemory
from engram.model import KnowledgeContent
from engram.model.fact import Fact, Statement

START = datetime(2020, 1, 1, tzinfo=UTC)
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class Clock(Sources):
    """A clock that moves on by a second each time it is read."""

    def __init__(self) -> None:
        super().__init__()
        self._now = datetime(2026, 6, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


def day(n: int) -> datetime:
    return START + timedelta(days=n)


@pytest.fixture
def alice() -> Iterator[AgentHandle]:
    with engram.open(":memory:", embedder="hashing") as brain:
        yield brain.agent("alice")


@pytest.fixture
def known(alice: AgentHandle) -> SemanticMemory:
    return SemanticMemory(alice)


def test_a_fact_is_a_memory_of_knowledge_with_its_triple(alice: AgentHandle, known: SemanticMemory) -> None:
    learned = known.learn("Staging", "runs on", "Ubuntu", source="runbook", confidence=0.8)
    assert learned.status == "stored"
    assert learned.fact is not None
    memory = alice.get(learned.fact.id)
    assert memory is not None
    assert memory.text == "Staging runs on Ubuntu"
    assert isinstance(memory.content, KnowledgeContent)
    assert (memory.content.subject, memory.content.predicate, memory.content.object) == ("Staging", "runs on", "Ubuntu")
    assert (learned.fact.sources, learned.fact.confidence, memory.provenance.sources) == (
        ("runbook",),
        0.8,
        ("runbook",),
    )


def test_a_newer_value_supersedes_and_the_old_one_stays_to_be_asked_for(
    alice: AgentHandle, known: SemanticMemory
) -> None:
    known.learn("Alice", "lives in", "Paris", valid_from=day(0))
    learned = known.learn("alice", "lives_in", "London", valid_from=day(10))
    assert [(fact.object, fact.valid_until) for fact in learned.superseded] == [("Paris", day(10))]
    assert [fact.object for fact in known.facts("Alice", "lives in")] == ["London"]
    past = known.ask("Alice", "lives in", as_of=day(9))
    assert past is not None
    assert past.object == "Paris"
    assert known.ask("Alice", "lives in", as_of=day(-1)) is None
    assert [fact.object for fact in known.history("Alice")] == ["Paris", "London"]
    assert known.contradictions() == []
    assert [hit.memory.text for hit in alice.recall("where does Alice live")] == ["Alice lives in London"]


def test_what_is_learned_late_takes_its_place_in_time(known: SemanticMemory) -> None:
    for n, city in ((20, "Oslo"), (0, "Paris"), (10, "Rome")):
        known.learn("Alice", "lives in", city, valid_from=day(n))
    held = [(fact.object, fact.valid_from, fact.valid_until) for fact in known.history("Alice")]
    assert held == [("Paris", day(0), day(10)), ("Rome", day(10), day(20)), ("Oslo", day(20), None)]


def test_several_values_stand_beside_each_other(known: SemanticMemory) -> None:
    known.learn("Alice", "likes", "tea")
    assert known.learn("Alice", "likes", "coffee").superseded == ()
    assert [fact.object for fact in known.facts("Alice", "likes")] == ["tea", "coffee"]
    assert known.contradictions() == []


def test_replaces_decides_where_the_table_would_not(known: SemanticMemory) -> None:
    known.learn("Alice", "uses", "vim", valid_from=day(0))
    learned = known.learn("Alice", "uses", "emacs", valid_from=day(1), replaces=True)
    assert [fact.object for fact in learned.superseded] == ["vim"]
    assert [fact.object for fact in known.facts("Alice", "uses")] == ["emacs"]
    known.learn("Alice", "lives in", "Paris", valid_from=day(0))
    beside = known.learn("Alice", "lives in", "Rome", valid_from=day(1), replaces=False)
    assert [fact.object for fact in beside.contradicts] == ["Paris"]
    assert [fact.object for fact in known.facts("Alice", "lives in")] == ["Rome"]


def test_the_table_of_predicates_can_be_extended(alice: AgentHandle) -> None:
    known = SemanticMemory(alice, functional={"drinks": True, "lives_in": False})
    known.learn("Alice", "drinks", "tea", valid_from=day(0))
    known.learn("Alice", "drinks", "water", valid_from=day(1))
    assert [fact.object for fact in known.facts("Alice", "drinks")] == ["water"]
    known.learn("Alice", "lives in", "Paris", valid_from=day(0))
    known.learn("Alice", "lives in", "Rome", valid_from=day(1))
    assert len(known.facts("Alice", "lives in")) == 2


def test_learning_a_fact_twice_is_evidence(known: SemanticMemory) -> None:
    first = known.learn("The servers", "run on", "Debian")
    again = known.learn("server", "runs on", "debian")
    assert first.fact is not None
    assert again.fact is not None
    assert (again.status, again.fact.id, again.fact.evidence) == ("merged", first.fact.id, 2)
    assert len(known.history("server")) == 1


def test_what_comes_back_is_a_new_fact(alice: AgentHandle, known: SemanticMemory) -> None:
    for n, city in enumerate(("Paris", "Rome", "Paris")):
        known.learn("Alice Smith", "lives in", city, valid_from=day(n))
        alice.recall("where does Alice Smith live?", as_of=day(n))
    assert [(fact.object, fact.valid_until) for fact in known.history("Alice Smith")] == [
        ("Paris", day(1)),
        ("Rome", day(2)),
        ("Paris", None),
    ]
    assert known.history("Alice Smith")[-1].text == "Alice Smith lives in Paris (since 2020-01-03)"


def test_an_earlier_beginning_of_a_known_fact_is_kept(known: SemanticMemory) -> None:
    known.learn("Alice", "lives in", "Paris", valid_from=day(10))
    known.learn("Alice", "lives in", "Paris", valid_from=day(5))
    assert [len(known.facts("Alice", as_of=day(n))) for n in (4, 7, 12)] == [0, 1, 1]


def test_an_end_that_is_told_later_ends_the_fact(known: SemanticMemory) -> None:
    known.learn("Alice", "likes", "tea", valid_from=day(0))
    known.learn("Alice", "likes", "tea", valid_from=day(1), valid_until=day(5))
    assert known.facts("Alice") == []
    assert len(known.facts("Alice", as_of=day(4))) == 1


def test_a_text_that_was_recalled_can_still_become_a_fact(alice: AgentHandle, known: SemanticMemory) -> None:
    alice.remember("Zed uses an old editor")
    alice.recall("Zed uses an old editor")
    assert [fact.object for fact in known.tell("Zed uses an old editor")] == ["an old editor"]
    assert [fact.object for fact in known.facts("Zed", "uses")] == ["an old editor"]


def test_two_values_at_the_same_time_are_a_contradiction(known: SemanticMemory) -> None:
    known.learn("Alice", "lives in", "Paris", valid_from=day(0))
    learned = known.learn("Alice", "lives in", "Rome", valid_from=day(0))
    assert [fact.object for fact in learned.contradicts] == ["Paris"]
    (found,) = known.contradictions()
    assert (found.reason, found.since, found.until) == ("two values", day(0), None)
    assert [fact.object for fact in found.facts] == ["Paris", "Rome"]
    assert [fact.object for fact in known.facts("Alice", "lives in")] == ["Rome"]
    settled = known.learn("Alice", "lives in", "Paris", valid_from=day(3))
    assert [fact.object for fact in settled.superseded] == ["Rome"]
    assert known.contradictions(as_of=day(4)) == []
    assert len(known.contradictions(as_of=day(2))) == 1


def test_a_denial_contradicts_what_has_several_values(known: SemanticMemory) -> None:
    known.learn("The build", "is", "green", valid_from=day(0))
    learned = known.learn("build", "is not", "green", valid_from=day(1))
    assert learned.fact is not None
    assert (learned.fact.negated, learned.fact.text) == (True, "The build is not green")
    assert [found.reason for found in known.contradictions("build")] == ["denied"]
    assert known.ask("build", "is") is None
    assert len(known.facts("build", denials=True)) == 2


def test_a_denial_ends_what_has_one_value(known: SemanticMemory) -> None:
    known.learn("Alice", "lives in", "Paris", valid_from=day(0))
    learned = known.learn("Alice", "does not live in", "Paris", valid_from=day(5))
    assert [fact.valid_until for fact in learned.superseded] == [day(5)]
    assert known.ask("Alice", "lives in") is None
    assert [fact.object for fact in known.facts("Alice", "does not live in")] == ["Paris"]
    known.learn("Alice", "lives in", "Paris", valid_from=day(9))
    assert [fact.negated for fact in known.facts("Alice", denials=True)] == [False]


def test_tell_learns_what_a_text_states(known: SemanticMemory) -> None:
    facts = known.tell(
        "Alice works at Acme since March 2024. Does Bob work at Acme? If Carl works at Acme, fine. I like tea.",
        at="2026-05-01",
        source="interview",
        speaker="Eve",
    )
    assert [fact.text for fact in facts] == ["Alice works at Acme", "Eve likes tea"]
    assert [fact.valid_from.date().isoformat() for fact in facts] == ["2024-03-01", "2026-05-01"]
    assert facts[0].sources == ("interview",)
    known.tell("Alice left Acme in June 2025.")
    assert known.ask("Alice", "works at") is None
    assert known.ask("Alice", "works at", as_of="2025-01-01") is not None


def test_tell_asks_extractors_besides_or_instead(alice: AgentHandle) -> None:
    def sky(text: str, now: datetime) -> Iterable[Statement]:
        return [Statement(subject="sky", predicate="colour", object="blue")]

    both = SemanticMemory(alice, extractors=[sky]).tell("Bob uses Go.")
    assert [fact.text for fact in both] == ["Bob uses Go", "sky's colour is blue"]
    assert [fact.subject for fact in SemanticMemory(alice).tell("Bob uses Go.", extractor=sky)] == ["sky"]


def test_a_concept_knows_its_facts_and_neighbours(known: SemanticMemory) -> None:
    known.tell("Alice works on Billing. Billing uses PostgreSQL. Billing does not use Java.")
    known.relate("Ledger", "depends on", "billing")
    concept = known.concept("the billing")
    assert concept is not None
    assert concept.name == "Billing"
    assert [fact.text for fact in concept.facts] == ["Billing uses PostgreSQL", "Billing does not use Java"]
    assert [fact.subject for fact in concept.mentions] == ["Alice", "Ledger"]
    assert set(concept.related) == {"Alice", "Ledger", "PostgreSQL"}
    assert known.concept("nobody") is None
    assert known.neighbours("Billing", "use") == ["PostgreSQL"]
    assert [path.names for path in known.paths("Alice", "PostgreSQL")] == [("Alice", "Billing", "PostgreSQL")]
    assert len(known.subgraph("Alice", 2)) == len(known.edges()) == 3
    assert known.related("Alice", k=1) == ["Billing"]


def test_recall_is_widened_by_what_is_related_and_says_so(alice: AgentHandle, known: SemanticMemory) -> None:
    known.tell("Alice works on Billing. Billing uses PostgreSQL 15.")
    alice.remember([f"Meeting {n} of the team was moved to room {n}" for n in range(20)])
    query = "which storage does Alice need?"
    assert known.expand(query) == ["Billing", "PostgreSQL 15"]
    hits = {str(hit.memory.text): hit for hit in known.recall(query, 3)}
    assert hits["Billing uses PostgreSQL 15"].why["expanded"] == "Billing, PostgreSQL 15"
    assert [hit.score for hit in hits.values()] == sorted((hit.score for hit in hits.values()), reverse=True)
    assert known.expand("what about lunch?") == []
    assert all("expanded" not in hit.why for hit in known.recall("what about lunch?"))


def test_every_recall_can_be_widened_and_what_that_finds_can_be_credited(
    alice: AgentHandle, known: SemanticMemory
) -> None:
    known.tell("Alice works on Billing. Billing uses PostgreSQL 15.")
    alice.remember([f"Meeting {n} of the team was moved to room {n}" for n in range(20)])
    query = "which storage does Alice need?"
    assert all("expanded" not in hit.why for hit in alice.recall(query, 3))
    hits = alice.recall(query, 3, expand=True, tags=["fact"])
    (found,) = [hit for hit in hits if hit.memory.text == "Billing uses PostgreSQL 15"]
    assert found.why["expanded"] == "Billing, PostgreSQL 15"
    assert alice.outcome(hits.id, "success", used=[found])
    assert len(alice.recall(query, 1, expand=True)) == 1
    assert alice.recall(query, 3, expand=True, min_score=0.99) == []
    assert "Billing uses PostgreSQL 15" in alice.context(query, 3, expand=True)


def test_a_recall_as_of_a_time_is_widened_by_what_was_so_then(alice: AgentHandle, known: SemanticMemory) -> None:
    known.learn("Alice", "works at", "Globex", valid_from=day(0))
    known.learn("Alice", "works at", "Initech", valid_from=day(2))
    assert known.expand("what about Alice?") == ["Initech"]
    assert known.expand("what about Alice?", as_of=day(1)) == ["Globex"]
    then = alice.recall("what about Alice?", as_of=day(1), expand=True)
    assert {hit.why.get("expanded") for hit in then} <= {None, "Globex"}


def test_forgetting_a_fact_forgets_it_everywhere(alice: AgentHandle, known: SemanticMemory) -> None:
    learned = known.learn("Alice", "uses", "Go")
    assert learned.fact is not None
    alice.forget(learned.fact.id)
    assert known.facts() == known.history("Alice") == []
    assert known.edges() == []


def test_secrets_do_not_reach_the_store_by_any_part(alice: AgentHandle, known: SemanticMemory) -> None:
    learned = known.learn(f"key {SECRET}", "belongs to", f"bot {SECRET}")
    known.tell(f"Alice uses {SECRET}.")
    assert learned.ok
    kept = "".join(memory.model_dump_json() for memory in alice.list()).lower()
    assert SECRET.lower() not in kept
    assert len(known.facts(f"key {SECRET}")) == 1


def test_facts_are_still_known_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as brain:
        known = SemanticMemory(brain.agent("alice"))
        known.learn("Alice", "lives in", "Paris", valid_from=day(0))
        known.learn("Alice", "lives in", "Rome", valid_from=day(1))
        known.learn("Alice", "lives in", "Rome")
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as brain:
        known = SemanticMemory(brain.agent("alice"))
        held = [(fact.object, fact.valid_until, fact.evidence) for fact in known.history("Alice")]
        assert held == [("Paris", day(1), 1), ("Rome", None, 2)]


def test_facts_of_one_agent_are_not_those_of_another(alice: AgentHandle, known: SemanticMemory) -> None:
    known.learn("Alice", "uses", "Go")
    assert SemanticMemory(alice._brain.agent("bob")).facts() == []


def test_names_that_cannot_be_used_are_refused(known: SemanticMemory) -> None:
    for triple in (("", "uses", "Go"), ("Alice", " ", "Go"), ("Alice", "uses", ""), ("A" * 201, "uses", "Go")):
        with pytest.raises(InvalidInput):
            known.learn(*triple)
    with pytest.raises(InvalidInput):
        known.learn("Alice", "uses", "a\x00b")
    with pytest.raises(InvalidInput):
        known.learn("Alice", "uses", "Go", valid_from=day(1), valid_until=day(1))
    with pytest.raises(InvalidInput):
        known.tell("Alice\x00 uses Go.")
    assert known.facts() == []


def test_predicates_have_one_form_and_sentences_read_well() -> None:
    assert {canonical(form) for form in ("uses", "use", "Uses")} == {("uses", False)}
    assert {canonical(form) for form in ("does not use", "doesn't use", "no longer uses")} == {("uses", True)}
    assert canonical("IS_NOT") == ("is", True)
    assert canonical("isn’t based in") == ("is based in", True)
    assert sentence("Alice", "birthday", "3 May") == "Alice's birthday is 3 May"
    assert sentence("Alice", "uses", "Go", negated=True) == "Alice does not use Go"
    assert sentence("Acme", "is based in", "Rome", negated=True) == "Acme is not based in Rome"
    assert FUNCTIONAL["lives in"]
    assert not FUNCTIONAL["likes"]


def told(claims: list[tuple[int, str]]) -> SemanticMemory:
    brain = engram.open(":memory:", embedder="hashing")
    known = SemanticMemory(brain.agent("alice"), sources=Clock())
    for n, city in claims:
        known.learn("Alice", "lives in", city, valid_from=day(n))
    return known


CLAIMS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["Paris", "Rome", "Oslo"])), min_size=1, max_size=8)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True))
def test_superseding_is_a_total_order_in_time_whatever_was_learned_first(starts: list[int]) -> None:
    known = told([(n, f"city {n}") for n in starts])
    history = known.history("Alice", "lives in")
    ordered = sorted(starts)
    assert [fact.object for fact in history] == [f"city {n}" for n in ordered]
    assert [fact.valid_until for fact in history] == [*(day(n) for n in ordered[1:]), None]
    for n in range(-1, 32):
        begun = [start for start in ordered if start <= n]
        held = [fact.object for fact in known.facts("Alice", as_of=day(n))]
        assert held == [f"city {start}" for start in begun[-1:]]


@settings(max_examples=30)
@given(CLAIMS)
def test_no_time_shows_two_values_where_there_is_one(claims: list[tuple[int, str]]) -> None:
    known = told(claims)
    for n in range(-1, 14):
        held = known.facts("Alice", "lives in", as_of=day(n))
        assert len(held) == (0 if n < min(start for start, _ in claims) else 1)
    assert len(known.facts("Alice", "lives in")) == 1


@settings(max_examples=30)
@given(CLAIMS)
def test_telling_everything_again_in_order_adds_evidence_and_no_facts(claims: list[tuple[int, str]]) -> None:
    claims = sorted(dict(claims).items())
    known = told(claims)
    before = known.history("Alice")
    for n, city in claims:
        assert known.learn("Alice", "lives in", city, valid_from=day(n)).status == "merged"
    after = known.history("Alice")
    assert [(fact.id, fact.valid_until) for fact in after] == [(fact.id, fact.valid_until) for fact in before]
    assert sum(fact.evidence for fact in after) == 2 * len(claims)


@given(st.data())
def test_settled_facts_of_one_value_overlap_only_where_they_began_together(data: st.DataObject) -> None:
    functional = timeline.functional_from()
    names = st.sampled_from(["a", "b", "c"])
    drawn = data.draw(st.lists(st.tuples(st.integers(0, 6), names, st.booleans()), max_size=10))
    facts = [
        Fact.model_validate(
            {
                "id": f"{n}",
                "subject": "x",
                "predicate": "lives in",
                "object": name,
                "negated": negated,
                "text": "x",
                "valid_from": day(start),
                "recorded_at": day(100 + n),
            }
        )
        for n, (start, name, negated) in enumerate(drawn)
    ]
    for pair in timeline.contradictions(facts, functional):
        assert pair.facts[0].valid_from == pair.facts[1].valid_from
    assert timeline.with_ends(timeline.with_ends(facts, functional), functional) == timeline.with_ends(
        facts, functional
    )


def test_what_a_wrong_fact_had_ended_holds_again_when_it_is_retracted(
    alice: AgentHandle, known: SemanticMemory
) -> None:
    known.learn("Bob", "lives in", "Paris", valid_from="2024-01-01")
    wrong = known.learn("Bob", "lives in", "Rome", valid_from="2026-01-01").fact
    assert wrong is not None
    (again,) = known.retract(wrong.id)
    assert (again.object, again.valid_until) == ("Paris", None)
    now = known.ask("Bob", "lives in")
    assert now is not None
    assert now.object == "Paris"
    assert alice.get(wrong.id) is None
    assert [hit.memory.text for hit in alice.recall("where does Bob live?")] == [again.text]
    known.learn("Bob", "lives in", "Oslo", valid_from="2026-02-01")
    assert [fact.valid_until is None for fact in known.history("Bob")] == [False, True], "it can be ended again"


def test_a_retracted_fact_gives_back_only_what_it_took(known: SemanticMemory) -> None:
    known.learn("Bob", "lives in", "Bonn", valid_from="2023-01-01", valid_until="2024-01-01")
    paris = known.learn("Bob", "lives in", "Paris", valid_from="2024-01-01").fact
    known.learn("Bob", "lives in", "Rome", valid_from="2026-01-01")
    assert paris is not None
    assert known.retract(paris.id) == [], "it was told when Bonn ended"
    assert [fact.valid_until for fact in known.history("Bob")] == [datetime(2024, 1, 1, tzinfo=UTC), None]


def test_a_retracted_fact_in_the_middle_leaves_no_gap_and_no_overlap(known: SemanticMemory) -> None:
    known.learn("Bob", "lives in", "Bonn", valid_from="2023-01-01")
    paris = known.learn("Bob", "lives in", "Paris", valid_from="2024-01-01").fact
    rome = known.learn("Bob", "lives in", "Rome", valid_from="2026-01-01").fact
    assert paris is not None
    assert rome is not None
    (again,) = known.retract(paris.id)
    assert (again.object, again.valid_until) == ("Bonn", rome.valid_from)
    with pytest.raises(NotFound):
        known.retract(paris.id)


@pytest.mark.parametrize("predicate", ["_", " __ _"])
def test_a_predicate_of_no_words_is_refused_and_nothing_is_kept(
    alice: AgentHandle, known: SemanticMemory, predicate: str
) -> None:
    with pytest.raises(InvalidInput, match="is empty"):
        known.learn("Bob", predicate, "Paris")
    assert alice.list() == []
