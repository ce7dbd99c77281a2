"""Who the agents are: definitions from YAML, versions in the database."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pydantic import JsonValue

import engram
from engram.agents.definitions import Definitions, read_definition, read_definitions
from engram.errors import InvalidInput, NotFound, Unsupported
from engram.model.agent import AgentDefinition

ALICE = """
description: keeps the release train running
directives:
  - never push to main
  - ask before deleting anything
config:
  model: small
  temperature: 0.2
"""


def definitions(brain: engram.Engram) -> Definitions:
    return brain.definitions


def test_a_definition_is_read_from_yaml_and_named_after_its_file(tmp_path: Path) -> None:
    (tmp_path / "alice.yaml").write_text(ALICE, encoding="utf-8")
    (tmp_path / "b.yml").write_text("name: bob\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no definition", encoding="utf-8")
    alice, bob = read_definitions(tmp_path)
    assert (alice.name, alice.config) == ("alice", {"model": "small", "temperature": 0.2})
    assert alice.directives == ("never push to main", "ask before deleting anything")
    assert bob == AgentDefinition(name="bob")
    assert read_definitions(tmp_path / "alice.yaml") == [alice]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: alice\ndirective: [one]\n", "line 2: directive"),
        ("directives: be good\n", "directives"),
        ("config: [1]\n", "config"),
        ("- alice\n", "does not fit"),
        ("name: &a alice\n", "anchor"),
        ("name: !!python/object/apply:os.system [ls]\n", "tag"),
    ],
)
def test_what_is_no_definition_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_definition(text)


def test_a_folder_without_definitions_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    for missing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFound):
            read_definitions(missing)
    for file in ("a.yaml", "b.yaml"):
        (tmp_path / file).write_text("name: alice\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"b\.yaml defines 'alice' a second time"):
        read_definitions(tmp_path)


def test_a_change_makes_a_new_version_and_the_old_ones_stay(brain: engram.Engram, path: Path) -> None:
    known = definitions(brain)
    assert known.current("alice") is None
    first = known.define(AgentDefinition(name="alice", directives=("be brief",)))
    assert (first.version, first.name, first.directives) == (1, "alice", ("be brief",))
    assert known.define(AgentDefinition(name="alice", directives=("be brief",))) == first
    second = known.define(AgentDefinition(name="alice", directives=("be brief",), config={"model": "large", "n": 1.0}))
    assert second.version == 2
    assert known.define(AgentDefinition(name="alice", directives=("be brief",), config={"model": "large", "n": 1}))
    assert known.current("alice") == second
    assert known.history("alice") == [first, second]
    assert known.current("bob") is None
    assert brain.agents() == ["alice"]
    with engram.open(path) as other:
        assert definitions(other).current("alice") == second
    assert brain.upkeep.database.check() == []


def test_a_definition_is_kept_without_its_secrets(brain: engram.Engram) -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    given = AgentDefinition(name="alice", directives=(f"use {secret}",), config={"api": {"password": "hunter2"}})
    agent = definitions(brain).define(given)
    assert agent.redacted
    assert secret not in agent.model_dump_json()
    assert "hunter2" not in agent.model_dump_json()
    assert definitions(brain).define(given) == agent
    with pytest.raises(InvalidInput, match="holds a secret"):
        definitions(brain).define(AgentDefinition(name=secret))


@pytest.mark.parametrize(
    "given",
    [
        AgentDefinition(),
        AgentDefinition(name="alice", description="\x00"),
        AgentDefinition(name="alice", description="\ud800"),
        AgentDefinition(name="alice", config={"x": "y" * 1_000_001}),
        AgentDefinition(name="\x1fledger"),
        AgentDefinition(name="everyone"),
        AgentDefinition(name="group:team"),
    ],
)
def test_what_cannot_be_kept_is_refused(brain: engram.Engram, given: AgentDefinition) -> None:
    with pytest.raises(InvalidInput):
        definitions(brain).define(given)
    assert brain.agents() == []


def test_writers_at_once_make_each_version_once(brain: engram.Engram) -> None:
    def write(name: str) -> None:
        for number in range(5):
            definitions(brain).define(AgentDefinition(name="alice", description=f"{name}{number}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    versions = definitions(brain).history("alice")
    assert [agent.version for agent in versions] == list(range(1, 16))
    assert len({agent.description for agent in versions}) == 15


def test_a_folder_is_defined_at_once(brain: engram.Engram, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "alice.yaml").write_text(ALICE, encoding="utf-8")
    (folder / "bob.yaml").write_text("directives: 3\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"bob\.yaml"):
        definitions(brain).load(folder)
    assert brain.agents() == []
    (folder / "bob.yaml").write_text("directives: [help alice]\n", encoding="utf-8")
    assert [agent.name for agent in definitions(brain).load(folder)] == ["alice", "bob"]


def test_a_store_without_events_says_so(brain: engram.Engram) -> None:
    with pytest.raises(Unsupported):
        Definitions(object(), brain.redactor, brain.sources)  # type: ignore[arg-type]


def test_a_definition_says_how_much_its_agent_holds_in_mind(brain: engram.Engram) -> None:
    told: dict[str, JsonValue] = {"model": "small", "engram": {"working": {"capacity_tokens": 40, "ttl": 60}}}
    brain.definitions.define(AgentDefinition(name="alice", config=told))
    alice = brain.agent("alice")
    session = alice.working("monday")
    for number in range(12):
        session.add_message("user", f"Server {number} has {number * 11} GB left.")
    assert session.tokens <= 40
    assert alice.working("monday") is session
    other = alice.working("tuesday", capacity_tokens=8000)  # who asks has the last word
    for number in range(12):
        other.add_message("user", f"Server {number} has {number * 11} GB left.")
    assert len(other.messages()) == 12
    assert len(brain.agent("bob").working("monday", capacity_tokens=8000).messages()) == 0


def test_a_definition_says_which_predicates_have_one_value(brain: engram.Engram) -> None:
    told: JsonValue = {"semantic": {"functional": {"drinks": True}}}
    brain.definitions.define(AgentDefinition(name="alice", config={"engram": told}))
    for name, drinks in {"alice": ["tea"], "bob": ["coffee", "tea"]}.items():
        known = brain.agent(name).semantic
        known.learn("Carol", "drinks", "coffee", valid_from="2025-01-01")
        known.learn("Carol", "drinks", "tea", valid_from="2026-01-01")
        assert [fact.object for fact in known.facts("Carol")] == drinks
        assert known.neighbours("Carol") == drinks


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"workng": {}}, "workng"),
        ({"working": {"capacity": 3}}, "working.capacity"),
        ({"working": {"ttl": -1}}, "working.ttl"),
        ({"semantic": {"functional": {"drinks": "maybe"}}}, "drinks"),
        (3, "config.engram of alice"),
    ],
)
def test_what_a_definition_says_of_its_memory_must_be_known(brain: engram.Engram, told: JsonValue, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        brain.definitions.define(AgentDefinition(name="alice", config={"engram": told}))
    assert brain.definitions.current("alice") is None


def test_a_folder_with_a_definition_that_is_unknown_stores_none(brain: engram.Engram, tmp_path: Path) -> None:
    (tmp_path / "alice.yaml").write_text("directives: [be brief]\n", encoding="utf-8")
    (tmp_path / "bob.yaml").write_text("config: {engram: {memory: large}}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="memory"):
        brain.definitions.load(tmp_path)
    assert brain.definitions.current("alice") is None
