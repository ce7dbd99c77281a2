"""Contract tests of expiring stores: subclass `ExpiringStoreContract` and provide `expiring` and `pass_time`."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pydantic import JsonValue

from engram.errors import InvalidInput, StoreClosed
from engram.ports import ClearsSessions, ExpiringStore, Scope

ALICE, BOB = Scope("alice"), Scope("bob")
LONG = 3600.0

NASTY = {
    "colon": ":",
    "braces": "{a}{b}",
    "closing brace": "}",
    "line break": "a\r\nb",
    "star": "*",
    "question mark": "a?b[c]",
    "space": " a ",
    "empty": "",
    "emoji": "🚀👩‍👩‍👧‍👦",
    "quote": "a' OR '1'='1",
    "path": "../../etc",
    "long": "k" * 2000,
}
"""Keys and names that a wrong key format would confuse or reject."""

VALUES: dict[str, JsonValue] = {
    "text": "two\nlines, ü 🚀",
    "number": 2**60,
    "fraction": 0.1,
    "true": True,
    "false": False,
    "empty": "",
    "zero": 0,
    "list": [1, "two", None, [3.5, {}]],
    "nested": {"a": {"b": [{"c": None}]}, "": "empty key", "é": "e\u0301"},
}


class ExpiringStoreContract:
    """Contract tests of expiring stores. Provide the fixture `expiring`: a new, empty one for each test."""

    lifetime = 1.5
    """A time to live in seconds: short, yet longer than a few calls take."""

    @pytest.fixture
    def pass_time(self) -> Callable[[float], None]:
        """Return a function that sleeps; override it for a store whose clock can be set."""
        return time.sleep

    def test_is_an_expiring_store(self, expiring: ExpiringStore) -> None:
        assert isinstance(expiring, ExpiringStore)

    def test_a_scope_is_cleared_and_no_other(self, expiring: ExpiringStore) -> None:
        if not isinstance(expiring, ClearsSessions):
            pytest.skip("the store does not have the ability ClearsSessions")
        odd = Scope("a*[b]?")
        for scope in (ALICE, BOB, odd, Scope("axb")):
            expiring.put(scope, {"one": 1, "two/*": 2}, LONG)
        assert [expiring.clear(ALICE), expiring.clear(odd), expiring.clear(ALICE)] == [2, 2, 0]
        assert expiring.fetch(ALICE, ["one"]) == [None]
        assert expiring.fetch(BOB, ["one"]) == expiring.fetch(Scope("axb"), ["one"]) == [1]

    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
    def test_any_json_comes_back_as_it_was(self, expiring: ExpiringStore, value: JsonValue) -> None:
        expiring.put(ALICE, {"k": value}, LONG)
        (found,) = expiring.fetch(ALICE, ["k"])
        assert found == value
        assert type(found) is type(value)

    def test_what_comes_back_can_be_changed_without_changing_what_is_kept(self, expiring: ExpiringStore) -> None:
        given: list[JsonValue] = [1]
        expiring.put(ALICE, {"k": given}, LONG)
        given.append(2)
        (found,) = expiring.fetch(ALICE, ["k"])
        assert isinstance(found, list)
        found.append(3)
        assert expiring.fetch(ALICE, ["k"]) == [[1]]

    def test_answers_come_in_the_order_of_the_keys_and_missing_is_none(self, expiring: ExpiringStore) -> None:
        expiring.put(ALICE, {f"k{i}": i for i in range(1200)}, LONG)
        assert expiring.fetch(ALICE, ["k7", "nobody", "k3", "k7"]) == [7, None, 3, 7]
        backwards = [f"k{i}" for i in reversed(range(1200))]
        assert expiring.fetch(ALICE, backwards) == list(reversed(range(1200)))

    def test_nothing_asked_is_nothing_answered(self, expiring: ExpiringStore) -> None:
        expiring.put(ALICE, {}, LONG)
        assert expiring.fetch(ALICE, []) == []
        assert expiring.drop(ALICE, []) == 0

    def test_a_value_is_replaced(self, expiring: ExpiringStore) -> None:
        expiring.put(ALICE, {"a": 1, "b": 1}, LONG)
        expiring.put(ALICE, {"a": 2}, LONG)
        assert expiring.fetch(ALICE, ["a", "b"]) == [2, 1]

    def test_a_value_is_gone_when_its_time_is_over_and_not_before(
        self, expiring: ExpiringStore, pass_time: Callable[[float], None]
    ) -> None:
        expiring.put(ALICE, {"short": 1}, self.lifetime)
        expiring.put(ALICE, {"long": 2}, LONG)
        assert expiring.fetch(ALICE, ["short", "long"]) == [1, 2]
        pass_time(self.lifetime * 1.5)
        assert expiring.fetch(ALICE, ["short", "long"]) == [None, 2]
        assert expiring.drop(ALICE, ["short"]) == 0
        expiring.put(ALICE, {"short": 3}, LONG)
        assert expiring.fetch(ALICE, ["short"]) == [3]

    def test_the_time_starts_again_when_a_value_is_replaced(
        self, expiring: ExpiringStore, pass_time: Callable[[float], None]
    ) -> None:
        expiring.put(ALICE, {"longer": 1, "shorter": 1}, self.lifetime)
        expiring.put(ALICE, {"longer": 2}, LONG)
        expiring.put(ALICE, {"other": 1}, LONG)
        expiring.put(ALICE, {"other": 2}, self.lifetime)
        pass_time(self.lifetime * 1.5)
        assert expiring.fetch(ALICE, ["longer", "shorter", "other"]) == [2, None, None]

    def test_reading_does_not_prolong(self, expiring: ExpiringStore, pass_time: Callable[[float], None]) -> None:
        expiring.put(ALICE, {"k": 1}, self.lifetime)
        for _ in range(4):
            pass_time(self.lifetime / 2)
            expiring.fetch(ALICE, ["k"])
        assert expiring.fetch(ALICE, ["k"]) == [None]

    def test_dropping_says_how_many_were_there(self, expiring: ExpiringStore) -> None:
        expiring.put(ALICE, {"a": 1, "b": None, "c": 3}, LONG)
        assert expiring.drop(ALICE, ["a", "b", "nobody"]) == 2
        assert expiring.drop(ALICE, ["a"]) == 0
        assert expiring.fetch(ALICE, ["a", "b", "c"]) == [None, None, 3]

    def test_scopes_never_mix(self, expiring: ExpiringStore) -> None:
        expiring.put(ALICE, {"k": "alice"}, LONG)
        expiring.put(BOB, {"k": "bob", "only bob": 1}, LONG)
        assert expiring.fetch(ALICE, ["k", "only bob"]) == ["alice", None]
        assert expiring.drop(ALICE, ["only bob"]) == 0
        assert expiring.drop(ALICE, ["k"]) == 1
        assert expiring.fetch(BOB, ["k"]) == ["bob"]

    @pytest.mark.parametrize("key", NASTY.values(), ids=NASTY.keys())
    def test_any_text_can_be_a_key(self, expiring: ExpiringStore, key: str) -> None:
        expiring.put(ALICE, {key: 1, "a": 2, f"{key}x": 3}, LONG)
        assert expiring.fetch(ALICE, [key, "a", f"{key}x", f"y{key}"]) == [1, 2, 3, None]
        assert expiring.drop(ALICE, [key]) == 1
        assert expiring.fetch(ALICE, [key, "a"]) == [None, 2]

    @pytest.mark.parametrize("name", [name for name in NASTY.values() if name.strip()][:-1])
    def test_any_name_can_be_a_scope(self, expiring: ExpiringStore, name: str) -> None:
        scopes = [Scope(name), Scope(name + "x"), Scope("x" + name), Scope("x")]
        for i, scope in enumerate(scopes):
            expiring.put(scope, {"k": i, f"{name}:k": -i}, LONG)
        for i, scope in enumerate(scopes):
            assert expiring.fetch(scope, ["k", f"{name}:k"]) == [i, -i]

    @pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e18])
    def test_a_time_that_is_none_is_refused_and_nothing_is_kept(self, expiring: ExpiringStore, ttl: float) -> None:
        with pytest.raises(InvalidInput):
            expiring.put(ALICE, {"k": 1}, ttl)
        assert expiring.fetch(ALICE, ["k"]) == [None]

    @pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", "\ud800"], ids=["nan", "set", "bytes", "half"])
    def test_what_is_not_json_is_refused_and_nothing_of_the_call_is_kept(
        self, expiring: ExpiringStore, value: JsonValue
    ) -> None:
        with pytest.raises(InvalidInput):
            expiring.put(ALICE, {"good": 1, "bad": value}, LONG)
        assert expiring.fetch(ALICE, ["good", "bad"]) == [None, None]

    def test_closing_twice_is_harmless_and_a_closed_store_says_so(self, expiring: ExpiringStore) -> None:
        expiring.put(ALICE, {"k": 1}, LONG)
        expiring.close()
        expiring.close()
        for call in (
            lambda: expiring.put(ALICE, {"k": 1}, LONG),
            lambda: expiring.fetch(ALICE, ["k"]),
            lambda: expiring.drop(ALICE, ["k"]),
        ):
            with pytest.raises(StoreClosed):
                call()
