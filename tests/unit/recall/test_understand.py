"""What a query asks: of whom, in what role, about which time, and what is left to look for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model import Clean
from engram.recall.understand import ParsedQuery, parse_query
from engram.text.terms import query_terms

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)  # a Wednesday


def asked(query: str, *speakers: str) -> ParsedQuery:
    return parse_query(Clean(query), NOW, speakers)


@pytest.mark.parametrize(
    ("query", "speakers", "speaker", "text"),
    [
        ("What did Bob eat?", ["Bob", "Ann"], "bob", "What did eat?"),
        ("what did BOB eat?", ["Bob"], "bob", "what did eat?"),
        ("What is Bob's dog called?", ["Bob"], "bob", "What is dog called?"),
        ("What is Bob’s dog called?", ["Bob"], "bob", "What is dog called?"),
        ("What is James' dog called?", ["James"], "james", "What is dog called?"),
        ("The Bobs' dog", ["Bob"], "bob", "The dog"),
        ("What did Bob and Ann eat?", ["Bob", "Ann"], None, "What did and eat?"),
        ("What did Bob tell Bob's dog?", ["Bob"], "bob", "What did tell dog?"),
        ("What did she eat?", ["Bob", "Ann"], None, "What did she eat?"),
        ("What did Bob eat?", [], None, "What did Bob eat?"),
        ("What did Bob eat?", ["", "  "], None, "What did Bob eat?"),
        ("What did Bob eat?", [" Bob "], "bob", "What did eat?"),
        ("What did Bob eat?", ["bob", "Bob", "BOB"], "bob", "What did eat?"),
    ],
)
def test_who_is_asked_about_and_what_is_left(query: str, speakers: list[str], speaker: str | None, text: str) -> None:
    understood = asked(query, *speakers)
    assert (understood.speaker, understood.text) == (speaker, text)
    assert understood.terms == tuple(query_terms(text))


@pytest.mark.parametrize(
    ("query", "speakers", "speaker"),
    [
        ("What did Johnny eat?", ["John"], None),
        ("Where is the bob-cat?", ["Bob"], None),
        ("Where is Anna-Lena?", ["Anna"], None),
        ("Where is Anna-Lena?", ["Anna", "Anna-Lena"], "anna-lena"),
        ("bobsled results", ["Bob"], None),
        ("kabob recipes", ["Bob"], None),
        ("Bobs recipes", ["Bob"], None),
        ("What does John think?", ["John Greene"], "john greene"),
        ("What does Greene think?", ["John Greene"], None),
        ("What does John Greene think?", ["John Greene", "John"], "john greene"),
        ("What does John think?", ["John Greene", "John"], "john"),
        ("What does John Greene think?", ["John Greene", "John Smith"], "john greene"),
        ("What does John think?", ["John Greene", "John Smith"], None),
        ("What does the dog eat?", ["The Boss"], None),
        ("What does the boss eat?", ["The Boss"], "the boss"),
        ("What does Dr. House say?", ["Dr. Watson"], None),
        ("What does Dr. Watson say?", ["Dr. Watson"], "dr. watson"),
        ("Is it so?", ["Al Is"], None),
        ("What did Al say?", ["Al"], "al"),
        ("What did Al say?", ["Al Capone"], None),
        ("Will it rain?", ["Will"], None),
        ("When will it rain?", ["Will"], None),
        ("When did Will arrive?", ["Will"], "will"),
        ("What is @ann's number?", ["@ann"], "@ann"),
        ("Is it c++?", ["c++"], "c++"),
        ("What did AL\u0130 say?", ["Ali"], None),
    ],
)
def test_a_name_counts_where_it_stands_alone(query: str, speakers: list[str], speaker: str | None) -> None:
    assert asked(query, *speakers).speaker == speaker
    assert asked(query, *speakers[::-1]).speaker == speaker


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Что сказал Иван о море?", "Иван"),
        ("Was sagt Jürgen über Käse?", "Jürgen"),
        ("Was sagt Frau Weiß über Käse?", "Weiß"),
        ("Πού πήγε ο Γιώργος;", "Γιώργος"),
        ("小明喜欢什么?", "小明"),
        ("昨日さくらは何を食べた?", "さくら"),
        ("지민이 뭐라고 했어?", "지민"),
        ("ماذا قال أحمد عن البحر؟", "أحمد"),
        ("מה אמר דוד על הים?", "דוד"),
    ],
)
def test_names_are_found_in_every_script(query: str, name: str) -> None:
    understood = asked(query, name, "Bob")
    assert understood.speaker == name.casefold()
    assert name not in understood.text
    assert understood.about(name, None) == 1
    assert understood.about("Bob", None) == -1


@pytest.mark.parametrize("query", ["Bob", "Bob?", "Who is Bob?", "And Bob's?", "What about Bob"])
def test_a_query_that_says_nothing_but_a_name_keeps_it(query: str) -> None:
    understood = asked(query, "Bob")
    assert (understood.speaker, understood.text) == ("bob", query)
    assert "bob" in understood.terms


@pytest.mark.parametrize(
    ("query", "role"),
    [
        ("Where did I park my car?", "user"),
        ("what do we need", "user"),
        ("I'm allergic to what?", "user"),
        ("Who told us?", "user"),
        ("What is the capital of the US?", None),
        ("Which restaurant did you suggest?", None),
        ("The restaurant you suggested", "assistant"),
        ("Remind me of the recipe", "assistant"),
        ("What was in your list?", "assistant"),
        ("In our previous conversation, what did I say?", "assistant"),
        ("Where is the car parked?", None),
        ("the mining town", None),
    ],
)
def test_whose_role_is_asked_about(query: str, role: str | None) -> None:
    assert asked(query).role == role


def test_a_name_says_more_than_a_role() -> None:
    understood = asked("What did I say to Bob?", "Bob")
    assert (understood.speaker, understood.role) == ("bob", None)


@pytest.mark.parametrize(
    ("query", "speaker", "role", "about"),
    [
        ("What did Bob eat?", "Bob", None, 1),
        ("What did Bob eat?", " BOB", None, 1),
        ("What did Bob eat?", "Bobby", None, -1),
        ("What did Bob eat?", None, "user", 0),
        ("What did I eat?", None, "user", 1),
        ("What did I eat?", None, "User", 1),
        ("What did I eat?", None, "assistant", -1),
        ("What did I eat?", "Ann", "user", 1),
        ("What did I eat?", "Ann", None, 0),
        ("What was eaten?", "Bob", "user", 0),
        ("What did Bob and Ann eat?", "Bob", None, 0),
    ],
)
def test_whose_words_speak_for_a_memory(query: str, speaker: str | None, role: str | None, about: float) -> None:
    assert asked(query, "Bob", "Ann").about(speaker, role) == about


@pytest.mark.parametrize(
    ("query", "start", "days"),
    [
        ("What did Bob eat yesterday?", datetime(2026, 3, 17, tzinfo=UTC), 1),
        ("What happened last week?", datetime(2026, 3, 9, tzinfo=UTC), 7),
        ("What happened on 2 May 2025?", datetime(2025, 5, 2, tzinfo=UTC), 1),
    ],
)
def test_times_are_meant_from_now(query: str, start: datetime, days: int) -> None:
    (time,) = asked(query, "Bob").times
    assert (time.start, time.end) == (start, start + timedelta(days=days))


def test_a_query_without_a_time_names_none() -> None:
    assert asked("What did Bob eat?", "Bob").times == ()


@given(st.text(max_size=60), st.lists(st.text(max_size=12), max_size=5))
def test_any_text_is_understood(query: str, speakers: list[str]) -> None:
    understood = asked(query, *speakers)
    assert understood.speaker is None or understood.speaker in {name.strip().casefold() for name in speakers}
    assert len(understood.terms) == len(set(understood.terms))
    assert set(query_terms(query)) >= set(understood.terms) or understood.text != query


@given(st.permutations(["Caroline", "Melanie", "Xu Li"]), st.sampled_from(["dog", "trip to Rome", "new job"]))
def test_what_is_left_does_not_depend_on_the_name(names: list[str], topic: str) -> None:
    first = [asked(f"What did {name} say about the {topic}?", *names) for name in names]
    assert {understood.text for understood in first} == {f"What did say about the {topic}?"}
    assert [understood.speaker for understood in first] == [name.casefold() for name in names]
