from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from engram.errors import InvalidInput
from engram.model import DecisionContent, Draft, KnowledgeContent, Memory, MemoryType
from engram.model.bundle import MAX_LABEL, MAX_TEXT
from engram.ports import Entry, Scope
from engram.privacy import SecretRedactor
from engram.recording.input import MAX_JSON, MAX_TAGS, merge_key, prepare, rejected
from engram.testing import FixedSources
from engram.testing.factories import START

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"  # not in one piece, so that no scanner takes it for one


def drafted(text: str, **fields: Any) -> Entry:
    return prepare(Draft(text, **fields), Scope("alice"), SecretRedactor(), FixedSources())[0]


def test_a_draft_becomes_a_memory_of_its_scope() -> None:
    entry = drafted(
        "Rolled back",
        kind="decision",
        tags=[" db ", "db", "release"],
        session="monday",
        role="user",
        speaker="Ann",
        importance=0.9,
        confidence=0.8,
        key="k1",
        metadata={"a": [1, None]},
        context="deploy",
        content={"chosen_action": "roll back", "outcome_quality": 0.25},
        sources=["m1", "m2"],
    )
    memory = entry.memory
    assert entry.key == "k1"
    assert (memory.agent, memory.provenance.author, memory.kind) == ("alice", "alice", MemoryType.DECISION)
    assert (memory.text, memory.context, memory.tags) == ("Rolled back", "deploy", ("db", "release"))
    assert (memory.session, memory.role, memory.speaker) == ("monday", "user", "Ann")
    assert (memory.importance, memory.confidence, memory.metadata) == (0.9, 0.8, {"a": [1, None]})
    assert memory.provenance.sources == ("m1", "m2")
    assert memory.content == DecisionContent(chosen_action=memory.content.chosen_action, outcome_quality=0.25)  # type: ignore[union-attr]
    assert memory.success_rate == 0.25
    assert (memory.evidence, memory.version, memory.access_count) == (1, 1, 0)


def test_without_times_all_of_them_are_now() -> None:
    memory = drafted("x").memory
    assert {memory.created_at, memory.happened_at, memory.valid_from} == {START}
    assert memory.valid_until is None


def test_what_happened_earlier_is_valid_from_then_on_and_was_created_now() -> None:
    earlier = START - timedelta(days=30)
    memory = drafted("x", at=earlier).memory
    assert (memory.happened_at, memory.valid_from, memory.created_at) == (earlier, earlier, START)
    memory = drafted("x", at=earlier, valid_from=earlier - timedelta(days=1)).memory
    assert memory.valid_from == earlier - timedelta(days=1)


def test_something_can_be_valid_until_a_time_without_a_beginning_being_named() -> None:
    assert drafted("x", valid_until=START + timedelta(days=1)).memory.valid_until == START + timedelta(days=1)


@pytest.mark.parametrize(
    "times",
    [
        {"valid_until": START},
        {"valid_until": START - timedelta(days=1)},
        {"valid_from": START + timedelta(days=2), "valid_until": START + timedelta(days=1)},
    ],
)
def test_a_validity_that_ends_before_it_begins_is_refused(times: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="valid_until"):
        drafted("x", **times)


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": ""}, "empty"),
        ({"text": " \n\t\u00a0"}, "empty"),
        ({"text": "a\x00b"}, "NUL character at position 1"),
        ({"text": "ab\ud800"}, "surrogate pair at position 2"),
        ({"text": "x" * (MAX_TEXT + 1)}, "1,000,001 characters"),
        ({"text": "x" * 10 * 1024 * 1024}, "split it"),
        ({"context": "a\x00b"}, "NUL"),
        ({"context": "\udfff"}, "surrogate"),
        ({"context": "x" * (MAX_TEXT + 1)}, "context"),
        ({"session": ""}, "session"),
        ({"session": "  "}, "session"),
        ({"session": "x" * (MAX_LABEL + 1)}, "session"),
        ({"session": "\x00"}, "session"),
        ({"role": ""}, "role"),
        ({"speaker": "a\ud800"}, "speaker"),
        ({"key": ""}, "key"),
        ({"key": "k\x00"}, "key"),
        ({"key": "k" * (MAX_LABEL + 1)}, "key"),
        ({"tags": [""]}, "tags"),
        ({"tags": ["ok", "\x00"]}, "tags"),
        ({"tags": ["\ud800"]}, "tags"),
        ({"tags": ["x" * (MAX_LABEL + 1)]}, "tags"),
        ({"tags": [f"t{i}" for i in range(MAX_TAGS + 1)]}, "101 tags"),
        ({"tags": "abc"}, "tags"),
        ({"sources": ["\x00"]}, "sources"),
        ({"sources": [f"m{i}" for i in range(MAX_TAGS + 1)]}, "101 sources"),
        ({"metadata": {"a": math.nan}}, "metadata"),
        ({"metadata": {"a": [math.inf]}}, "metadata"),
        ({"metadata": {"a": {1, 2}}}, "metadata"),
        ({"metadata": {1: 2}}, "metadata"),
        ({"metadata": {"a": object()}}, "metadata"),
        ({"metadata": {"a": b"bytes"}}, "metadata"),
        ({"metadata": "text"}, "metadata"),
        ({"metadata": {"a": "\x00"}}, "metadata has a NUL"),
        ({"metadata": {"a\x00": 1}}, "metadata has a NUL"),
        ({"metadata": {"a": "\ud800"}}, "metadata"),
        ({"metadata": {"a": "x" * MAX_JSON}}, "metadata has 100,009 characters"),
        ({"metadata": deep(40)}, "nested more than 32 levels"),
        ({"metadata": deep(300)}, "metadata"),
        ({"content": deep(40)}, "nested"),
        ({"content": {"steps": ["a"]}}, "content"),
        ({"content": {"kind": "plan"}}, "the content is of kind plan"),
        ({"kind": "decision", "content": {"outcome_quality": 2}}, "outcome_quality"),
        ({"kind": "decision", "content": {"outcome_quality": "good"}}, "outcome_quality"),
        ({"kind": "nonsense"}, "kind"),
        ({"importance": 1.5}, "importance"),
        ({"importance": math.nan}, "importance"),
        ({"confidence": -0.1}, "confidence"),
        ({"at": "yesterday"}, "at"),
        ({"unknown": 1}, "unknown"),
        ({"text": 7}, "text"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_cannot_be_kept_is_refused_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        drafted(**{"text": "something", **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "x" * MAX_TEXT},
        {"tags": [f"t{i}" for i in range(MAX_TAGS)]},
        {"tags": ["x" * MAX_LABEL]},
        {"metadata": deep(30)},
        {"metadata": {"": "", "a": [True, None, 1, 1.5, "é🚀"], "literal": r"\u0041"}},
        {"importance": 0},
        {"importance": 1},
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_is_just_within_the_limits_is_taken(fields: dict[str, Any]) -> None:
    entry = drafted(**{"text": "something", **fields})
    assert entry.memory.text == fields.get("text", "something")


def test_a_backslash_u0000_that_is_no_nul_character_is_taken() -> None:
    assert drafted("x", metadata={"pattern": r"\u0000"}).memory.metadata == {"pattern": r"\u0000"}


def test_a_rejection_says_why_in_words_and_in_a_code() -> None:
    receipt = rejected(InvalidInput("the text is empty"))
    assert (receipt.id, receipt.status, receipt.code, receipt.ok) == (None, "rejected", "invalid", False)
    assert receipt.reason == "the text is empty"


def test_a_secret_is_taken_out_of_everything_that_is_kept() -> None:
    said = f"the token is {SECRET}"
    draft = Draft(
        said,
        kind="decision",
        context=said,
        tags=[said],
        session=said,
        role=said,
        speaker=said,
        key=said,
        metadata={said: [said, {"deep": said}]},
        content={"chosen_action": said, "decision_context": said, "alternative_actions": [said, said]},
    )
    entry, found = prepare(draft, Scope("alice"), SecretRedactor(), FixedSources())
    assert found
    kept = entry.memory.model_dump_json() + str(entry.key)
    assert SECRET not in kept
    assert kept.count("the token is") >= 12


def test_the_names_of_the_rules_that_found_something_are_given_once() -> None:
    draft = Draft(f"{SECRET} and {SECRET}", context=SECRET)
    _, found = prepare(draft, Scope("alice"), SecretRedactor(), FixedSources())
    assert len(found) == len(set(found)) == 1


def test_a_harmless_text_is_kept_word_for_word() -> None:
    text = "  Staging runs PostgreSQL 15\r\n\t— see docs/db.md  "
    entry, found = prepare(Draft(text), Scope("alice"), SecretRedactor(), FixedSources())
    assert entry.memory.text == text
    assert found == ()


# When two drafts say the same ----------------------------------------------------------------------------


def key_of(text: str, **fields: Any) -> str | None:
    return drafted(text, **{"kind": "knowledge", **fields}).merge_key


@pytest.mark.parametrize("kind", sorted(set(MemoryType) - {MemoryType.KNOWLEDGE, MemoryType.PROCEDURE}))
def test_events_have_no_merge_key(kind: MemoryType) -> None:
    assert drafted("The build failed", kind=kind).merge_key is None


@pytest.mark.parametrize("same", ["the sky is blue", "The  sky\nis blue.", " THE SKY IS BLUE "])
def test_statements_that_differ_in_case_and_spacing_merge(same: str) -> None:
    assert key_of(same) == key_of("The sky is blue") is not None


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("The sky is not blue", {}),
        ("The sky is blue 2", {}),
        ("The sky is blue", {"kind": "procedure"}),
        ("The sky is blue", {"context": "at night"}),
        ("The sky is blue", {"content": {"domain": "weather"}}),
    ],
)
def test_statements_that_differ_in_text_kind_context_or_content_do_not_merge(text: str, fields: dict[str, Any]) -> None:
    assert key_of(text, **fields) != key_of("The sky is blue")


def test_tags_times_metadata_and_importance_do_not_keep_statements_apart() -> None:
    assert key_of("The sky is blue") == key_of(
        "The sky is blue", tags=["a"], at=START, metadata={"a": 1}, importance=1, session="s", key="k"
    )


def test_the_merge_key_is_made_of_the_redacted_text() -> None:
    other = SECRET[:-4] + "Zz9Y"
    assert key_of(f"the token is {SECRET}") == key_of(f"the token is {other}")


def test_the_merge_key_of_a_memory_can_be_made_again_from_it() -> None:
    entry = drafted("The sky is blue", kind="knowledge", content={"domain": "weather", "related_entities": ["sky"]})
    assert merge_key(Memory.model_validate_json(entry.memory.model_dump_json())) == entry.merge_key
    assert isinstance(entry.memory.content, KnowledgeContent)
