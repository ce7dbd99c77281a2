"""Plain sentences give facts; whatever does not plainly state something gives nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidInput, MissingExtra
from engram.memories.facts import extract as module
from engram.memories.facts.extract import extract, installed_extractors, run_extractors, sentences
from engram.model.fact import Statement

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def triples(text: str, speaker: str = "") -> list[tuple[str, ...]]:
    """What a text states, denials with a "not" in front."""
    return [
        (*(["not"] if s.negated else []), s.subject, s.predicate, s.object) for s in extract(text, NOW, speaker=speaker)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Alice lives in Paris.", [("Alice", "lives in", "Paris")]),
        ("Alice is a doctor.", [("Alice", "is", "a doctor")]),
        ("The staging server runs on Ubuntu 22.04.", [("The staging server", "runs on", "Ubuntu 22.04")]),
        ("Staging runs PostgreSQL 15", [("Staging", "runs", "PostgreSQL 15")]),
        ("checkout-service depends on redis.", [("checkout-service", "depends on", "redis")]),
        ("Priya prefers tabs over spaces.", [("Priya", "prefers", "tabs over spaces")]),
        ("Dr. Smith works at Mercy Hospital.", [("Dr. Smith", "works at", "Mercy Hospital")]),
        ("Tim works at a bank.", [("Tim", "works at", "a bank")]),
        ("Tim joined Acme.", [("Tim", "works at", "Acme")]),
        ("Alice lives in Paris, France.", [("Alice", "lives in", "Paris, France")]),
        ("Acme is based in Toronto.", [("Acme", "is based in", "Toronto")]),
        ("The nightly job needs Java 17.", [("The nightly job", "needs", "Java 17")]),
        ("- Redis listens on port 6379.", [("Redis", "listens on", "port 6379")]),
        ("Bob was born in Lyon.", [("Bob", "was born in", "Lyon")]),
        ("Integration tests require Docker.", [("Integration tests", "requires", "Docker")]),
    ],
)
def test_a_simple_sentence_gives_its_fact(text: str, expected: list[tuple[str, ...]]) -> None:
    assert triples(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Alice's birthday is 3 May.", ("Alice", "birthday", "3 May")),
        ("Alice's manager is Bob.", ("Alice", "manager", "Bob")),
        ("Alice's favourite colour is blue.", ("Alice", "favourite colour", "blue")),
        ("The capital of France is Paris.", ("France", "capital", "Paris")),
        ("The port of the web server is 8080.", ("the web server", "port", "8080")),
        ("Node version is 20.", ("Node", "version", "20")),
        ("Alice's laptop is broken.", ("Alice's laptop", "is", "broken")),
    ],
)
def test_a_property_belongs_to_what_has_it(text: str, expected: tuple[str, ...]) -> None:
    assert triples(text) == [expected]


def test_lists_and_joined_clauses_give_several_facts() -> None:
    assert triples("Alice uses Python and Go.") == [("Alice", "uses", "Python"), ("Alice", "uses", "Go")]
    assert triples("Alice and Bob work at Acme.") == [("Alice", "works at", "Acme"), ("Bob", "works at", "Acme")]
    assert triples("Tom hates meetings but likes code review.") == [
        ("Tom", "hates", "meetings"),
        ("Tom", "likes", "code review"),
    ]
    assert triples("Our API uses OAuth2, and the dashboard depends on Grafana.") == [
        ("Our API", "uses", "OAuth2"),
        ("the dashboard", "depends on", "Grafana"),
    ]
    assert triples("Maria speaks Spanish, French and Greek.") == [
        ("Maria", "speaks", "Spanish"),
        ("Maria", "speaks", "French"),
        ("Maria", "speaks", "Greek"),
    ]


def test_reasons_and_purposes_are_not_part_of_the_fact() -> None:
    assert triples("The billing team uses Redis for caching because it is fast.") == [
        ("The billing team", "uses", "Redis")
    ]
    assert triples("Bob lives in Rome, which he loves.") == [("Bob", "lives in", "Rome")]


@pytest.mark.parametrize(
    "text",
    [
        "Bob does not use Java.",
        "Bob doesn't use Java.",
        "Bob doesn’t use Java.",
        "Bob never uses Java.",
        "Bob no longer uses Java.",
        "Bob doesn't use Java anymore.",
        "Bob stopped using Java.",
    ],
)
def test_denials_are_told_apart(text: str) -> None:
    assert triples(text) == [("not", "Bob", "uses", "Java")]


def test_a_state_can_be_denied() -> None:
    assert triples("The build is not green.") == [("not", "The build", "is", "green")]
    assert triples("Alice isn't a lawyer.") == [("not", "Alice", "is", "a lawyer")]
    assert triples("Production is not in eu-west-1.") == [("not", "Production", "is in", "eu-west-1")]
    assert triples("The database has no replicas.") == [("not", "The database", "has", "replicas")]


def test_what_has_ended_replaces_what_was_known() -> None:
    (over,) = extract("Bob no longer uses Java.", NOW)
    (denied,) = extract("Bob does not use Java.", NOW)
    assert (over.replaces, denied.replaces) == (True, None)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("Alice lives in Paris since March 2024.", "2024-03-01", None),
        ("Since 2023, Alice lives in Paris.", "2023-01-01", None),
        ("Alice has lived in Paris since 2021.", "2021-01-01", None),
        ("Alice moved to Paris in May 2022.", "2022-05-01", None),
        ("Alice lived in Paris from 2015 to 2021.", "2015-01-01", "2022-01-01"),
        ("Alice lives in Paris as of June 2026.", "2026-06-01", None),
        ("Alice lives in Paris.", None, None),
    ],
)
def test_times_say_when_a_fact_holds(text: str, since: str | None, until: str | None) -> None:
    (one,) = extract(text, NOW)
    assert (one.subject, one.predicate, one.object) == ("Alice", "lives in", "Paris")
    assert (one.valid_from and f"{one.valid_from:%Y-%m-%d}", one.valid_until and f"{one.valid_until:%Y-%m-%d}") == (
        since,
        until,
    )


@pytest.mark.parametrize(
    "text",
    """Does Alice live in Paris?
Is the server up?
Who uses Java?
Alice uses Java, right?
If Alice lives in Paris, Bob uses the metro.
Unless Bob lives in Rome, the test fails.
Alice would use Go.
Alice might live in Paris.
Maybe the port is 8080.
Suppose the server runs on Windows.
Imagine Alice works at NASA.
I think Bob uses Java.
Bob said Alice uses Java.
Alice asked whether Bob uses Go.
Alice wants to use Go.
Alice will move to Paris.
Alice is going to Paris.
Alice is running late.
Use Redis for caching.
Let's use Rust.
It is raining.
There is a problem.
This is bad.
She lives in Paris.
You use Linux.
I prefer tea.
Alice used Java.
Alice lived in Paris.
Alice uses Java in 2024.
The server was down.
The test runs are slow.
Running tests uses CPU.
Nobody uses COBOL.
Everyone likes pizza.
Most people like tea.
One of the servers is down.
The rest of the team is tired.
Alice has been to Paris.
Alice has to leave.
Alice uses it.
Alice likes to swim.
Sounds like good advice.
Gather documents like invoices.
Last night Tim joined a forum.
Tim left the meeting.
Alice is gonna win.
Alice knows Bob spent ten dollars today.
You'll love the view.
What Alice likes is tea.
When Alice is in Paris she uses a bike.
Alice almost works at NASA.
Alice loves Paris!
x = uses(y); y is z
""".strip().split("\n"),
)
def test_what_is_not_plainly_stated_gives_nothing(text: str) -> None:
    assert triples(text) == []


def test_code_between_fences_states_nothing() -> None:
    assert triples("```\nAlice lives in Paris.\n```\nBob lives in Rome.") == [("Bob", "lives in", "Rome")]


def test_who_speaks_is_meant_by_i_and_my() -> None:
    assert triples("I prefer tea. My dog is called Rex. I'm a pilot.", speaker="Eve") == [
        ("Eve", "prefers", "tea"),
        ("Eve's dog", "is called", "Rex"),
        ("Eve", "is", "a pilot"),
    ]


def test_a_statement_quotes_its_sentence_and_comes_once() -> None:
    found = extract("Alice lives in Paris. Alice lives in Paris.", NOW)
    assert [one.quote for one in found] == ["Alice lives in Paris."]


def test_sentences_keep_abbreviations_and_versions_whole() -> None:
    text = "Dr. Who uses v1.2 of it, e.g. here. Next one! And last"
    assert list(sentences(text)) == ["Dr. Who uses v1.2 of it, e.g. here.", "Next one!", "And last"]


WORDS = st.sampled_from(
    ["Alice", "uses", "is", "not", "and", "the", "'s", "of", ",", ". ", "?", "Since", "2020", "in", "lives"]
)


@given(st.lists(WORDS | st.text(max_size=5), max_size=20).map(" ".join))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for one in extract(text, NOW, speaker="Eve"):
        assert one.subject.strip()
        assert one.predicate.strip()
        assert one.object.strip()


@pytest.mark.parametrize("piece", ["a and ", "Alice's ", "the x of ", ", and ", "is not ", ". ", "(" * 10, "in 2020 "])
def test_long_texts_are_read_in_linear_time(piece: str) -> None:
    begin = time.thread_time()
    extract((piece * (290 // len(piece)) + "\n") * 100, NOW, speaker="Eve")
    extract(piece * (100_000 // len(piece)), NOW)
    assert time.thread_time() - begin < 10


def colours(text: str, now: datetime) -> Iterable[Statement]:
    """An extractor of somebody else."""
    return [Statement(subject="sky", predicate="colour", object="blue", valid_from=now)] if "sky" in text else []


def test_extractors_of_packages_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("colours", f"{__name__}:colours", "engram.extractors")]
    monkeypatch.setattr(module, "entry_points", lambda group: points if group == "engram.extractors" else [])
    assert [one("the sky", NOW) for one in installed_extractors()] == [colours("the sky", NOW)]


def test_a_package_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("broken", "engram_no_such_package:extract", "engram.extractors")]
    monkeypatch.setattr(module, "entry_points", lambda group: points)
    with pytest.raises(MissingExtra, match="broken"):
        installed_extractors()


def test_several_extractors_give_each_statement_once() -> None:
    found = run_extractors("The sky uses light.", NOW, [extract, colours, colours])
    assert [(one.subject, one.predicate) for one in found] == [("The sky", "uses"), ("sky", "colour")]


def test_an_extractor_that_gives_something_else_is_refused() -> None:
    def wrong(text: str, now: datetime) -> Iterable[Statement]:
        return [(text, now)]  # type: ignore[list-item]

    with pytest.raises(InvalidInput, match="statements"):
        run_extractors("x", NOW, [wrong])
