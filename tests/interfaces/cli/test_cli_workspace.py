"""The commands that keep folders and bring them back."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from engram.cli import workspace
from support.command_line import Run, run_line, value


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command of the group on a database of its own, in an empty folder, and asserts its exit code."""
    monkeypatch.setenv("ENGRAM_DB", str(path))
    monkeypatch.setenv("ENGRAM_DURABLE", "no")
    monkeypatch.chdir(tmp_path)
    return lambda line, code=0: run_line(f"workspace {line}", code=code)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("<h1>hello</h1>")
    return folder


def test_a_folder_is_tracked_kept_compared_and_brought_back(run: Run, site: Path) -> None:
    assert run("create site site --agent alice").stdout == f"Tracking {site} as site\n"
    taken = run("snapshot site --label start").stdout.splitlines()
    assert taken[0].startswith("Snapshot ")
    assert taken[0].endswith(": 1 file, 14 bytes")
    assert taken[1] == "  Read 14 bytes, stored 15 bytes"
    assert run("snapshot site").stdout.startswith("Nothing has changed since snapshot ")
    assert run("diff site").stdout == "Nothing has changed.\n"
    (site / "index.html").rename(site / "old.html")
    (site / "index.html").write_text("<h1>bye</h1>")
    (site / "old.html").chmod(0o600)
    assert run("diff site").stdout == "~ index.html\n+ old.html\n"
    kept = run("restore site", code=5).stdout.splitlines()
    assert kept[1:] == ["  Unchanged: 0", "  Kept: index.html: it has changes that no snapshot holds"]
    assert run("restore site latest index.html --force").stdout.startswith("Restored 1 file of ")
    assert (site / "index.html").read_text() == "<h1>hello</h1>"
    run("restore site --into copy")
    assert run("verify").stdout == "Read 1 content, 14 bytes: all contents are intact\n"


def test_modes_and_new_names_are_shown(run: Run, site: Path) -> None:
    (site / "run").write_text("echo")
    (site / "run").chmod(0o644)
    run("create site site")
    first = value(run("snapshot site --json"))
    (site / "index.html").rename(site / "home.html")
    (site / "run").chmod(0o755)
    run("snapshot site")
    lines = run(f"diff site {first['id'][:8]} latest").stdout.splitlines()
    assert lines == ["> index.html -> home.html", "m run (644 -> 755)"]
    assert [one["kind"] for one in value(run(f"diff site {first['id']} --json"))["changes"]] == ["renamed", "mode"]


def test_workspaces_and_snapshots_are_listed(run: Run, site: Path) -> None:
    run("create site site --agent alice --ignore '*.log'")
    assert run("list site").stdout == "No snapshots yet.\n"
    (site / "x.log").write_text("x")
    run("snapshot site --label first")
    heading, row = run("list").stdout.splitlines()
    assert heading.split() == ["NAME", "SNAPSHOTS", "AGENT", "FOLDER"]
    assert row.split() == ["site", "1", "alice", str(site)]
    assert run("list site").stdout.splitlines()[1].split()[3:] == ["1", "14", "bytes", "first"]
    assert value(run("list --json"))[0]["ignore"] == ["*.log"]
    assert value(run("list site --json"))[0]["label"] == "first"
    assert run("list --agent bob").stdout == "No workspaces yet.\n"
    run("create site site --agent bob")
    run("snapshot site", code=2)
    run("snapshot site --agent bob")
    run("snapshot other", code=3)


def test_what_is_left_out_is_named(run: Run, site: Path) -> None:
    (site / ".env").write_text("AWS_KEY=AKIAQ6YT2MNB4VCXZ7LK")
    run("create site site")
    assert "  Left out: .env: it holds a secret (" in run("snapshot site").stdout
    run("create all site --keep-secrets")
    assert value(run("snapshot all --json"))["files"] == 2


def test_damage_is_told(run: Run, site: Path, path: Path) -> None:
    run("create site site")
    run("snapshot site")
    (kept,) = Path(f"{path}.objects").glob("??/*")
    kept.write_bytes(b"\x00other")
    found = run("verify site", code=1)
    assert found.stdout.splitlines()[0].endswith("1 problem")
    assert "site: index.html: the object " in found.stdout
    (site / "index.html").unlink()
    assert "Refused: index.html: " in run("restore site", code=1).stdout
    assert run("verify", code=1).stdout.endswith("To move damaged contents away: --repair\n")
    assert len(value(run("verify --repair --json", code=1))["problems"]) == 1
    assert "Repaired: damaged contents were moved away" in run("verify --repair", code=1).stdout


def test_objects_can_be_elsewhere_and_must_be_for_a_server(run: Run, site: Path, tmp_path: Path, path: Path) -> None:
    run("create site site --objects kept")
    run("snapshot site --objects kept")
    assert len(list((tmp_path / "kept").glob("??/*"))) == 1
    assert not Path(f"{path}.objects").exists()
    told = run("create site site --db :memory:", code=2).stderr
    assert "--objects" in told
    assert "setting `objects` (ENGRAM_OBJECTS)" in told


def test_a_setting_says_where_the_objects_are(
    run: Run, site: Path, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_OBJECTS", str(tmp_path / "kept"))
    run("create site site")
    run("snapshot site")
    assert len(list((tmp_path / "kept").glob("??/*"))) == 1
    monkeypatch.delenv("ENGRAM_OBJECTS")
    (tmp_path / "engram.toml").write_text('objects = "kept"\n')
    assert run("verify").stdout == "Read 1 content, 14 bytes: all contents are intact\n"
    assert not Path(f"{path}.objects").exists()


def test_old_snapshots_and_workspaces_are_forgotten(run: Run, site: Path) -> None:
    run("create site site --agent alice")
    for number in range(3):
        (site / "index.html").write_text(f"version {number}")
        run(f"snapshot site --label v{number}")
    lines = run("prune site --keep 1 --dry-run").stdout.splitlines()
    assert [line.split()[-1] for line in lines[:2]] == ["v0", "v1"]
    assert lines[2] == "Would forget 2 snapshots and 2 contents, 20 bytes"
    assert len(value(run("list site --json"))) == 3
    told = value(run("prune --keep 1 --json"))
    assert ([one["label"] for one in told["snapshots"]], told["objects"], told["dry_run"]) == (["v0", "v1"], 2, False)
    assert run("prune").stdout == "Forgot 0 snapshots and 0 contents, 0 bytes\n"
    assert run("verify").stdout.endswith("all contents are intact\n")
    run("prune other", code=3)
    run("prune site --keep 0", code=2)
    assert run("forget site --dry-run").stdout.splitlines()[-1].startswith("Would forget site with 1 snapshot and ")
    assert run("forget site").stdout.splitlines()[-1] == "Forgot site with 1 snapshot and 1 content, 10 bytes"
    run("forget site", code=3)
    assert (site / "index.html").exists()
    assert run("list").stdout == "No workspaces yet.\n"


def test_without_a_database_there_is_nothing_to_see(run: Run, path: Path) -> None:
    for line in ("list", "snapshot x", "diff x", "restore x", "verify", "prune", "forget x"):
        run(line, code=3)
    assert not path.exists()


def test_every_command_has_help() -> None:
    assert isinstance(workspace.command, click.Group)
    assert {"create", "diff", "list", "restore", "snapshot", "verify"} < workspace.command.commands.keys()
    assert all(command.help for command in workspace.command.commands.values())


def test_a_difference_names_what_could_not_be_compared(run: Run, site: Path) -> None:
    run("create site site")
    run("snapshot site")
    (site / "index.html").write_text("AWS_KEY=AKIAQ6YT2MNB4VCXZ7LK")
    lines = run("diff site").stdout.splitlines()
    assert lines[0] == "Nothing has changed."
    assert lines[1].startswith("  Left out: index.html: it holds a secret (")
