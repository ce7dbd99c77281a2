"""The commands that ask for facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import engram
from engram import cli
from support.command_line import Run, run_line


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command of the group over what Alice knows, and asserts its exit code."""
    monkeypatch.setenv("ENGRAM_DB", str(path))
    monkeypatch.setenv("ENGRAM_EMBEDDER", "hashing")
    with engram.open(path, embedder="hashing", durable=False) as brain:
        known = brain.agent("alice").semantic
        known.learn("Bob", "lives in", "Paris", valid_from="2024-01-01")
        known.learn("Bob", "lives in", "Rome", valid_from="2026-01-01")
        known.learn("Bob", "works at", "Acme", valid_from="2024-01-01")
        known.learn("Eve", "lives in", "Oslo", valid_from="2025-01-01")
        known.learn("Eve", "lives in", "Bonn", valid_from="2025-01-01")
    monkeypatch.setattr(cli, "COMMANDS", tuple({*cli.COMMANDS, "fact"}))
    return lambda line, code=0: run_line(f"fact {line}", code=code)


def test_what_holds_is_listed_and_what_has_ended_on_request(run: Run) -> None:
    shown = run("list Bob").stdout
    assert "Rome" in shown
    assert "Paris" not in shown
    assert "Paris" in run("list Bob --history").stdout
    assert "Paris" in run("list Bob --as-of 2025-06-01").stdout
    told = json.loads(run("list Bob --predicate 'lives in' --json").stdout)
    assert [(each["agent"], each["object"]) for each in told] == [("alice", "Rome")]
    assert run("list nobody").stdout == "No facts are known.\n"
    run("list --history", code=2)


def test_a_question_is_answered_with_the_newest_value(run: Run) -> None:
    assert run("ask Bob 'lives in'").stdout.startswith("Rome (since 2026-01-01 00:00:00Z, alice, ")
    assert json.loads(run("ask Bob 'lives in' --as-of 2025-01-01 --json").stdout)["object"] == "Paris"
    assert "fact list" in run("ask Bob 'is married to'", code=3).stderr


def test_contradictions_are_shown_with_both_facts(run: Run) -> None:
    lines = run("contradictions").stdout.splitlines()
    assert lines[0].startswith("Eve lives in: two values since 2025-01-01")
    assert "Oslo" in lines[1]
    assert "Bonn" in lines[2]
    (pair,) = json.loads(run("contradictions Eve --json").stdout)
    assert len(pair["facts"]) == 2
    assert run("contradictions Bob").stdout == "No contradictions are known.\n"


def test_neighbours_are_shown_with_what_joins_them(run: Run) -> None:
    assert {line.split()[-1] for line in run("neighbours Bob").stdout.splitlines()[1:]} == {"Rome", "Acme"}
    told = json.loads(run("neighbours Bob --relation 'works at' --json").stdout)
    assert [edge["object"] for edge in told] == ["Acme"]
    assert run("neighbours Zoe").stdout == "No fact connects it with another concept.\n"


def test_what_a_wrong_fact_had_ended_holds_again(run: Run) -> None:
    (rome,) = json.loads(run("list Bob --predicate 'lives in' --json").stdout)
    lines = run(f"retract {rome['id']}").stdout.splitlines()
    assert lines[1].startswith("Valid again: Bob lives in Paris")
    assert run("ask Bob 'lives in'").stdout.startswith("Paris")
    run(f"retract {rome['id']}", code=3)
