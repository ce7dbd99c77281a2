"""Contexts with the same words are one group, whatever their numbers, names and typing errors."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.situations.wordings import WordGroups, word_stems

LATE, BROKEN = "order {} is late at the customer {}", "the parcel of {1} arrived with a broken lamp"


def test_numbers_are_no_words() -> None:
    assert word_stems("Order 48213 is LATE at 12:30.") == {"order", "is", "late", "at"}
    assert word_stems("429 500") == frozenset()


def test_numbers_names_and_typing_errors_make_no_other_group() -> None:
    known = WordGroups()
    for number, name in enumerate(["Kim", "Noor", "Sven", "Ines", "Hiro"]):
        known.add(LATE.format(number, name))
        known.add(BROKEN.format(number, name))
    late, broken = known.find(LATE.format(77, "Mona")), known.find(BROKEN.format(77, "Mona"))
    assert late is not None
    assert broken not in {None, late}
    assert known.find("order 99 is lte at the customer 5") == late


def test_other_forms_of_a_word_are_the_same_word() -> None:
    known = WordGroups()
    group = known.add("the payment gateway answers too late")
    assert known.find("the payment gateways answered too late") == group


def test_other_words_are_another_group_or_none() -> None:
    known = WordGroups()
    first = known.add(LATE.format(1, "Kim"))
    assert known.find("bake a chocolate cake") is None
    assert known.add("bake a chocolate cake") not in {None, first}
    assert known.add("42") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("start the production database", "stop the production database"),
        ("tests pass on main", "tests fail on main"),
        ("scale the cluster up", "scale the cluster down"),
        ("deploy to staging", "deploy to production"),
        ("customer asks for a refund", "customer asks for a new feature"),
        ("pip install hangs in CI", "npm install hangs in CI"),
        ("api-auth-timeout", "timeout"),
    ],
)
def test_one_telling_word_in_the_place_of_another_makes_another_group(one: str, other: str) -> None:
    known = WordGroups()
    known.add(one)
    assert known.find(other) is None


def test_a_context_that_was_split_off_is_found_by_its_own_words() -> None:
    known = WordGroups()
    first = known.add("release the shop to Berlin")
    assert known.add("release the shop to Rome") == first
    own = known.split("release the shop to Rome at night")
    assert known.find("release the shop to Rome at night") == own != first


@given(st.lists(st.text("abc 1", max_size=12), max_size=20), st.text("abc 1", max_size=12))
def test_what_is_loaded_finds_the_same(contexts: list[str], asked: str) -> None:
    known = WordGroups()
    for context in contexts:
        known.add(context)
    loaded = WordGroups.load(json.loads(json.dumps(known.dump())))
    assert loaded.dump() == known.dump()
    assert loaded.find(asked) == known.find(asked)
    assert loaded.add(asked) == known.add(asked)


def test_a_place_in_which_anything_may_stand_is_learned_and_only_that_place() -> None:
    known = WordGroups()
    numbers = [known.add(f"release of service {name}") for name in ("billing", "search", "checkout", "login")]
    assert len({*numbers}) == 4
    [others] = known.variants(3)
    assert sorted([3, *others]) == numbers
    into = known.join([3, *others])
    loaded = WordGroups.load(json.loads(json.dumps(known.dump())))
    for each in (known, loaded):
        assert each.find("release of service payments") == each.find("release of service search") == into
        assert each.find("rollback of service payments") is None
        assert each.find("rollback of service search") is None
