"""Snapshots of folders, with file contents stored by hash, so that unchanged files cost nothing.

folder → scan → read new files → objects → trees → snapshot
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from hashlib import sha256 as new_hash
from io import FileIO
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar, get_args

from pydantic import JsonValue

from engram.agents.event_erasure import delete_events
from engram.agents.workspaces.dir_handles import (
    MAX_DEPTH,
    FolderHandle,
    case_conflicts,
    link_problem,
    name_problem,
    path_problem,
)
from engram.agents.workspaces.objects import MAX_WHOLE, SUFFIX, Objects, is_hash, sha256
from engram.clock import Sources
from engram.errors import Conflict, EngramError, Hint, InvalidInput, NotFound, StoreCorrupt, StoreError
from engram.memories import holds
from engram.model.workspace import (
    Change,
    PruneReport,
    RestoreReport,
    Secrets,
    Skipped,
    Snapshot,
    VerifyReport,
    Workspace,
    WorkspaceDiff,
    WorkspaceFile,
)
from engram.ports import Event, KeepsEvents, ListsAgents, Redactor, Scope, Store, unstorable
from engram.ports.completed import require
from engram.system import batched

WORKSPACES = "workspaces"
LATEST = "latest"
MAX_FILES = 5_000_000
MAX_SKIPPED = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_OWN = re.compile(r"\.engram-[0-9]+-[0-9]+\.part")
_MOST = 1_000_000
_PAGE = 500
_PIECE = 1 << 20
_SCANNED, _OVERLAP = 8192, 1024
"""Size of the pieces in which secrets are searched, so that each rule reads only the pieces that may match."""
_LOOKS_BINARY = 8000
_RACY_NS = 2 * 10**9
"""A file changed this short a time before it was read may have changed again without a new timestamp."""
_READERS = 4
_FEED = 2000
_IDENTITY = "workspaces:database"
"""Setting that identifies a database to its folders of objects."""


P = ParamSpec("P")
T = TypeVar("T")
_Hashes = list[str]
_Versions = list[Mapping[str, WorkspaceFile]]


class FileRecord(NamedTuple):
    """Status of a file when it was read, and the hash of its content."""

    size: int
    modified: int
    inode: int
    changed: int
    hash: str
    reason: str
    """Reason for not storing it; empty if it is stored."""


@dataclass
class FolderScan:
    """Everything found in a folder."""

    files: dict[str, WorkspaceFile] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    seen: dict[str, FileRecord] = field(default_factory=dict)
    read: int = 0


class Workspaces:
    """The workspaces of one agent. File contents are stored as objects, everything else as events in the database."""

    def __init__(self, store: Store, scope: Scope, redactor: Redactor, sources: Sources, objects: Objects) -> None:
        require(store, KeepsEvents, "a workspace")
        self._store = store
        self._scope, self._redactor, self._sources = scope, redactor, sources
        self._objects = objects

    def create(
        self, name: str, folder: str | Path, *, ignore: Sequence[str] = (), secrets: Secrets = "withhold"
    ) -> Workspace:
        """Track a folder under a name; repeating the call is harmless. Raises `Conflict` if the name is taken.

        `ignore` has names or paths to leave out, such as `node_modules` or `build/*.o`. Text files with a secret are
        left out and reported, unless `secrets` is `"keep"`.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInput("a workspace's name has up to 100 letters, digits, dots, dashes and underscores")
        if secrets not in get_args(Secrets):
            raise InvalidInput(f'secrets are "withhold" or "keep", not {secrets!r}')
        whole = Path(folder).expanduser().resolve()
        if not whole.is_dir():
            raise NotFound(f"there is no folder {whole}; make it first")
        patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        for text in (name, str(whole), *patterns):
            if self._redactor.clean([text])[0].secrets or unstorable(text):
                raise InvalidInput("the name, the folder or a pattern contains a secret or cannot be stored; rename it")
        made = Workspace(name=name, folder=str(whole), ignore=patterns, secrets=secrets, created_at=self._sources.now())
        body = made.model_dump(mode="json", exclude={"created_at"})
        id = f"workspace:{name}"
        event = Event(id, "workspace", made.created_at, subject=id, topic=WORKSPACES, body=body)
        if not self._store.append(self._scope, [event])[0]:
            known = self.workspace(name)
            if known.model_dump(exclude={"created_at"}) != made.model_dump(exclude={"created_at"}):
                raise Conflict(f"there is a workspace {name} of {known.folder} already; choose another name")
            return known
        return made

    def workspace(self, name: str) -> Workspace:
        """Return the workspace of this name. Raises `NotFound`."""
        id = f"workspace:{name}"
        found = [e for e in self._store.events_of(self._scope, [id]) if e.id == id] if _NAME.fullmatch(name) else []
        if not found:
            raise NotFound(f"there is no workspace {name!r}", hint=Hint("workspace list", "shows all workspaces"))
        return _workspace(found[0])

    def list(self) -> Sequence[Workspace]:
        """Return all workspaces, oldest first."""
        found = self._store.events_by_topic(self._scope, WORKSPACES, _MOST)
        return [_workspace(event) for event in found if event.kind == "workspace"]

    def snapshots(self, name: str) -> Sequence[Snapshot]:
        """Return the snapshots of a workspace, oldest first."""
        found = self._store.events_by_topic(self._scope, f"workspace:{self.workspace(name).name}", _MOST)
        return [_snapshot(event) for event in found if event.kind == "snapshot"]

    def find(self, name: str, snapshot: str = LATEST) -> Snapshot:
        """Return the snapshot whose id starts like this, or the latest. Raises `NotFound` and `InvalidInput`."""
        there = self.snapshots(name)
        found = there[-1:] if snapshot == LATEST else [one for one in there if snapshot and one.id.startswith(snapshot)]
        if not found:
            which = "no snapshot" if snapshot == LATEST else f"no snapshot {snapshot!r}"
            raise NotFound(f"there is {which} of {name}", hint=Hint(f"workspace list {name}", "shows its snapshots"))
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} snapshots begin with {snapshot!r}; give more of the id")
        return found[0]

    def snapshot(self, name: str, *, label: str = "") -> Snapshot:
        """Take a snapshot; if nothing has changed, return the latest one with `fresh` false."""
        workspace = self.workspace(name)
        clock = self._objects.clock()
        with self._objects.in_use():
            self._register_database()
            return self._take(workspace, clock, label)

    def _take(self, workspace: Workspace, clock: int, label: str) -> Snapshot:
        name, stored = workspace.name, self._objects.stored
        looked = self._scan(workspace, clock, keep=True)
        self._objects.fsync()
        root, trees = _make_trees(looked.files.values())
        latest = next(iter(self.snapshots(name)[-1:]), None)
        if latest is not None and latest.tree == root:
            taken = latest.model_copy(update={"fresh": False})
        else:
            parent = latest.id if latest else ""
            taken = Snapshot(
                id=sha256(f"{name}\n{parent}\n{root}".encode()),
                workspace=name,
                tree=root,
                parent=parent,
                label=self._redactor.clean([label])[0].text,
                at=self._sources.now(),
                files=sum(file.kind != "folder" for file in looked.files.values()),
                size=sum(file.size for file in looked.files.values()),
                skipped=tuple(looked.skipped[:MAX_SKIPPED]),
            )
            self._append(taken, trees)
        self._write_note(workspace, clock, looked)
        return taken.model_copy(
            update={
                "skipped": tuple(looked.skipped),
                "read": looked.read,
                "stored": self._objects.stored - stored,
            }
        )

    def files(self, snapshot: Snapshot) -> Mapping[str, WorkspaceFile]:
        """Return the files of a snapshot by path, validated. Raises `StoreCorrupt`."""
        files = dict[str, WorkspaceFile]()
        level = [("", snapshot.tree)]
        for _ in range(MAX_DEPTH + 1):
            entries = self._entries({tree for _, tree in level})
            below = list[tuple[str, str]]()
            for prefix, tree in level:
                if not entries[tree] and prefix:
                    files[prefix[:-1]] = WorkspaceFile(path=prefix[:-1], kind="folder")
                for file in entries[tree]:
                    path = prefix + file.path
                    if file.kind == "folder":
                        below.append((path + "/", file.hash))
                    else:
                        files[path] = file.model_copy(update={"path": path})
                if len(files) + len(below) > MAX_FILES:
                    raise StoreCorrupt(f"the snapshot {snapshot.id[:12]} claims more than {MAX_FILES:,} files")
            if not below:
                return files
            level = below
        raise StoreCorrupt(f"the snapshot {snapshot.id[:12]} claims more than {MAX_DEPTH} folders in each other")

    def diff(self, name: str, before: str = LATEST, after: str | None = None) -> WorkspaceDiff:
        """Compare two snapshots, or a snapshot with the current folder.

        Files that are currently left out are in `skipped` and are not changes.
        """
        first = self.find(name, before)
        if after is not None:
            second = self.find(name, after)
            changes = compare_files(self.files(first), self.files(second))
            return WorkspaceDiff(workspace=name, before=first.id, after=second.id, changes=changes)
        looked = self._scan(self.workspace(name), self._objects.clock(), keep=False)
        unknown = {one.path for one in looked.skipped}
        before_ = {path: file for path, file in self.files(first).items() if not _is_within(path, unknown)}
        changes = compare_files(before_, looked.files)
        return WorkspaceDiff(workspace=name, before=first.id, after="", changes=changes, skipped=tuple(looked.skipped))

    def restore(
        self,
        name: str,
        snapshot: str = LATEST,
        *,
        paths: Sequence[str] = (),
        into: str | Path | None = None,
        force: bool = False,
    ) -> RestoreReport:
        """Restore files, all or those at or below `paths`, to their folder or another one.

        A file with changes that are in no snapshot of the workspace is kept, unless `force`. Nothing is deleted, and
        nothing is written outside the folder. Raises `InvalidInput` before writing anything if two paths differ only in
        case and the file system ignores case.
        """
        with self._objects.in_use():
            return self._restore_files(name, snapshot, (paths,) if isinstance(paths, str) else paths, into, force)

    def _restore_files(
        self, name: str, snapshot: str, paths: Sequence[str], into: str | Path | None, force: bool
    ) -> RestoreReport:
        workspace, wanted = self.workspace(name), self.find(name, snapshot)
        files = _select(self.files(wanted), paths)
        target = Path(workspace.folder if into is None else into).expanduser().resolve()
        result = _Restorer(self._objects, self._in_snapshots(name), force)
        try:
            target.mkdir(parents=True, exist_ok=True)
            with FolderHandle.open_folder(target) as place:
                safe = {path for path in files if path_problem(path) is None}
                same = case_conflicts(safe)
                if same and place.ignores_case():
                    raise InvalidInput(
                        f"{' and '.join(same[0])} would be one file here; restore one of them by its path"
                    )
                result.restore(place, files)
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror}; restore into another folder") from error
        return RestoreReport(
            workspace=name,
            snapshot=wanted.id,
            folder=str(target),
            written=tuple(result.written),
            unchanged=result.unchanged,
            kept=tuple(result.kept),
            refused=tuple(result.refused),
        )

    def _in_snapshots(self, name: str) -> Callable[[str, WorkspaceFile], bool]:
        """Make a function that finds a path in any snapshot, reading them as far as needed."""
        older, read = iter(reversed(self.snapshots(name))), _Versions()

        def held(path: str, there: WorkspaceFile) -> bool:
            if any(_same_content(files.get(path), there) for files in read):
                return True
            for snapshot in older:
                read.append(self.files(snapshot))
                if _same_content(read[-1].get(path), there):
                    return True
            return False

        return held

    def verify(self, name: str | None = None, *, repair: bool = False) -> VerifyReport:
        """Read every object of the snapshots, of one workspace or of all, and verify its hash.

        With `repair`, damaged files are moved away, so that the next snapshot of the same content stores it again.
        """
        names = [one.name for one in self.list()] if name is None else [self.workspace(name).name]
        users, problems, size = dict[str, str](), list[Skipped](), 0
        for each in names:
            for snapshot in self.snapshots(each):
                try:
                    for file in self.files(snapshot).values():
                        if file.kind == "file":
                            users.setdefault(file.hash, f"{each}: {file.path}")
                except StoreCorrupt as error:
                    problems.append(Skipped(path=f"{each}: snapshot {snapshot.id[:12]}", reason=str(error)))
        for hash, path in users.items():
            try:
                size += self._objects.size_of(hash)
            except EngramError as error:
                problems.append(Skipped(path=path, reason=str(error)))
                if repair and is_hash(hash):
                    self._objects.move_damaged(hash)
        for each in names if repair and problems else ():
            self._objects.write_note(_note_name(self._scope, each), b"")
        return VerifyReport(objects=len(users), size=size, problems=tuple(problems))

    def prune(self, name: str | None = None, *, keep: int | None = None, dry_run: bool = False) -> PruneReport:
        """Delete all but the newest `keep` snapshots, of a workspace or of all, and then unused objects.

        Without `keep`, no snapshot is deleted. Objects that a snapshot of any agent uses are kept. Waits for a
        concurrent snapshot and vice versa; after a crash, at most unused data is left. Raises `Conflict` if the folder
        of objects is used by another database, and `NotAllowed` if an affected agent is under a legal hold.
        """
        return prune([self], name, keep=keep, dry_run=dry_run)

    def forget(self, name: str, *, dry_run: bool = False) -> PruneReport:
        """Delete a workspace with its snapshots and the objects only they used; the folder itself is not touched.

        Raises `NotFound`, `NotAllowed` if the agent is under a legal hold, and `Conflict` as `prune` does.
        """
        with self._objects.exclusive():
            known = self.workspace(name).name
            holds.refuse_if_agent_held(self._store, self._scope, f"workspace {known!a} of {self._scope.agent!a}")
            swept = self._delete_snapshots({self._scope.agent: self.snapshots(known)}, dry_run=dry_run)
            if not dry_run:
                delete_events(self._store, self._scope, [f"workspace:{known}"])
                self._objects.delete_note(_note_name(self._scope, known))
            return swept

    def _excess_snapshots(self, name: str | None, keep: int | None) -> Sequence[Snapshot]:
        """Return the snapshots beyond the number to keep, of a workspace or of all."""
        names = [one.name for one in self.list()] if name is None else [self.workspace(name).name]
        return [] if keep is None else [one for each in names for one in self.snapshots(each)[:-keep]]

    def _delete_snapshots(self, old: Mapping[str, Sequence[Snapshot]], *, dry_run: bool) -> PruneReport:
        """Delete snapshots of agents, then the objects only they used; it can be repeated after an interruption."""
        self._check_sole_user()
        for agent in [agent for agent, snapshots in old.items() if snapshots]:
            holds.refuse_if_agent_held(self._store, Scope(agent), f"a snapshot of {agent!a}")
        needed, lost = set[str](), dict[str, Sequence[str]]()
        for own in self._all_agents():
            agent = own._scope.agent
            trees, hashes = own._needed_hashes({snapshot.id for snapshot in old.get(agent, ())})
            needed |= hashes
            lost |= {agent: own._unneeded_trees(trees)} if agent in old else {}
        needed |= {part for hash in needed for part in self._objects.chunk_hashes(hash)}
        objects = {hash: size for hash, size in self._objects.all().items() if hash not in needed}
        if not dry_run:
            for agent, snapshots in old.items():
                delete_events(self._store, Scope(agent), [f"snapshot:{snapshot.id}" for snapshot in snapshots])
                delete_events(self._store, Scope(agent), [f"tree:{hash}" for hash in lost.get(agent, ())])
            self._invalidate_notes(objects)
            self._objects.remove(objects)
        return PruneReport(
            snapshots=tuple(snapshot for snapshots in old.values() for snapshot in snapshots),
            trees=sum(len(hashes) for hashes in lost.values()),
            objects=len(objects),
            size=sum(objects.values()),
            dry_run=dry_run,
        )

    def _needed_hashes(self, gone: set[str]) -> tuple[set[str], set[str]]:
        """Return the trees and contents used by the other snapshots. Raises `StoreCorrupt` if that is unknown."""
        kept = [one for each in self.list() for one in self.snapshots(each.name) if one.id not in gone]
        trees, hashes, level = set[str](), set[str](), {snapshot.tree for snapshot in kept}
        while level:
            trees |= level
            files = [file for entries in self._entries(level).values() for file in entries]
            hashes |= {file.hash for file in files if file.kind == "file"}
            level = {file.hash for file in files if file.kind == "folder"} - trees
        return trees, hashes

    def _unneeded_trees(self, trees: set[str]) -> Sequence[str]:
        """Return the trees that are not among these."""
        found, after = _Hashes(), 0
        while page := self._store.events_after(self._scope, after, _FEED):
            hashes = (event.id.removeprefix("tree:") for event in page if event.kind == "tree")
            found += [hash for hash in hashes if hash not in trees]
            after = page[-1].seq
        return found

    def _all_agents(self) -> Iterator[Workspaces]:
        """Yield the workspaces of all agents, which share the folder of objects."""
        require(self._store, ListsAgents, "finding the files that no workspace uses")
        for agent in self._store.agents():
            yield Workspaces(self._store, Scope(agent), self._redactor, self._sources, self._objects)

    def _invalidate_notes(self, hashes: Mapping[str, int]) -> None:
        """Remove files from the notes whose contents are about to be deleted, so that they are read again."""
        for name in self._objects.note_names("seen-*.json"):
            try:
                note = json.loads(self._objects.read_note(name) or b"{}")
                left = {path: row for path, row in note.get("files", {}).items() if FileRecord(*row).hash not in hashes}
                data = json.dumps({**note, "files": left}, separators=(",", ":")).encode()
            except (ValueError, TypeError, AttributeError):
                data = b""
            self._objects.write_note(name, data, lasting=True)

    def _register_database(self) -> str:
        """Mark the folder of objects as used by this database; returns the database's id."""
        if not (id := self._store.setting(_IDENTITY)):
            self._store.set_setting(_IDENTITY, self._sources.new_id())
            id = self._store.setting(_IDENTITY) or ""
        mark = f"used-by-{sha256(id.encode())[:32]}"
        if mark not in self._objects.note_names("used-by-*"):
            self._objects.write_note(mark, b"", lasting=True)
        return mark

    def _check_sole_user(self) -> None:
        own = self._register_database()
        if other := next((mark for mark in self._objects.note_names("used-by-*") if mark != own), None):
            raise Conflict(
                f"another database also stores its files in {self._objects.folder}, and they cannot be distinguished; "
                f"if that database no longer exists, remove {other} there"
            )

    def _append(self, snapshot: Snapshot, trees: Mapping[str, Sequence[JsonValue]]) -> None:
        """Store the snapshot with its new trees in one transaction."""
        events = [
            Event(f"tree:{hash}", "tree", snapshot.at, subject=f"tree:{hash}", body={"entries": [*entries]})
            for hash, entries in trees.items()
        ]
        id = f"snapshot:{snapshot.id}"
        body = snapshot.model_dump(mode="json", exclude={"id", "at", "fresh", "read", "stored"})
        events.append(
            Event(id, "snapshot", snapshot.at, subject=id, topic=f"workspace:{snapshot.workspace}", body=body)
        )
        self._store.append(self._scope, events)

    def _entries(self, trees: Iterable[str]) -> Mapping[str, Sequence[WorkspaceFile]]:
        """Return the entries of each tree. Raises `StoreCorrupt` if one is missing or damaged."""
        found, ordered = dict[str, Sequence[WorkspaceFile]](), sorted(trees)
        for some in batched(ordered, _PAGE):
            asked = [f"tree:{hash}" for hash in some]
            for event in self._store.events_of(self._scope, asked):
                if event.kind == "tree":
                    found[event.id.removeprefix("tree:")] = _read_tree(event)
        if missing := next((hash for hash in ordered if hash not in found), None):
            raise StoreCorrupt(f"the tree {missing[:12]} is missing; restore the database from a backup")
        return found

    def _scan(self, workspace: Workspace, clock: int, *, keep: bool) -> FolderScan:
        """Scan the folder. With `keep`, new contents are stored as objects."""
        seen = self._read_note(workspace)
        with ThreadPoolExecutor(_READERS) as readers:
            looking = _FolderScanner(workspace, self._objects, self._redactor, seen, readers, keep)
            try:
                with FolderHandle.open_folder(Path(workspace.folder)) as place:
                    looking.walk(place, "")
            except OSError as error:
                raise NotFound(f"{workspace.folder} cannot be read: {error.strerror}; is the folder there?") from error
        return looking.finish()

    def _read_note(self, workspace: Workspace) -> Mapping[str, FileRecord]:
        """Return the trustworthy file records of the last scan; empty if the note is unreadable."""
        try:
            note = json.loads(self._objects.read_note(_note_name(self._scope, workspace.name)) or b"{}")
            known = {path: FileRecord(*row) for path, row in note.get("files", {}).items()}
            sure = int(note.get("clock", 0)) - _RACY_NS
            return {path: one for path, one in known.items() if one.modified <= sure and one.changed <= sure}
        except (ValueError, TypeError, AttributeError):
            return {}

    def _write_note(self, workspace: Workspace, clock: int, looked: FolderScan) -> None:
        note = json.dumps({"clock": clock, "files": looked.seen}, separators=(",", ":")).encode()
        self._objects.write_note(_note_name(self._scope, workspace.name), note)


class _FolderScanner:
    """Scan of a folder: walks it and reads new or changed files in threads."""

    def __init__(
        self,
        workspace: Workspace,
        objects: Objects,
        redactor: Redactor,
        seen: Mapping[str, FileRecord],
        readers: ThreadPoolExecutor,
        keep: bool,
    ) -> None:
        self._objects, self._redactor, self._seen, self._readers, self._keep = objects, redactor, seen, readers, keep
        self._scan = workspace.secrets == "withhold"
        patterns = [pattern.rstrip("/") or pattern for pattern in workspace.ignore]
        self._patterns = [re.compile(fnmatch.translate(pattern)) for pattern in patterns]
        self._own_folder, self._own = _own_files(objects.folder)
        self._looked = FolderScan()
        self._unknown = list[str]()

    def walk(self, place: FolderHandle, prefix: str) -> None:
        """Scan a folder, which stays open until all its files are read."""
        pending = list[tuple[str, os.stat_result, Future[tuple[FileRecord, int]]]]()
        try:
            self._entries(place, prefix, pending)
            for path, found, future in pending:
                self._add_read(path, found.st_mode, future)
        finally:
            wait([future for *_, future in pending])  # a folder must not be closed while files of it are opened

    def _entries(
        self,
        place: FolderHandle,
        prefix: str,
        pending: list[tuple[str, os.stat_result, Future[tuple[FileRecord, int]]]],
    ) -> None:
        own = self._own if place.path == self._own_folder else frozenset[str]()
        entries = [name for name in place.names() if name not in own and not self._ignored(prefix, name)]
        if prefix and not entries:
            self._add(WorkspaceFile(path=prefix[:-1], kind="folder"))
        for name in entries:
            path = prefix + name
            if path not in self._seen and (reason := path_problem(path)):
                self._skip(path, reason)
                continue
            found = place.stat(name)
            if found is None:
                continue
            if stat.S_ISDIR(found.st_mode):
                self._enter(place, name, path)
            elif stat.S_ISLNK(found.st_mode):
                self._link(place, name, path)
            elif not stat.S_ISREG(found.st_mode):
                self._skip(path, "it is no file, link or folder")
            elif (known := self._seen.get(path)) is not None and known[:4] == _stat_key(found):
                self._add_file(path, found.st_mode, known)
            else:
                pending.append((path, found, self._readers.submit(self._read, place, name)))

    def _add_read(self, path: str, mode: int, reading: Future[tuple[FileRecord, int]]) -> None:
        try:
            seen, read = reading.result()
        except OSError as error:
            self._skip(path, f"it cannot be read: {error.strerror}")
        else:
            self._looked.read += read
            self._add_file(path, mode, seen)

    def finish(self) -> FolderScan:
        """Return the result, without files whose path contains a secret."""
        for path in self._paths_with_secret(self._unknown):
            self._looked.seen.pop(path, None)
            if self._looked.files.pop(path, None):
                self._skip(path, "its name holds a secret")
        self._looked.skipped.sort(key=lambda one: one.path)
        return self._looked

    def _paths_with_secret(self, paths: list[str]) -> list[str]:
        """Return the paths that contain a secret; they are checked together, since usually none does."""
        if not paths or not self._redactor.clean(["\n".join(paths)])[0].secrets:
            return []
        if len(paths) == 1:
            return paths
        half = len(paths) // 2
        return [*self._paths_with_secret(paths[:half]), *self._paths_with_secret(paths[half:])]

    def _ignored(self, prefix: str, name: str) -> bool:
        if _OWN.fullmatch(name):
            return True
        return any(pattern.match(name) or pattern.match(prefix + name) for pattern in self._patterns)

    def _enter(self, place: FolderHandle, name: str, path: str) -> None:
        if path.count("/") + 2 > MAX_DEPTH:
            self._skip(path, "it is too deep")
            return
        try:
            with place.child(name) as below:
                self.walk(below, path + "/")
        except OSError as error:
            self._skip(path, f"it cannot be read: {error.strerror}")

    def _link(self, place: FolderHandle, name: str, path: str) -> None:
        try:
            target = place.target(name)
        except OSError as error:  # it went just now, or is something else
            self._skip(path, f"it cannot be read: {error.strerror}")
            return
        if unstorable(target) or self._redactor.clean([target])[0].secrets:
            self._skip(path, "its target cannot be stored")
        else:
            self._add(WorkspaceFile(path=path, kind="link", target=target))

    def _add_file(self, path: str, mode: int, seen: FileRecord) -> None:
        self._looked.seen[path] = seen
        if seen.reason:
            self._skip(path, seen.reason)
            self._unknown += [path] if path not in self._seen else []
        else:
            self._add(WorkspaceFile(path=path, mode=stat.S_IMODE(mode) & 0o777, size=seen.size, hash=seen.hash))

    def _add(self, file: WorkspaceFile) -> None:
        self._looked.files[file.path] = file
        if file.path not in self._seen:
            self._unknown.append(file.path)

    def _skip(self, path: str, reason: str) -> None:
        shown = path.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\0")
        self._looked.skipped.append(Skipped(path=self._redactor.clean([shown])[0].text, reason=reason))

    def _read(self, place: FolderHandle, name: str) -> tuple[FileRecord, int]:
        """Read a file and return its record and the bytes read; reads again if the file changes meanwhile."""
        read = 0
        for _ in range(3):
            with place.open(name) as file:
                before = os.fstat(file.fileno())
                if not stat.S_ISREG(before.st_mode):
                    return FileRecord(*_stat_key(before), "", "it is no file, link or folder"), read
                hash, reason = self._content(file, before.st_size)
                after = os.fstat(file.fileno())
            read += after.st_size
            if _stat_key(before) == _stat_key(after):
                return FileRecord(*_stat_key(after), hash, reason), read
        return FileRecord(0, 0, 0, 0, "", "it changed while it was read"), read

    def _content(self, file: FileIO, size: int) -> tuple[str, str]:
        """Return the hash of a file's content, or the reason for not storing it."""
        if size <= MAX_WHOLE:
            data = _read_at_most(file, MAX_WHOLE)
            if self._scan and (rule := self._secret([data])):
                return "", f"it holds a secret ({rule})"
            return (self._objects.put(data) if self._keep else sha256(data)), ""
        if self._scan and (rule := self._secret(_pieces(file))):
            return "", f"it holds a secret ({rule})"
        file.seek(0)
        if self._keep:
            return self._objects.put_stream(_pieces(file)), ""
        whole = new_hash()
        for piece in _pieces(file):
            whole.update(piece)
        return whole.hexdigest(), ""

    def _secret(self, pieces: Iterable[bytes]) -> str:
        """Return the redaction rule that matches a text; empty for none, or if it is no text."""
        before = b""
        for number, piece in enumerate(pieces):
            if number == 0 and b"\x00" in piece[:_LOOKS_BINARY]:
                return ""
            data = before + piece
            texts = [
                data[start : start + _SCANNED + _OVERLAP].decode("utf-8", "surrogateescape")
                for start in range(0, len(data), _SCANNED)
            ]
            if rule := next((cleaned.secrets[0] for cleaned in self._redactor.clean(texts) if cleaned.secrets), ""):
                return rule
            before = data[-_OVERLAP:]
        return ""


class _Restorer:
    """A restore: writes permitted files and reports the others."""

    def __init__(self, objects: Objects, in_snapshots: Callable[[str, WorkspaceFile], bool], force: bool) -> None:
        self._objects, self._in_snapshots, self._force = objects, in_snapshots, force
        self.written = list[str]()
        self.unchanged = 0
        self.kept = list[Skipped]()
        self.refused = list[Skipped]()

    def restore(self, place: FolderHandle, files: Mapping[str, WorkspaceFile]) -> None:
        """Write files below a folder; unsafe paths are refused."""
        safe = list[WorkspaceFile]()
        for path, file in files.items():
            reason = path_problem(path)
            if reason is None:
                safe.append(file)
            else:
                self.refused.append(Skipped(path=path, reason=reason))
        self._restore_folder(place, "", _to_tree(safe))

    def _restore_folder(self, place: FolderHandle, prefix: str, branch: _FolderTree) -> None:
        for name, file in sorted(branch.files.items()):
            self._try(file.path, self._restore_file, place, name, file)
        for name, below in sorted(branch.folders.items()):
            path = prefix + name
            inner = self._try(path, self._folder, place, name, path)
            if inner is not None:
                with inner:
                    self._restore_folder(inner, path + "/", below)

    def _try(self, path: str, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a function; if it fails, record the reason and return `None`."""
        try:
            return act(*args, **kwargs)
        except (StoreError, NotFound) as error:
            self.refused.append(Skipped(path=path, reason=str(error)))
        except OSError as error:
            self.refused.append(Skipped(path=path, reason=f"it cannot be written: {error.strerror}"))
        return None

    def _folder(self, place: FolderHandle, name: str, path: str) -> FolderHandle | None:
        """Open a folder; `None` if something else is in its place and must be kept."""
        found = place.stat(name)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            if not self._may_replace(place, name, path, found):
                return None
            place.remove(name)
        return place.child(name, make=True)

    def _restore_file(self, place: FolderHandle, name: str, file: WorkspaceFile) -> None:
        if file.kind == "folder":
            had = place.stat(name)
            inner = self._folder(place, name, file.path)
            if inner is not None:
                inner.close()
                self._count(file.path, had is None or not stat.S_ISDIR(had.st_mode))
            return
        found = place.stat(name)
        there = None if found is None else self._existing(place, name, found)
        if there is not None and _same_content(there, file):
            differs = file.kind == "file" and there.mode != file.mode
            if differs:
                place.chmod(name, file.mode)
            self._count(file.path, differs)
        elif file.kind == "link" and (reason := link_problem(file.path, file.target)):
            self.refused.append(Skipped(path=file.path, reason=reason))
        elif found is None or self._may_replace(place, name, file.path, found):
            if file.kind == "link":
                place.link(name, file.target)
            else:
                place.write(name, self._objects.read(file.hash), file.mode, durable=self._objects.durable)
            self._count(file.path, True)

    def _count(self, path: str, wrote: bool) -> None:
        if wrote:
            self.written.append(path)
        else:
            self.unchanged += 1

    def _may_replace(self, place: FolderHandle, name: str, path: str, found: os.stat_result) -> bool:
        """Return true if an existing entry may be replaced, and report it otherwise; folders may not."""
        there = self._existing(place, name, found)
        if there is None:
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "something that is no file"
            self.refused.append(Skipped(path=path, reason=f"{kind} is in its place"))
            return False
        may = self._force or self._in_snapshots(path, there)
        if not may:
            self.kept.append(Skipped(path=path, reason="it has changes that no snapshot holds"))
        return may

    def _existing(self, place: FolderHandle, name: str, found: os.stat_result) -> WorkspaceFile | None:
        """Return the existing file or link; `None` for anything else."""
        if stat.S_ISLNK(found.st_mode):
            return WorkspaceFile(path=name, kind="link", target=place.target(name))
        if not stat.S_ISREG(found.st_mode):
            return None
        whole = new_hash()
        with place.open(name) as file:
            for piece in _pieces(file):
                whole.update(piece)
        return WorkspaceFile(path=name, mode=stat.S_IMODE(found.st_mode) & 0o777, hash=whole.hexdigest())


@dataclass
class _FolderTree:
    """Contents of a folder by name."""

    files: dict[str, WorkspaceFile] = field(default_factory=dict)
    folders: dict[str, _FolderTree] = field(default_factory=dict)


def prune(
    several: Sequence[Workspaces], name: str | None = None, *, keep: int | None = None, dry_run: bool = False
) -> PruneReport:
    """Prune the workspaces of several agents that share a folder; see `Workspaces.prune`."""
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise InvalidInput(f"keep is a whole number from 1 on, not {keep!r}; `forget` takes a workspace away")
    if not several:
        return PruneReport(dry_run=dry_run)
    with several[0]._objects.exclusive():
        return several[0]._delete_snapshots(
            {own._scope.agent: own._excess_snapshots(name, keep) for own in several}, dry_run=dry_run
        )


def compare_files(before: Mapping[str, WorkspaceFile], after: Mapping[str, WorkspaceFile]) -> tuple[Change, ...]:
    """Return the changes between two sets of files, by path; a removed file found elsewhere is a rename."""
    changes = list[Change]()
    for path in before.keys() & after.keys():
        old, new = before[path], after[path]
        if not _same_content(old, new):
            changes.append(Change(kind="changed", path=path, before=old, after=new))
        elif old.mode != new.mode:
            changes.append(Change(kind="mode", path=path, before=old, after=new))
    gone = defaultdict[str, list[WorkspaceFile]](list)
    for path in sorted(before.keys() - after.keys(), reverse=True):
        file = before[path]
        gone[file.hash if file.size else ""].append(file)
    for path in sorted(after.keys() - before.keys()):
        file = after[path]
        if file.size and gone[file.hash]:
            changes.append(Change(kind="renamed", path=path, before=gone[file.hash].pop(), after=file))
        else:
            changes.append(Change(kind="added", path=path, after=file))
    changes += [Change(kind="removed", path=file.path, before=file) for files in gone.values() for file in files]
    return tuple(sorted(changes, key=lambda change: change.path))


def _same_content(one: WorkspaceFile | None, other: WorkspaceFile) -> bool:
    """Return true if two files have the same content, whatever their names and permissions."""
    return one is not None and (one.kind, one.hash, one.target) == (other.kind, other.hash, other.target)


def _make_trees(files: Iterable[WorkspaceFile]) -> tuple[str, dict[str, list[JsonValue]]]:
    """Return the hash of the root folder, and the entries of every folder by hash."""
    trees = dict[str, list[JsonValue]]()

    def tree(branch: _FolderTree) -> str:
        entries: dict[str, JsonValue] = {name: [name, "folder", 0, 0, tree(b)] for name, b in branch.folders.items()}
        for name, file in branch.files.items():
            if file.kind == "folder":
                entries[name] = [name, "folder", 0, 0, tree(_FolderTree())]
            else:
                entries[name] = [name, file.kind, file.mode, file.size, file.hash or file.target]
        rows = [entries[name] for name in sorted(entries)]
        hash = sha256(_canonical(rows))
        trees[hash] = rows
        return hash

    return tree(_to_tree(files)), trees


def _read_tree(event: Event) -> list[WorkspaceFile]:
    """Return the entries of a folder. Raises `StoreCorrupt` if its hash or a name is wrong."""
    rows = event.body.get("entries")
    damaged = StoreCorrupt(f"the tree {event.id[5:17]} is damaged; restore the database from a backup")
    if not isinstance(rows, list) or f"tree:{sha256(_canonical(rows))}" != event.id:
        raise damaged
    files = list[WorkspaceFile]()
    for row in rows:
        match row:
            case [str(name), "file" | "link" | "folder" as kind, int(mode), int(size), str(ref)]:
                if reason := name_problem(name, windows=False):
                    raise StoreCorrupt(f"the tree {event.id[5:17]} has a file that cannot be: {reason}") from None
                where = {"target": ref} if kind == "link" else {"hash": ref}
                files.append(WorkspaceFile(path=name, kind=kind, mode=mode, size=size, **where))
            case _:
                raise damaged
    if len({file.path for file in files}) != len(files):
        raise damaged
    return files


def _to_tree(files: Iterable[WorkspaceFile]) -> _FolderTree:
    """Arrange files by folder."""
    root = _FolderTree()
    for file in files:
        *folders, name = file.path.split("/")
        branch = root
        for folder in folders:
            branch = branch.folders.setdefault(folder, _FolderTree())
        branch.files[name] = file
    return root


def _select(files: Mapping[str, WorkspaceFile], paths: Sequence[str]) -> Mapping[str, WorkspaceFile]:
    """Return the files at or below these paths, or all. Raises `NotFound` for a path without any."""
    if not paths:
        return files
    found = dict[str, WorkspaceFile]()
    for path in paths:
        wanted = path.rstrip("/")
        here = {name: file for name, file in files.items() if name == wanted or name.startswith(wanted + "/")}
        if not here:
            raise NotFound(f"{path!r} is not in the snapshot; give a path from the workspace's folder on")
        found |= here
    return found


def _is_within(path: str, places: Collection[str]) -> bool:
    """Return true if a path equals one of some places or is below one."""
    parts = path.split("/")
    return any("/".join(parts[:depth]) in places for depth in range(1, len(parts) + 1))


def _canonical(rows: Sequence[JsonValue]) -> bytes:
    return json.dumps(rows, separators=(",", ":")).encode()


def _workspace(event: Event) -> Workspace:
    return Workspace.model_validate({**event.body, "created_at": event.at})


def _snapshot(event: Event) -> Snapshot:
    return Snapshot.model_validate({**event.body, "id": event.id.removeprefix("snapshot:"), "at": event.at})


def _note_name(scope: Scope, workspace: str) -> str:
    return f"seen-{sha256(f'{workspace}/{scope.agent}'.encode())[:32]}.json"


def _stat_key(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns


def _own_files(objects: Path) -> tuple[Path, frozenset[str]]:
    """Return the folder and names of the objects and the database, which change with every snapshot."""
    folder = objects.expanduser().resolve()
    base = folder.name.removesuffix(SUFFIX)
    beside = [base + end for end in ("", "-wal", "-shm", "-journal", "-reserve")] if base != folder.name else []
    return folder.parent, frozenset({folder.name, *beside})


def _pieces(file: FileIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _read_at_most(file: FileIO, size: int) -> bytes:
    """Read a small file completely; a file that has grown is detected by its status."""
    parts, left = list[bytes](), size
    while left > 0 and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
