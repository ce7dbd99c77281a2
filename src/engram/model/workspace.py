"""Workspaces: the files an agent works on, as they were at each snapshot."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Moment

FileKind = Literal["file", "link", "folder"]
ChangeKind = Literal["added", "removed", "changed", "mode", "renamed"]
Secrets = Literal["withhold", "keep"]


class Workspace(Frozen):
    """A folder whose contents are tracked."""

    name: str
    folder: str
    ignore: tuple[str, ...] = Field(default=(), description="Names and paths that are left out, such as `*.pyc`.")
    secrets: Secrets = Field(default="withhold", description="What becomes of text files that hold a secret.")
    created_at: Moment


class WorkspaceFile(Frozen):
    """One file of a snapshot; a folder is only there if it is empty."""

    path: str
    kind: FileKind = "file"
    mode: int = Field(default=0, description="Its permissions, such as 0o644; 0 for links and folders.")
    size: int = 0
    hash: str = Field(default="", description="SHA-256 of what a file holds; empty for links and folders.")
    target: str = Field(default="", description="Where a link leads.")


class Skipped(Frozen):
    """A file that was left alone, and why."""

    path: str
    reason: str


class Snapshot(Frozen):
    """All files of a workspace at one moment; the same files have the same tree."""

    id: str
    workspace: str
    tree: str
    parent: str = ""
    label: str = ""
    at: Moment
    files: int
    size: int
    skipped: tuple[Skipped, ...] = ()
    fresh: bool = Field(default=True, description="Whether it differs from the one before.")
    read: int = Field(default=0, description="How many bytes had to be read for it, if it was just taken.")
    stored: int = Field(default=0, description="How many bytes it added to the objects, if it was just taken.")


class Change(Frozen):
    """What became of one file between two snapshots."""

    kind: ChangeKind
    path: str
    before: WorkspaceFile | None = None
    after: WorkspaceFile | None = None


class WorkspaceDiff(Frozen):
    """The changes between two snapshots, in the order of their paths."""

    workspace: str
    before: str
    after: str = Field(description="Empty for the folder as it is now.")
    changes: tuple[Change, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def of(self, kind: ChangeKind) -> tuple[str, ...]:
        """The paths with this kind of change."""
        return tuple(change.path for change in self.changes if change.kind == kind)


class Restored(Frozen):
    """What a restore did: `kept` are files with unsaved changes, `refused` is what may or can not be written."""

    workspace: str
    snapshot: str
    folder: str
    written: tuple[str, ...] = ()
    unchanged: int = 0
    kept: tuple[Skipped, ...] = ()
    refused: tuple[Skipped, ...] = ()


class Verified(Frozen):
    """What reading all objects of the snapshots again has shown."""

    objects: int
    size: int
    problems: tuple[Skipped, ...] = ()


class Pruned(Frozen):
    """What was forgotten, or would be: snapshots, and then what no snapshot of anybody needs."""

    snapshots: tuple[Snapshot, ...] = ()
    trees: int = Field(default=0, description="How many lists of files went.")
    objects: int = Field(default=0, description="How many contents went.")
    size: int = Field(default=0, description="How many bytes that freed.")
    dry_run: bool = Field(default=False, description="Whether nothing was done yet.")
