"""Placeholders, policies, additional rules and detectors: the settings of an installation."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.errors import ConfigError, InvalidInput, MissingExtra
from engram.privacy import Detector, Finding, RedactionPolicy, SecretRedactor, clean_json, policy_of
from engram.privacy.detectors import placeholder_name
from engram.privacy.presidio import PresidioDetector, open_detector
from engram_bench import sensitive

KEY = sensitive.PROVIDERS["github"](random.Random(7))
TEXT = f"use {KEY}, then mail bob@acme.io"


def test_the_same_value_has_the_same_placeholder_in_one_installation() -> None:
    one, two = SecretRedactor(key=b"one"), SecretRedactor(key=b"two")
    (first, again, other) = (c.text for c in one.clean([KEY, KEY, sensitive.PROVIDERS["github"](random.Random(8))]))
    assert first == again != other
    assert first.startswith("[secret:github-token:")
    assert len(first) == len("[secret:github-token:01234567]")
    assert two.clean([KEY])[0].text != first
    assert SecretRedactor().clean([KEY])[0].text == "[secret:github-token]"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bob@acme.io", "BOB@Acme.io"),
        ("4242 4242 4242 4242", "4242424242424242"),
        ("DE89370400440532013000", "de89 3704 0044 0532 0130 00"),
        ("(415) 555-2671", "415-555-2671"),
    ],
)
def test_two_ways_of_writing_one_value_have_one_placeholder(one: str, other: str) -> None:
    first, second = SecretRedactor(key=b"k").clean([one, other])
    assert first == second


def test_a_fingerprint_cannot_be_taken_for_a_number() -> None:
    redactor = SecretRedactor(key=b"k")
    for seed in range(200):
        text = redactor.clean([f"bob{seed}@acme.io"])[0].text
        assert text[len("[personal:email:")] in "abcdef"


def test_values_under_a_telling_key_are_fingerprinted_too() -> None:
    redactor = SecretRedactor(key=b"k")
    one, other = (clean_json(redactor, {"password": word})[0] for word in ("hunter", "walker"))
    assert one != other
    assert one == clean_json(redactor, {"password": "hunter"})[0]
    assert clean_json(redactor, one) == (one, ())


def test_each_kind_has_its_own_action() -> None:
    assert SecretRedactor(policy={"email": "keep"}).clean([TEXT])[0].found == ("github-token",)
    assert SecretRedactor(policy={"personal": "keep"}).clean(["4242 4242 4242 4242"])[0].found == ()
    kept = SecretRedactor(policy={"personal": "keep", "card": "mask"})
    assert kept.clean(["4242 4242 4242 4242"])[0].found == ("personal:card",)
    groups = SecretRedactor(policy={"personal": "keep", "national-id": "mask"})
    assert groups.clean(["SSN 536-22-8726, mail bob@acme.io"])[0].found == ("personal:us-ssn",)
    dropped = SecretRedactor(key=b"k", policy={"email": "drop"}).clean([TEXT])[0].text
    assert dropped.endswith("then mail [personal:email]")
    assert "[secret:github-token:" in dropped
    assert SecretRedactor(policy={"keyed-value": "keep"}).clean_keyed("password", "hunter") is None


def test_a_rejected_kind_is_refused_and_not_repeated() -> None:
    redactor = SecretRedactor(policy={"card": "reject"})
    with pytest.raises(InvalidInput, match="personal:card") as refused:
        redactor.clean(["all fine", "card 4242 4242 4242 4242"])
    assert "4242" not in str(refused.value)
    assert redactor.clean([TEXT])[0].found == ("github-token", "personal:email")
    with pytest.raises(InvalidInput, match="keyed-value"):
        clean_json(SecretRedactor(policy={"keyed-value": "reject"}), {"password": "hunter"})


def test_a_policy_that_names_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="no action 'hide'"):
        SecretRedactor(policy={"email": "hide"})
    with pytest.raises(ConfigError, match="called 'e-mail'"):
        SecretRedactor(policy={"e-mail": "keep"})
    assert "national-id" in SecretRedactor().names
    assert policy_of({"email": "keep"}) == RedactionPolicy({"email": "keep"})


def rules(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


GOOD = """
[harmless]
always = ['^hotline@acme\\.io$']

[[rule]]
id = "employee-number"
family = "personal"
description = "Our employee numbers"
keywords = ['EMP-']
regex = '\\bEMP-[0-9]{6}\\b'
finds = ["EMP-123456 called"]
leaves = ["EMP-1"]
"""


def test_users_add_rules_of_their_own(tmp_path: Path) -> None:
    redactor = SecretRedactor(rules=[rules(tmp_path / "mine.toml", GOOD)], policy={"employee-number": "drop"}, key=b"k")
    assert redactor.clean(["ask EMP-123456 or hotline@acme.io"])[0] == (
        "ask [personal:employee-number] or hotline@acme.io",
        ("personal:employee-number",),
    )
    assert SecretRedactor().clean(["ask EMP-123456"])[0].found == ()
    assert redactor.clean([KEY])[0].found == ("github-token",)


RULE = '[[rule]]\nid = "x"\ndescription = "x"\nkeywords = ["x"]\nregex = "x"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule", "not TOML"),
        ('[[rule]]\nid = "x"', "description"),
        (RULE.replace('"x"', '"X X"', 1), "id"),
        (RULE + 'colour = "red"', "colour"),
        (RULE + 'family = "other"', "family"),
        (RULE.replace('regex = "x"', 'regex = "(x"'), "RE2"),
        (RULE.replace('regex = "x"', 'regex = "(?=x)"'), "RE2"),
        (RULE.replace('keywords = ["x"]', 'keywords = ["["]'), "RE2"),
        (RULE.replace('keywords = ["x"]', "keywords = []"), "keywords"),
        (RULE + 'near = "("', "RE2"),
        (RULE + 'check = "magic"', "no check 'magic'"),
        (RULE + 'finds = ["y"]', "finds nothing in 'y'"),
        (RULE.replace('regex = "x"', 'regex = "x1"') + 'leaves = ["x1"]', "finds something in 'x1'"),
        ('[telling]\nkey = "x"\n', "only"),
        ('[harmless]\nalways = ["("]\n', "RE2"),
    ],
)
def test_a_bad_file_of_rules_is_refused_clearly(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="mine") as refused:
        SecretRedactor(rules=[rules(tmp_path / "mine.toml", text)])
    assert said in str(refused.value)


def test_a_file_of_rules_must_be_there_and_small(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        SecretRedactor(rules=[tmp_path / "none.toml"])
    with pytest.raises(ConfigError, match="larger"):
        SecretRedactor(rules=[rules(tmp_path / "big.toml", "#" * 1_000_001)])
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not TOML"):
        SecretRedactor(rules=[tmp_path / "bytes.toml"])


class Names:
    """Finds two people, as a model would."""

    def find(self, text: str) -> Iterator[Finding]:
        for name in ("Zoë Müller", "Bob"):
            at = text.find(name)
            while at >= 0:
                yield Finding(at, at + len(name), "PERSON")
                at = text.find(name, at + 1)
        yield Finding(-5, 0, "NOTHING")
        yield Finding(len(text), len(text) + 9, "NOTHING")


def test_a_detector_finds_what_patterns_cannot() -> None:
    redactor = SecretRedactor(detectors=[Names()], policy={"person": "mask"})
    assert isinstance(Names(), Detector)
    assert redactor.clean(["Grüße an Zoë Müller und Bob, bob@acme.io"])[0] == (
        "Grüße an [personal:person] und [personal:person], [personal:email]",
        ("personal:person", "personal:email"),
    )
    assert SecretRedactor(detectors=[Names()], policy={"person": "keep"}).clean(["Bob"])[0].found == ()
    with pytest.raises(InvalidInput, match="personal:person"):
        SecretRedactor(detectors=[Names()], policy={"person": "reject"}).clean(["Bob"])


class Everything:
    """Takes the whole text, also where placeholders are."""

    def find(self, text: str) -> Iterator[Finding]:
        yield Finding(0, len(text), "all of it")


def test_a_detector_cannot_take_a_placeholder_apart() -> None:
    redactor = SecretRedactor(detectors=[Everything()], key=b"k")
    once = redactor.clean(["see [secret:npm-token:aabbccdd] there"])[0].text
    assert "[secret:npm-token:aabbccdd]" in once
    assert once.count("[personal:all-of-it:") == 2


@given(st.text(max_size=40), st.sampled_from(["", KEY, " Bob ", "bob@acme.io", "[personal:email:abcdef01]"]))
@settings(max_examples=200, deadline=None)
def test_cleaning_twice_changes_nothing_with_detectors(text: str, also: str) -> None:
    for detector in (Names(), Everything()):
        redactor = SecretRedactor(detectors=[detector], key=b"k")
        once = redactor.clean([text + also + text])[0]
        assert redactor.clean([once.text])[0] == (once.text, ())


@pytest.mark.parametrize(("name", "shown"), [("PHONE_NUMBER", "phone-number"), ("Ü", "other"), ("a" * 99, "a" * 40)])
def test_names_of_detectors_fit_a_placeholder(name: str, shown: str) -> None:
    assert placeholder_name(name) == shown


@dataclass
class Found:
    """What an analyzer returns."""

    start: int
    end: int
    entity_type: str


class StandInAnalyzer:
    """Has the interface of Presidio's analyzer; Presidio itself is not a dependency."""

    def analyze(
        self, text: str, language: str, entities: Sequence[str] | None = None, score_threshold: float | None = None
    ) -> list[Found]:
        assert (language, score_threshold) == ("en", 0.6)
        found = [Found(text.index("Ann"), text.index("Ann") + 3, "PERSON")] if "Ann" in text else []
        if entities is None and "@" in text:
            found.append(Found(0, text.index(" "), "EMAIL_ADDRESS"))
        return found


def test_presidio_is_asked_through_its_analyzer() -> None:
    redactor = SecretRedactor(detectors=[PresidioDetector(StandInAnalyzer())])
    assert redactor.clean(["Ann lives here"])[0].text == "[personal:person] lives here"
    every = SecretRedactor(detectors=[PresidioDetector(StandInAnalyzer(), entities=None)])
    assert every.clean(["ann@example.com is Ann"])[0].text == "[personal:email] is [personal:person]"


def test_presidio_is_opened_or_named_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", SimpleNamespace(AnalyzerEngine=StandInAnalyzer))
    assert list(open_detector().find("Ann")) == [Finding(0, 3, "PERSON")]
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(MissingExtra, match="presidio"):
        open_detector()
