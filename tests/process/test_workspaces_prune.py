"""Old snapshots and forgotten workspaces go with their files, and no snapshot ever lacks one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from test_chunks import noise

import engram
from engram.agents.workspaces.objects import Objects
from engram.agents.workspaces.snapshots import Workspaces
from engram.errors import Conflict, InvalidInput, NotFound, StoreError
from engram.ports import KeepsEvents, Scope
from support.redis_server import redis_url

pytest_plugins = ["support.postgres_server"]
__all__ = ["redis_url"]

KILLS = 100 if os.environ.get("ENGRAM_LONG") else 20
WORKER = Path(__file__).parents[1] / "support" / "workspace_worker.py"
LARGE = 3_000_000


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[engram.Engram]:
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "sub").mkdir(parents=True)
    return made


@pytest.fixture
def own(brain: engram.Engram, folder: Path) -> Workspaces:
    made = brain.agent("alice").workspaces
    made.create("site", folder)
    return made


def stored(brain: engram.Engram) -> set[str]:
    assert brain.objects is not None
    return set(brain.objects.all())


def trees(brain: engram.Engram) -> int:
    store = brain.store
    assert isinstance(store, KeepsEvents)
    return sum(event.kind == "tree" for name in brain.agents() for event in store.events_after(Scope(name), 0, 10_000))


def versions(own: Workspaces, folder: Path, count: int) -> list[str]:
    """Snapshots of so many versions, of which each has a file of its own."""
    taken = list[str]()
    for number in range(count):
        (folder / "page").write_text(f"version {number}")
        (folder / "sub" / "kept").write_text("the same in all")
        taken.append(own.snapshot("site", label=f"v{number}").id)
    return taken


def test_all_but_the_newest_snapshots_go_with_what_only_they_needed(
    own: Workspaces, brain: engram.Engram, folder: Path, tmp_path: Path
) -> None:
    taken = versions(own, folder, 5)
    before, lists = stored(brain), trees(brain)
    told = own.prune("site", keep=2, dry_run=True)
    assert ([one.label for one in told.snapshots], told.objects, told.dry_run) == (["v0", "v1", "v2"], 3, True)
    assert stored(brain) == before
    assert len(own.snapshots("site")) == 5
    done = own.prune("site", keep=2)
    assert (done.snapshots, done.objects, done.size, done.trees) == (told.snapshots, 3, told.size, told.trees)
    assert [one.id for one in own.snapshots("site")] == taken[3:]
    assert len(stored(brain)) == len(before) - 3
    assert trees(brain) == lists - 3
    assert own.verify().problems == ()
    own.restore("site", taken[3], into=tmp_path / "back")
    assert (tmp_path / "back" / "page").read_text() == "version 3"
    with pytest.raises(NotFound):
        own.find("site", taken[0])
    assert own.prune("site", keep=2).objects == 0
    assert brain.upkeep.database.check() == []


def test_what_comes_back_after_it_was_deleted_is_stored_again(
    own: Workspaces, brain: engram.Engram, folder: Path
) -> None:
    (folder / "page").write_text("first")
    os.utime(folder / "page", (1_000_000_000, 1_000_000_000))
    own.snapshot("site")
    page = (folder / "page").stat()
    (folder / "other").write_text("second")
    (folder / "page").rename(folder.parent / "aside")
    own.snapshot("site")
    own.prune("site", keep=1)
    (folder.parent / "aside").rename(folder / "page")  # it looks as it did when it was seen
    assert (folder / "page").stat().st_mtime_ns == page.st_mtime_ns
    own.snapshot("site")
    assert own.verify().problems == ()


def test_a_note_names_no_content_that_was_deleted(own: Workspaces, brain: engram.Engram, folder: Path) -> None:
    versions(own, folder, 2)
    assert brain.objects is not None
    (name,) = brain.objects.note_names("seen-*.json")
    note = json.loads(brain.objects.read_note(name))
    (folder / "page").write_text("version 0")
    old = next(file for file in own.files(own.snapshots("site")[0]).values() if file.path == "page")
    note["files"]["page"][4] = old.hash
    brain.objects.write_note(name, json.dumps(note).encode())
    (brain.objects.folder / "seen-broken.json").write_text("[")
    own.prune("site", keep=1)
    assert "page" not in json.loads(brain.objects.read_note(name))["files"]
    assert brain.objects.read_note("seen-broken.json") == b""


def test_chunks_that_are_still_needed_stay(own: Workspaces, brain: engram.Engram, folder: Path) -> None:
    data = noise(LARGE)
    (folder / "large").write_bytes(b"\x00" + data)
    own.snapshot("site")
    (folder / "large").write_bytes(b"\x00" + data[: LARGE // 2] + b"more" + data[LARGE // 2 :])
    own.snapshot("site")
    before = stored(brain)
    pruned = own.prune("site", keep=1)
    assert 1 <= pruned.objects <= 4
    assert len(stored(brain)) == len(before) - pruned.objects
    assert own.verify().problems == ()


def test_what_another_agent_or_workspace_needs_stays(own: Workspaces, brain: engram.Engram, folder: Path) -> None:
    bob = brain.agent("bob").workspaces
    bob.create("his", folder)
    versions(own, folder, 2)
    (folder / "page").write_text("version 0")
    bob.snapshot("his")
    own.create("twin", folder)
    own.snapshot("twin")
    own.prune("site", keep=1)
    own.forget("site")
    assert bob.verify().problems == () == own.verify().problems
    assert [one.name for one in own.list()] == ["twin"]


def test_a_forgotten_workspace_leaves_nothing_but_the_folder(
    own: Workspaces, brain: engram.Engram, folder: Path, tmp_path: Path
) -> None:
    (folder / "unmistakable-name").write_text("x")
    versions(own, folder, 2)
    assert own.forget("site", dry_run=True).dry_run
    done = own.forget("site")
    assert (len(done.snapshots), stored(brain), trees(brain)) == (2, set(), 0)
    assert (folder / "page").exists()
    assert own.list() == []
    for act in (own.workspace, own.forget, own.snapshots):
        with pytest.raises(NotFound):
            act("site")
    assert brain.agent("alice").list() == []
    own.create("site", folder)
    assert own.snapshot("site").fresh
    assert own.verify().problems == ()


def test_snapshots_wait_for_a_prune_and_it_for_them(own: Workspaces, brain: engram.Engram, folder: Path) -> None:
    (folder / "page").write_text("x")
    assert brain.objects is not None
    with ThreadPoolExecutor() as others:
        with brain.objects.exclusive():
            taking = others.submit(own.snapshot, "site")
            assert not wait([taking], 0.2).done
        assert taking.result().fresh
        with brain.objects.in_use():
            pruning = others.submit(own.prune)
            assert not wait([pruning], 0.2).done
        assert pruning.result().objects == 0


def test_a_folder_that_serves_two_databases_is_not_pruned(
    own: Workspaces, brain: engram.Engram, folder: Path, tmp_path: Path
) -> None:
    versions(own, folder, 2)
    assert brain.objects is not None
    shared = str(brain.objects.folder)
    with engram.open(tmp_path / "y.db", embedder="hashing", durable=False, objects=shared) as other:
        theirs = other.agent("alice").workspaces
        theirs.create("site", folder)
        theirs.snapshot("site")
        with pytest.raises(Conflict, match="another database also stores its files"):
            theirs.prune(keep=1)
    with pytest.raises(Conflict, match="remove used-by-"):
        own.forget("site")
    assert own.verify().problems == ()


def test_nothing_is_deleted_if_it_cannot_be_told_what_is_needed(
    own: Workspaces, brain: engram.Engram, folder: Path
) -> None:
    (folder / "large").write_bytes(b"\x00" + noise(LARGE))
    taken = own.snapshot("site")
    (folder / "page").write_text("x")
    own.snapshot("site")
    assert brain.objects is not None
    hash = own.files(taken)["large"].hash
    (brain.objects.folder / hash[:2] / hash[2:]).write_bytes(b"\x02half")
    before = stored(brain)
    with pytest.raises(StoreError, match="is damaged"):
        own.prune("site", keep=1)
    assert stored(brain) == before
    assert len(own.snapshots("site")) == 2


@pytest.mark.parametrize("keep", [0, -1, True, 1.5])
def test_how_many_are_kept_is_a_number_from_one_on(own: Workspaces, keep: int) -> None:
    with pytest.raises(InvalidInput, match="`forget` takes a workspace away"):
        own.prune(keep=keep)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker forks")
def test_no_snapshot_lacks_a_file_whenever_it_or_a_prune_is_killed(path: Path, folder: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(WORKER), str(path), str(folder), str(KILLS)], check=True, timeout=600)
    with engram.open(path) as brain:
        own = brain.agent("alice").workspaces
        own.snapshot("site")
        own.prune(keep=1)
        assert own.verify().problems == ()
        own.restore("site", into=tmp_path / "back")
        written, back = list(folder.glob("file*")), tmp_path / "back"
        assert written
        assert all((back / file.name).read_bytes() == file.read_bytes() for file in written)
        assert brain.upkeep.database.check() == []


@pytest.mark.parametrize("kind", ["redis", "postgresql"])
def test_a_server_needs_the_setting_objects_and_then_has_workspaces(
    kind: str, request: pytest.FixtureRequest, folder: Path, tmp_path: Path
) -> None:
    url = str(request.getfixturevalue("redis_url" if kind == "redis" else "postgres_url"))
    url += f"?prefix={tmp_path.name}" if kind == "redis" else ""
    with engram.open(url, embedder="hashing", objects=tmp_path / "objects", durable=False) as brain:
        own = brain.agent("alice").workspaces
        own.create("site", folder)
        versions(own, folder, 3)
        assert own.prune("site", keep=1).objects == 2
        assert own.verify().problems == ()
        own.forget("site")
        assert (own.list(), stored(brain), trees(brain)) == ([], set(), 0)
        assert brain.agent("alice").list() == []


def test_a_folder_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    (tmp_path / "objects" / "lock").mkdir(parents=True)
    objects = Objects(tmp_path / "objects")
    with pytest.raises(StoreError, match="cannot be locked"), objects.exclusive():
        pass
