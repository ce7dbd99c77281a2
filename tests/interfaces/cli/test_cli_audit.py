"""`engram audit` on the command line."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import engram
from engram.cli.audit import command
from engram.cli.invocation import Invocation
from engram.errors import Conflict, InvalidInput, NotFound, Unsupported
from engram.ports import AuditAction
from engram.testing.audit import trail
from support.command_line import value

Audit = Callable[..., Result]


@pytest.fixture
def audit(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audit:
    """Runs a line of `engram audit` on a database in which something was done."""
    monkeypatch.chdir(tmp_path)
    with engram.open(path, embedder="hashing", durable=False) as brain:
        stored = brain.agent("alice").remember("The deploy failed")
        brain.agent("bob").remember("Staging runs PostgreSQL 15")
        brain.agent("alice").forget(str(stored.id))
        trail(brain.store).note([AuditAction("use", "bob", "alice", "m1", "g1", 2)])

    def run(line: str, *, code: int = 0, json: bool = False) -> Result:
        state = Invocation(db=str(path), json=json)
        result = CliRunner().invoke(command, shlex.split(line), obj=state, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


def broken(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute(statement)


def test_the_log_shows_who_did_what_and_how_many(audit: Audit) -> None:
    lines = audit("log").stdout.splitlines()
    assert lines[0].split() == ["NUMBER", "TIME", "BY", "ACTION", "AGENT", "COUNT", "ABOUT"]
    assert [line.split()[4] for line in lines[1:]] == ["genesis", "setting", "write", "write", "forget", "use"]
    assert "grant g1" in lines[-1]
    assert [entry["action"] for entry in value(audit("log --limit 2", json=True))] == ["forget", "use"]
    assert [entry["action"] for entry in value(audit("log --agent bob", json=True))] == ["write"]
    assert [entry["action"] for entry in value(audit("log --grant g1", json=True))] == ["use"]
    assert len(value(audit("log --since 1h", json=True))) == 5
    assert audit("log --grant nothing").stdout == "No entries.\n"


def test_a_whole_trail_is_whole_and_says_what_is_not_fixed(audit: Audit, path: Path) -> None:
    result = audit("verify")
    assert result.stdout == "No problems in 6 entries, 1 to 6\n"
    assert "entries 1 to 6 are not covered by a signed checkpoint" in result.stderr
    audit("checkpoint")
    assert "entries 7 to 7 are not covered by a signed checkpoint" in audit("verify").stderr
    audit("anchor --to anchors.jsonl")
    assert audit("verify --anchor anchors.jsonl").stderr == ""
    assert value(audit("verify", json=True))["ok"] is True


def test_a_broken_trail_exits_with_1_and_names_the_entries(audit: Audit, path: Path) -> None:
    broken(path, "UPDATE audit SET actor = 'mallory' WHERE seq = 3")
    assert audit("verify", code=1).stdout == "entry 3 was changed: it does not have the hash of what it says\n"
    found = value(audit("verify", code=1, json=True))
    assert (found["ok"], [problem["seq"] for problem in found["problems"]]) == (False, [3])


def test_an_anchor_finds_an_end_that_was_cut_off(audit: Audit, path: Path) -> None:
    assert audit("anchor --to anchors.jsonl").stdout == "Anchored entry 6 in anchors.jsonl\n"
    assert value(audit("anchor --to anchors.jsonl --unsigned", json=True))["signature"] == ""
    broken(path, "DELETE FROM audit WHERE seq > 4")
    audit("verify")
    assert [line[:7] for line in audit("verify --anchor anchors.jsonl", code=1).stdout.splitlines()] == [
        "entry 5",
        "entry 6",
    ]


def test_a_checkpoint_is_signed_and_verified_with_the_users_key_or_a_named_one(audit: Audit, tmp_path: Path) -> None:
    said = audit("checkpoint --key own.key").stdout
    assert said.startswith("Signed entry 6 with key ")
    audit("verify --public own.key.pub")
    audit("anchor --to anchors.jsonl")  # makes the user's own key, which has not signed that checkpoint
    assert "signed by none of these keys" in audit("verify", code=1).stdout
    with pytest.raises(InvalidInput):
        audit("anchor --to anchors.jsonl --key own.key --unsigned")
    with pytest.raises(NotFound):
        audit("verify --public nothing")


def test_an_export_has_a_line_for_each_entry(audit: Audit, tmp_path: Path) -> None:
    lines = audit("export").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert audit("export --out trail.jsonl").stdout == "Wrote 6 entries to trail.jsonl\n"
    assert (tmp_path / "trail.jsonl").read_text(encoding="utf-8").splitlines() == lines
    with pytest.raises(InvalidInput):
        audit("export --out trail.jsonl")
    assert value(audit("export --out trail.jsonl --force", json=True)) == {"path": "trail.jsonl", "entries": 6}
    with pytest.raises(InvalidInput):
        audit("export --out no/folder")


def test_pruning_takes_a_checkpoint_and_refuses_a_broken_trail(audit: Audit, path: Path) -> None:
    with pytest.raises(NotFound):
        audit("prune --through 3")
    audit("checkpoint")
    assert audit("prune --through 6").stdout == "Removed 6 entries\n"
    assert audit("verify").stdout == "No problems in 2 entries, 7 to 8\n"
    broken(path, "UPDATE audit SET count = 9 WHERE seq = 8")
    with pytest.raises(Conflict):
        audit("prune --through 6")


def test_a_store_without_a_trail_says_so(monkeypatch: pytest.MonkeyPatch, audit: Audit) -> None:
    def none(store: object) -> None:
        raise Unsupported("this store keeps no audit trail")

    monkeypatch.setattr("engram.audit.audited", none)
    for line in ("log", "verify", "export", "checkpoint", "anchor --to x", "prune --through 1"):
        with pytest.raises(Unsupported):
            audit(line)
