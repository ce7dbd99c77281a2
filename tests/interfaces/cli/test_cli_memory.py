"""`engram memory list` and `engram memory search`, as a person reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

import engram
from support.command_line import Run, value


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGRAM_DB", str(tmp_path / "team.db"))
    monkeypatch.setenv("ENGRAM_EMBEDDER", "hashing")
    return tmp_path


def test_a_list_says_what_has_ended(run: Run) -> None:
    with engram.open() as brain:
        known = brain.agent("alice").semantic
        known.learn("Alice", "lives in", "Paris", valid_from="2020-01-01")
        known.learn("Alice", "lives in", "Rome", valid_from="2021-06-01")
    run("memory add 'The offer stands' --agent alice")
    lines = run("memory list --agent alice").output.splitlines()
    (ended,) = [line for line in lines if "(ended " in line]
    assert ended.endswith("(ended 2021-06-01 00:00:00Z) Alice lives in Paris")
    assert len(lines) == 4
    assert "(ended" not in run("--json memory list --agent alice").output


def test_a_search_can_be_widened_by_related_concepts(run: Run) -> None:
    with engram.open() as brain:
        alice = brain.agent("alice")
        alice.semantic.tell("Alice works on Billing. Billing uses PostgreSQL 15.")
        alice.remember([f"Meeting {n} of the team was moved to room {n}" for n in range(20)])
    query = "memory search 'which storage does Alice need?' --agent alice --limit 3"
    assert "expanded" not in run(f"{query} --explain").output
    told = run(f"{query} --explain --expand").output
    assert "Billing uses PostgreSQL 15" in told
    assert "expanded Billing, PostgreSQL 15" in told
    assert value(run(f"--json {query} --expand"))


def test_whose_memory_a_hit_is_can_be_explained(run: Run) -> None:
    run("memory add 'Staging runs PostgreSQL 15' --agent alice")
    run("memory share --from alice --to bob --everything")
    told = run("memory search 'which database is in staging?' --agent bob --explain").output
    assert "source agent:alice, source trust 0.3" in told
