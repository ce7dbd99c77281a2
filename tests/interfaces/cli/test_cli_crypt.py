"""The commands that encrypt the database and look after its keys."""

from __future__ import annotations

from pathlib import Path

import pytest

import engram.cli
from support.command_line import Run, value


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engram.cli, "COMMANDS", tuple(dict.fromkeys([*engram.cli.COMMANDS, "crypt"])))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ENGRAM_EMBEDDER", "hashing")


@pytest.mark.parametrize("mode", ["fields", "file"])
def test_a_database_is_encrypted_with_a_new_key_that_is_needed_from_then_on(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    run("memory add 'the canary sings' --agent alice")
    said = run(f"crypt init --mode {mode} --key-file my.key")
    assert said.stdout == (
        f"{path} is encrypted ({mode})\nThe new master key is in my.key; keep a copy of it in a safe place\n"
    )
    assert 'key_file = "my.key"' in said.stderr
    assert b"canary" not in path.read_bytes()
    refused = run("memory list", code=1)
    assert "key_file" in refused.stderr
    monkeypatch.setenv("ENGRAM_KEY_FILE", "my.key")
    assert "the canary sings" in run("memory search canary").stdout
    facts = value(run("crypt status --json"))
    assert facts["mode"] == mode
    assert facts["key"] == "my.key"
    run("db check")
    again = run(f"crypt init --mode {mode}")
    assert "The master key is in my.key" in again.stdout


def test_a_new_database_begins_encrypted_with_the_key_in_the_users_folder(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = value(run("crypt init --json"))
    assert made["made"] is True
    assert Path(made["key"]).name == "engram.key"
    assert path.exists()
    monkeypatch.setenv("ENGRAM_KEY", Path(made["key"]).read_text())
    run("memory add hello --agent alice")
    shown = run("config show").stdout
    assert Path(made["key"]).read_text().strip() not in shown
    assert value(run("crypt status --json")) | {"database": ""} == {
        "database": "",
        "mode": "fields",
        "master": value(run("crypt status --json"))["master"],
        "agents": 1,
        "keys": 2,
        "unfinished": 0,
        "key": "ENGRAM_KEY",
    }


def test_a_plain_database_says_so(run: Run) -> None:
    run("memory add hello")
    assert "mode      none" in run("crypt status").stdout
    run("crypt rotate --to new.key", code=5)
    run("crypt rekey", code=1)
    run("crypt destroy alice", code=1)


@pytest.mark.parametrize("mode", ["fields", "file"])
def test_the_master_key_is_changed(run: Run, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    run(f"crypt init --mode {mode} --key-file old.key")
    monkeypatch.setenv("ENGRAM_KEY_FILE", "old.key")
    run("memory add 'hello world' --agent alice")
    run("crypt rotate --to old.key", code=5)
    assert run("crypt rotate --to new.key").stdout.startswith("The master key is now new.key; it protects ")
    run("memory list", code=1)
    monkeypatch.setenv("ENGRAM_KEY_FILE", "new.key")
    assert "hello world" in run("memory list").stdout
    run("db check")


def test_data_keys_are_changed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("crypt init --key-file my.key")
    monkeypatch.setenv("ENGRAM_KEY_FILE", "my.key")
    run("memory add 'hello world' --agent alice")
    assert run("crypt rekey").stdout.endswith("encrypted with new keys\n")
    assert value(run("crypt rekey --agent alice --index --json"))["index"] is True
    run("crypt rekey --agent nobody", code=3)
    assert "hello world" in run("memory search hello").stdout
    run("db check")


def test_an_agent_is_destroyed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("crypt init --key-file my.key")
    monkeypatch.setenv("ENGRAM_KEY_FILE", "my.key")
    run("memory add 'hello world' --agent alice")
    run("memory add 'hello there' --agent bob")
    assert run("crypt destroy alice --yes").stdout == "Destroyed the keys of alice, and 1 memory\n"
    assert "there" in run("memory list").stdout
    assert "world" not in run("memory list").stdout
    run("crypt destroy alice --yes", code=3)
    assert value(run("crypt destroy bob --yes --json"))["removed"]["memories"] == 1


def test_a_whole_file_has_one_key_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("crypt init --mode file --key-file my.key")
    monkeypatch.setenv("ENGRAM_KEY_FILE", "my.key")
    run("crypt rekey", code=1)
    run("crypt destroy alice --yes", code=1)


@pytest.mark.parametrize("mode", ["fields", "file"])
def test_a_backup_is_restored(run: Run, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    run(f"crypt init --mode {mode} --key-file my.key")
    monkeypatch.setenv("ENGRAM_KEY_FILE", "my.key")
    run("memory add first --agent alice")
    run("db backup kept.db")
    run("memory add second --agent alice")
    run("db restore kept.db --force")
    assert "second" not in run("memory list").stdout
    assert "first" in run("memory list").stdout


def test_what_was_written_before_is_named(run: Run, path: Path) -> None:
    run("memory add hello")
    left = path.with_name(path.name + ".schema-0004.bak")
    left.write_bytes(b"plain")
    assert left.name in run("crypt init --key-file my.key").stderr
