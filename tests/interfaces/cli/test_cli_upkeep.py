"""The commands that consolidate, and let go of what faded."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import engram
from engram.clock import Sources
from support.command_line import Run, value


class LongAgo(Sources):
    """A clock that stands in a year long past."""

    def now(self) -> datetime:
        return datetime(2020, 1, 1, tzinfo=UTC)


def state_twice(run: Run) -> None:
    run("memory add 'The deploys happen at midnight' --kind knowledge --agent alice")
    run("memory add 'Deploys occur at midnight' --kind knowledge --agent alice")


def long_ago(path: Path) -> None:
    with engram.open(path, sources=LongAgo()) as brain:
        brain.agent("alice").remember("A bus was late")
        brain.agent("alice").remember("The vault opens on Mondays", tags=["pinned"])
        brain.agent("bob").remember("Somebody coughed")


def test_consolidating_says_what_it_made_and_can_be_taken_back(run: Run) -> None:
    state_twice(run)
    would = run("upkeep consolidate --dry-run").stdout
    assert would == (
        "merge (alice, 2 statements say the same): The deploys happen at midnight\nWould consolidate: 1 change.\n"
    )
    (made,) = value(run("upkeep consolidate --json"))
    assert made["how"] == "merge"
    assert run("upkeep consolidate").stdout == "Consolidated: 0 changes.\n"
    assert len(value(run("memory search 'when do deploys happen?' --json"))) == 1
    run(f"upkeep consolidate --undo {made['id']} --dry-run", code=2)
    assert run(f"upkeep consolidate --undo {made['id']}").stdout == f"Undone {made['id']}: 2 sources restored.\n"
    assert len(value(run("memory search 'when do deploys happen?' --json"))) == 2
    run(f"upkeep consolidate --undo {made['id']}", code=3)


def test_a_dry_run_shows_what_would_go_and_why(run: Run, path: Path) -> None:
    long_ago(path)
    lines = run("upkeep forget --dry-run --agent alice").stdout.splitlines()
    assert "(alice, observation): strength 0.0" in lines[0]
    assert lines[0].endswith(": A bus was late")
    assert lines[1:] == ["Would forget 1 memory.", "  Kept 1 memory: pinned"]
    assert len(value(run("memory list --json"))) == 3


def test_what_goes_is_beside_the_database_and_comes_back(run: Run, path: Path) -> None:
    long_ago(path)
    gone = value(run("upkeep forget --json"))
    assert [each["text"] for each in gone["gone"]] == ["A bus was late", "Somebody coughed"]
    archive = Path(gone["archive"])
    assert archive.parent == path.parent
    assert archive.name.startswith("team-forgotten-")
    assert len(value(run("memory list --json"))) == 1
    assert run(f"upkeep forget --restore {archive}").stdout == "Restored 2 memories.\n"
    assert value(run(f"upkeep forget --restore {archive} --json")) == {"restored": 0}
    assert len(value(run("memory list --json"))) == 3


def test_limits_and_the_archive_can_be_given(run: Run, path: Path, tmp_path: Path) -> None:
    long_ago(path)
    assert run("upkeep forget --older-than 9000w").stdout.startswith("Forgot 0 memories.\n")
    assert run("upkeep forget --below 0.0").stdout.startswith("Forgot 0 memories.\n")
    target = tmp_path / "mine.gz"
    assert f"  Archived in {target}\n" in run(f"upkeep forget --archive {target} --agent bob").stdout
    assert target.exists()
    run(f"upkeep forget --archive {target}", code=5)
    assert "create it first" in run("upkeep forget --archive nowhere/gone.gz", code=2).stderr


@pytest.mark.parametrize("option", ["--older-than soon", "--older-than 5", "--below 2", "--restore nowhere.gz"])
def test_what_makes_no_sense_is_a_usage_error(run: Run, path: Path, option: str) -> None:
    long_ago(path)
    run(f"upkeep forget {option}", code=2)


def test_restoring_is_not_tried_and_needs_no_archive_of_its_own(run: Run, path: Path, tmp_path: Path) -> None:
    long_ago(path)
    archive = tmp_path / "gone.jsonl.gz"
    run(f"upkeep forget --archive {archive}")
    there = len(value(run("memory list --json")))
    assert "--restore cannot be combined" in run(f"upkeep forget --restore {archive} --dry-run", code=2).stderr
    run(f"upkeep forget --restore {archive} --archive other.gz", code=2)
    assert len(value(run("memory list --json"))) == there
    run(f"upkeep forget --restore {archive}")
    assert len(value(run("memory list --json"))) == 3
