from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.actions.parsing import action_similarity, context_similarity, parse_action, parse_context


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("npm install", ("npm", "install")),
        ("npm install left-pad@1.2.3 --verbose", ("npm", "install")),
        ("sudo apt-get install -y curl", ("apt-get", "install")),
        ("cd /srv/app && npm ci", ("npm", "ci")),
        ("CI=1 make test", ("make", "test")),
        ("/usr/bin/python3 -m pytest tests/", ("pytest",)),
        ("read_channel(name='general')", ("read_channel",)),
        ('{"tool": "read_file", "args": {"path": "a.txt"}}', ("read_file",)),
        ("retry-with-backoff", ("retry", "backoff")),
        ("Increase the timeout to 30 seconds", ("increase", "timeout")),
        ("", ()),
    ],
)
def test_the_head_says_what_is_done(text: str, head: tuple[str, ...]) -> None:
    assert parse_action(text).head == head


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("docker build -t app:17 .", "docker build -t app:18 ."),
        ("read_channel(name='general')", "read_channel(name='random')"),
        ("pip install -r a/one.txt", "pip install -r b/two.txt"),
        ("restart with 4 workers", "restart with 8 workers"),
    ],
)
def test_other_values_are_the_same_action_but_not_the_very_same(one: str, other: str) -> None:
    assert action_similarity(parse_action(one), parse_action(other)) == 1
    assert parse_action(one).exact != parse_action(other).exact


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("npm install", "npm test"),
        ("docker compose", "docker build"),
        ("retry-with-backoff", "retry-with-exponential-backoff"),
        ("read_channel(name='a')", "send_message(channel='a')"),
    ],
)
def test_what_does_something_else_is_another_action(one: str, other: str) -> None:
    assert action_similarity(parse_action(one), parse_action(other)) == 0


def test_a_context_is_the_same_in_another_order_and_for_another_ticket() -> None:
    known = parse_context("deploy the api in staging, ticket 4711")
    assert context_similarity(known, parse_context("in staging: deploy the api (ticket 98765)")) == 1
    assert context_similarity(known, parse_context("deploy the api in production, ticket 4711")) < 0.7


def test_a_feature_that_differs_sets_contexts_apart() -> None:
    known = parse_context("deploy the api", frozenset({"os=linux"}))
    same = context_similarity(known, parse_context("deploy the api"))
    assert same == 1 or same > context_similarity(known, parse_context("deploy the api", frozenset({"os=windows"})))
    assert parse_context("deploy", environment="CI").features == {"env=ci"}


@given(st.text(max_size=300), st.text(max_size=300))
def test_every_text_has_an_action_and_a_context_and_both_are_like_themselves(one: str, other: str) -> None:
    assert action_similarity(parse_action(one), parse_action(one)) == 1
    assert 0 <= action_similarity(parse_action(one), parse_action(other)) <= 1
    assert action_similarity(parse_action(one), parse_action(other)) == action_similarity(
        parse_action(other), parse_action(one)
    )
    assert 0 <= context_similarity(parse_context(one), parse_context(other)) <= 1
    assert context_similarity(parse_context(one), parse_context(one)) == 1
    assert bool(parse_action(one).key) == bool(one.strip())


@pytest.mark.parametrize(
    "text", ["a " * 500_000, "-" * 1_000_000, "x(" * 500_000, '{"a":' * 300_000, "cd " + "a" * 900_000]
)
def test_long_texts_are_cut(text: str) -> None:
    assert len(parse_action(text).rest) <= 48
    assert len(parse_context(text).words) <= 48
