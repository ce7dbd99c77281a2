"""Snapshots hold what was there, restores bring it back, and nothing gets out of the folder."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_chunks import noise

import engram
from engram.agents.workspaces import objects as objects_module
from engram.agents.workspaces.dir_handles import FolderHandle, case_conflicts, link_problem, path_problem
from engram.agents.workspaces.objects import MAX_WHOLE, Objects, encode, sha256
from engram.agents.workspaces.snapshots import Workspaces, compare_files
from engram.errors import Conflict, InvalidInput, NotFound, StoreCorrupt, StoreReadOnly, Unsupported
from engram.model.workspace import Snapshot, WorkspaceFile
from engram.ports import Event, KeepsEvents, Scope

ALICE = Scope("alice")
SECRET = "AWS_SECRET=AKIAQ6YT2MNB4VCXZ7LK"
Make = Callable[..., Workspaces]


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[engram.Engram]:
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def make(brain: engram.Engram, tmp_path: Path) -> Make:
    def make(agent: str = "alice", objects: Path | None = None) -> Workspaces:
        kept = Objects(objects or tmp_path / "x.db.objects", durable=False)
        return Workspaces(brain.store, Scope(agent), brain.redactor, brain.sources, kept)

    return make


@pytest.fixture
def own(make: Make, folder: Path) -> Workspaces:
    made = make()
    made.create("site", folder)
    return made


def aged(folder: Path) -> None:
    """Lets the note trust the files: their changes are too long ago to be missed."""
    note = next((folder.parent / "x.db.objects").glob("seen-*"))
    seen = json.loads(note.read_text())
    seen["clock"] += 10**10
    note.write_text(json.dumps(seen))


def contents(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
    return found


# Snapshots


def test_a_workspace_is_created_once_and_found_again(own: Workspaces, folder: Path, tmp_path: Path) -> None:
    made = own.create("site", folder)
    assert [made] == list(own.list()) == [own.workspace("site")]
    assert made.folder == str(folder.resolve())
    with pytest.raises(Conflict):
        own.create("site", tmp_path)
    with pytest.raises(NotFound):
        own.create("other", tmp_path / "nowhere")
    with pytest.raises(NotFound):
        own.workspace("other")
    for name in ("", "../x", "a/b", "x" * 101, "a:b"):
        with pytest.raises(InvalidInput):
            own.create(name, folder)
    with pytest.raises(InvalidInput):
        own.create("more", folder, ignore=[SECRET])


def test_a_snapshot_of_the_same_files_is_the_same(own: Workspaces, folder: Path) -> None:
    (folder / "a.txt").write_text("one")
    first = own.snapshot("site", label="start")
    assert (first.files, first.size, first.fresh, first.label) == (1, 3, True, "start")
    second = own.snapshot("site")
    assert (second.id, second.fresh, second.stored) == (first.id, False, 0)
    (folder / "a.txt").write_text("two")
    third = own.snapshot("site")
    assert third.parent == first.id
    (folder / "a.txt").write_text("one")
    fourth = own.snapshot("site")
    assert fourth.tree == first.tree
    assert fourth.id != first.id
    assert [one.id for one in own.snapshots("site")] == [first.id, third.id, fourth.id]
    assert own.find("site", first.id[:10]) == own.snapshots("site")[0]
    with pytest.raises(NotFound):
        own.find("site", "zz")


def test_what_did_not_change_is_not_read(own: Workspaces, folder: Path) -> None:
    (folder / "a.txt").write_text("one")
    (folder / "b.txt").write_text("two!")
    assert own.snapshot("site").read == 7
    aged(folder)
    assert own.snapshot("site").read == 0
    aged(folder)
    (folder / "b.txt").write_text("three")
    assert own.snapshot("site").read == 5


def test_a_file_that_changed_just_before_is_read_again(own: Workspaces, folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("one")
    before = file.stat()
    own.snapshot("site")
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert own.snapshot("site").fresh


def test_a_note_that_cannot_be_read_costs_time_and_nothing_else(own: Workspaces, folder: Path) -> None:
    (folder / "a.txt").write_text("one")
    own.snapshot("site")
    note = next((folder.parent / "x.db.objects").glob("seen-*"))
    for text in ("", "{", "[]", '{"clock": 1, "files": {"a.txt": [1]}}', '{"files": {"a.txt": [1,2,"x",{},5,6]}}'):
        note.write_text(text)
        assert own.snapshot("site").read == 3


def test_the_same_content_is_stored_once(own: Workspaces, make: Make, folder: Path) -> None:
    data = noise(300_000)
    (folder / "a").write_bytes(data)
    assert 300_000 < own.snapshot("site").stored < 301_000
    (folder / "b").write_bytes(data)
    assert own.snapshot("site").stored == 0
    bob = make("bob")
    bob.create("his", folder)
    assert bob.snapshot("his").stored == 0


def test_a_small_edit_of_a_large_file_stores_little(own: Workspaces, folder: Path) -> None:
    data = noise(6 * MAX_WHOLE)
    (folder / "large").write_bytes(data)
    own.snapshot("site")
    (folder / "large").write_bytes(data[:2_000_000] + b"more" + data[2_000_000:])
    taken = own.snapshot("site")
    assert taken.read == len(data) + 4
    assert taken.stored < 1_200_000
    (folder / "large").unlink()
    own.restore("site")
    assert (folder / "large").read_bytes() == data[:2_000_000] + b"more" + data[2_000_000:]


def test_ignored_and_own_files_are_left_out(own: Workspaces, tmp_path: Path) -> None:
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "x" / "index.js").write_text("1")
    (tmp_path / "a.pyc").write_text("1")
    (tmp_path / "a.py").write_text("1")
    own.create("all", tmp_path, ignore=["node_modules", "*.pyc"])
    taken = own.snapshot("all")
    assert set(own.files(taken)) == {"a.py", "work"}
    assert not own.snapshot("all").fresh


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_special_files_are_skipped_and_named(own: Workspaces, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        taken = own.snapshot("site")
    assert [one.path for one in taken.skipped] == ["pipe", "socket"]
    assert taken.files == 0


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything can be read")
def test_what_cannot_be_read_is_skipped_and_named(own: Workspaces, folder: Path) -> None:
    (folder / "closed").write_text("x")
    (folder / "closed").chmod(0)
    assert own.snapshot("site").skipped[0].reason.startswith("it cannot be read")


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_no_text_is_skipped_and_named(own: Workspaces, folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff")).write_text("x")
    assert [one.path for one in own.snapshot("site").skipped] == ["bad\\udcff"]


def test_secrets_are_withheld_and_named(own: Workspaces, folder: Path, tmp_path: Path) -> None:
    (folder / ".env").write_text(SECRET)
    (folder / "large.log").write_text("nothing here\n" * 150_000 + SECRET + "\nnothing here" * 10)
    (folder / SECRET).write_text("x")
    (folder / "link").symlink_to(SECRET)
    (folder / "fine.txt").write_text("fine")
    taken = own.snapshot("site")
    assert set(own.files(taken)) == {"fine.txt"}
    assert len(taken.skipped) == 4
    aged(folder)
    assert len(own.snapshot("site").skipped) == 4
    raw = b"".join(file.read_bytes() for file in tmp_path.glob("x.db*") if file.is_file())
    raw += b"".join(file.read_bytes() for file in (tmp_path / "x.db.objects").rglob("*") if file.is_file())
    assert SECRET[-20:].encode() not in raw
    own.create("all", folder, secrets="keep")
    assert ".env" in own.files(own.snapshot("all"))


def test_a_workspace_does_not_exist_for_another_agent(own: Workspaces, make: Make, folder: Path) -> None:
    own.snapshot("site")
    with pytest.raises(NotFound):
        make("bob").snapshot("site")
    with pytest.raises(NotFound):
        make("bob").restore("site")


def test_snapshots_do_not_disturb_what_is_learned(own: Workspaces, brain: engram.Engram) -> None:
    alice = brain.agent("alice")
    own.snapshot("site")
    alice.record_decision(context="deploy", action="retry", outcome="success")
    assert len(alice.learning.history()) == 1
    brain._parts.experience.anew(ALICE)
    assert len(alice.learning.history()) == 1


def test_snapshots_move_with_the_database_and_need_their_objects(own: Workspaces, make: Make, folder: Path) -> None:
    (folder / "a").write_text("one")
    own.snapshot("site")
    away = make(objects=folder.parent / "elsewhere")
    assert len(away.snapshots("site")) == 1
    done = away.restore("site", into=folder.parent / "new")
    assert [one.path for one in done.refused] == ["a"]
    assert "copy that folder" in done.refused[0].reason


def test_many_can_take_snapshots_at_once(make: Make, folder: Path) -> None:
    for number in range(60):
        (folder / str(number)).write_bytes(noise(2000 if number else 2 * MAX_WHOLE, number))
    make().create("site", folder)
    with ThreadPoolExecutor(4) as threads:
        taken = list(threads.map(lambda own: own.snapshot("site"), [make() for _ in range(4)]))
    assert len({one.tree for one in taken}) == 1
    assert make().verify().problems == ()
    assert len(make().restore("site", into=folder.parent / "again").written) == 60


def test_a_store_without_events_cannot_have_workspaces(brain: engram.Engram, tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        Workspaces(object(), ALICE, brain.redactor, brain.sources, Objects(tmp_path))  # type: ignore[arg-type]


# Differences


def test_a_diff_tells_what_became_of_each_file(own: Workspaces, folder: Path) -> None:
    for name in ("same", "edited", "gone", "moved", "script", "empty"):
        (folder / name).write_text(name if name != "empty" else "")
        (folder / name).chmod(0o644)
    (folder / "link").symlink_to("same")
    first = own.snapshot("site")
    (folder / "edited").write_text("edited more")
    (folder / "gone").unlink()
    (folder / "sub").mkdir()
    (folder / "moved").rename(folder / "sub" / "renamed")
    (folder / "script").chmod(0o755)
    (folder / "new").write_text("new")
    (folder / "empty").rename(folder / "void")
    (folder / "link").unlink()
    (folder / "link").symlink_to("edited")
    now = own.diff("site")
    second = own.snapshot("site")
    diff = own.diff("site", first.id, second.id)
    assert diff.changes == now.changes
    assert now.after == ""
    assert diff.of("changed") == ("edited", "link")
    assert diff.of("removed") == ("empty", "gone")
    assert diff.of("added") == ("new", "void")
    assert diff.of("mode") == ("script",)
    (renamed,) = [change for change in diff.changes if change.kind == "renamed"]
    assert renamed.before is not None
    assert (renamed.before.path, renamed.path) == ("moved", "sub/renamed")
    assert own.diff("site").changes == ()


PATHS = st.sampled_from(["a", "b", "c/d", "c/e"])
FILES = st.dictionaries(PATHS, st.tuples(st.sampled_from(["x", "y", ""]), st.sampled_from([0o644, 0o755]))).map(
    lambda found: {
        path: WorkspaceFile(path=path, mode=mode, size=len(text), hash=sha256(text.encode()))
        for path, (text, mode) in found.items()
    }
)


@given(FILES, FILES)
def test_a_diff_leads_from_one_to_the_other(before: dict[str, WorkspaceFile], after: dict[str, WorkspaceFile]) -> None:
    files = dict(before)
    changes = compare_files(before, after)
    for change in changes:
        if change.before is not None:
            del files[change.before.path]
    for change in changes:
        if change.after is not None:
            files[change.after.path] = change.after
    assert files == after


# Restores

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\x00"), min_size=1, max_size=20).filter(
    lambda name: name not in {".", ".."} and not name.startswith(".engram-")
)
BYTES = st.one_of(st.binary(max_size=200), st.integers(0, 9).map(lambda n: bytes([n]) * (MAX_WHOLE + 1000)))
LEAVES = st.one_of(
    st.tuples(st.just("file"), BYTES, st.sampled_from([0o644, 0o755, 0o600])),
    st.tuples(st.just("link"), NAMES),
    st.just(("folder",)),
)
TREES = st.recursive(LEAVES, lambda below: st.dictionaries(NAMES, below, max_size=4), max_leaves=8)


def build(folder: Path, tree: object) -> None:
    folder.mkdir(exist_ok=True)
    for name, what in tree.items() if isinstance(tree, dict) else ():
        path = folder / name
        if isinstance(what, dict) or what[0] == "folder":
            build(path, what)
        elif what[0] == "link":
            path.symlink_to(what[1])
        else:
            path.write_bytes(what[1])
            path.chmod(what[2])


@pytest.mark.skipif(os.name == "nt", reason="Windows has fewer names")
@settings(max_examples=60)
@given(st.dictionaries(NAMES, TREES, max_size=5))
def test_a_snapshot_restored_is_what_was_there(tree: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as name, engram.open(":memory:", embedder="hashing") as brain:
        root = Path(name)
        build(root / "work", tree)
        kept = Objects(root / "objects", durable=False)
        own = Workspaces(brain.store, ALICE, brain.redactor, brain.sources, kept)
        own.create("site", root / "work", secrets="keep")
        taken = own.snapshot("site")
        done = own.restore("site", into=root / "again")
        assert (done.kept, done.refused, taken.skipped) == ((), (), ())
        assert contents(root / "again") == contents(root / "work")
        assert own.verify().problems == ()
        assert own.restore("site", into=root / "again").written == ()


def test_unsaved_changes_are_kept_unless_forced(own: Workspaces, folder: Path) -> None:
    file = folder / "a"
    file.write_text("one")
    first = own.snapshot("site")
    file.write_text("unsaved")
    (folder / "new").write_text("new")
    done = own.restore("site")
    assert [one.path for one in done.kept] == ["a"]
    assert file.read_text() == "unsaved"
    own.snapshot("site")
    assert own.restore("site", first.id).written == ("a",)
    assert file.read_text() == "one"
    file.write_text("unsaved again")
    assert own.restore("site", first.id, force=True).written == ("a",)
    assert file.read_text() == "one"
    assert (folder / "new").read_text() == "new"


def test_some_files_can_be_restored(own: Workspaces, folder: Path) -> None:
    for name in ("a/x", "a/y", "ab/z", "c"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    own.snapshot("site")
    shutil.rmtree(folder)
    assert own.restore("site", paths=["a/", "c"]).written == ("c", "a/x", "a/y")
    assert not (folder / "ab").exists()
    with pytest.raises(NotFound):
        own.restore("site", paths=["nothing"])


def test_only_the_mode_is_restored_if_only_the_mode_changed(own: Workspaces, folder: Path) -> None:
    (folder / "run").write_text("x")
    (folder / "run").chmod(0o755)
    own.snapshot("site")
    (folder / "run").chmod(0o600)
    assert own.restore("site").written == ("run",)
    assert stat.S_IMODE((folder / "run").stat().st_mode) == 0o755


def test_set_user_id_is_neither_kept_nor_restored(own: Workspaces, folder: Path) -> None:
    (folder / "run").write_text("x")
    (folder / "run").chmod(0o4755)
    assert own.files(own.snapshot("site"))["run"].mode == 0o755


def test_what_is_in_the_way_stays(own: Workspaces, folder: Path, tmp_path: Path) -> None:
    (folder / "a").write_text("file")
    (folder / "b").mkdir()
    (folder / "b" / "c").write_text("below")
    own.snapshot("site")
    shutil.rmtree(folder)
    (folder / "a" / "full").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "b").symlink_to(outside)
    done = own.restore("site")
    assert [one.path for one in done.refused] == ["a"]
    assert [one.path for one in done.kept] == ["b"]
    done = own.restore("site", force=True)
    assert [one.path for one in done.refused] == ["a"]
    assert (folder / "b" / "c").read_text() == "below"
    assert not (folder / "b").is_symlink()
    assert list(outside.iterdir()) == []


def test_a_file_is_written_in_one_step(own: Workspaces, folder: Path, tmp_path: Path) -> None:
    (folder / "a").write_bytes(noise(3 * MAX_WHOLE))
    first = own.snapshot("site")
    (folder / "a").write_text("newer")
    own.snapshot("site")
    chunk = next(p for p in (tmp_path / "x.db.objects").glob("??/*") if 20_000 < p.stat().st_size < MAX_WHOLE)
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
    done = own.restore("site", first.id)
    assert "damaged" in done.refused[0].reason
    assert contents(folder) == {"a": (stat.S_IMODE((folder / "a").stat().st_mode), b"newer")}


def test_links_that_lead_out_are_recorded_and_not_restored(own: Workspaces, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "private").write_text("private")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "up").symlink_to("../outside")
    (folder / "sub").mkdir()
    (folder / "sub" / "in").symlink_to("../file")
    taken = own.snapshot("site")
    assert set(own.files(taken)) == {"out", "up", "sub/in"}
    done = own.restore("site", into=tmp_path / "new")
    assert {one.path for one in done.refused} == {"out", "up"}
    assert contents(tmp_path / "new") == {"sub": "folder", "sub/in": ("link", "../file")}
    there = own.restore("site")
    assert (there.refused, there.unchanged) == ((), 3), "what is there already leads nowhere new"
    (folder / "out").unlink()
    (folder / "up").unlink()
    (folder / "up").symlink_to("elsewhere")
    assert {one.path for one in own.restore("site", force=True).refused} == {"out", "up"}
    assert (folder / "up").readlink() == Path("elsewhere")


def test_an_empty_folder_is_kept_and_is_no_file(own: Workspaces, folder: Path, tmp_path: Path) -> None:
    (folder / "empty").mkdir()
    assert own.snapshot("site").files == 0
    own.restore("site", into=tmp_path / "new")
    assert contents(tmp_path / "new") == {"empty": "folder"}


def test_names_that_differ_in_case_only_are_refused_where_they_are_one(
    own: Workspaces, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "Readme").write_text("one")
    (folder / "readme").write_text("two")
    if len(list(folder.iterdir())) == 1:
        pytest.skip("they are one here")
    own.snapshot("site")
    assert len(own.restore("site", into=tmp_path / "one").written) == 2
    monkeypatch.setattr(FolderHandle, "ignores_case", lambda self: True)
    with pytest.raises(InvalidInput, match="Readme and readme"):
        own.restore("site", into=tmp_path / "two")
    assert list((tmp_path / "two").iterdir()) == []
    assert own.restore("site", paths=["readme"], into=tmp_path / "two").written == ("readme",)


def test_case_is_compared_in_every_folder_and_form() -> None:
    assert case_conflicts(["a/x", "A/y", "b"]) == [["A", "a"]]
    assert case_conflicts(["caf\u00e9", "cafe\u0301"]) == [["cafe\u0301", "caf\u00e9"]]
    assert case_conflicts(["a", "b"]) == []


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\x00b", "x" * 256, "a/" * 300 + "b", "\ud800"],
)
def test_a_path_that_could_leave_is_unsafe(path: str) -> None:
    assert path_problem(path, windows=False)
    assert path_problem(path, windows=True)


@pytest.mark.parametrize("path", ["C:x", "c:/x", "\\x", "a\\..\\b", "nul", "aux.txt", "x.", "x ", "a:stream", "LPT1"])
def test_windows_has_more_ways_out(path: str) -> None:
    assert path_problem(path, windows=True)
    assert path_problem(path, windows=False) is None


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("a", "../x"),
        ("a", "/etc"),
        ("a", ""),
        ("d/a", "../../x"),
        ("a", "b/../../x"),
        ("d/a", "s/../../x"),
        ("a", ".."),
    ],
)
def test_a_link_that_could_leave_is_refused(path: str, target: str) -> None:
    assert link_problem(path, target, windows=False)


@pytest.mark.parametrize(
    ("path", "target"), [("a", "b"), ("a", "."), ("d/a", "../b"), ("d/e/a", "../../b/c"), ("d/a", "..")]
)
def test_a_link_that_stays_inside_is_not(path: str, target: str) -> None:
    assert link_problem(path, target, windows=False) is None


# Strangers' snapshots


def forge(brain: engram.Engram, rows: Sequence[object], *, name: str = "site") -> Snapshot:
    """Puts a snapshot into the database that no snapshot() has made."""
    encoded = json.dumps(rows, separators=(",", ":")).encode()
    tree, at = sha256(encoded), datetime(2026, 1, 1, tzinfo=UTC)
    taken = Snapshot(id=sha256(b"forged" + encoded), workspace=name, tree=tree, at=at, files=1, size=1)
    body = taken.model_dump(mode="json", exclude={"id", "at", "fresh", "read", "stored"})
    store = brain.store
    assert isinstance(store, KeepsEvents)
    id = f"snapshot:{taken.id}"
    store.append(
        ALICE,
        [
            Event(f"tree:{tree}", "tree", at, f"tree:{tree}", body={"entries": rows}),  # type: ignore[dict-item]
            Event(id, "snapshot", at, id, f"workspace:{name}", body),
        ],
    )
    return taken


def filled(row: Sequence[object], hash: str, sub: str) -> list[object]:
    return [{"HASH": hash, "SUB": sub}.get(str(cell), cell) for cell in row]


HOSTILE = st.one_of(
    st.sampled_from(
        ["..", ".", "", "/", "../x", "/tmp/x", "a/b", "a/../..", "C:", "a\x00", "link", "x" * 300, "\\..\\x"]
    ),
    st.text(max_size=8),
)
ROWS = st.lists(
    st.one_of(
        st.tuples(HOSTILE, st.just("file"), st.integers(-1, 0o7777), st.integers(0, 9), st.just("HASH")),
        st.tuples(HOSTILE, st.just("link"), st.just(0), st.just(0), st.sampled_from(["..", "/tmp", "../outside", "a"])),
        st.tuples(HOSTILE, st.just("folder"), st.just(0), st.just(0), st.sampled_from(["SUB", "nothing"])),
        st.tuples(HOSTILE, st.just("device")),
    ).map(list),
    max_size=5,
)


@settings(max_examples=100)
@given(ROWS, ROWS, st.booleans())
def test_a_forged_snapshot_writes_nothing_outside(
    rows: list[list[object]], below: list[list[object]], force: bool
) -> None:
    with tempfile.TemporaryDirectory() as name, engram.open(":memory:", embedder="hashing") as brain:
        root = Path(name).resolve()
        (root / "work").mkdir()
        (root / "outside").mkdir()
        (root / "work" / "link").symlink_to(root / "outside")
        kept = Objects(root / "objects", durable=False)
        hash = kept.put(b"evil")
        kept.fsync()
        own = Workspaces(brain.store, ALICE, brain.redactor, brain.sources, kept)
        own.create("site", root / "work")
        inner = [filled(row, hash, "nothing") for row in below]
        try:
            sub = forge(brain, inner).tree
            forge(brain, [filled(row, hash, sub) for row in rows])
            own.restore("site", force=force)
        except StoreCorrupt:
            pass
        assert {path.name for path in root.iterdir()} == {"work", "outside", "objects"}
        assert list((root / "outside").iterdir()) == []
        for path in (root / "work").rglob("*"):
            if path.is_symlink() and path.name != "link":
                assert path.resolve().is_relative_to(root / "work")


def test_a_snapshot_that_claims_endless_files_is_refused(
    own: Workspaces, brain: engram.Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.agents.workspaces.snapshots.MAX_FILES", 1000)
    sub = forge(brain, []).tree
    for _ in range(12):
        sub = forge(brain, [["a", "folder", 0, 0, sub], ["b", "folder", 0, 0, sub]]).tree
    with pytest.raises(StoreCorrupt, match="more than 1,000 files"):
        own.restore("site")
    for _ in range(250):
        sub = forge(brain, [["a", "folder", 0, 0, sub]]).tree
    with pytest.raises(StoreCorrupt, match="folders in each other"):
        own.restore("site")


def test_an_object_is_asked_for_by_hash_only(own: Workspaces, brain: engram.Engram, folder: Path) -> None:
    forge(brain, [["a", "file", 0o644, 1, "../../../etc/passwd"]])
    assert "no hash" in own.restore("site").refused[0].reason
    assert contents(folder) == {}


# Objects


def test_damage_is_found_and_repaired_by_the_next_snapshot(own: Workspaces, folder: Path, tmp_path: Path) -> None:
    (folder / "a").write_text("one " * 100)
    (folder / "b").write_bytes(noise(3 * MAX_WHOLE))
    (folder / "c").write_text("gone")
    own.snapshot("site")
    aged(folder)
    assert own.verify().problems == ()
    folder_of_objects = tmp_path / "x.db.objects"
    whole = folder_of_objects / sha256(b"one " * 100)[:2] / sha256(b"one " * 100)[2:]
    whole.write_bytes(whole.read_bytes()[:-2])
    chunk = next(p for p in folder_of_objects.glob("??/*") if 20_000 < p.stat().st_size < MAX_WHOLE)
    chunk.write_bytes(b"\x00changed")
    (folder_of_objects / sha256(b"gone")[:2] / sha256(b"gone")[2:]).unlink()
    found = own.verify("site")
    assert [one.path for one in found.problems] == ["site: a", "site: b", "site: c"]
    assert not own.snapshot("site").read
    own.verify("site", repair=True)
    assert own.snapshot("site").read > 0
    assert own.verify("site").problems == ()


def test_an_object_cannot_unpack_to_more_than_it_may(tmp_path: Path) -> None:
    kept = Objects(tmp_path, durable=False)
    bomb = encode(b"\x00" * (50 * MAX_WHOLE))
    assert len(bomb) < MAX_WHOLE
    hash = sha256(b"bomb")
    (tmp_path / hash[:2]).mkdir()
    (tmp_path / hash[:2] / hash[2:]).write_bytes(bomb)
    with pytest.raises(StoreCorrupt):
        kept.size_of(hash)
    (tmp_path / hash[:2] / hash[2:]).write_bytes(b"\x02" + bytes.fromhex(hash))
    with pytest.raises(StoreCorrupt):
        kept.size_of(hash)


@pytest.mark.parametrize("size", [0, 1, 5000, MAX_WHOLE, MAX_WHOLE + 1, 3 * MAX_WHOLE])
@pytest.mark.parametrize("durable", [True, False])
def test_what_is_kept_is_read_again(tmp_path: Path, size: int, durable: bool) -> None:
    kept = Objects(tmp_path / "o", durable=durable)
    for data in (noise(size), b"abc" * (size // 3)):
        hash = kept.put_stream([data])
        assert kept.has(hash)
        assert b"".join(kept.read(hash)) == data
        kept.fsync()
        assert b"".join(Objects(tmp_path / "o").read(hash)) == data
    assert list((tmp_path / "o" / "tmp").glob("*")) == []


def test_a_crash_before_the_end_leaves_no_object(tmp_path: Path) -> None:
    kept = Objects(tmp_path / "o")
    hash = kept.put(b"half")
    again = Objects(tmp_path / "o")
    assert not again.has(hash)
    (left,) = (tmp_path / "o" / "tmp").iterdir()
    now = again.clock()
    assert left.exists()
    os.utime(left, ns=(now, now - 2 * objects_module._STALE_NS))
    again.clock()
    assert not left.exists()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything can be written")
def test_a_folder_that_cannot_be_written_is_named(own: Workspaces, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.db.objects").mkdir()
    (tmp_path / "x.db.objects").chmod(0o500)
    with pytest.raises(StoreReadOnly):
        own.snapshot("site")


def test_a_link_that_goes_while_a_folder_is_read_takes_nothing_else_with_it(
    own: Workspaces, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sub").mkdir()
    for place in (folder, folder / "sub"):
        (place / "a-link").symlink_to("b-file")
        (place / "b-file").write_text("b")

    def gone(place: FolderHandle, name: str) -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(FolderHandle, "target", gone)
    taken = own.snapshot("site")
    assert set(own.files(taken)) == {"b-file", "sub/b-file"}
    assert [one.path for one in taken.skipped] == ["a-link", "sub/a-link"]


def test_a_folder_may_be_ignored_with_a_slash_at_the_end(own: Workspaces, folder: Path) -> None:
    (folder / "sub" / "build").mkdir(parents=True)
    (folder / "sub" / "build" / "out").write_text("1")
    (folder / "a.py").write_text("1")
    own.create("all", folder, ignore=["build/"])
    assert set(own.files(own.snapshot("all"))) == {"a.py", "sub"}


def test_what_is_left_out_now_is_not_told_as_removed(own: Workspaces, folder: Path) -> None:
    (folder / "config").write_text("colour=red")
    (folder / "gone").write_text("gone")
    own.snapshot("site")
    (folder / "config").write_text(SECRET)
    (folder / "gone").unlink()
    found = own.diff("site")
    assert [(change.kind, change.path) for change in found.changes] == [("removed", "gone")]
    assert [one.path for one in found.skipped] == ["config"]
